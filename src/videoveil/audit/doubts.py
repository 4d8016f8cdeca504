"""What nobody asked, or nobody could have found, holds PASS back: from a failure to look nothing follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from videoveil.audit import registry, scoring
from videoveil.audit.case import Case
from videoveil.audit.participant import Participant
from videoveil.audit.plan import LeftOut
from videoveil.audit.scoring import Question


def _not_invited(case: Case) -> list[Participant]:
    """Attackers whom `--only` keeps away: it chooses who takes part, not what would have to be known."""
    invited = {one.name for one in case.settings.participants}
    return [one for one in registry.PARTICIPANTS if one.role == "attack" and one.name not in invited]


def qualified(case: Case, made: Question, left_out: Sequence[LeftOut]) -> Question:
    """A PASS with the networks beside it that could have asked the same and took no part.

    Which attacker finds most is known only of those that were asked: a drawing of the raw pictures, or a network that
    goes on from raw ones, may find what frames as published do not tell.
    """
    if made.role != "attack" or made.verdict != "PASS" or not made.judged:
        return made
    away = {one.name for one in left_out}
    known = {one.name: one for one in (*registry.PARTICIPANTS, *case.settings.participants)}
    strong = sorted(
        name
        for name, one in known.items()
        if name in away and one.learns and one.asks(made.name) and not one.excuse(case.subject, case.stores)
    )
    if not strong:
        return made
    return replace(
        made,
        reason=f"{made.reason}; this is without {', '.join(strong)}, which took no part and may find more",
    )


def doubted(case: Case, made: Question) -> Question:
    """A question about pictures that passes, but not on the word of frozen features alone.

    Nor because nobody else was asked: `--only` chooses who takes part, not what would have to be known. A network
    that hardly finds anything in raw pictures is no witness either, where others find much in them.
    """
    if made.role != "attack" or made.verdict != "PASS" or case.subject.anonymized.clips is None:
        return made
    known = {one.name: one for one in (*registry.PARTICIPANTS, *case.settings.participants)}
    networks = {name: one for name, one in known.items() if one.learns}
    if not any(one.reads == "features" for one in known.values() if one.question == made.name):
        return made
    if scoring.witnesses(made, set(networks)):
        return made
    learners = sorted(
        name
        for name, one in networks.items()
        if one.asks(made.name) and not one.excuse(case.subject, case.stores)
    )
    if learners:
        why = (
            "no network that learns from the pictures themselves found at least half of what others found in raw "
            f"ones, and what it would find is not known ({', '.join(learners)}: see who was left out; a larger "
            "budget asks them)"
        )
    else:
        why = (
            "nobody here learns from the pictures themselves to answer it, and features are of the middle of a "
            "picture: what else is there is not known"
        )
    return replace(made, verdict="NOT MEASURABLE", reason=f"{made.reason}; but {why}")


def unanswered(case: Case, questions: Sequence[Question], left_out: Sequence[LeftOut]) -> list[Question]:
    """Questions that nobody who took part could answer; of attackers, also those that nobody was let ask."""
    answered = {one.name for one in questions}
    reasons = {one.name: f"{one.name}: {one.reason}" for one in left_out}
    found: dict[str, Question] = {}
    for one in (*case.settings.participants, *_not_invited(case)):
        if not one.judged or one.question in answered:
            continue
        cannot = one.excuse(case.subject, case.stores)
        why = cannot or reasons.get(one.name, "nobody answered it")
        known = found.get(one.question)
        # that it could have been asked counts for more than that one participant could not
        if known is None or (not known.possible and not cannot):
            found[one.question] = Question(one.question, one.role, "", (), reason=why, possible=not cannot)
    return list(found.values())
