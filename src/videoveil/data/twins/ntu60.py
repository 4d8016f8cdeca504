"""NTU RGB+D 60: performers with a gender table, actions by number; A004 is the one the bias sets turn round."""

from __future__ import annotations

import json
from pathlib import Path

from videoveil.data.ntu60 import TRAIN_SUBJECTS
from videoveil.data.records import Item
from videoveil.data.theatre.cast import Identity, identity
from videoveil.data.theatre.playwright import ACTION_NAMES
from videoveil.data.twins.film import AVI
from videoveil.data.twins.plan import Reel, Scale, Twin
from videoveil.data.twins.trimmed import action_play

NUMBERS = {action: 1 + i for i, action in enumerate(ACTION_NAMES)}  # A001 … A016


def performers(seed: int, count: int) -> dict[int, Identity]:
    """Performer numbers 1…count with people of alternating gender inside either part of the split."""
    pool = {"male": [], "female": []}  # type: dict[str, list[Identity]]
    for number in range(400):
        person = identity(seed, number)
        pool[person.gender].append(person)
    chosen: dict[int, Identity] = {}
    for part in (True, False):
        members = [n for n in range(1, 41) if (n in TRAIN_SUBJECTS) is part][: count // 2]
        for place, number in enumerate(members):
            chosen[number] = pool["male" if place % 2 == 0 else "female"].pop()
    return chosen


def plan(seed: int, scale: Scale) -> Twin:
    people = performers(seed, 2 * max(2, scale.people // 4) * 2)
    repeats = 1 if scale.name == "tiny" else 2
    reels, truth = [], []
    for number, person in sorted(people.items()):
        for action, code in NUMBERS.items():
            for repeat in range(1, repeats + 1):
                stem = f"S001C001P{number:03d}R{repeat:03d}A{code:03d}"
                play = action_play("ntu60", seed, scale, action, number, code, repeat, person=person)
                path = f"nturgb+d_rgb/{stem}_rgb.avi"
                reels.append(Reel(path, play, AVI))
                truth.append(
                    Item(
                        id=stem,
                        path=Path(path),
                        split="train" if number in TRAIN_SUBJECTS else "test",
                        action=f"A{code:03d}",
                        subject=f"P{number:03d}",
                        gender=person.gender,
                    )
                )
    table = {f"P{number:03d}": person.gender for number, person in sorted(people.items())}
    return Twin(
        "ntu60", tuple(reels), files={"gender.json": json.dumps(table, indent=1).encode()}, truth=tuple(truth)
    )
