"""UCF-Crime: surveillance with five of its thirteen anomaly classes, official lists and temporal annotation."""

from __future__ import annotations

from pathlib import Path

from videoveil.data.records import FrameSpan, Item
from videoveil.data.twins.plan import Reel, Scale, Twin, text
from videoveil.data.twins.watched import incident_for, watched_play

CLASSES = {
    "fall": "Abuse",
    "fight": "Fighting",
    "run": "Robbery",
    "abandoned_object": "Stealing",
    "wrong_way": "RoadAccidents",
}


def plan(seed: int, scale: Scale) -> Twin:
    lists: dict[str, list[str]] = {"train": [], "test": []}
    rows, reels, truth = [], [], []
    for split in ("train", "test"):
        for k in range(2 * scale.untrimmed):
            play = watched_play("ucf-crime", seed, scale, split, k)
            incident = incident_for(k)
            label = CLASSES[incident] if incident else None
            number = k + 1 if split == "train" else 500 + k
            if label:
                folder, stem = label, f"{label}{number:03d}_x264"
            elif split == "train":
                folder, stem = "Training_Normal_Videos_Anomaly", f"Normal_Videos{number:03d}_x264"
            else:
                folder, stem = "Testing_Normal_Videos_Anomaly", f"Normal_Videos_{number:03d}_x264"
            path = f"{folder}/{stem}.mp4"
            lists[split].append(path)
            # only the test videos have frame-level truth on disk
            spans = (
                tuple(FrameSpan(i.first, i.stop, label or "") for i in play.incidents)
                if split == "test"
                else ()
            )
            if split == "test":
                ends = [str(v) for s in spans for v in (s.first, s.stop - 1)]
                fields = [f"{stem}.mp4", label or "Normal", *ends, *["-1"] * (4 - len(ends))]
                rows.append("  ".join(fields) + "  ")
            reels.append(Reel(path, play))
            truth.append(
                Item(
                    id=f"{folder}/{stem}",
                    path=Path(path),
                    split=split,
                    anomaly=label is not None,
                    anomaly_class=label or "Normal",
                    anomaly_spans=spans,
                )
            )
    found = {
        "Anomaly_Train.txt": text(lists["train"]),
        "Anomaly_Test.txt": text(lists["test"]),
        "Temporal_Anomaly_Annotation.txt": text(rows),
    }
    return Twin("ucf-crime", tuple(reels), files=found, truth=tuple(truth))
