"""Twins: synthetic versions of the real datasets, written in exactly their on-disk formats.

One file per dataset, each with `plan(seed, scale) -> Twin`. The real loaders read twins unchanged; a user swaps a twin
for the real download by changing one path.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from videoveil.data.twins.plan import Twin, TwinReport, render, scale_of
from videoveil.errors import UsageError

_MODULES = {
    "ucf101": "ucf101",
    "hmdb51": "hmdb51",
    "kinetics400": "kinetics400",
    "vispr": "vispr",
    "pa-hmdb51": "pa_hmdb51",
    "vpucf": "vpucf",
    "vphmdb": "vphmdb",
    "phvu": "phvu",
    "thumos14": "thumos14",
    "ucf-crime": "ucf_crime",
    "xd-violence": "xd_violence",
    "shanghaitech": "shanghaitech",
    "ntu60": "ntu60",
    "toyota-smarthome": "toyota_smarthome",
    "casia-b": "casia_b",
}


def names() -> tuple[str, ...]:
    """Datasets that have a twin."""
    return tuple(_MODULES)


def plan(name: str, seed: int = 0, size: str = "tiny") -> Twin:
    """What the twin of a dataset will contain, and the truth about it."""
    if name not in _MODULES:
        raise UsageError(f"no twin of {name!r}; there are twins of {', '.join(_MODULES)}")
    twin: Twin = import_module(f"{__name__}.{_MODULES[name]}").plan(seed, scale_of(size))
    return twin


def make(name: str, root: str | Path, *, seed: int = 0, size: str = "tiny", processes: int = 1) -> TwinReport:
    """Write the twin of a dataset under `root`."""
    return render(plan(name, seed, size), root, processes)
