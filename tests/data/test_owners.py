"""Who is in an item, or which film it was cut from, and what therefore stays together."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from videoveil.data.owners import film, people, together
from videoveil.data.records import Item

WHOLE = Item("v0", Path("v0.mp4"), "train", action="a")


def test_a_film_is_known_by_what_its_parts_share() -> None:
    assert film(WHOLE) == ""  # a file by itself is nobody's part
    grouped = replace(WHOLE, extra={"group": "g01"})
    other = replace(grouped, action="b")
    assert film(grouped) != film(other)  # UCF101 counts groups by action
    assert film(replace(grouped, id="v9")) == film(grouped)
    assert film(replace(grouped, extra={"group": "g01", "source": "film 3"})) == "film 3"


def test_a_person_counts_before_the_film_and_who_is_unknown_is_nobodys() -> None:
    part = replace(WHOLE, id="v1", clip=(Fraction(0), Fraction(1)))
    anna = replace(part, id="v2", subject="anna")
    assert people([WHOLE, part, anna]) == {"v1": "v0.mp4", "v2": "anna"}


def test_people_and_films_stay_together_and_others_are_by_themselves() -> None:
    anna, film_, other = {"subject": "anna"}, {"extra": {"source": "film"}}, {"subject": "v5"}
    known = [anna, film_, {}, film_, anna, {}, other, other]
    items = [replace(WHOLE, id=f"v{n}", **told) for n, told in enumerate(known)]  # type: ignore[arg-type]
    assert together(items) == ["v0", "v1", "v2", "v1", "v0", "v5", "v6", "v6"]


def test_neither_names_nor_places_decide_who_is_held_out() -> None:
    """Raw videos and anonymized ones have other paths: both sides deal out the same items together."""
    part = (Fraction(0), Fraction(1))
    raw = [replace(WHOLE, id=f"v{n}", path=Path(f"{n // 2}.mp4"), clip=part) for n in range(6)]
    made = [replace(item, path=Path(f"out/{9 - n // 2}.mp4")) for n, item in enumerate(raw)]
    told = [replace(item, subject="xyz"[n // 2]) for n, item in enumerate(raw)]
    assert together(raw) == together(made) == together(told) == ["v0", "v0", "v2", "v2", "v4", "v4"]


def test_where_all_are_of_one_person_videos_are_apart() -> None:
    items = [replace(WHOLE, id=f"v{n}", subject="anna") for n in range(3)]
    assert together(items) == ["v0", "v1", "v2"]


@given(st.lists(st.sampled_from(["", "a", "b", "v1"]), min_size=1, max_size=12), st.randoms())
def test_two_are_together_exactly_where_they_are_of_one_person(names: list[str], rng: object) -> None:
    items = [replace(WHOLE, id=f"v{n}", subject=name or None) for n, name in enumerate(names)]
    rng.shuffle(items)  # type: ignore[attr-defined]
    found = together(items)
    lonely = len(set(names)) == 1
    for one, other in zip(items, found):
        for two, another in zip(items, found):
            same = one.id == two.id or (one.subject == two.subject is not None and not lonely)
            assert (other == another) == same
