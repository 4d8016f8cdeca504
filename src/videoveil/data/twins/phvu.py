"""P-HVU: actions, objects and scenes as tags in HVU's CSV files; videos that lack a kind of tag are to be left out."""

from __future__ import annotations

from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.play import Play
from videoveil.data.theatre.playwright import ACTION_NAMES, OBJECT_NAMES, SCENE_NAMES
from videoveil.data.twins.kinetics400 import youtube_id
from videoveil.data.twins.plan import Reel, Scale, Twin, text
from videoveil.data.twins.trimmed import action_play

SPLITS = {"train": "HVU_Train_V1.0.csv", "test": "HVU_Val_V1.0.csv"}


def tags(play: Play) -> dict[str, list[str]]:
    """What the theatre would tag, by category."""
    return {
        "action": [play.roles[0].movements[0].action],
        "object": sorted({prop.name for prop in play.scene.props}),
        "scene": [play.scene.name],
    }


def plan(seed: int, scale: Scale) -> Twin:
    rows: dict[str, list[str]] = {split: [] for split in SPLITS}
    chosen: list[tuple[str, str, Play, dict[str, list[str]]]] = []
    for action in ACTION_NAMES:
        for k in range(scale.per_class):
            split = "test" if k % 3 == 0 else "train"
            play = action_play("phvu", seed, scale, action, action, k)
            name, start = youtube_id(seed, "hvu", action, k), (7 * k) % 50
            labels = tags(play)
            if k % 7 == 6:
                labels["scene"] = []  # not in P-HVU: one kind of tag is missing
            row = "|".join(sorted(label for group in labels.values() for label in group))
            rows[split].append(f"{row},{name},{float(start)},{float(start + 10)}")
            stem = f"{name}_{start:06d}_{start + 10:06d}"
            chosen.append((split, stem, play, labels))
    categories = [
        *(f"{name},action" for name in ACTION_NAMES),
        *(f"{name},object" for name in OBJECT_NAMES),
        *(f"{name},scene" for name in SCENE_NAMES),
    ]
    lists = {
        file: text(["Tags,youtube_id,time_start,time_end", *rows[split]]) for split, file in SPLITS.items()
    }
    lists["HVU_Tags_Categories_V1.0.csv"] = text(["Tag,Category", *categories])
    reels = tuple(Reel(f"videos/{stem}.mp4", play) for _, stem, play, _ in chosen)
    return Twin("phvu", reels, files=lists, truth=_truth(chosen))


def _truth(chosen: list[tuple[str, str, Play, dict[str, list[str]]]]) -> tuple[Item, ...]:
    """Videos with a tag of every kind; training tags only where the class occurs in the test set."""
    whole = [entry for entry in chosen if all(entry[3].values())]
    tested = {
        kind: {t for s, _, _, tags in whole if s == "test" for t in tags[kind]}
        for kind in ("action", "object", "scene")
    }
    return tuple(
        Item(
            id=stem,
            path=Path(f"videos/{stem}.mp4"),
            split=split,
            actions=tuple(t for t in labels["action"] if t in tested["action"]),
            objects=tuple(t for t in labels["object"] if t in tested["object"]),
            scenes=tuple(t for t in labels["scene"] if t in tested["scene"]),
        )
        for split, stem, _, labels in whole
    )
