"""Every protocol by name. A new one is a file with `PROTOCOLS` and a line here."""

from __future__ import annotations

from videoveil.errors import UsageError
from videoveil.protocols import (
    anomaly,
    cross_dataset,
    feature_leakage,
    five_tasks,
    gait,
    novel,
    ntu_bias,
    pa_hmdb51,
    parameters,
    phvu,
    raw_pretrained,
    speed,
    trade_off,
    vp,
)
from videoveil.protocols.base import Evaluation

MODULES = (
    cross_dataset,
    pa_hmdb51,
    phvu,
    novel,
    vp,
    raw_pretrained,
    anomaly,
    feature_leakage,
    five_tasks,
    ntu_bias,
    gait,
    trade_off,
    speed,
    parameters,
)
EVALUATIONS: dict[str, Evaluation] = {one.name: one for module in MODULES for one in module.PROTOCOLS}


def names() -> tuple[str, ...]:
    return tuple(EVALUATIONS)


def protocol(name: str) -> Evaluation:
    if name not in EVALUATIONS:
        raise UsageError(f"no protocol {name!r}; there are {', '.join(EVALUATIONS)}")
    return EVALUATIONS[name]
