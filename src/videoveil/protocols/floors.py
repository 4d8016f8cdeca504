"""What must be there for a figure to mean something: enough test items, and of more than one kind.

Three videos of one class are all recognised by whoever always says that class. Such a figure is not printed: the cell
says why it is not measurable. How many are enough is a matter of the scale (`Scale.least_items`): as many as an audit
asks for, but at `tiny`, which only shows that everything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from videoveil.data.records import Item

if TYPE_CHECKING:
    from videoveil.protocols.base import Measure, Reading
    from videoveil.protocols.workshop import Workshop

TESTED = ("test", "probe")  # splits that are scored on
SURE = 1 - 1e-9  # chance from which on there is nothing left to find out
UNITS = ("%", "1")  # of scores; minutes and millions are not taken of test items


def why_not(workshop: Workshop, measure: Measure, found: Reading) -> str:
    """Why a score is not measurable here; empty where it is."""
    if found.value is None:
        return "the test items do not define it"
    if not measure.needs:
        return ""
    each = _tested(workshop, measure)
    if found.outcome is not None:
        said = set(found.outcome.items)  # a condition, a gender: a part of the test items
        items = [item for part in each for item in part if item.id in said]
        count = getattr(found.outcome, "fewest", len(found.outcome.items))
    else:
        items, count = [item for part in each for item in part], min(map(len, each))
    least = workshop.scale.least_items
    if count < least:
        return f"{count} test items; at least {least} are needed"
    return _one_kind(getattr(measure, "truth", None), items, found.chance)


def _tested(workshop: Workshop, measure: Measure) -> list[list[Item]]:
    """The test items of every dataset that is scored on."""
    names = getattr(measure, "tests", measure.needs[-1:])
    loaded = workshop.loaded(measure)
    return [
        [item for item in workshop.dataset(name, loaded.get(name)).items if item.split in TESTED]
        for name in names
    ]


def _one_kind(truth: Callable[[Item], str | None] | None, items: Sequence[Item], chance: float | None) -> str:
    """Why nobody can be wrong; empty where one can."""
    kinds = set() if truth is None else {kind for item in items if (kind := truth(item)) is not None}
    if len(kinds) == 1:
        return f"all {len(items)} test items are of one kind ({next(iter(kinds))})"
    if chance is not None and chance >= SURE:
        return "whoever knows nothing is always right: all test items are of one kind"
    return ""
