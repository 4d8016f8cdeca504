from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import pytest

from videoveil.audit import needs
from videoveil.audit.subject import Subject, Untouched
from videoveil.data.records import Dataset, FrameSpan, Item, Segment

SEGMENT = Segment("run", Fraction(0), Fraction(1))


def subject(classes: tuple[str, ...] = ("run",), **changes: dict[str, object]) -> Subject:
    """Two normal and two anomalous videos in either split; `changes` by id."""
    items = []
    for n in range(8):
        odd = bool(n % 2)
        item = Item(f"v{n}", Path("none"), "train" if n < 4 else "test", anomaly=odd, segments=(SEGMENT,))
        item = dataclasses.replace(item, anomaly_spans=(FrameSpan(0, 4),) if odd and n > 4 else ())
        items.append(dataclasses.replace(item, **changes.get(item.id, {})))  # type: ignore[arg-type]
    return Subject.of(Dataset("made-up", Path(), tuple(items), classes), Untouched())


def everywhere(**change: object) -> dict[str, dict[str, object]]:
    return {f"v{n}": change for n in range(8)}


def test_whoever_has_labels_can_take_part() -> None:
    assert needs.anomalies(subject()) == ""
    assert needs.segments(subject()) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (everywhere(anomaly=None), "no item of split 'train' says whether something unusual"),
        ({"v6": {"anomaly": None}}, "1 items of split 'test' do not say"),
        ({"v1": {"anomaly": False}}, "1 anomalous videos in split 'train'; at least 2"),
        ({"v5": {"anomaly": False}, "v7": {"anomaly": False}}, "0 anomalous videos in split 'test'"),
        ({"v7": {"anomaly_spans": ()}}, "1 anomalous test videos do not say which of their frames are"),
    ],
)
def test_what_keeps_anomalies_from_being_learnt_is_said(
    changes: dict[str, dict[str, object]], reason: str
) -> None:
    assert reason in needs.anomalies(subject(**changes))


def test_what_keeps_actions_from_being_detected_is_said() -> None:
    assert "from when to when" in needs.segments(subject(**everywhere(segments=())))
    part = {"v1": {"clip": (Fraction(0), Fraction(1))}}
    assert "1 items of split 'train' are parts" in needs.segments(subject(**part))
    assert "does not list its classes" in needs.segments(subject(classes=()))


def test_what_keeps_actions_from_being_recognised_is_said() -> None:
    kinds = {f"v{n}": {"action": ("run", "jump")[n % 2]} for n in range(8)}
    assert needs.actions(subject(**kinds)) == ""
    assert "no item of split 'train' has an action label" in needs.actions(subject())
    for first, word in ((0, "training"), (4, "test")):
        same = {f"v{n}": {"action": "run"} for n in range(first, first + 4)}
        reason = f"all {word} videos with an action label are of one class (run)"
        assert needs.actions(subject(**{**kinds, **same})) == reason
    some = {"v5": {"action": None}, "v7": {"action": None}}  # that some are not labelled is no second class
    assert "one class (run)" in needs.actions(subject(**{**kinds, **some}))
