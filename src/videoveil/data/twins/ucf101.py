"""UCF101: 16 of its 101 class names, each standing for one action of the theatre."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.play import Play
from videoveil.data.twins.film import AVI
from videoveil.data.twins.plan import Reel, Scale, Twin, text
from videoveil.data.twins.trimmed import action_play

CLASSES = {
    "stand": "TaiChi",
    "walk": "WalkingWithDog",
    "run": "LongJump",
    "retreat": "HandstandPushups",
    "march": "BandMarching",
    "sprint_in_place": "JumpRope",
    "stir": "Mixing",
    "unwind": "FrontCrawl",
    "wave": "JumpingJack",
    "shake": "Nunchucks",
    "squat": "BodyWeightSquats",
    "rise": "Lunges",
    "bounce": "TrampolineJumping",
    "row": "Rowing",
    "back_row": "Kayaking",
    "dance": "SalsaSpin",
}
FILE_NAMES = {"HandstandPushups": "HandStandPushups"}  # the one class whose files are spelt differently
TEST_GROUPS = {1: range(1, 8), 2: range(8, 15), 3: range(15, 22)}


@dataclass(frozen=True, slots=True)
class Shot:
    """One video: class, file stem and group (people and place shared inside a group)."""

    label: str
    stem: str
    group: int
    play: Play


def shots(seed: int, scale: Scale) -> list[Shot]:
    """All videos. Groups are spread over 1…25 so that every official split has both parts."""
    found = []
    for action, label in sorted(CLASSES.items(), key=lambda pair: pair[1]):
        for k in range(scale.per_class):
            group, number = 1 + (7 * k) % 25, 1 + k // 25
            stem = f"v_{FILE_NAMES.get(label, label)}_g{group:02d}_c{number:02d}"
            found.append(Shot(label, stem, group, action_play("ucf101", seed, scale, action, label, k)))
    return found


def plan(seed: int, scale: Scale) -> Twin:
    videos = shots(seed, scale)
    labels = sorted(CLASSES.values())
    lists = {
        "ucfTrainTestlist/classInd.txt": text([f"{i} {name}" for i, name in enumerate(labels, 1)], "\r\n")
    }
    for split, groups in TEST_GROUPS.items():
        train = [
            f"{v.label}/{v.stem}.avi {labels.index(v.label) + 1}" for v in videos if v.group not in groups
        ]
        test = [f"{v.label}/{v.stem}.avi" for v in videos if v.group in groups]
        lists[f"ucfTrainTestlist/trainlist0{split}.txt"] = text(train, "\r\n")
        lists[f"ucfTrainTestlist/testlist0{split}.txt"] = text(test, "\r\n")
    truth = tuple(
        Item(
            id=f"{v.label}/{v.stem}",
            path=Path(f"UCF-101/{v.label}/{v.stem}.avi"),
            split="test" if v.group in TEST_GROUPS[1] else "train",
            action=v.label,
        )
        for v in videos
    )
    reels = tuple(Reel(f"UCF-101/{v.label}/{v.stem}.avi", v.play, AVI) for v in videos)
    return Twin("ucf101", reels, files=lists, truth=truth)
