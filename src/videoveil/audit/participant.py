"""What it is to take part in an audit: an attacker or a utility, and one training of it.

Who they are is in `registry`, what each does in a training in `trials`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

from videoveil.audit.stopwatch import Stopwatch
from videoveil.audit.subject import ALL, WHICH, Stores, Subject, Which
from videoveil.errors import UsageError
from videoveil.tasks.base import Clips, Features, Progress, Role
from videoveil.tasks.outcomes import Outcome

Answers = dict[str, Outcome]


@dataclass(frozen=True)
class Trial:
    """One training of one participant: on which side, with which seed."""

    subject: Subject
    stores: Stores
    which: Which
    seed: int
    device: str = "auto"
    progress: Progress | None = None
    model: Path | None = None  # where what was learnt is kept, if somebody wants to see it; None: nowhere

    def clips(self, split: str, which: Which | None = None) -> Clips:
        shown = self.subject.side(which or self.which).clips
        if shown is None:
            raise UsageError("audit: this side has features, no pictures")
        return shown.with_split(split or None)

    def learnt(self) -> None:
        """To be said between learning and scoring: who only asks how long it takes has seen enough."""
        if isinstance(self.progress, Stopwatch):
            self.progress.learnt()

    def features(self, split: str, which: Which | None = None, grid: str = ALL) -> Features:
        return self.stores.features(which or self.which, split or None, grid)


@dataclass(frozen=True)
class Participant:
    """An attacker or a utility. `why_not` says why it cannot take part; empty where it can."""

    name: str
    words: str  # for people who do not train networks
    question: str  # what it wants to know; participants with the same question are compared
    role: Role
    reads: Literal["clips", "features", "either"]  # "either": whatever the anonymizer gives out
    strength: float
    run: Callable[[Trial, Any], Answers]
    config: Callable[[bool], Any]  # whether there is a GPU → its settings
    why_not: Callable[[Subject], str]
    judged: bool = True
    sides: tuple[Which, ...] = WHICH  # without a raw side it is a risk by itself, compared with nothing
    grid: str = ALL  # the clips whose features it reads
    learns: bool = (
        False  # a network that learns from the pictures themselves: a frozen encoder misses what it finds
    )
    adapts: bool = True  # has learnt from what leaves the anonymizer; False: from raw videos alone
    also: tuple[str, ...] = ()  # questions that it answers too, where the data allow it
    labels: tuple[tuple[str, str], ...] = ()  # networks from a file → how they are written down

    def asks(self, question: str) -> bool:
        return question in (self.question, *self.also)

    def excuse(self, subject: Subject, stores: Stores) -> str:
        if self.reads == "clips" and subject.anonymized.clips is None:
            return "only features leave this anonymizer; there are no pictures to look at"
        if self.reads == "features" and (reason := stores.why_not()):
            return reason
        return self.why_not(subject)

    def settings(self, gpu: bool) -> dict[str, Any]:
        """For config.yaml and for the names of results."""
        config = self.config(gpu)
        if not is_dataclass(config) or isinstance(config, type):
            return {}
        known, labels = asdict(config), dict(self.labels)
        if labels:
            known["networks"] = tuple(labels.get(name, name) for name in known["networks"])
        return known
