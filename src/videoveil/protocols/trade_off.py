"""Privacy against utility on PA-HMDB51: every run a point, every family of runs a curve with its NHV in three variants.

The curves are drawn in `trade-off.png`.

Runs of one family are given as `--run FAMILY@SETTING=RUN` (the paper varies ω_B and ω_T). How the paper normalised its
area is not known, so its column is never filled by ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from videoveil.protocols.base import RAW, Cell, Evaluation, Panel, Want, own_table
from videoveil.protocols.measures import ActionProbe, FrameAttributes
from videoveil.protocols.nhv import CurvePoint, variants
from videoveil.protocols.papers import PaperColumn, table
from videoveil.report.comparison import OURS
from videoveil.report.plots import SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from videoveil.protocols.subjects import Subject
    from videoveil.protocols.workshop import Workshop
    from videoveil.report.frontier import Attack

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
    """The area of every family, from the points of its runs; without a value where one of them has none.

    A curve with fewer points has another area, and the mean over seeds must be of one thing.
    """
    points: dict[str, CurvePoint | None] = {}
    chances: dict[str, CurvePoint] = {}
    for row, (utility, leakage) in _both(subjects, cells).items():
        points[row] = None
        if utility.value is not None and leakage.value is not None:
            points[row] = CurvePoint(utility.value / 100, leakage.value / 100)
            chances[row] = CurvePoint((utility.chance or 0) / 100, (leakage.chance or 0) / 100)
    families: dict[str, list[CurvePoint | None]] = defaultdict(list)
    for row, point in points.items():
        if row != RAW:
            families[family(row)].append(point)
    found = []
    for name, asked in families.items():
        known = [point for point in asked if point is not None]
        whole = len(known) == len(asked)
        note = f"{len(asked)} point{'s' if len(asked) > 1 else ''}"
        if not whole:
            note = f"not measurable: {len(asked) - len(known)} of {note} without a value"
        areas = variants(known, points.get(RAW), chances.get(RAW)) if whole else dict.fromkeys(NHV)
        for variant, value in areas.items():
            values = () if value is None else (value,)
            data = workshop.data(DATA)
            found.append(Cell(AREA.id, name, variant, value, None, data, DATA, values, note, unit="1"))
    return found


def _both(subjects: Sequence[Subject], cells: Sequence[Cell]) -> dict[str, tuple[Cell, Cell]]:
    """Utility and leakage of every row that has cells for both."""
    own = {(cell.row, cell.column): cell for cell in cells if cell.table == POINTS.id}
    pairs = {
        one.row: (own.get((one.row, UTILITY.name)), own.get((one.row, LEAKAGE.name))) for one in subjects
    }
    return {row: (up, left) for row, (up, left) in pairs.items() if up is not None and left is not None}


def pictures(
    shops: Sequence[Workshop], subjects: Sequence[Subject], cells: Sequence[Cell]
) -> dict[str, Figure]:
    """The plane of both, every run a point and every family a line; raw data beside them, and what a blind guess gets.

    Nothing is drawn where one of both was measured on a twin and the other on real data: a point would be neither.
    """
    from videoveil.report.frontier import frontier

    both = _both(subjects, cells)
    chances = [leakage.chance for _, leakage in both.values() if leakage.chance is not None]
    attacks = [_point(row, pair, both) for row, pair in both.items() if _drawable(pair)]
    names = list(dict.fromkeys(one.family or one.method for one in attacks if one.method != RAW))
    most, found = len(SERIES) - 1, {}  # a colour is for raw data
    for number, first in enumerate(range(0, len(names), most)):
        part = {RAW, *names[first : first + most]}
        shown = [one for one in attacks if (one.family or one.method) in part]
        origin = OURS[both[shown[0].method][0].data]
        found[f"trade-off{number or ''}"] = frontier(
            shown,
            f"{LEAKAGE.name}, %\n{origin}",
            f"{UTILITY.name}, %\n{origin}",
            chance=sum(chances) / len(chances) if chances else None,
        )
    return found


def _drawable(pair: tuple[Cell, Cell]) -> bool:
    utility, leakage = pair
    return utility.data == leakage.data and utility.value is not None and leakage.value is not None


def _point(row: str, pair: tuple[Cell, Cell], rows: Iterable[str]) -> Attack:
    """A run in the plane; it has a name beside it where its family has more than one."""
    from videoveil.report.frontier import Attack

    utility, leakage = pair
    alone = sum(family(row) == family(other) for other in rows) < 2
    assert leakage.value is not None
    assert utility.value is not None
    return Attack(
        row,
        "strongest attacker",
        None,
        leakage.value,
        utility.value,
        leakage.interval,
        utility.interval,
        "" if alone else family(row),
        void=bool(utility.void or leakage.void),
    )


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
        pictures=pictures,
        note="The paper does not say how its area was normalised: its column and ours are different quantities. Runs "
        "are drawn in OUT/trade-off.png, those of one family joined to a curve.",
    ),
)
