"""How the training of a pixel anonymizer went: its losses per epoch, one run or several of them (say, bounds B).

    figure = training_curves({"B = 0.3": read_history("a/history.jsonl"), "B = 0.9": read_history("b/history.jsonl")})
    plots.write(figure, "curves.png")

A record is a mapping with `epoch` and any of `QUANTITIES`, such as `PixelLoss.values()` averaged over an epoch;
`minimax_records` makes them of the history that the minimax loop writes. What no run has gets no panel. The budget is
drawn with what it is for a network that cannot tell, because a budget that rises and stays below that line has hidden
nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videoveil.errors import UsageError
from videoveil.report.plots import Level, Line, Panel, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGET = "budget"
PAIRS = "pairs"  # of views that a step compares: N of ln(2N−1)
CHANCE = "chance"  # L_B of a network that cannot tell, where a record says it itself
QUANTITIES: Mapping[str, str] = {
    "total": "L_A, anonymizer",
    BUDGET: "L_B, budget",
    "utility": "L_T, utility",
    "penalty": "penalty",
    "penalty_active": "penalized steps",
    "rms": "RMS of the change",
}  # key of a record → name of its panel
MINIMAX = {
    "total": ("anonymizer",),
    BUDGET: ("budget", "hidden"),  # K-Beam only ever looks at the loss of the net it hides from
    "utility": ("utility",),
    "penalty": ("penalty",),
    "penalty_active": ("active",),
    "rms": ("rms",),
    CHANCE: ("chance",),
}  # key of a record → what the loop calls it, the first of them that is there

Record = Mapping[str, Any]


def training_curves(
    runs: Mapping[str, Sequence[Record]],
    *,
    pairs: int | None = None,
    chance: float | None = None,
    quantities: Mapping[str, str] = QUANTITIES,
) -> Figure:
    """Every quantity as a panel over epochs, every run as a line in its own colour.

    The dashed line of L_B is ln(2N−1) for N = `pairs`, or `chance` itself for budgets that are no NT-Xent, or the runs'
    own `pairs` or `chance` where their records say so.
    """
    if not runs or any(not records for records in runs.values()):
        raise UsageError("training curves need at least one run, and of each at least one epoch")
    for name, records in runs.items():
        for place, record in enumerate(records):
            if "epoch" not in record:
                raise UsageError(f"run {name!r}: record {place} has no epoch")
    found = []
    for key, label in quantities.items():
        lines = [line for name, records in runs.items() if (line := _line(name, records, key))]
        if lines:
            levels = _chances(runs, pairs, chance) if key == BUDGET else ()
            found.append(Panel(label, lines, levels))
    if not found:
        raise UsageError(f"training curves: no record has any of {', '.join(quantities)}")
    figure = panels(found, "epoch", list(runs))
    if len(epochs := {x for panel in found for line in panel.lines for x in line.x}) == 1:
        (alone,) = epochs
        figure.axes[-1].set_xlim(alone - 0.5, alone + 0.5)
        figure.axes[-1].set_xticks([alone], [f"{alone:g}"])  # else the axis counts in hundredths of an epoch
    return figure


def read_history(path: str | Path) -> list[dict[str, Any]]:
    """The records of a history.jsonl, one JSON object per line."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such history; a run writes RUN/history.jsonl")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(f"{path}:{number}: not a record in JSON ({error})") from error
        if not isinstance(record, dict) or "epoch" not in record:
            raise UsageError(f"{path}:{number}: a record is a JSON object with an epoch")
        found.append(record)
    return found


def _line(name: str, records: Sequence[Record], key: str) -> Line | None:
    """The epochs in which a run has the quantity; a value that is no number is a gap."""
    points = [
        (float(record["epoch"]), float(record[key])) for record in records if record.get(key) is not None
    ]
    return Line(name, [x for x, _ in points], [y for _, y in points]) if points else None


def _chances(
    runs: Mapping[str, Sequence[Record]], pairs: int | None, chance: float | None
) -> tuple[Level, ...]:
    if chance is not None:
        return (Level("chance", chance),)
    said = {record[PAIRS] for records in runs.values() for record in records if PAIRS in record}
    counts = sorted({pairs} if pairs is not None else said)
    if any(count < 2 for count in counts):
        raise UsageError(f"training curves: pairs={counts[0]} must be at least 2")
    if counts:
        return tuple(Level(f"chance, ln {2 * count - 1:g}", math.log(2 * count - 1)) for count in counts)
    own = {float(record[CHANCE]) for records in runs.values() for record in records if CHANCE in record}
    return tuple(Level("chance", value) for value in sorted(own))


def minimax_records(history: Sequence[Record]) -> list[dict[str, Any]]:
    """The epochs in which all players play, numbered from 1, under the names of `QUANTITIES`; the starts are left out.

    L_T and L_B are those of the anonymizer's turns, where the nets only look: what they learn with comes out lower.
    """
    found: list[dict[str, Any]] = []
    for record in history:
        if record.get("act") == "minimax":
            named = {
                key: record[name]
                for key, names in MINIMAX.items()
                for name in [name for name in names if name in record][:1]
            }
            found.append({"epoch": len(found) + 1, **named})
    return found
