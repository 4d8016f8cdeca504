"""What participants need of the data: each function says why somebody cannot take part, and nothing where they can."""

from __future__ import annotations

from collections import Counter

from videoveil.attacks.gait import GALLERY, PROBE
from videoveil.audit.subject import Subject

LEAST_PEOPLE = 8
LEAST_KIND = 2  # normal and anomalous training videos


def nothing(subject: Subject) -> str:
    return ""


def attributes(subject: Subject) -> str:
    for split in (subject.train, subject.test):
        if not any(subject.known(item) for item in subject.items(split)):
            return f"nothing is known about the people in split {split!r}: no attributes"
    return ""


def people(subject: Subject) -> str:
    learnt = {item.subject for item in subject.items(subject.train) if item.subject}
    asked = Counter(item.subject for item in subject.items(subject.test) if item.subject)
    if len(learnt) < LEAST_PEOPLE:
        return f"{len(learnt)} people are named in the training videos; at least {LEAST_PEOPLE} are needed"
    several = {name for name, videos in asked.items() if videos > 1}
    if len(several) < 2:
        return "the test videos do not name people who are in several of them"
    elsewhere = {
        item.subject for item in subject.dataset.items if item.subject and item.split != subject.train
    }
    # where nobody elsewhere is a stranger, half of the people are learnt from and the others are looked for
    if elsewhere - learnt and several <= learnt:
        return (
            "everybody who is in several test videos is in training videos too, where people are learnt from"
        )
    return ""


def gait(subject: Subject) -> str:
    there = subject.dataset.counts()
    if GALLERY not in there or PROBE not in there:
        return "needs people by name in the splits gallery and probe"
    people = {item.subject for item in subject.items(GALLERY)}
    return "" if len(people) >= 8 else f"{len(people)} people; at least 8 are needed"


def actions(subject: Subject) -> str:
    for split in (subject.train, subject.test):
        if not any(item.action for item in subject.items(split)):
            return f"no item of split {split!r} has an action label"
    for split, word in ((subject.train, "training"), (subject.test, "test")):
        kinds = {item.action for item in subject.items(split) if item.action}
        if len(kinds) == 1:
            return f"all {word} videos with an action label are of one class ({next(iter(kinds))})"
    return ""


def anomalies(subject: Subject) -> str:
    for split, least in ((subject.train, LEAST_KIND), (subject.test, 1)):
        kinds = Counter(item.anomaly for item in subject.items(split))
        if not kinds[True] and not kinds[False]:
            return f"no item of split {split!r} says whether something unusual happens in it"
        if kinds[None]:
            return (
                f"{kinds[None]} items of split {split!r} do not say whether something unusual happens in them"
            )
        for kind, word in ((True, "anomalous"), (False, "normal")):
            if kinds[kind] < least:
                return f"{kinds[kind]} {word} videos in split {split!r}; at least {least} are needed"
    silent = [item for item in subject.items(subject.test) if item.anomaly and not item.anomaly_spans]
    return f"{len(silent)} anomalous test videos do not say which of their frames are" if silent else ""


def segments(subject: Subject) -> str:
    for split in (subject.train, subject.test):
        if not any(item.segments for item in subject.items(split)):
            return f"no item of split {split!r} says from when to when an action lasts"
        parts = [item for item in subject.items(split) if item.clip is not None]
        if parts:
            return f"{len(parts)} items of split {split!r} are parts of longer files; detection needs whole videos"
    return "" if subject.dataset.classes else "the dataset does not list its classes"
