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
