"""What follows from what everybody said: questions are answered, risks measured, and a verdict is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from videoveil.audit import doubts, members, registry, risk, scoring
from videoveil.audit.case import Case
from videoveil.audit.draws import Draws
from videoveil.audit.participant import Answers, Participant
from videoveil.audit.plan import LeftOut, Plan
from videoveil.audit.scoring import Question, Verdict
from videoveil.audit.subject import WHICH
from videoveil.audit.trainings import Said
from videoveil.data.owners import people
from videoveil.errors import StoreError
from videoveil.tasks.base import Role
from videoveil.tasks.outcomes import Outcome

NEVER_TESTED = (
    "attackers that were not named here, stronger ones, or ones with more data about the same people",
    "what somebody knows from elsewhere: the place, the time, who was there",
    "voices and other sound, on-screen text, file names and metadata",
    "single frames between those that networks look at (the coarse grid sees them all), and how long a video is",
    "the sides of wide pictures, by features: they are of the middle square (networks and the grid see everything)",
)


@dataclass(frozen=True)
class Result:
    """What an audit found."""

    verdict: Verdict
    questions: tuple[Question, ...]
    risks: tuple[risk.Risk, ...]
    left_out: tuple[LeftOut, ...]
    not_measurable: tuple[str, ...]
    metrics: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        return {"PASS": 0, "NOT MEASURABLE": 1, "FAIL": 2}[self.verdict.overall]


def conclude(case: Case, chosen: Sequence[Participant], said: Said, plan: Plan) -> Result:
    """The result of an audit in which those `chosen` said so."""
    rules, seed = case.settings.rules, case.settings.seed
    draws = Draws(rules, seed, people(case.subject.dataset.items))
    asked, single = _asked(chosen, said)
    questions = tuple(
        doubts.doubted(case, scoring.question(name, role, sides, rules, judged=judged, draws=draws))
        for (name, role, judged), sides in asked.items()
    )
    questions = tuple(doubts.qualified(case, one, plan.left_out) for one in questions)
    questions = (*questions, *doubts.unanswered(case, questions, plan.left_out))
    verdict = scoring.verdict(questions)
    featured = any(one.reads == "features" for one in chosen)
    risks = risk.of(case.subject, case.stores, _attacks(asked), draws, featured=featured)
    for one in [one for one in chosen if one.question == registry.MEMBERS]:
        risks = (*risks, members.of(said[one.name]["anonymized"], one.name, draws))
    missing = (*case.reasons, *case.subject.notes, *members.attackers_knew(case.subject), *single)
    never = (*NEVER_TESTED, *too_fine(case, chosen), *too_alike(case, chosen))
    metrics = _metrics(case, verdict, questions, risks, plan, missing, never)
    return Result(verdict, questions, risks, plan.left_out, missing, metrics)


# --- who answered what --------------------------------------------------------------------------------------

Asked = dict[tuple[str, Role, bool], dict[str, scoring.Sides]]  # question, role, judged → who said what


def _asked(chosen: Sequence[Participant], said: Said) -> tuple[Asked, list[str]]:
    """The answers by question; and remarks on those that there are of one side only."""
    asked: Asked = {}
    single: list[str] = []
    for one in [one for one in chosen if one.sides == WHICH]:
        both = [set(said[one.name][which][0]) for which in WHICH]
        single += [f"{one.name}/{inner} was tried on one side only" for inner in sorted(both[0] ^ both[1])]
        for inner in said[one.name]["raw"][0]:
            if inner not in both[1]:
                continue
            raw, veiled = (_by_seed(said[one.name][which], inner, one.name) for which in WHICH)
            name, judged = registry.question_of(one, inner, raw[0].metric)
            asked.setdefault((name, one.role, judged), {})[f"{one.name}/{inner}"] = (raw, veiled)
    return asked, single


def _by_seed(answers: Sequence[Answers], inner: str, who: str) -> list[Outcome]:
    lacking = [number for number, one in enumerate(answers) if inner not in one]
    if lacking:
        raise StoreError(
            f"{who}/{inner}: trainings {lacking} did not give it; delete the results and run again"
        )
    return [one[inner] for one in answers]


def _attacks(asked: Asked) -> dict[str, scoring.Sides]:
    return {
        who: pair
        for (_, role, judged), sides in asked.items()
        if role == "attack" and judged
        for who, pair in sides.items()
    }


# --- in figures ---------------------------------------------------------------------------------------------


def _metrics(
    case: Case,
    verdict: Verdict,
    questions: Sequence[Question],
    risks: Sequence[risk.Risk],
    plan: Plan,
    missing: Sequence[str],
    never: Sequence[str],
) -> dict[str, Any]:
    own = case.subject
    return {
        "verdict": {**asdict(verdict), "overall": verdict.overall},
        "rules": asdict(case.settings.rules),
        "seeds": list(case.settings.seeds),
        "data": {
            "name": own.title,
            "synthetic": own.twin,
            "items": own.dataset.counts(),
            "attributes": sorted({name for item in own.dataset.items for name in own.known(item)}),
            "encoder": own.encoder,
            "seen": own.seen(),
        },
        "anonymizer": own.anonymizer,
        "questions": [scoring.to_json(one) for one in questions],
        "risks": [asdict(one) for one in risks],
        "took_part": list(plan.chosen),
        "left_out": [asdict(one) for one in plan.left_out],
        "not_measurable": list(missing),
        "never_tested": list(never),
    }


def _networks(case: Case, chosen: Sequence[Participant]) -> list[Any]:
    """How those who took part and learn from pictures did it."""
    configs = [one.config(case.settings.gpu) for one in chosen if one.reads == "clips"]
    return [one for one in configs if hasattr(one, "networks")]


def too_alike(case: Case, chosen: Sequence[Participant]) -> tuple[str, ...]:
    """That all who learnt from pictures were one network, if so."""
    names = {name for one in _networks(case, chosen) for name in one.networks}
    if len(names) != 1:
        return ()
    return (
        f"other networks: all who learnt from pictures had the same, {names.pop()} (see `--attacker`), and what one "
        "kind does not find another may",
    )


def too_fine(case: Case, chosen: Sequence[Participant]) -> tuple[str, ...]:
    """What the networks that took part were too coarse to see."""
    sizes = sorted({one.size for one in _networks(case, chosen)})
    if not sizes:
        return ()
    sides = " and ".join(map(str, sizes))
    return (f"texture finer than networks look at: they saw {sides} pixels a side (see `--attacker-size`)",)
