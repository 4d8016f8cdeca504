"""What a protocol is: panels of a table, each column with the measure that fills it, and the cells that come out.

    protocol.run(workshop, subjects)   →   [Cell("spact/T3", "SPAct", "R3D-18 top-1", …), …]

A protocol is a few lines: which columns of which printed tables it fills, and by which measure. Whoever is measured is
a subject, one row; what measures is a frozen record that a workshop runs once and remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from videoveil.errors import UsageError
from videoveil.protocols import papers
from videoveil.protocols.floors import UNITS, why_not
from videoveil.protocols.intervals import (
    Answers,
    Over,
    Sample,
    above_chance,
    interval_of,
    sample,
    without_luck,
)
from videoveil.protocols.papers import PaperColumn, PaperTable, Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from videoveil.protocols.subjects import Subject
    from videoveil.protocols.workshop import Workshop
    from videoveil.tasks.outcomes import Outcome

Data = Literal["real", "twin", "counted"]  # what a cell was measured on; counted: on no data at all
Looks = Literal["pixels", "features"]
SCALES = {"%": 100.0}  # from a share to the unit of a column; other units are as measured
RAW = "Raw"  # the row of raw data
PASSING = ("answers", "sample")  # of a cell, while an evaluation runs
OWN = "videoveil"  # tables that no paper has


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure and what knowing nothing would give, as shares; None where the data do not define it.

    `outcome` is what was said of every test item, where that is at hand: for the interval. Where the best of several
    was taken, `among` is what each of them said.
    """

    value: float | None
    chance: float | None = None
    outcome: Outcome | None = field(default=None, compare=False, repr=False)
    among: tuple[Outcome, ...] = field(default=(), compare=False, repr=False)


Readings = Mapping[str, Reading]


class Measure(Protocol):
    """Something that is learnt and scored. A frozen record: its fields say everything, so that it can be remembered.

    One that loads its datasets with options has also `options(seed)`, which gives them by dataset; one that looks at
    datasets without needing them names those in `may`; one that is scored on others than the last that it needs names
    them in `tests`. `on_features`: it sees them through an encoder. `truth(item)` says what an item is taken for where
    everything of one kind would be recognised by anybody. `complete(readings)` adds answers that follow from others.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the datasets it looks at."""
        ...

    def run(self, workshop: Workshop, subject: Subject) -> Readings: ...

    def about(self, workshop: Workshop, subject: Subject) -> str:
        """How this was measured where it is not as the paper did, in words."""
        ...


@dataclass(frozen=True)
class Want:
    """A column is this metric of that measure."""

    measure: Measure
    metric: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of ours, in the unit of its column."""

    table: str
    row: str
    column: str
    value: float | None
    chance: float | None
    data: Data
    datasets: tuple[str, ...] = ()
    values: tuple[float, ...] = ()  # one per seed
    note: str = ""
    interval: tuple[float, float] | None = None  # 95 % of the mean over seeds
    interval_over: Over = ""  # what was drawn for it
    above: tuple[float, float] | None = None  # 95 % of how far it lies above chance
    encoder: str = ""  # NAME@HASH of the network whose features were looked at
    void: str = ""  # why nothing follows from it
    unit: Unit = "%"  # of value, chance and intervals
    answers: Answers | None = field(default=None, compare=False, repr=False)  # of a single seed; not kept
    sample: Sample | None = field(default=None, compare=False, repr=False)  # of all seeds; not kept

    def to_json(self) -> dict[str, Any]:
        """All of it but the answers."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in PASSING}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Cell:
        given: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in value.items()
        }
        return cls(**given)


