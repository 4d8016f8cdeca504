"""Every task by name, with its presets. A new one is a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from videoveil.errors import UsageError
from videoveil.tasks import anomaly, detection, mgfn, settings
from videoveil.tasks.action import network, probe
from videoveil.tasks.base import Task


@dataclass(frozen=True)
class Kind:
    """A line of the registry; the first preset is the default."""

    name: str
    title: str
    make: Callable[[Any], Task]
    presets: Mapping[str, Callable[[], Any]]
    reads: Literal["features", "clips"] = "features"
    clips: str = "all"  # how features are to be extracted

    def config(self, preset: str | None = None, changes: Mapping[str, str] | None = None) -> Any:
        """A preset with some of its fields replaced."""
        name = preset or next(iter(self.presets))
        if name not in self.presets:
            raise UsageError(f"{self.name}: no preset {name!r}; there are {', '.join(self.presets)}")
        return settings.override(self.presets[name](), changes or {})

    def from_json(self, value: Mapping[str, Any]) -> Task:
        """The task whose settings were stored."""
        return self.make(settings.from_json(type(self.config()), value))


KINDS = (
    Kind(
        "action",
        "actions by a linear probe on features",
        probe.ActionProbe,
        {"recommended": probe.recommended, "paper": probe.paper},
    ),
    Kind(
        "action-network",
        "actions by a whole network on clips",
        network.ActionNetwork,
        {"scratch": network.scratch, "fine-tune": network.fine_tune},
        reads="clips",
    ),
    Kind(
        "detection",
        "when which action happens (TriDet)",
        detection.ActionDetection,
        {"thumos14": detection.thumos14, "small": detection.small},
        clips="dense:4",
    ),
    Kind(
        "anomaly",
        "when something unusual happens (MGFN)",
        anomaly.AnomalyDetection,
        {
            "recommended": mgfn.recommended,
            "released": mgfn.released,
            "ted-spad": mgfn.ted_spad,
            "small": mgfn.small,
        },
    ),
)
_BY_NAME = {kind.name: kind for kind in KINDS}


def names() -> tuple[str, ...]:
    return tuple(_BY_NAME)


def kind(name: str) -> Kind:
    if name not in _BY_NAME:
        raise UsageError(f"no task {name!r}; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
