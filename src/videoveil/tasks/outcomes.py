"""What an attacker or a utility said of the test items, kept so that it can be measured again on any choice of them.

A `Score` is a number; an interval around it needs the answers behind it. An outcome keeps those, and `measure` gives
the figure of all items or of any of them, with repeats: a bootstrap draws items, never rows, because the clips of one
video are not independent of each other. Every figure is exact, equal to what the rows written out one by one would
give, and computed by weights on rows that were sorted once, so that a thousand draws take about a second.

For attacks a higher value means that more is found out, for utilities that more is kept.

Shapes: n items, m rows (clips, frames, pairs) of them, k attributes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from videoveil import files
from videoveil.errors import StoreError, UsageError

PIECE = 2**22  # rows times draws that are looked at together


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure and what knowing nothing of the videos gives. None where the chosen items do not define it."""

    value: float | None
    chance: float | None


@runtime_checkable
class Outcome(Protocol):
    """What one attacker (or utility) said on the test items."""

    @property
    def metric(self) -> str: ...  # "cmap", "top1", "auc", "psnr"…

    @property
    def items(self) -> tuple[str, ...]: ...  # ids of the test items, the unit of resampling

    def measure(self, chosen: np.ndarray | None = None) -> Measure:
        """The figure over `chosen`, indices into `items` with repeats allowed; None: over all, once each."""
        ...


def labelled(outcome: Outcome) -> int:
    """Of how many items it is known what would be right."""
    if not isinstance(outcome, AttributeOutcome | RankOutcome):
        return len(outcome.items)
    unknown = np.isnan(outcome.truth).reshape(len(outcome.rows), -1).all(1)
    return len(np.unique(outcome.rows[~unknown]))


def weights(chosen: np.ndarray | None, count: int) -> np.ndarray:
    """(count,) how often each item was chosen."""
    if chosen is None:
        return np.ones(count)
    chosen = np.asarray(chosen)
    if chosen.ndim != 1 or (len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < count):
        raise UsageError(f"outcome: chosen must be indices in 0…{count - 1}")
    return np.bincount(chosen.astype(np.int64), minlength=count).astype(np.float64)


