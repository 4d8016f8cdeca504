"""What the data allow to be asked, before anything is trained: a number that means nothing is not computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from videoveil.attacks.attributes import Labels
from videoveil.attacks.gait import GALLERY, PROBE
from videoveil.audit.pairs import require_apart
from videoveil.audit.subject import Subject
from videoveil.data.owners import people
from videoveil.data.records import Item
from videoveil.errors import AnnotationError, BadItems

LEAST_EACH = 4  # items with an attribute, and without, in either split
FEW_PEOPLE = 10  # of test videos, from which on an interval over people means something


def prepared(subject: Subject, least_items: int) -> tuple[Subject, tuple[str, ...]]:
    """The subject with the attributes that can be asked for, and why others cannot.

    Data that can be asked nothing at all are an error that says what is missing.
    """
    _require_splits(subject)
    require_apart(subject)
    names = sorted({name for item in subject.dataset.items for name in subject.labels(item) or {}})
    reasons = [f"{name}: {why}" for name in names if (why := _why_not(subject, name))]
    kept = frozenset(name for name in names if not _why_not(subject, name))
    items = subject.dataset.items
    actions = {item.action for item in items if item.action}
    timed = any(item.anomaly is not None or item.segments for item in items)
    if not names and not actions and not timed and not any(item.subject for item in items):
        raise AnnotationError(
            f"{subject.title}: no item has attributes, an action, an anomaly or a person's name, so nothing can be "
            "attacked or recognised; give labels (a CSV file with path,label,subject,attr:NAME columns)"
        )
    if not names:
        reasons.append("no item has private attributes: attackers cannot be asked for any")
    if len(actions) < 2 and not timed:
        reasons.append(
            f"all videos are of one action ({next(iter(actions))}): nothing can be recognised"
            if actions
            else "no item has an action label: utility cannot be measured"
        )
    few = len(subject.items(subject.test)) or len(subject.items(PROBE))
    if few < least_items:
        reasons.append(
            f"{few} test items: at least {least_items} are needed for a figure that means something"
        )
    owners = people(items)
    shown = {owners[item.id] for item in subject.items(subject.test) if item.id in owners}
    if owners and len(shown) < FEW_PEOPLE and len(shown) < few:
        reasons.append(
            f"the {few} test videos are of {len(shown)} people or films only: intervals take these, not videos, with "
            f"repeats, and of fewer than {FEW_PEOPLE} they promise too much"
        )
    if kept and (known := _acquainted(subject)):
        reasons.append(known)
    return replace(_needed(subject), labels=_only(subject.labels, kept)), tuple(reasons)


def known_people(subject: Subject) -> tuple[int, int]:
    """How many people (or films) of the test videos are in training videos too, and how many there are in all.

    Walkers of a gallery and probes are in neither: there it is the question who of the known ones it is.
    """
    owners = people(subject.dataset.items)
    learnt, asked = (
        {owners[item.id] for item in subject.items(split) if item.id in owners}
        for split in (subject.train, subject.test)
    )
    return len(asked & learnt), len(asked)


def _acquainted(subject: Subject) -> str:
    """That attackers of attributes know people whom they are asked about; empty where they know nobody.

    Attackers who ask who somebody is are another matter: they never look for people whom they have learnt from.
    """
    known, every = known_people(subject)
    if not known:
        return ""
    return (
        f"{known} of {every} people or films of the test videos are in training videos too: attackers may recognise "
        "them instead of seeing an attribute, so that they find more in raw videos, and less seems to leak, than of "
        "strangers; keep all videos of a person in one split"
    )


def _needed(subject: Subject) -> Subject:
    """Without the items of splits that nobody looks at."""
    splits = {subject.train, subject.test, GALLERY, PROBE}

    raw = subject.raw.dataset.where(lambda item: item.split in splits)
    other = subject.anonymized.dataset
    # one record for both where both have the same files: whoever needs pairs then decodes them once
    veiled = raw if other is subject.raw.dataset else other.where(lambda item: item.split in splits)
    return replace(
        subject,
        raw=replace(subject.raw, dataset=raw),
        anonymized=replace(subject.anonymized, dataset=veiled),
    )


def _require_splits(subject: Subject) -> None:
    there = subject.dataset.counts()
    learnt = {subject.train, subject.test} <= set(there) or {GALLERY, PROBE} <= set(there)
    if not learnt:
        known = ", ".join(f"{name} {count}" for name, count in there.items()) or "none"
        raise BadItems(
            f"{subject.title}: attackers learn on one split and are scored on another; there must be items in "
            f"{subject.train!r} and {subject.test!r}, and there are {known}"
        )


def _why_not(subject: Subject, name: str) -> str:
    """Why an attribute cannot be asked for; empty where it can."""
    for split in (subject.train, subject.test):
        values = _values(subject.items(split), subject.labels, name)
        if not values:
            return f"no item of split {split!r} says it"
        if len(set(values)) == 1:
            return f"all {len(values)} items of split {split!r} have the value {values[0]}"
        fewest = min(values.count(0), values.count(1))
        if fewest < LEAST_EACH:
            return (
                f"{fewest} items of split {split!r} have one of its values; at least {LEAST_EACH} are needed"
            )
    return _too_few_people(subject, name)


def _too_few_people(subject: Subject, name: str) -> str:
    """Why nothing follows from test videos of so few people; empty where there are enough, or nobody is known."""
    owners, people_with = people(subject.dataset.items), {0: set[str](), 1: set[str]()}
    for item in subject.items(subject.test):
        known = subject.labels(item) or {}
        if name in known:
            people_with[known[name]].add(owners.get(item.id, item.id))
    fewest = min(len(people) for people in people_with.values())
    if fewest >= LEAST_EACH:
        return ""
    return (
        f"{fewest} people or films of the test videos have one of its values; at least {LEAST_EACH} are needed, "
        "however many videos there are of each"
    )


def _values(items: Sequence[Item], labels: Labels, name: str) -> list[int]:
    return [known[name] for item in items if name in (known := labels(item) or {})]


def _only(labels: Labels, kept: frozenset[str]) -> Labels:
    def some(item: Item) -> Mapping[str, int] | None:
        found = {name: value for name, value in (labels(item) or {}).items() if name in kept}
        return found or None

    return some
