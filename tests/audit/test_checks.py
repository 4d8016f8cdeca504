from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import pytest

from videoveil.attacks.gait import GALLERY, PROBE
from videoveil.audit.checks import known_people, prepared
from videoveil.audit.subject import Subject, Untouched
from videoveil.data.owners import people
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, BadItems


def data(root: Path, count: int = 24, **changes: object) -> Dataset:
    items = []
    for n in range(count):
        known = {"even": int(n % 2 == 0), "always": 1, "rare": int(n < 2)}
        split = "train" if n % 4 < 2 else "test"
        item = Item(f"v{n}", root / f"v{n}.mp4", split, action=("a", "b")[n % 2], attributes=known)
        items.append(dataclasses.replace(item, **changes))  # type: ignore[arg-type]
    return Dataset("made-up", root, tuple(items), classes=("a", "b"))


def test_attributes_that_cannot_be_asked_for_are_left_out_with_their_reasons(tmp_path: Path) -> None:
    subject, reasons = prepared(Subject.of(data(tmp_path), Untouched()), 10)
    assert set(subject.known(subject.dataset.items[0])) == {"even"}
    assert "always: all 12 items of split 'train' have the value 1" in reasons
    assert "rare: 2 items of split 'train' have one of its values; at least 4 are needed" in reasons


def test_attributes_of_few_people_are_left_out_however_many_videos_there_are(tmp_path: Path) -> None:
    made = data(tmp_path, 48)
    few = tuple(dataclasses.replace(item, subject=f"p{n % 6}") for n, item in enumerate(made.items))
    subject, reasons = prepared(Subject.of(dataclasses.replace(made, items=few), Untouched()), 10)
    assert not subject.known(subject.dataset.items[0])
    assert any(reason.startswith("even: 3 people or films of the test videos") for reason in reasons)
    assert any("test videos are of 6 people or films only" in reason for reason in reasons)


def test_parts_of_one_film_count_as_one(tmp_path: Path) -> None:
    """Ten looks at one film are no ten films, whoever is in it."""
    made = data(tmp_path, 48)
    cut = tuple(
        dataclasses.replace(
            item, path=tmp_path / f"film{n % 6}.mp4", clip=(Fraction(n // 6), Fraction(n // 6 + 1))
        )
        for n, item in enumerate(made.items)
    )
    subject, reasons = prepared(Subject.of(dataclasses.replace(made, items=cut), Untouched()), 10)
    assert len(set(people(subject.dataset.items).values())) == 6
    assert any("test videos are of 6 people or films only" in reason for reason in reasons)


def named(root: Path, count: int, **changes: object) -> Dataset:
    """Everybody in several videos: of `count` people, who may be in both splits."""
    made = data(root, 48, **changes)
    items = tuple(
        dataclasses.replace(item, subject=f"p{n // 2 % count}") for n, item in enumerate(made.items)
    )
    return dataclasses.replace(made, items=items)


ACQUAINTED = "of the test videos are in training videos too"


@pytest.mark.parametrize(("count", "known", "asked"), [(9, 9, 9), (10, 0, 5), (23, 1, 12)])
def test_people_whom_attackers_of_attributes_know_are_counted(
    count: int, known: int, asked: int, tmp_path: Path
) -> None:
    subject, reasons = prepared(Subject.of(named(tmp_path, count), Untouched()), 10)
    assert known_people(subject) == (known, asked)
    said = [reason for reason in reasons if ACQUAINTED in reason]
    assert [reason.startswith(f"{known} of {asked} people or films ") for reason in said] == [True] * bool(
        known
    )


def test_films_in_both_splits_are_counted_where_nobody_is_named(tmp_path: Path) -> None:
    made = data(tmp_path, 48)
    cut = tuple(dataclasses.replace(i, extra={"source": f"film {n % 6}"}) for n, i in enumerate(made.items))
    subject = Subject.of(dataclasses.replace(made, items=cut), Untouched())
    assert known_people(subject) == (6, 6)
    assert known_people(Subject.of(made, Untouched())) == (0, 0)


def test_who_is_asked_for_no_attribute_may_be_known(tmp_path: Path) -> None:
    _, reasons = prepared(Subject.of(named(tmp_path, 9, attributes=None), Untouched()), 10)
    assert not any(ACQUAINTED in reason for reason in reasons)


def test_walkers_in_a_gallery_and_among_probes_are_meant_to_be_the_same(tmp_path: Path) -> None:
    made = named(tmp_path, 10)
    walks = tuple(
        dataclasses.replace(item, id=f"{item.id} {split}", split=split, attributes=None)
        for item in made.items
        for split in (GALLERY, PROBE)
    )
    both = dataclasses.replace(made, items=(*made.items, *walks))
    subject, reasons = prepared(Subject.of(both, Untouched()), 10)
    assert known_people(subject) == (0, 5)
    assert not any(ACQUAINTED in reason for reason in reasons)


def test_one_action_only_is_stated(tmp_path: Path) -> None:
    _, reasons = prepared(Subject.of(data(tmp_path, action="a"), Untouched()), 10)
    assert any("all videos are of one action (a)" in reason for reason in reasons)


def test_no_labels_at_all_are_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="attr:NAME"):
        prepared(Subject.of(data(tmp_path, action=None, attributes=None), Untouched()), 10)


def test_attackers_need_two_splits(tmp_path: Path) -> None:
    with pytest.raises(BadItems, match="there are train 24"):
        prepared(Subject.of(data(tmp_path, split="train"), Untouched()), 10)


def test_validation_items_are_the_test_items_where_there_are_none_else(tmp_path: Path) -> None:
    made = data(tmp_path)
    items = tuple(i.with_split("val") if i.split == "test" else i for i in made)
    subject, _ = prepared(Subject.of(dataclasses.replace(made, items=items), Untouched()), 10)
    assert subject.test == "val"


def test_items_that_nobody_looks_at_are_left_out(tmp_path: Path) -> None:
    made = data(tmp_path)
    items = (*made.items, dataclasses.replace(made.items[0], id="spare", split="unused"))
    subject, _ = prepared(Subject.of(dataclasses.replace(made, items=items), Untouched()), 10)
    assert len(subject.dataset) == 24
    assert len(subject.anonymized.dataset) == 24


def test_few_test_items_are_stated(tmp_path: Path) -> None:
    _, reasons = prepared(Subject.of(data(tmp_path, 8), Untouched()), 10)
    assert any("4 test items" in reason for reason in reasons)