# --- attributes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttributeOutcome:
    """Scores of k attributes in every row: the mean of their average precisions; the share of positives is chance.

    As in the papers, an attribute without a positive row among the chosen is left out of both means.
    """

    names: tuple[str, ...]
    truth: np.ndarray  # (m, k) of 0, 1 and NaN (unknown)
    scores: np.ndarray  # (m, k), higher: more likely
    rows: np.ndarray  # (m,) which item a row is of
    items: tuple[str, ...]
    metric: str = "cmap"
    _sorted: tuple[_Sorted, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.names))
        if self.truth.shape != shape or self.scores.shape != shape:
            raise UsageError(
                f"outcome: truth {self.truth.shape} and scores {self.scores.shape} must be {shape}"
            )
        _check_rows(self.rows, self.items, self.scores)
        columns = zip(self.truth.T, self.scores.T)
        object.__setattr__(self, "_sorted", tuple(_Sorted.of(t, s, self.rows) for t, s in columns))

    def attributes(self, chosen: np.ndarray | None = None) -> dict[str, Measure]:
        """Average precision and share of positives of every attribute."""
        values, chances = self.attribute_draws(weights(chosen, len(self.items))[None])
        return {name: _measure(v, c) for name, v, c in zip(self.names, values[0], chances[0])}

    def measure(self, chosen: np.ndarray | None = None) -> Measure:
        values, chances = self.draws(weights(chosen, len(self.items))[None])
        return _measure(values[0], chances[0])

    def attribute_draws(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """counts (B, n), how often each item is taken → average precisions and shares (B, k), NaN: undefined."""
        found = [_precisions(column, counts) for column in self._sorted]
        values, chances = (np.stack(part, 1) for part in zip(*found))
        return values, chances

    def draws(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """counts (B, n) → means (B,) over the attributes that are defined, and their chance."""
        return mean_of(*self.attribute_draws(counts))

    def blind_attributes(self, draws: int = 64, seed: int = 0) -> np.ndarray:
        """(k,) what answers that know nothing of the videos are worth on average: a random order of the items.

        With few items this is more than the share of positives, to which it falls as they become many.
        """
        rng = np.random.default_rng(seed)
        found = np.full(len(self.names), np.nan)
        for place, column in enumerate(self._sorted):
            known = np.bincount(column.items, minlength=len(self.items)).astype(np.float64)
            positive = np.bincount(column.items, column.positive, minlength=len(self.items))
            if not positive.any():
                continue
            orders = rng.permuted(np.tile(np.arange(len(known)), (draws, 1)), axis=1)  # (draws, n)
            true, every = np.cumsum(positive[orders], 1), np.cumsum(known[orders], 1)
            gained = positive[orders] / positive.sum()
            found[place] = (gained * true / np.maximum(every, 1.0)).sum(1).mean()
        return found

    def blind(self, draws: int = 64, seed: int = 0) -> float | None:
        """The mean of `blind_attributes` over those that are defined."""
        found = self.blind_attributes(draws, seed)
        return None if np.isnan(found).all() else float(np.nanmean(found))


def mean_of(values: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, k) twice → (B,) twice: means over the attributes whose value is defined; NaN where none is."""
    defined = ~np.isnan(values)
    count = np.where(defined.any(1), defined.sum(1), np.nan)
    both = (np.where(defined, part, 0.0).sum(1) / count for part in (values, chances))
    return next(both), next(both)


def _measure(value: float, chance: float) -> Measure:
    return Measure(*(None if np.isnan(part) else float(part) for part in (value, chance)))


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The known rows of one column from the highest score down."""

    items: np.ndarray  # (r,) of every row
    positive: np.ndarray  # (r,) bool
    ends: np.ndarray  # (t,) the last row of every run of equal scores: equal scores are one threshold

    @classmethod
    def of(cls, truth: np.ndarray, scores: np.ndarray, rows: np.ndarray) -> _Sorted:
        known = np.flatnonzero(~np.isnan(truth))
        order = known[np.argsort(-scores[known], kind="stable")]
        ordered = scores[order]
        last = [len(ordered) - 1] if len(ordered) else []
        ends = np.append(np.flatnonzero(np.diff(ordered)), last).astype(np.int64)
        return cls(rows[order], truth[order] > 0, ends)

    def counts(self, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """drawn (B, n) → positives and all rows (B, t) at or above every threshold, each as often as its item."""
        weight = drawn[:, self.items]
        true = np.cumsum(np.where(self.positive, weight, 0.0), 1)[:, self.ends]
        return true, np.cumsum(weight, 1)[:, self.ends]


def _in_pieces(column: _Sorted, counts: np.ndarray) -> list[np.ndarray]:
    """Draws in pieces that fit into the memory of a small machine."""
    return np.array_split(counts, max(1, -(-counts.shape[0] * max(len(column.items), 1) // PIECE)))


def _precisions(column: _Sorted, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, n) → step-wise average precision Σ (R_i − R_{i−1})·P_i and share of positives (B,)."""
    parts = [_precision(*column.counts(piece)) for piece in _in_pieces(column, counts)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _precision(true: np.ndarray, every: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not every.shape[1]:
        nothing = np.full(len(every), np.nan)
        return nothing, nothing
    positives, total = true[:, -1], every[:, -1]
    share = positives / np.where(total > 0, total, np.nan)
    precision = true / np.maximum(every, 1.0)  # nothing drawn so far: no positives either
    gained = np.diff(true, axis=1, prepend=0.0)
    return (gained * precision).sum(1) / np.where(positives > 0, positives, np.nan), share


# --- means and ranks ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeanOutcome:
    """One value per item, such as 1 where it was recognised: their mean, and the mean of what a guess would give."""

    metric: str
    items: tuple[str, ...]
    values: np.ndarray  # (n,)
    chances: np.ndarray | None = None  # (n,); None: there is no such thing as a guess

    def __post_init__(self) -> None:
        shape = (len(self.items),)
        if self.values.shape != shape or (self.chances is not None and self.chances.shape != shape):
            raise UsageError(f"outcome: {len(self.items)} items need as many values, not {self.values.shape}")
        if not np.isfinite(self.values).all() or not np.isfinite(_or_empty(self.chances)).all():
            raise UsageError(f"outcome {self.metric}: a value is NaN or infinite")

    def measure(self, chosen: np.ndarray | None = None) -> Measure:
        values, chances = self.draws(weights(chosen, len(self.items))[None])
        return _measure(values[0], chances[0])

    def draws(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """counts (B, n) → means (B,) and their chance, NaN where there is none."""
        total = counts.sum(1)
        total = np.where(total > 0, total, np.nan)
        chances = np.full(len(self.items), np.nan) if self.chances is None else self.chances
        return (counts * self.values).sum(1) / total, (counts * chances).sum(1) / total


@dataclass(frozen=True)
class RankOutcome:
    """Rows that are something or not (the same person, a member…), ranked by score: ROC-AUC, ½ by chance."""

    truth: np.ndarray  # (m,) of 0, 1 and NaN (left out)
    scores: np.ndarray  # (m,)
    rows: np.ndarray  # (m,) which item a row is of
    items: tuple[str, ...]
    metric: str = "auc"
    _sorted: _Sorted = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.truth.shape != self.scores.shape or self.truth.shape != self.rows.shape:
            raise UsageError(f"outcome: truth {self.truth.shape} and scores {self.scores.shape} must be rows")
        _check_rows(self.rows, self.items, self.scores)
        object.__setattr__(self, "_sorted", _Sorted.of(self.truth, self.scores, self.rows))

    def measure(self, chosen: np.ndarray | None = None) -> Measure:
        values, chances = self.draws(weights(chosen, len(self.items))[None])
        return _measure(values[0], chances[0])

    def draws(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """counts (B, n) → areas (B,) and ½; NaN where only one kind of rows is there."""
        found = [_area(*self._sorted.counts(piece)) for piece in _in_pieces(self._sorted, counts)]
        values = np.concatenate(found)
        return values, np.where(np.isnan(values), np.nan, 0.5)


def _area(true: np.ndarray, every: np.ndarray) -> np.ndarray:
    """Trapezoidal area under the ROC curve, (B,)."""
    if not every.shape[1]:
        return np.full(len(every), np.nan)
    false = every - true
    up, right = (
        np.concatenate((np.zeros((len(c), 1)), c / np.where(c[:, -1:] > 0, c[:, -1:], np.nan)), 1)
        for c in (true, false)
    )
    return np.asarray(np.trapezoid(up, right, axis=1))


def draws_of(outcome: Outcome, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and chance (B,) of many choices at once, counts (B, n); NaN where a choice does not define them."""
    many = getattr(outcome, "draws", None)
    if many is not None:
        values, chances = many(counts)
        return values, chances
    found = [outcome.measure(np.repeat(np.arange(len(row)), row.astype(np.int64))) for row in counts]
    pairs = np.array([[np.nan if p is None else p for p in (one.value, one.chance)] for one in found])
    return pairs[:, 0], pairs[:, 1]


def _or_empty(values: np.ndarray | None) -> np.ndarray:
    return np.zeros(0) if values is None else values


def _check_rows(rows: np.ndarray, items: Sequence[str], scores: np.ndarray) -> None:
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise UsageError("outcome: rows must be the number of the item that each row is of")
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(items):
        raise UsageError(f"outcome: rows name items outside 0…{len(items) - 1}")
    if not np.isfinite(scores).all():
        raise UsageError("outcome: a score is NaN or infinite")


# --- on disk ------------------------------------------------------------------------------------------------

_KINDS: dict[str, type] = {
    "attributes": AttributeOutcome,
    "mean": MeanOutcome,
    "rank": RankOutcome,
}
_ARRAYS = ("truth", "scores", "rows", "values", "chances")


def save(destination: str | Path, outcomes: dict[str, Any]) -> None:
    """Outcomes by name in one file of plain arrays; whole or not at all."""
    arrays: dict[str, np.ndarray] = {"names": np.array(list(outcomes), dtype=np.str_)}
    for place, one in enumerate(outcomes.values()):
        kind = next((name for name, type_ in _KINDS.items() if isinstance(one, type_)), None)
        if kind is None:
            raise UsageError(f"{destination}: outcomes of {type(one).__name__} cannot be kept")
        arrays[f"{place}.kind"] = np.array([kind, one.metric], dtype=np.str_)
        arrays[f"{place}.items"] = np.array(one.items, dtype=np.str_)
        if isinstance(one, AttributeOutcome):
            arrays[f"{place}.attributes"] = np.array(one.names, dtype=np.str_)
        for name in _ARRAYS:
            if getattr(one, name, None) is not None:
                arrays[f"{place}.{name}"] = getattr(one, name)
    with files.atomic_path(destination) as temporary, open(temporary, "wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)  # type: ignore[arg-type]


def load(source: str | Path) -> dict[str, Any]:
    """What `save` wrote; numbers come back bit for bit."""
    try:
        with np.load(source, allow_pickle=False) as stored:
            return {str(name): _restore(stored, place) for place, name in enumerate(stored["names"])}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise StoreError(
            f"{source}: not the outcomes of an attack ({error}); delete it to measure again"
        ) from error


def _restore(stored: Any, place: int) -> Any:
    kind, metric = (str(word) for word in stored[f"{place}.kind"])
    own = {name: stored[f"{place}.{name}"] for name in _ARRAYS if f"{place}.{name}" in stored}
    items = tuple(str(one) for one in stored[f"{place}.items"])
    if kind == "attributes":
        own["names"] = tuple(str(one) for one in stored[f"{place}.attributes"])
    return _KINDS[kind](**own, items=items, metric=metric)
