"""The truth that follows from a play."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.data.theatre.cast import AGES, BUILDS, GENDERS, SKIN, identity
from videoveil.data.theatre.play import attribute_spans, visible_values, vispr_labels
from videoveil.data.theatre.playwright import photo, trimmed


@given(st.integers(0, 10_000), st.integers(1, 120))
@settings(max_examples=60, deadline=None)
def test_attribute_spans_cover_every_frame_once_with_that_frames_values(number: int, frames: int) -> None:
    play = trimmed("spans", number, action="walk", person=identity(0, number), frames=frames, turns=3)
    spans = attribute_spans(play)
    assert spans[0].first == 0
    assert spans[-1].stop == frames
    assert all(a.stop == b.first and a.values != b.values for a, b in pairwise(spans))
    for span in spans:
        for frame in range(span.first, span.stop):
            assert visible_values(play, frame) == span.values


def test_people_differ_and_their_attributes_are_balanced() -> None:
    people = [identity(0, n) for n in range(600)]
    assert len({(p.gait, p.skin, p.hair, p.height) for p in people[:50]}) == 50  # at least fifty identities
    for options, value in ((SKIN, "skin"), (GENDERS, "gender"), (AGES, "age"), (BUILDS, "build")):
        shares = [sum(getattr(p, value) == o for p in people) / 600 for o in options]
        assert min(shares) > 0.6 / len(shares), (value, shares)


def test_a_covered_person_shows_neither_skin_nor_gender() -> None:
    seen = 0
    for k in range(300):
        play = photo("cover", k, people=1)
        labels = vispr_labels(play)
        if play.roles[0].costume.covered:
            seen += 1
            assert labels["a17_color"] == labels["a4_gender"] == labels["a9_face_complete"] == 0
    assert seen > 5


def test_every_vispr_attribute_occurs_and_none_always() -> None:
    tables = [vispr_labels(photo("rates", k)) for k in range(400)]
    for name in tables[0]:
        rate = sum(t[name] for t in tables) / len(tables)
        assert 0.01 < rate < 0.9, (name, rate)
