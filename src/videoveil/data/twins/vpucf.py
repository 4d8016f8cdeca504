"""VPUCF: the UCF101 twin with five private attributes per video."""

from __future__ import annotations

from dataclasses import replace

from videoveil.data.twins import ucf101
from videoveil.data.twins.plan import Scale, Twin
from videoveil.data.twins.video_privacy import label_pickle, video_labels


def plan(seed: int, scale: Scale) -> Twin:
    base = ucf101.plan(seed, scale)
    labels = {f"{v.label}/{v.stem}": video_labels(v.play) for v in ucf101.shots(seed, scale)}
    found = dict(base.files)
    found["ucf101_privacy_attribute_label.pickle"] = label_pickle({f"{k}.mp4": v for k, v in labels.items()})
    truth = tuple(replace(item, attributes=labels[item.id]) for item in base.truth)
    return Twin("vpucf", base.reels, files=found, truth=truth)
