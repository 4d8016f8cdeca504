"""XD-Violence: labels are part of the file names, test spans in `annotations.txt`."""

from __future__ import annotations

from pathlib import Path

from videoveil.data.records import FrameSpan, Item
from videoveil.data.twins.kinetics400 import youtube_id
from videoveil.data.twins.plan import Reel, Scale, Twin, text
from videoveil.data.twins.watched import incident_for, watched_play

CODES = {"fight": "B1", "run": "B4", "fall": "B5", "wrong_way": "B6", "abandoned_object": "G"}


def plan(seed: int, scale: Scale) -> Twin:
    rows, multi, reels, truth = [], [], [], []
    for split in ("train", "test"):
        for k in range(2 * scale.untrimmed):
            play = watched_play("xd-violence", seed, scale, split, k)
            incident = incident_for(k)
            code = CODES[incident] if incident else "A"
            stem = f"v={youtube_id(seed, 'xd', split, k)}__#{k}_label_{code}" + ("-0-0" if incident else "")
            path = f"{split}/{stem}.mp4"
            spans = tuple(FrameSpan(i.first, i.stop, code) for i in play.incidents) if split == "test" else ()
            if spans:
                rows.append(f"{stem} " + " ".join(f"{s.first} {s.stop}" for s in spans))
                multi.append(f"{stem} " + " ".join(f"{code} {s.first} {s.stop}" for s in spans))
            reels.append(Reel(path, play))
            truth.append(
                Item(
                    id=stem,
                    path=Path(path),
                    split=split,
                    anomaly=incident is not None,
                    anomaly_class=code,
                    anomaly_spans=spans,
                )
            )
    found = {"annotations.txt": text(rows), "annotations_multiclasses.txt": text(multi)}
    return Twin("xd-violence", tuple(reels), files=found, truth=tuple(truth))
