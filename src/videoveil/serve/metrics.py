"""Figures of the service for Prometheus, in its text format. Numbers only: nothing of a job or of an owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Sample = tuple[Mapping[str, str], float]
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counted:
    """What was asked and answered since the start."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.bytes = 0


def metric(name: str, kind: str, words: str, samples: Iterable[Sample]) -> list[str]:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        said = str(int(value)) if float(value).is_integer() else repr(float(value))
        lines.append(f"{name}{{{inside}}} {said}" if inside else f"{name} {said}")
    return lines


def by(label: str, counts: Mapping[str, float], always: Iterable[str] = ()) -> list[Sample]:
    """One sample per key; those of `always` are there even when they are zero."""
    return [({label: key}, counts.get(key, 0)) for key in sorted({*counts, *always})]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
