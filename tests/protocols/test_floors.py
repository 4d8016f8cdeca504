from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from videoveil.audit.rules import Rules
from videoveil.data import registry
from videoveil.data.records import Dataset, Item
from videoveil.protocols.base import Cell, Evaluation, Panel, Reading, Want, own_table, pooled
from videoveil.protocols.papers import PaperColumn
from videoveil.protocols.scales import PAPER, SMALL, TINY, Scale
from videoveil.protocols.subjects import Subject, raw
from videoveil.protocols.workshop import Workshop
from videoveil.tasks.outcomes import MeanOutcome

TOP = PaperColumn("top-1", "top1", "%", "higher", ())


@dataclass(frozen=True)
class AllRight:
    """Is right about every test item; `chance` is what always saying the same would get."""

    chance: float = 0.5
    keeps: bool = True
    part: str = ""  # the class it is asked about

    @property
    def needs(self) -> tuple[str, ...]:
        return ("hmdb51",)

    def truth(self, item: Item) -> str | None:
        return item.action

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return "told"

    def run(self, workshop: Workshop, subject: Subject) -> dict[str, Reading]:
        test = [one for one in workshop.dataset("hmdb51").items if one.split == "test"]
        ids = tuple(one.id for one in test if self.part in ("", one.action))
        said = MeanOutcome("top1", ids, np.ones(len(ids)), np.full(len(ids), self.chance))
        return {"top1": Reading(1.0, self.chance, said if self.keeps else None)}


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def measured(actions: Sequence[str], how: AllRight, scale: Scale = SMALL) -> Cell:
        (tmp_path / "a.avi").write_bytes(b"x")
        items = [Item(f"v{n}", tmp_path / "a.avi", "test", action=one) for n, one in enumerate(actions)]
        items += [replace(one, id=f"t{one.id}", split="train") for one in items]
        data = Dataset("hmdb51", tmp_path, tuple(items), tuple(sorted(set(actions))))
        monkeypatch.setattr(registry, "load", lambda *_: data)
        panel = Panel(own_table("x", "X", (TOP,)), {TOP.name: Want(how, "top1")})
        runs = [
            Evaluation("some", "Some", (panel,)).run(
                Workshop(tmp_path / "out", {"hmdb51": tmp_path}, scale, seed, device="cpu"), [raw()]
            )
            for seed in (0, 1)
        ]
        return pooled(runs)[0]

    return measured


def test_three_videos_of_one_class_are_not_measurable(measure) -> None:  # type: ignore[no-untyped-def]
    """Whoever always says this class gets 100 [100, 100]."""
    cell = measure(["run"] * 3, AllRight(1.0))
    assert (cell.value, cell.interval, cell.values) == (None, None, ())
    assert cell.note == "not measurable: 3 test items; at least 10 are needed; told"


@pytest.mark.parametrize("keeps", [True, False])
def test_fewer_items_than_an_audit_asks_for_are_not_measurable(measure, keeps: bool) -> None:  # type: ignore[no-untyped-def]
    few, enough = (measure(["run", "walk"] * n, AllRight(keeps=keeps)) for n in (4, 5))
    assert "8 test items; at least 10 are needed" in few.note
    assert (few.value, enough.value, enough.note) == (None, 100.0, "told")


@pytest.mark.parametrize("scale", [TINY, SMALL])
def test_one_class_is_not_measurable_at_any_scale(measure, scale: Scale) -> None:  # type: ignore[no-untyped-def]
    one = measure(["run"] * 12, AllRight(0.0), scale)  # even where another class is the usual one
    assert (one.value, one.note) == (
        None,
        "not measurable: all 12 test items are of one kind (run); told",
    )
    sure = measure(["run", "walk"] * 6, AllRight(1.0), scale)
    assert "whoever knows nothing is always right" in sure.note


def test_a_part_of_the_items_is_counted_for_itself(measure) -> None:  # type: ignore[no-untyped-def]
    cell = measure(["run"] * 9 + ["walk"] * 20, AllRight(part="run"))
    assert "9 test items" in cell.note


def test_only_the_scale_that_shows_that_everything_runs_takes_fewer_than_an_audit(measure) -> None:  # type: ignore[no-untyped-def]
    assert SMALL.least_items == PAPER.least_items == Rules().least_items
    assert TINY.least_items == 2
    assert measure(["run", "walk"] * 4, AllRight(), TINY).value == 100.0
    assert "least_items" not in repr(TINY)  # results that are there keep their names
