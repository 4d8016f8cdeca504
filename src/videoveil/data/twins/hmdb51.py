"""HMDB51: 16 of its 51 classes; file names keep the original's habits, odd characters included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.play import Play
from videoveil.data.twins.film import AVI
from videoveil.data.twins.plan import Reel, Scale, Twin, text
from videoveil.data.twins.trimmed import action_play

CLASSES = {
    "stand": "stand",
    "walk": "walk",
    "run": "run",
    "retreat": "turn",
    "march": "climb_stairs",
    "sprint_in_place": "climb",
    "stir": "pour",
    "unwind": "swing_baseball",
    "wave": "wave",
    "shake": "shake_hands",
    "squat": "sit",
    "rise": "situp",
    "bounce": "jump",
    "row": "draw_sword",
    "back_row": "sword",
    "dance": "dribble",
}
MOVIES = (
    "#20_Theatre",
    "Stage(HQ)",
    "A_Play_in_One_Act",
    "Matinee!",
    "Dress_Rehearsal_[2]",
    "Encore+1;x~y@z&",
)
FLAGS = {"train": 1, "test": 2, "unused": 0}


@dataclass(frozen=True, slots=True)
class Shot:
    """One video of a class."""

    label: str
    stem: str
    number: int
    play: Play


def shots(seed: int, scale: Scale, *, turns: int = 1) -> list[Shot]:
    found = []
    for action, label in sorted(CLASSES.items(), key=lambda pair: pair[1]):
        for k in range(scale.per_class):
            play = action_play("hmdb51", seed, scale, action, label, k, turns=turns)
            stem = f"{MOVIES[k % len(MOVIES)]}_{label}_f_cm_np{len(play.roles)}_fr_med_{k}"
            found.append(Shot(label, stem, k, play))
    return found


def part(number: int, split: int) -> str:
    """Train, test or unused in one of the three splits: about 60, 30 and 10 %."""
    if number % 10 == 9:
        return "unused"
    return "test" if number % 3 == split - 1 else "train"


def split_files(videos: list[Shot]) -> dict[str, bytes]:
    """`<class>_test_split{1,2,3}.txt`, lines `<file>.avi <flag> ` with the original's trailing blank."""
    found = {}
    for label in sorted({v.label for v in videos}):
        mine = [v for v in videos if v.label == label]
        for split in (1, 2, 3):
            lines = [f"{v.stem}.avi {FLAGS[part(v.number, split)]} " for v in mine]
            found[f"testTrainMulti_7030_splits/{label}_test_split{split}.txt"] = text(lines)
    return found


def reels(videos: list[Shot]) -> tuple[Reel, ...]:
    return tuple(Reel(f"hmdb51_org/{v.label}/{v.stem}.avi", v.play, AVI) for v in videos)


def item(video: Shot, split: str) -> Item:
    return Item(
        id=f"{video.label}/{video.stem}",
        path=Path(f"hmdb51_org/{video.label}/{video.stem}.avi"),
        split=split,
        action=video.label,
    )


def plan(seed: int, scale: Scale) -> Twin:
    videos = shots(seed, scale)
    truth = tuple(item(v, part(v.number, 1)) for v in videos)
    return Twin("hmdb51", reels(videos), files=split_files(videos), truth=truth)
