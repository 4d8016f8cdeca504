"""Who is most like whom: retrieval of a person among known ones, and measures of likeness that were learnt.

Shapes: p probes, g gallery rows, n rows, width d, q directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from videoveil.attacks.inputs import Scaling, standard
from videoveil.errors import UsageError

SHRINKAGES = (1e-4, 1e-3, 1e-2, 1e-1, 0.5)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
TINY = 1e-12


def cosine(probe: np.ndarray, gallery: np.ndarray) -> np.ndarray:
    """(p, d), (g, d) → (p, g); a vector of zeros is like nothing."""
    if probe.ndim != 2 or gallery.ndim != 2 or probe.shape[1] != gallery.shape[1]:
        raise UsageError(
            f"retrieval: probes (p, d) and a gallery (g, d) are needed, not {probe.shape} and {gallery.shape}"
        )
    return _unit(probe) @ _unit(gallery).T


def hits(likeness: np.ndarray, same: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """Top-1 for every probe, (p,) in [0, 1]: whether the most alike of the allowed gallery rows is the same person.

    likeness (p, g); same (p, g), whose rows are of the probe's person; allowed (p, g), what may be compared. Rows that
    are equally alike are drawn from: the share of right ones among them counts, so that features that say nothing are
    worth what a blind guess is, in whatever order the gallery is.
    """
    there = _allowed(same, allowed)
    if likeness.shape != same.shape:
        raise UsageError(f"retrieval: likeness {likeness.shape} and same {same.shape} must have one shape")
    if not np.isfinite(likeness).all():
        raise UsageError("retrieval: a likeness is NaN or infinite")
    masked = np.where(there, likeness, -np.inf)
    best = masked >= masked.max(1, keepdims=True) - TINY  # (p, g)
    return np.asarray((best & same & there).sum(1) / (best & there).sum(1))


def blind(same: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """The chance level of `hits`, (p,): a random pick of the allowed gallery rows."""
    there = _allowed(same, allowed)
    return np.asarray((same & there).sum(1) / there.sum(1))


def precisions(likeness: np.ndarray, same: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """Average precision of every probe, (p,): how early the same person's rows come among the allowed ones.

    Rows that are equally alike come in a random order: what is given is the mean over all their orders, so that
    features that say nothing are worth exactly what `precisions_by_chance` says. Probes need one right row each.
    """
    there = _allowed(same, allowed)
    if likeness.shape != same.shape:
        raise UsageError(f"retrieval: likeness {likeness.shape} and same {same.shape} must have one shape")
    if lonely := int((~(same & there).any(1)).sum()):
        raise UsageError(f"retrieval: {lonely} of {len(same)} probes have nobody of their person to be found")
    each = [_precision(np.round(s[a], 12), m[a]) for s, m, a in zip(likeness, same, there)]
    return np.array(each, dtype=np.float64)


def precisions_by_chance(same: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """The mean average precision of a random order, (p,). With few rows it is well above the share of right ones."""
    return precisions(np.zeros(same.shape), same, allowed)


def _precision(scores: np.ndarray, right: np.ndarray) -> float:
    """(g,), (g,) bool. In a run of c equal scores, r of them right, behind t rows with R right ones, the i-th place is
    right with chance r/c and then has an expected (i − 1)·(r − 1)/(c − 1) right ones before it in the run."""
    order = np.argsort(-scores, kind="stable")
    run = np.concatenate(([0], np.cumsum(np.diff(scores[order]) != 0)))  # (g,) which run a place is in
    count = np.bincount(run)
    found = np.bincount(run, weights=right[order].astype(np.float64))
    before, before_right = np.cumsum(count) - count, np.cumsum(found) - found
    place = np.arange(len(order)) - before[run]  # i − 1
    inside = place * (found[run] - 1) / np.maximum(count[run] - 1, 1)
    each = found[run] / count[run] * (before_right[run] + 1 + inside) / (before[run] + place + 1)
    return float(each.sum() / found.sum())


def equal_error(truth: np.ndarray, scores: np.ndarray) -> float | None:
    """The equal error rate of saying "the same" above a threshold: where as many others are taken for the same as same
    ones for others, between thresholds by a straight line; ½ is chance. None unless both kinds are there."""
    if not len(truth) or truth.all() or not truth.any():
        return None
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    right = np.cumsum(truth[order])[ends]
    missed = np.concatenate(([1.0], 1 - right / right[-1]))
    wrong = np.concatenate(([0.0], (ends + 1 - right) / (ends[-1] + 1 - right[-1])))
    after = int(np.argmax(wrong >= missed))  # the first threshold behind the crossing, never the very first
    gap = missed - wrong
    share = gap[after - 1] / (gap[after - 1] - gap[after])
    return float(wrong[after - 1] + share * (wrong[after] - wrong[after - 1]))


def _allowed(same: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    there = np.ones_like(same) if allowed is None else allowed
    if there.shape != same.shape:
        raise UsageError(f"retrieval: allowed {there.shape} and same {same.shape} must have one shape")
    if empty := int((~there.any(1)).sum()):
        raise UsageError(f"retrieval: {empty} of {len(same)} probes have nothing in the gallery to go by")
    return there


def _unit(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x / np.where(length > 0, length, 1.0))


# --- likeness that was learnt -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projection:
    """x (n, d) → (scaled x) @ matrix, (n, q): compared there by cosine."""

    scaling: Scaling
    matrix: np.ndarray  # (d, q)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.scaling(x) @ self.matrix


def discriminant(
    x: np.ndarray, people: np.ndarray, shrinkage: float, directions: int | None = None
) -> Projection:
    """Linear discriminant analysis on channels of variance 1: whiten what varies inside a person, keep what is between.

    x (n, d), people (n,). The covariance W of rows around the mean of their person becomes
    (1 − λ)·W + λ·(trace W / d)·I; in the space where that is the identity, the principal directions of the people's
    means are kept: `directions` of them, or all. With all, the learnt measure can also be used for people it was not
    learnt on, of whom nothing says that they differ in the same few directions.
    """
    names, number = np.unique(people, return_inverse=True)
    if len(names) < 2 or len(x) <= len(names):
        raise UsageError(
            f"retrieval: {len(x)} videos of {len(names)} people: to learn, two people with several are needed"
        )
    if not 0 < shrinkage <= 1:
        raise UsageError(f"retrieval: shrinkage={shrinkage} must be in (0, 1]")
    scaling = standard(x)
    rows = scaling(x)
    means = np.stack([rows[number == i].mean(0) for i in range(len(names))])  # (people, d)
    around = rows - means[number]
    within = around.T @ around / (len(rows) - len(names))
    width = len(within)
    floor = max(float(np.trace(within)) / width, TINY)
    values, vectors = np.linalg.eigh((1 - shrinkage) * within + shrinkage * floor * np.eye(width))
    whitener = vectors / np.sqrt(values.clip(min=TINY * floor))  # (d, d)
    centred = (means - means.mean(0)) @ whitener
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]  # (d, d)
    return Projection(scaling, whitener @ axes[:, :directions])


@dataclass(frozen=True)
class Bridge:
    """x (n, d) as it was published → what it was before, (n, d'), as far as a linear map can tell."""

    scaling: Scaling
    matrix: np.ndarray  # (d, d')
    mean: np.ndarray  # (d',)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.scaling(x) @ self.matrix + self.mean)


def bridge(published: np.ndarray, raw: np.ndarray, groups: np.ndarray, seed: int = 0) -> Bridge:
    """Ridge regression from published rows (n, d) to raw ones (n, d') of the same videos.

    Its strength is the one that does best on groups (n,), the people, that it was not learnt on.
    """
    names = np.random.default_rng(seed).permutation(np.unique(groups))
    parts = [np.isin(groups, names[i::2]) for i in (0, 1)]
    error = np.zeros(len(RIDGES))
    if all(part.any() for part in parts):
        for learners, others in (parts, parts[::-1]):
            for place, strength in enumerate(RIDGES):
                made = _ridge(published[learners], raw[learners], strength)
                error[place] += float(np.square(made(published[others]) - raw[others]).sum())
    return _ridge(published, raw, RIDGES[int(error.argmin())])


def _ridge(x: np.ndarray, y: np.ndarray, strength: float) -> Bridge:
    scaling, mean = standard(x), y.mean(0)
    rows = scaling(x)
    gram = rows.T @ rows + strength * len(rows) * np.eye(rows.shape[1])
    return Bridge(scaling, np.linalg.solve(gram, rows.T @ (y - mean)), mean)


Trial = Callable[
    [Projection], float
]  # how well people are found with it; learnt and tried on different videos


def candidates(people: int) -> tuple[tuple[float, int | None], ...]:
    """Shrinkages and numbers of directions to choose from."""
    return tuple((shrinkage, count) for shrinkage in SHRINKAGES for count in (None, max(people - 1, 1)))


def learn(
    x: np.ndarray, people: np.ndarray, trials: Iterable[tuple[np.ndarray, Trial]]
) -> tuple[Projection, dict[str, float | int | None]]:
    """The discriminant of all rows with the shrinkage and directions that did best in the trials.

    A trial is the rows (n,) of bool that it learns on, and what the projection is then worth on others. So the choice
    is made on what the attacker has, never on what is scored.
    """
    options = candidates(len(np.unique(people)))
    worth = np.zeros(len(options))
    for rows, trial in trials:
        for place, (shrinkage, directions) in enumerate(options):
            worth[place] += trial(discriminant(x[rows], people[rows], shrinkage, directions))
    shrinkage, directions = options[int(worth.argmax())]
    return discriminant(x, people, shrinkage, directions), {
        "shrinkage": shrinkage,
        "directions": directions,
    }