@dataclass(frozen=True)
class Panel:
    """The columns of a printed table that a protocol fills; `table` may be one of our own, without printed numbers.

    `extra` columns are ours: the strongest attacker beside the published one. `blocks` are the encoders of a table that
    has a block of rows for each: printed name → registered encoder.
    """

    table: PaperTable
    columns: Mapping[str, Want | None]  # None: filled at the end, from several subjects, or never
    extra: Mapping[PaperColumn, Want | None] = field(default_factory=dict)
    blocks: Mapping[str, str] = field(default_factory=dict)
    printed_only: tuple[str, ...] = ()  # columns that nothing of ours may stand beside

    def __post_init__(self) -> None:
        for name in self.columns:
            self.table.column(name)

    @property
    def wants(self) -> dict[str, Want]:
        """What is measured subject by subject, by column."""
        found = {**self.columns, **{column.name: want for column, want in self.extra.items()}}
        return {name: want for name, want in found.items() if want is not None}

    def shown(self) -> tuple[PaperColumn, ...]:
        """The columns of the panel, printed ones first."""
        return (*(self.table.column(name) for name in self.columns), *self.extra)

    def column(self, name: str) -> PaperColumn:
        own = {column.name: column for column in self.extra}
        return own[name] if name in own else self.table.column(name)

    def row(self, subject: Subject, encoder: str) -> str:
        """The row a subject stands in."""
        if not self.blocks:
            return subject.row
        return f"{self._block(encoder) or encoder} / {subject.row}"

    def _block(self, encoder: str) -> str:
        """The printed name of an encoder; empty where the table has no block for it."""
        return next((name for name, registered in self.blocks.items() if registered == encoder), "")

    def asks_for(self, row: str, encoder: str) -> bool:
        """Whether a baseline belongs into the table with this encoder: not where its block was printed without one."""
        block = self._block(encoder)
        return not block or f"{block} / {row}" in self.table.rows

    def knows(self, row: str) -> bool:
        """Whether the table has a row for it; a table of ours has one for everybody."""
        if not self.table.rows:
            return True
        return row in self.table.rows or any(name.endswith(f" / {row}") for name in self.table.rows)


Finish = Callable[["Workshop", "Sequence[Subject]", "Sequence[Cell]"], "list[Cell]"]
Pictures = Callable[["Sequence[Workshop]", "Sequence[Subject]", "Sequence[Cell]"], "dict[str, Figure]"]


@dataclass(frozen=True)
class Evaluation:
    """A protocol of the papers.

    `looks` at "pixels": only anonymizers of pictures can be measured. `baselines` are measured without being asked for.
    `learned_encoder`: features are those of the network that was trained with the anonymizer, where its run kept one.
    `finish` adds cells that need several subjects. `pictures` draws more than the tables, by name, from the workshops
    of all seeds and the cells that came of them.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    looks: Looks = "features"
    baselines: tuple[str, ...] = ("Raw",)
    learned_encoder: bool = False
    finish: Finish | None = None
    pictures: Pictures | None = None
    may: tuple[str, ...] = ()  # datasets that it can use and does not need
    trained_on: tuple[str, ...] = ()  # what the papers train the anonymizer on
    note: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Every dataset that some column needs, in the order in which they are met."""
        found = (
            name for panel in self.panels for want in panel.wants.values() for name in want.measure.needs
        )
        return tuple(dict.fromkeys(found))

    @property
    def tables(self) -> tuple[PaperTable, ...]:
        return tuple(panel.table for panel in self.panels)

    def run(self, workshop: Workshop, subjects: Sequence[Subject]) -> list[Cell]:
        """Every cell that can be measured with the data that is there; a measure is done once for all its columns."""
        if self.looks == "pixels" and (latent := [one.row for one in subjects if one.latent is not None]):
            raise UsageError(
                f"{self.name} looks at pictures, and {', '.join(latent)} anonymizes features; "
                "score it with a protocol on features, such as five-tasks"
            )
        cells = [
            cell
            for subject in subjects
            for panel in self.panels
            if self._belongs(panel, subject)
            for cell in self._row(workshop, panel, subject)
        ]
        return cells if self.finish is None else [*cells, *self.finish(workshop, subjects, cells)]

    def missing(self, workshop: Workshop) -> dict[str, str]:
        """`TABLE, COLUMN` → why it cannot be measured here."""
        found = {}
        for panel in self.panels:
            for name, want in panel.wants.items():
                if reason := workshop.lacks(want.measure):
                    found[f"{panel.table.id}, {name}"] = reason
        return found

    def _belongs(self, panel: Panel, subject: Subject) -> bool:
        """A subject that some panel has a row for stands there only.

        One that none has stands in the main tables, which have a row for raw data, or in all where there is no such.
        """
        known = [one for one in self.panels if one.knows(subject.row)]
        main = [one for one in self.panels if one.knows(RAW)]
        return panel in (known or main or self.panels)

    def _row(self, workshop: Workshop, panel: Panel, subject: Subject) -> Iterable[Cell]:
        row = panel.row(subject, workshop.encoder_name)
        for name, want in panel.wants.items():
            if workshop.lacks(want.measure):
                continue
            column = panel.column(name)
            found = workshop.measured(want.measure, subject)
            if want.metric not in found:
                raise UsageError(
                    f"{self.name}: {want.measure} gives no {want.metric!r}, only {', '.join(found)}"
                )
            yield self._cell(workshop, panel, row, column, want.measure, subject, found[want.metric])

    def _cell(
        self,
        workshop: Workshop,
        panel: Panel,
        row: str,
        column: PaperColumn,
        measure: Measure,
        subject: Subject,
        found: Reading,
    ) -> Cell:
        factor = SCALES.get(column.unit, 1.0)
        value, chance = (None if v is None else factor * v for v in (found.value, found.chance))
        on_features = getattr(measure, "on_features", False)
        notes = [measure.about(workshop, subject), subject.about(self.trained_on, on_features=on_features)]
        if lacking := why_not(workshop, measure, found) if column.unit in UNITS else "":
            value, notes = None, [f"not measurable: {lacking}", *notes]
        return Cell(
            panel.table.id,
            row,
            column.name,
            value,
            chance,
            workshop.data(measure.needs),
            measure.needs,
            () if value is None else (value,),
            "; ".join(note for note in notes if note),
            encoder=workshop.encoder_mark(subject) if on_features else "",
            unit=column.unit,
            answers=None if value is None else _answers(workshop, measure, found, factor),
        )


