from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.protocols.conftest import Twin
from videoveil.protocols.base import Cell, Measure, pooled
from videoveil.protocols.intervals import (
    ITEMS,
    SEEDS,
    Answers,
    Interval,
    above_chance,
    interval_of,
    sample,
    without_luck,
)
from videoveil.protocols.measures import (
    Action,
    ActionProbe,
    Anomaly,
    Attributes,
    FeatureAttributes,
    FrameAttributes,
    Gait,
    PixelAnomaly,
)
from videoveil.protocols.subjects import raw
from videoveil.protocols.workshop import Workshop
from videoveil.tasks.outcomes import MeanOutcome


def said(right: list[float], *, people: dict[str, str] | None = None) -> Answers:
    ids = tuple(f"v{place:03d}" for place in range(len(right)))
    return Answers(MeanOutcome("top1", ids, np.array(right), np.zeros(len(right))), 100.0, people or {})


def interval(values: list[float], answers: list[Answers | None] | None = None) -> Interval | None:
    return interval_of(values, sample(answers or []))


def test_one_seed_has_no_interval_and_two_have_students() -> None:
    assert interval([3.0]) is None
    found = interval([1.0, 3.0])
    assert found is not None
    assert (found.low, found.high) == (
        pytest.approx(2 - 12.7062),
        pytest.approx(2 + 12.7062),
    )  # t(.975, 1) · 1
    assert found.over == SEEDS


def test_seeds_that_agree_on_few_items_are_not_sure_of_more() -> None:
    """Two trainings that say the same of ten items: seeds alone would call it exact."""
    same = said([1.0] * 6 + [0.0] * 4)
    found = interval([60.0, 60.0], [same, same])
    assert found is not None
    assert found.over == ITEMS
    assert found.low < 40 < 60 < 80 < found.high  # 60 ± 1.96 · sqrt(.6 · .4 / 10)
    assert interval([60.0, 60.0], [same, None]) == Interval(60.0, 60.0, SEEDS)
    assert interval([60.0, 60.0], [same, said([1.0])]) == Interval(60.0, 60.0, SEEDS)  # other items


def test_items_of_one_person_are_drawn_together() -> None:
    right = [1.0] * 30 + [0.0] * 20
    alone, of_five = (said(right, people=who) for who in ({}, {f"v{i:03d}": str(i // 10) for i in range(50)}))
    narrow, wide = (interval([60.0, 60.0], [one, one]) for one in (alone, of_five))
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_what_was_drawn_is_not_kept_for_every_cell() -> None:
    """One choice of items for every draw is 1000 × 2000 numbers, 16 MB."""
    right = [1.0] * 1200 + [0.0] * 800
    cells = [
        Cell("x/T", "Raw", str(n), 60.0, 10.0, "twin", (), (60.0,), answers=said(right)) for n in range(4)
    ]
    tracemalloc.start()
    try:
        made = pooled([cells, cells])
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert all(one.interval is not None for one in made)
    assert kept < 2**20


def blind(seed: int, items: int = 100, attackers: int = 8) -> list[MeanOutcome]:
    """Attackers that know nothing."""
    ids, rng = tuple(f"v{place:03d}" for place in range(items)), np.random.default_rng(seed)
    answers = rng.integers(0, 2, (attackers, items)).astype(float)
    return [MeanOutcome("top1", ids, one, np.full(items, 0.5)) for one in answers]


def least_above(attackers: list[MeanOutcome], *, strict: bool) -> float:
    """The lower end of how far the best of them lies above chance."""
    best = max(attackers, key=lambda one: float(one.values.mean()))
    chosen = Answers(best, 100.0, {}, without_luck(attackers, {}) if strict else None)
    ends = above_chance(100 * float(best.values.mean()), 50.0, sample([chosen]), None)
    assert ends is not None
    return ends[0]


def test_the_best_of_many_that_know_nothing_does_not_beat_chance() -> None:
    """One in forty does by chance, whoever is asked alone; of the best of eight, far more would."""
    casts = [blind(seed) for seed in range(40)]
    easy, strict = (sum(least_above(cast, strict=how) > 0 for cast in casts) for how in (False, True))
    assert easy >= 5
    assert strict <= 2
    assert all(least_above(cast, strict=True) <= least_above(cast, strict=False) for cast in casts)


def test_whoever_knows_much_beats_chance_among_many() -> None:
    knows = said([1.0] * 90 + [0.0] * 10).outcome
    assert isinstance(knows, MeanOutcome)
    cast = [replace(knows, chances=np.full(100, 0.5)), *blind(0)]
    assert least_above(cast, strict=True) > 20


def test_pooled_cells_carry_their_interval_and_what_it_is_over() -> None:
    cell = Cell("x/T", "Raw", "a", 60.0, 10.0, "twin", (), (60.0,), answers=said([1.0] * 6 + [0.0] * 4))
    (made,) = pooled([[cell], [cell]])
    assert made.interval is not None
    assert made.interval_over == ITEMS
    assert Cell.from_json(made.to_json()) == made
    (alone,) = pooled([[cell]])
    assert (alone.interval, alone.interval_over) == (None, "")


MEASURES: dict[str, tuple[Measure, tuple[str, ...]]] = {
    "action": (Action("hmdb51", "tiny"), ("top1",)),
    "attributes": (Attributes(model="tiny"), ("cmap",)),
    "frames": (Attributes(model="tiny", test="pa-hmdb51"), ("cmap",)),
    "probe": (ActionProbe("hmdb51"), ("top1",)),
    "features": (FeatureAttributes(), ("cmap", "cmap_mlp2")),
    "static": (FrameAttributes(), ("cmap", "cmap_mlp2")),
    "anomaly": (Anomaly("ucf-crime"), ("roc_auc",)),
    "anomaly of pixels": (PixelAnomaly("ucf-crime"), ("roc_auc",)),
    "gait": (Gait(), ("cosine_nm", "cosine_cl", "top1_nm", "top1_bg")),
}


@pytest.mark.parametrize("name", list(MEASURES))
def test_what_is_kept_of_every_item_gives_the_figure_again(
    name: str, shop: Workshop, twin: Twin, tmp_path: Path
) -> None:
    measure, metrics = MEASURES[name]
    own = replace(shop, out=tmp_path, roots={one: twin(one) for one in measure.needs})
    first = own.measured(measure, raw())
    again = own.measured(measure, raw())  # from the folder
    for metric in metrics:
        for found in (first[metric], again[metric]):
            assert found.outcome is not None
            assert found.outcome.measure().value == pytest.approx(found.value)
