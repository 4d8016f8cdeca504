"""How an audit is run: by which rules, who is asked to take part, how long it may take, what its report shows."""

from __future__ import annotations

from dataclasses import dataclass, field

from videoveil import devices
from videoveil.audit import registry
from videoveil.audit.participant import Participant
from videoveil.audit.rules import Rules


@dataclass(frozen=True, slots=True)
class Pictures:
    """How many test videos the report shows, and whether their raw frames too."""

    videos: int = 0
    raw: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How an audit is run."""

    rules: Rules = field(default_factory=Rules)
    participants: tuple[Participant, ...] = registry.PARTICIPANTS
    seed: int = 0
    budget: float | None = None  # minutes
    device: str = "auto"
    workers: int = 1
    pictures: Pictures = Pictures()
    command: str = ""  # that asked for the audit, for its report

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.seed + number for number in range(self.rules.seeds))

    @property
    def gpu(self) -> bool:
        return devices.choose(self.device).type == "cuda"