def _answers(workshop: Workshop, measure: Measure, found: Reading, factor: float) -> Answers | None:
    if found.outcome is None:
        return None
    people = workshop.people(measure.needs)
    return Answers(found.outcome, factor, people, without_luck(found.among, people))


def own_table(name: str, title: str, columns: Sequence[PaperColumn], note: str = "") -> PaperTable:
    """A table without printed numbers."""
    return PaperTable(f"{OWN}/{name}", "no published table", title, tuple(columns), {}, note)


def pooled(runs: Sequence[Sequence[Cell]]) -> list[Cell]:
    """The cells of several seeds as one: the mean with its interval, and the value of every seed."""
    first = [(cell.table, cell.row, cell.column) for cell in runs[0]]
    if any([(c.table, c.row, c.column) for c in cells] != first for cells in runs):
        raise UsageError("seeds have different cells: they were not run on the same data and rows")
    made = []
    for same in zip(*runs):
        values = tuple(cell.value for cell in same if cell.value is not None)
        whole = len(values) == len(same)
        if whole and same[0].data == "counted" and len(set(values)) == 1:
            values = values[:1]  # a count has no interval
        mean = sum(values) / len(values) if whole else None
        chances = [cell.chance for cell in same if cell.chance is not None]
        chance = sum(chances) / len(chances) if chances else None
        said = sample([cell.answers for cell in same]) if whole else None
        sure = interval_of(values, said) if whole else None
        both = None if sure is None else (sure.low, sure.high)
        one = next((cell for cell in same if cell.value is None), same[0])  # which says why
        made.append(
            replace(
                one,
                value=mean,
                chance=chance,
                values=values if whole else (),
                interval=both,
                interval_over="" if sure is None else sure.over,
                above=above_chance(mean, chance, said, both),
                answers=None,
                sample=said,
            )
        )
    return made


def printed(name: str, columns: Mapping[str, Want | None], **more: Any) -> Panel:
    """Columns of a printed table."""
    return Panel(papers.table(name), columns, **more)
