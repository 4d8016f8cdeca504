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
    """A PASS with those beside it who learn from what is published, could have asked the same, and took no part.

    Which attacker finds most is known only of those that were asked: a drawing of the raw pictures, or a network that
    goes on from raw ones, may find what frames as published do not tell.
    """
    if made.role != "attack" or made.verdict != "PASS" or not made.judged:
        return made
    away = {one.name for one in left_out}
    strong = sorted(
        name
        for name, one in _learners(case).items()
        if name in away and one.asks(made.name) and not one.excuse(case.subject, case.stores)
    )
    if not strong:
        return made
    return replace(
        made,
        reason=f"{made.reason}; this is without {', '.join(strong)}, which took no part and may find more",
    )


def _learners(case: Case) -> dict[str, Participant]:
    """Those whose failure would mean something: who learnt from what is published, by themselves.

    Of pictures these are networks that look at the pictures; of features whoever did not learn from raw ones alone, for
    any change of the features, one that can be undone too, blinds him.
    """
    known = {one.name: one for one in (*registry.PARTICIPANTS, *case.settings.participants)}
    if case.subject.anonymized.clips is None:
        return {name: one for name, one in known.items() if one.adapts}
    return {name: one for name, one in known.items() if one.learns}


def doubted(case: Case, made: Question) -> Question:
    """A question that passes, but not on the word of frozen features or of what raw videos taught alone.

    Nor because nobody else was asked: `--only` chooses who takes part, not what would have to be known. Somebody who
    hardly finds anything in raw videos is no witness either, where others find much in them; so it is with every single
    attribute.
    """
    if made.role != "attack" or made.verdict != "PASS":
        return made
    known = (*registry.PARTICIPANTS, *case.settings.participants)
    if not any(one.reads == "features" for one in known if one.question == made.name):
        return made
    learners = _learners(case)
    names = set(learners)
    unseen = [one.name for one in made.parts if not scoring.among(one.witnesses, names)]
    if scoring.witnesses(made, names) and not unseen:
        return made
    able = sorted(
        name
        for name, one in learners.items()
        if one.asks(made.name) and not one.excuse(case.subject, case.stores)
    )
    where = f" of {', '.join(unseen)}" if scoring.witnesses(made, names) else ""
    pictures = case.subject.anonymized.clips is not None
    if able:
        who = (
            "no network that learns from the pictures themselves"
            if pictures
            else "nobody who learns from anonymized features"
        )
        why = (
            f"{who} found{where} at least half of what others found in raw ones, and what it would find is not known "
            f"({', '.join(able)}: see who was left out; a larger budget asks them)"
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
