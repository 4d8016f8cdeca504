"""Attackers on feature vectors: the registry, and the suite that decides how private features are.

    fitted = attacker("mlp2").fit(train_x, train_y, validation=(val_x, val_y), seed=0)
    fitted.report(test_x, test_y)

Features are as private as the attacker that does best on them says; `suite` trains them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from videoveil.attacks.base import Attacker, FittedAttacker, Labelled
from videoveil.attacks.kernel import KernelAttacker
from videoveil.attacks.linear import LinearAttacker
from videoveil.attacks.metrics import AttributeReport, ClassReport
from videoveil.attacks.neighbours import NeighbourAttacker
from videoveil.attacks.networks import MLP2, MLP5, RELEASED
from videoveil.attacks.trees import TreeAttacker
from videoveil.errors import UsageError

ATTACKERS: dict[str, Attacker] = {
    one.kind: one
    for one in (
        LinearAttacker(),
        MLP2,
        MLP5,
        NeighbourAttacker(),
        TreeAttacker(),
        KernelAttacker(),
        RELEASED,
    )
}
SUITE = (
    "linear",
    "mlp2",
    "mlp5",
    "knn",
    "trees",
    "kernel",
)  # `released` is weak by construction: for comparison only

Report = AttributeReport | ClassReport


def attacker(kind: str) -> Attacker:
    """The attacker of that name with its published or default settings."""
    if kind not in ATTACKERS:
        raise UsageError(f"no attacker {kind!r}; there are {', '.join(ATTACKERS)}")
    return ATTACKERS[kind]


def fit(
    kind: str, x: Any, y: Any, validation: Labelled | None = None, seed: int = 0, device: str = "cpu"
) -> FittedAttacker:
    """`attacker(kind).fit(…)`."""
    return attacker(kind).fit(x, y, validation, seed, device)


@dataclass(frozen=True)
class SuiteReport:
    """Every attacker's report on the test data; `strongest` is the one that counts."""

    reports: Mapping[str, Report]
    fitted: Mapping[str, FittedAttacker]

    @property
    def strongest(self) -> str:
        """The attacker with the highest score on the test data: for privacy, the worst case."""
        return max(self.reports, key=lambda kind: -1.0 if (s := self.reports[kind].score) is None else s)

    @property
    def worst(self) -> Report:
        return self.reports[self.strongest]

    def worst_by_attribute(self) -> tuple[float | None, ...]:
        """For every attribute the best average precision of any attacker; attributes only."""
        reports = [r for r in self.reports.values() if isinstance(r, AttributeReport)]
        if len(reports) != len(self.reports):
            raise UsageError("classes have no attributes")
        found = []
        for scores in zip(*(report.attributes for report in reports)):
            there = [score.ap for score in scores if score.ap is not None]
            found.append(max(there) if there else None)
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        reports = {kind: report.to_json() for kind, report in self.reports.items()}
        return {"strongest": self.strongest, "reports": reports}


def suite(
    train: Labelled,
    test: Labelled,
    validation: Labelled | None = None,
    *,
    kinds: Sequence[str | Attacker] = SUITE,
    seed: int = 0,
    device: str = "cpu",
    workers: int = 1,
) -> SuiteReport:
    """Train every attacker on `train`, let it choose on `validation`, and score it once on `test`.

    `workers` attackers are trained at the same time; the result does not depend on how many.
    """
    chosen = [attacker(kind) if isinstance(kind, str) else kind for kind in kinds]
    if not chosen or len({one.kind for one in chosen}) != len(chosen):
        raise UsageError("a suite needs at least one attacker, and each of its attackers a name of its own")
    with ThreadPoolExecutor(max(1, workers)) as pool:
        jobs = {one.kind: pool.submit(one.fit, *train, validation, seed, device) for one in chosen}
        fitted = {kind: job.result() for kind, job in jobs.items()}
    return SuiteReport({kind: one.report(*test) for kind, one in fitted.items()}, fitted)


def split(count: int, share: float = 0.2, seed: int = 0, groups: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and validation. `groups` (n,): rows of one group (a video, a person) stay together."""
    if not 0 < share < 1:
        raise UsageError(f"share={share}: must be between 0 and 1")
    names = np.arange(count) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(names) != count:
        raise UsageError(f"{len(names)} groups for {count} rows")
    total = int(names.max(initial=-1)) + 1
    if total < 2:
        raise UsageError("validation needs at least two groups of rows")
    order = np.random.default_rng(seed).permutation(total)
    held_out = np.isin(names, order[: min(total - 1, max(1, round(share * total)))])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
