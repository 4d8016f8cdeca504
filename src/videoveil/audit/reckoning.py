"""The plan of an audit: with a budget everybody is tried for a moment before it is made, else everybody takes part.

A plan is written down. A killed audit goes on with its own, and the same audit on the same machine finds it again, so
that a clock which runs a little differently does not change what is measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from videoveil import files
from videoveil.audit import kept
from videoveil.audit.case import Case
from videoveil.audit.excuses import CANNOT, in_words
from videoveil.audit.participant import Participant
from videoveil.audit.plan import LeftOut, Plan, choose, cost
from videoveil.audit.trainings import Trainings

PLAN, RECKONED = "plan.json", "reckoned.json"


@dataclass
class Reckoned:
    """What has been found out so far: seconds that participants cost, and why others cannot learn.

    What was found out before a kill is not tried again, and the time that it took is spent.
    """

    path: Path
    key: str  # of the plan that it is for
    began: float  # by the clock, when the budget began to be spent
    before: float = 0.0  # seconds of the budget, until a kill
    prices: dict[str, float] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, key: str, began: float) -> Reckoned:
        """With what a killed audit found out, as far as it came."""
        if not path.is_file() or (value := json.loads(path.read_text("utf-8")))["key"] != key:
            return cls(path, key, began)
        return cls(path, key, began, float(value["spent"]), dict(value["prices"]), dict(value["cannot"]))

    def note(self) -> None:
        value = {"key": self.key, "spent": self.spent, "prices": self.prices, "cannot": self.cannot}
        files.write_json(self.path, value)

    @property
    def spent(self) -> float:
        """Seconds of the budget, those before a kill too."""
        return self.before + time.perf_counter() - self.began


def planned(
    trainings: Trainings, able: Sequence[Participant], unable: Sequence[LeftOut], began: float
) -> Plan:
    """The plan that there is, or else a new one; `unable`: who was left out before anybody was tried."""
    case = trainings.case
    if case.settings.budget is None:
        return Plan(tuple(one.name for one in able), tuple(unable))
    key = _key(case, able)
    shared = case.cache / "plans" / f"{key[:24]}.json"
    for path in (case.out / PLAN, shared):
        if path.is_file() and (value := json.loads(path.read_text("utf-8")))["key"] == key:
            return Plan.from_json(value["plan"])
    reckoned = Reckoned.open(case.out / RECKONED, key, began)
    _try_everybody(trainings, able, reckoned)
    made = _fitting(case, able, reckoned)
    plan = replace(made, left_out=(*unable, *made.left_out))
    for path in (shared, case.out / PLAN):
        files.write_json(path, {"key": key, "plan": plan.to_json()})
    return plan


def _key(case: Case, able: Sequence[Participant]) -> str:
    """Changes with everything that a plan depends on but the clock."""
    return files.value_hash(
        [
            case.data,
            case.sides["anonymized"],
            case.settings.budget,
            asdict(case.settings.rules),
            [[one.name, one.settings(case.settings.gpu)] for one in able],
            case.settings.seed,
        ]
    )


def _try_everybody(trainings: Trainings, able: Sequence[Participant], reckoned: Reckoned) -> None:
    """On anonymized videos, which take longer than raw ones."""
    case = trainings.case
    reckoned.note()
    trainings.extract(able)
    reckoned.note()
    seed = case.settings.seeds[0]
    for number, one in enumerate(able):
        trainings.watch(0.0, len(able), f"how long {one.name} takes")
        if one.name in reckoned.prices or one.name in reckoned.cannot:
            continue
        path = kept.file(case, one, "anonymized", seed)
        if path.is_file():
            reckoned.prices[one.name] = kept.seconds(path, unknown=1.0)
            continue
        try:
            price, found = cost(partial(trainings.train, one, "anonymized", seed))
        except CANNOT as error:  # before anything is spent on the raw side
            reckoned.cannot[one.name] = in_words(error, case)
            reckoned.note()
            continue
        reckoned.prices[one.name] = price
        if found is not None:
            kept.keep(path, found, price)
        reckoned.note()
        trainings.watch(number + 1.0, len(able), f"how long {one.name} takes")


def _fitting(case: Case, able: Sequence[Participant], reckoned: Reckoned) -> Plan:
    """Those that fit into what is left of the budget; what is kept already need not be trained."""
    settings = case.settings
    missing = {
        one.name: sum(
            not kept.file(case, one, which, seed).is_file() for which in one.sides for seed in settings.seeds
        )
        for one in able
    }
    able = [one for one in able if one.name not in reckoned.cannot]
    left = 60 * float(settings.budget or 0) - reckoned.spent
    plan = choose(able, reckoned.prices, missing, max(left, 0.0), f"{settings.budget:g} minutes")
    unable = (LeftOut(name, reason) for name, reason in sorted(reckoned.cannot.items()))
    return replace(plan, left_out=(*plan.left_out, *unable))
