"""ShanghaiTech Campus, weakly supervised split: names tell normal (three digits) from anomalous (four digits)."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from videoveil.data.records import FrameSpan, Item
from videoveil.data.theatre.play import Play
from videoveil.data.twins.film import AVI
from videoveil.data.twins.plan import Reel, Scale, Twin, text
from videoveil.data.twins.watched import incident_for, watched_play


def frame_mask(play: Play) -> np.ndarray:
    """1 for every abnormal frame."""
    mask = np.zeros(play.frames, dtype=np.uint8)
    for incident in play.incidents:
        mask[incident.first : incident.stop] = 1
    return mask


def plan(seed: int, scale: Scale) -> Twin:
    lists: dict[str, list[str]] = {"train": [], "test": []}
    found: dict[str, bytes] = {}
    reels, truth = [], []
    for split in ("train", "test"):
        for k in range(2 * scale.untrimmed):
            play = watched_play("shanghaitech", seed, scale, split, k)
            number = k + (0 if split == "train" else 100)
            abnormal = incident_for(k) is not None
            name = f"01_{number:04d}" if abnormal else f"01_{number:03d}"
            lists[split].append(name)
            if abnormal:
                buffer = io.BytesIO()
                np.save(buffer, frame_mask(play))
                found[f"test_frame_mask/{name}.npy"] = buffer.getvalue()
            path = f"videos/{name}.avi"
            reels.append(Reel(path, play, AVI))
            spans = tuple(FrameSpan(i.first, i.stop, "") for i in play.incidents)
            truth.append(Item(id=name, path=Path(path), split=split, anomaly=abnormal, anomaly_spans=spans))
    found |= {"SH_Train.txt": text(lists["train"]), "SH_Test.txt": text(lists["test"])}
    return Twin("shanghaitech", tuple(reels), files=found, truth=tuple(truth))
