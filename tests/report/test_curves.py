"""Training curves: every number of the records at its epoch, and the budget beside its chance."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from videoveil.errors import UsageError
from videoveil.objectives import PixelLoss, budget_ceiling
from videoveil.objectives.pixel import TERMS
from videoveil.report.curves import QUANTITIES, minimax_records, read_history, training_curves
from videoveil.report.plots import SERIES, write


def run(bound: float, epochs: int = 4, pairs: int = 24) -> list[dict[str, float]]:
    return [
        {
            "epoch": epoch,
            "total": 3.0 - epoch,
            "budget": epoch + bound,
            "utility": 4.0 / (epoch + 1),
            "penalty": max(0.0, 0.1 * epoch - bound),
            "penalty_active": 0.5,
            "rms": 0.05 * epoch,
            "pairs": pairs,
        }
        for epoch in range(epochs)
    ]


def drawn(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Points of every run's line; dashed levels have no name of their own."""
    return {
        str(line.get_label()): [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }


def levels(axes: Axes) -> list[float]:
    """Heights of the dashed lines."""
    dashed = [line for line in axes.get_lines() if str(line.get_label()).startswith("_")]
    assert all(line.is_dashed() for line in dashed)
    return [float(np.asarray(line.get_ydata())[0]) for line in dashed]


def test_every_quantity_of_every_run_is_drawn_at_its_epoch() -> None:
    runs = {f"B = {bound}": run(bound) for bound in (0.1, 0.3)}
    figure = training_curves(runs)
    assert [axes.get_ylabel() for axes in figure.axes] == list(QUANTITIES.values())
    for axes, key in zip(figure.axes, QUANTITIES):
        expected = {name: [(r["epoch"], r[key]) for r in records] for name, records in runs.items()}
        assert drawn(axes) == expected
        colours = [to_hex(line.get_color()) for line in axes.get_lines() if line.get_label() in runs]
        assert colours == list(SERIES[:2])


def test_the_keys_are_those_that_the_total_logs() -> None:
    assert set(TERMS) <= set(QUANTITIES)
    assert set(PixelLoss.__dataclass_fields__) == set(TERMS)


@pytest.mark.parametrize("pairs", [8, 64])
def test_budget_has_its_chance_as_a_dashed_line_and_the_others_have_none(pairs: int) -> None:
    figure = training_curves({"a": run(0.3, pairs=pairs)})
    for axes, key in zip(figure.axes, QUANTITIES):
        assert levels(axes) == ([pytest.approx(budget_ceiling(pairs))] if key == "budget" else [])
    texts = [text.get_text() for text in figure.axes[1].texts]
    assert texts == [f"chance, ln {2 * pairs - 1}"]


def test_chance_can_be_told_and_differs_between_runs_that_differ() -> None:
    both = {"a": run(0.3, pairs=8), "b": run(0.3, pairs=24)}
    assert levels(training_curves(both).axes[1]) == pytest.approx([math.log(15), math.log(47)])
    assert levels(training_curves(both, pairs=12).axes[1]) == pytest.approx([math.log(23)])
    assert levels(training_curves(both, chance=math.log(4)).axes[1]) == pytest.approx([math.log(4)])
    silent = [{key: value for key, value in record.items() if key != "pairs"} for record in run(0.3)]
    assert levels(training_curves({"a": silent}).axes[1]) == []


def test_what_no_run_has_gets_no_panel_and_what_one_lacks_is_left_out() -> None:
    plain = [{"epoch": r["epoch"], "budget": r["budget"]} for r in run(0.3)]
    assert [axes.get_ylabel() for axes in training_curves({"a": plain}).axes] == [QUANTITIES["budget"]]
    mixed = training_curves({"plain": plain, "leash": run(0.5)})
    assert list(drawn(mixed.axes[3])) == ["leash"]
    (line,) = [line for line in mixed.axes[3].get_lines() if line.get_label() == "leash"]
    assert to_hex(line.get_color()) == SERIES[1]  # the second run, also where it is alone


def test_a_single_epoch_is_one_mark_over_one_number() -> None:
    figure = training_curves({"a": run(0.3, epochs=1)})
    for axes in figure.axes:
        assert axes.get_xlim() == (-0.5, 0.5)
    figure.canvas.draw()
    assert [text.get_text() for text in figure.axes[-1].get_xticklabels() if text.get_text()] == ["0"]


def test_a_quantity_measured_now_and_then_is_drawn_where_it_was() -> None:
    records = [{"epoch": e, "budget": 1.0, **({"top1": e / 10} if e % 2 else {})} for e in range(6)]
    figure = training_curves({"a": records}, quantities={"top1": "top-1"})
    assert drawn(figure.axes[0]) == {"a": [(1.0, 0.1), (3.0, 0.3), (5.0, 0.5)]}


def test_the_history_of_a_minimax_is_drawn_without_its_starts_and_beside_its_own_chance() -> None:
    start = [{"epoch": 0, "act": "utility start", "utility_learning": 2.0, "right": 0.5}]
    played = [
        {
            "epoch": 1 + n,
            "act": "minimax",
            "anonymizer": -1.0 - n,
            "utility": 1.5,
            "budget": 2.0 + n,
            "chance": 3.1,
        }
        | {"penalty": 0.2, "active": 0.5, "rms": 0.1, "utility_learning": 9.0, "seconds": 1.0}
        for n in range(2)
    ]
    records = minimax_records([*start, *played])
    assert [record["epoch"] for record in records] == [1, 2]
    figure = training_curves({"run": records})
    values = {axes.get_ylabel(): [y for _, y in drawn(axes)["run"]] for axes in figure.axes}
    assert values == {
        "L_A, anonymizer": [-1.0, -2.0],
        "L_B, budget": [2.0, 3.0],
        "L_T, utility": [1.5, 1.5],
        "penalty": [0.2, 0.2],
        "penalized steps": [0.5, 0.5],
        "RMS of the change": [0.1, 0.1],
    }
    assert levels(figure.axes[1]) == [3.1]
    hide = minimax_records([{"epoch": 0, "act": "minimax", "hidden": 0.4, "utility": 1.0}])
    assert hide == [{"epoch": 1, "budget": 0.4, "utility": 1.0}]


def test_history_is_read_as_it_was_written_and_drawn_to_the_same_bytes(tmp_path: Path) -> None:
    records = run(0.3)
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n\n")
    assert read_history(path) == records
    for name, source in (("a.png", records), ("b.png", read_history(path))):
        write(training_curves({"run": source}), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_misuse_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one run"):
        training_curves({})
    with pytest.raises(UsageError, match="at least one epoch"):
        training_curves({"a": []})
    with pytest.raises(UsageError, match="record 1 has no epoch"):
        training_curves({"a": [{"epoch": 0, "budget": 1}, {"budget": 1}]})
    with pytest.raises(UsageError, match="no record has any of total"):
        training_curves({"a": [{"epoch": 0}]})
    with pytest.raises(UsageError, match="pairs=1"):
        training_curves({"a": run(0.3)}, pairs=1)
    with pytest.raises(UsageError, match="no such history"):
        read_history(tmp_path / "none.jsonl")
    for text, message in (("{", "not a record"), ("[1]", "JSON object"), ('{"loss": 1}', "epoch")):
        (tmp_path / "bad.jsonl").write_text('{"epoch": 0}\n' + text)
        with pytest.raises(UsageError, match=rf"bad\.jsonl:2: .*{message}"):
            read_history(tmp_path / "bad.jsonl")
