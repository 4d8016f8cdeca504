"""Toyota Smarthome: older people at home, activities in the file names, natural imbalance kept."""

from __future__ import annotations

import json
from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.cast import Identity, identity
from videoveil.data.toyota_smarthome import TRAIN_SUBJECTS
from videoveil.data.twins.plan import Reel, Scale, Twin
from videoveil.data.twins.trimmed import action_play

CLASSES = {
    "stand": "WatchTV",
    "walk": "Walk",
    "retreat": "Leave",
    "march": "Enter",
    "stir": "Cook.Stir",
    "unwind": "Cook.Cut",
    "wave": "Usetelephone",
    "shake": "Cook.Cleandishes",
    "squat": "Sitdown",
    "rise": "Getup",
    "bounce": "Laydown",
    "row": "Drink.Fromcup",
    "back_row": "Eat.Attable",
    "dance": "Takepills",
}
TEST_SUBJECTS = (2, 10, 11, 14, 16, 18, 20)


def residents(seed: int, count: int) -> dict[int, Identity]:
    """Subject numbers of both parts with older people, about two thirds of them female."""
    old = [p for p in (identity(seed, n) for n in range(1500)) if p.age == "old"]
    chosen: dict[int, Identity] = {}
    for members in (sorted(TRAIN_SUBJECTS), TEST_SUBJECTS):
        for place, number in enumerate(members[: max(3, count // 3)]):
            wanted = "male" if place % 3 == 1 else "female"
            chosen[number] = next(p for p in old if p.gender == wanted and p not in chosen.values())
    return chosen


def plan(seed: int, scale: Scale) -> Twin:
    people = residents(seed, scale.people)
    repeats = 1 if scale.name == "tiny" else 2
    reels, truth = [], []
    for number, person in sorted(people.items()):
        for place, (action, label) in enumerate(CLASSES.items()):
            for repeat in range(repeats if place % 3 else repeats + 1):
                camera = 1 + (number + place) % 7
                stem = f"{label}_p{number:02d}_r{repeat:02d}_v{place:02d}_c{camera:02d}"
                play = action_play(
                    "toyota-smarthome", seed, scale, action, number, label, repeat, person=person
                )
                path = f"mp4/{stem}.mp4"
                reels.append(Reel(path, play))
                truth.append(
                    Item(
                        id=stem,
                        path=Path(path),
                        split="train" if number in TRAIN_SUBJECTS else "test",
                        action=label,
                        subject=f"p{number:02d}",
                        gender=person.gender,
                    )
                )
    table = {f"p{number:02d}": person.gender for number, person in sorted(people.items())}
    found = {"gender.json": json.dumps(table, indent=1).encode()}
    return Twin("toyota-smarthome", tuple(reels), files=found, truth=tuple(truth))
