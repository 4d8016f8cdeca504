"""Who takes part when time is short: everybody is tried for a moment, then those that find most per minute are taken.

When they are tried, and where a plan is written down, is in `reckoning`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from videoveil.audit.participant import Answers, Participant
from videoveil.audit.stopwatch import TRYING, Stopwatch
from videoveil.tasks.base import Progress
from videoveil.training.supervised import Enough

SCORING = 1.15  # what looking at held-out and at test videos adds to training
RESERVE = 0.95  # of a budget that is planned with


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Somebody who does not take part, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Who takes part. `seconds`: what one training of each was reckoned to take."""

    chosen: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    seconds: Mapping[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        left = tuple(LeftOut(**one) for one in value["left_out"])
        return cls(tuple(value["chosen"]), left, value["seconds"])


def cost(run: Callable[[Progress], Answers], trying: float = TRYING) -> tuple[float, Answers | None]:
    """Seconds that an attack takes, and what it found where it was over before it could be stopped."""
    watch = Stopwatch(trying)
    try:
        found = run(watch)
    except Enough:
        return SCORING * watch.seconds, None
    return watch.seconds, None if watch.cut_off else found


def choose(
    participants: Sequence[Participant],
    seconds: Mapping[str, float],
    trainings: Mapping[str, int],
    budget: float,
    words: str = "the budget",
) -> Plan:
    """Those that fit into `budget` seconds, `words` for people, when each has so many trainings to do.

    First the cheapest of every question, for without it the question stays open, utilities before attackers; one of
    each role is taken even where it does not fit. Who has learnt from raw videos alone is not a question's first: what
    it does not find proves nothing. Next, for every question that attackers ask, the cheapest network that learns from
    the pictures themselves, since without one nothing can pass. Then by strength per minute.
    """
    price = {one.name: seconds[one.name] * trainings[one.name] for one in participants}
    first: dict[tuple[str, str], Participant] = {}
    for one in sorted(participants, key=lambda p: (not p.adapts, price[p.name], p.name)):
        first.setdefault((one.role, one.question), one)
    must = sorted(first.values(), key=lambda p: (p.role != "utility", price[p.name], p.name))
    learners: dict[str, Participant] = {}
    for one in sorted(participants, key=lambda p: (price[p.name], p.name)):
        if one.role == "attack" and one.learns and one not in must:
            learners.setdefault(one.question, one)
    must += learners.values()
    rest = [one for one in participants if one not in must]
    rest.sort(key=lambda p: (-p.strength / max(price[p.name], 1e-9), p.name))
    left, taken, roles, out = budget * RESERVE, [], set(), []
    for one in [*must, *rest]:
        if price[one.name] <= left or (one in must and one.role not in roles):
            taken.append(one.name)
            roles.add(one.role)
            left -= price[one.name]
        else:
            out.append(LeftOut(one.name, f"did not fit into {words}"))
    order = tuple(one.name for one in participants if one.name in taken)
    return Plan(order, tuple(out), dict(seconds))
