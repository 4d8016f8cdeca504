"""THUMOS14: untrimmed videos with several instances of actions, annotated in the usual JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from videoveil.data.records import Item, Segment
from videoveil.data.theatre.playwright import untrimmed
from videoveil.data.twins.plan import HEIGHT, RATE, WIDTH, Reel, Scale, Twin, person_for

CLASSES = {
    "walk": "CricketBowling",
    "run": "LongJump",
    "retreat": "JavelinThrow",
    "march": "PoleVault",
    "stir": "Billiards",
    "unwind": "BaseballPitch",
    "wave": "VolleyballSpiking",
    "shake": "TennisSwing",
    "squat": "CleanAndJerk",
    "bounce": "HighJump",
    "row": "HammerThrow",
    "dance": "BasketballDunk",
}
PARTS = {"train": ("Validation", "validation"), "test": ("Test", "test")}


def plan(seed: int, scale: Scale) -> Twin:
    labels = sorted(CLASSES.values())
    database: dict[str, Any] = {}
    reels, truth = [], []
    for split, (subset, word) in PARTS.items():
        for k in range(scale.untrimmed):
            play = untrimmed(
                "thumos14",
                seed,
                split,
                k,
                actions=tuple(CLASSES),
                person=person_for(seed, "thumos14", split, k),
                width=WIDTH,
                height=HEIGHT,
                rate=RATE,
                frames=scale.long_frames,
                population=seed,
            )
            name = f"video_{word}_{51 + 3 * k:07d}"
            segments = tuple(Segment(CLASSES[s.label], s.start, s.end) for s in play.segments())
            database[name] = {
                "subset": subset,
                "duration": float(play.frames / play.rate),
                "fps": float(play.rate),
                "annotations": [
                    {
                        "label": s.label,
                        "segment": [float(s.start), float(s.end)],
                        "segment(frames)": [float(s.start * RATE), float(s.end * RATE)],
                        "label_id": labels.index(s.label),
                    }
                    for s in segments
                ],
            }
            path = f"videos/{name}.mp4"
            reels.append(Reel(path, play))
            truth.append(
                Item(
                    id=name,
                    path=Path(path),
                    split=split,
                    segments=segments,
                    duration=play.frames / play.rate,
                    rate=play.rate,
                )
            )
    note = json.dumps({"version": "Thumos14-30fps", "database": database}, indent=4).encode()
    return Twin("thumos14", tuple(reels), files={"thumos14.json": note}, truth=tuple(truth))
