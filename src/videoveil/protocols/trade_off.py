"""Privacy against utility on PA-HMDB51: every run a point, every family of runs a curve with its NHV in three variants.

Runs of one family are given as `--run FAMILY@SETTING=RUN` (the paper varies ω_B and ω_T). How the paper normalised its
area is not known, so its column is never filled by ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from videoveil.protocols.base import RAW, Cell, Evaluation, Panel, Want, own_table
from videoveil.protocols.measures import ActionProbe, FrameAttributes
from videoveil.protocols.nhv import CurvePoint, variants
from videoveil.protocols.papers import PaperColumn, table

if TYPE_CHECKING:
    from videoveil.protocols.subjects import Subject
    from videoveil.protocols.workshop import Workshop

DATA = ("vispr", "pa-hmdb51")
LEAKAGE = PaperColumn("PA-HMDB51 cMAP, strongest attacker", "cmap", "%", "lower", DATA)
UTILITY = PaperColumn("PA-HMDB51 top-1", "top1", "%", "higher", ("pa-hmdb51",))
NHV = {
    name: PaperColumn(name, "nhv", "1", "higher", DATA) for name in ("nhv_unit", "nhv_chance", "nhv_minmax")
}
POINTS = own_table("trade-off", "Points of the curves", (LEAKAGE, UTILITY))
AREA = table("splavu/F3")


def family(row: str) -> str:
    return row.partition("@")[0]


def finish(workshop: Workshop, subjects: Sequence[Subject], cells: Sequence[Cell]) -> list[Cell]:
    """The area of every family, from the points of its runs."""
    points: dict[str, CurvePoint] = {}
    chances: dict[str, CurvePoint] = {}
    for subject in subjects:
        own = {cell.column: cell for cell in cells if cell.row == subject.row and cell.table == POINTS.id}
        if len(own) < 2 or any(cell.value is None for cell in own.values()):
            continue
        utility, leakage = own[UTILITY.name], own[LEAKAGE.name]
        points[subject.row] = CurvePoint((utility.value or 0) / 100, (leakage.value or 0) / 100)
        chances[subject.row] = CurvePoint((utility.chance or 0) / 100, (leakage.chance or 0) / 100)
    families: dict[str, list[CurvePoint]] = defaultdict(list)
    for row, point in points.items():
        if row != RAW:
            families[family(row)].append(point)
    found = []
    for name, own_points in families.items():
        areas = variants(own_points, points.get(RAW), chances.get(RAW))
        note = f"{len(own_points)} point{'s' if len(own_points) > 1 else ''}"
        for variant, value in areas.items():
            values = () if value is None else (value,)
            found.append(Cell(AREA.id, name, variant, value, None, workshop.data(DATA), DATA, values, note))
    return found


PROTOCOLS = (
    Evaluation(
        "trade-off",
        "Privacy against utility, with the normalised hypervolume",
        (
            Panel(
                POINTS,
                {
                    LEAKAGE.name: Want(FrameAttributes(), "cmap"),
                    UTILITY.name: Want(ActionProbe("pa-hmdb51"), "top1"),
                },
            ),
            Panel(AREA, {"NHV": None}, dict.fromkeys(NHV.values()), printed_only=("NHV",)),
        ),
        finish=finish,
        note="The paper does not say how its area was normalised: its column and ours are different quantities.",
    ),
)
