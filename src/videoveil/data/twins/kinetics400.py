"""Kinetics-400: 16 class names, official CSV files, one folder per split and class."""

from __future__ import annotations

from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.chance import generator
from videoveil.data.twins.plan import Reel, Scale, Twin, text
from videoveil.data.twins.trimmed import action_play

CLASSES = {
    "stand": "tai chi",
    "walk": "walking the dog",
    "run": "jogging",
    "retreat": "jumpstyle dancing",
    "march": "marching",
    "sprint_in_place": "skipping rope",
    "stir": "making tea",
    "unwind": "swimming backstroke",
    "wave": "cheerleading",
    "shake": "air drumming",
    "squat": "squat",
    "rise": "lunge",
    "bounce": "bouncing on trampoline",
    "row": "exercising arm",
    "back_row": "canoeing or kayaking",
    "dance": "salsa dancing",
}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def youtube_id(seed: int, *key: str | int) -> str:
    """Eleven characters, as the site makes them."""
    return "".join(ALPHABET[i] for i in generator("youtube", seed, *key).integers(len(ALPHABET), size=11))


def plan(seed: int, scale: Scale) -> Twin:
    rows: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    reels, truth = [], []
    for action, label in sorted(CLASSES.items(), key=lambda pair: pair[1]):
        for k in range(scale.per_class):
            split = ("train", "val", "test")[k % 3] if k % 5 < 3 else "train"
            name, start = youtube_id(seed, label, k), int(generator("start", seed, label, k).integers(0, 90))
            rows[split].append(
                f"{label},{name},{start},{start + 10},{'validate' if split == 'val' else split}"
            )
            path = f"{split}/{label}/{name}_{start:06d}_{start + 10:06d}.mp4"
            reels.append(Reel(path, action_play("kinetics400", seed, scale, action, label, k)))
            truth.append(
                Item(id=f"{name}_{start:06d}_{start + 10:06d}", path=Path(path), split=split, action=label)
            )
    header = "label,youtube_id,time_start,time_end,split"
    lists = {f"annotations/{split}.csv": text([header, *lines]) for split, lines in rows.items()}
    return Twin("kinetics400", tuple(reels), files=lists, truth=tuple(truth))
