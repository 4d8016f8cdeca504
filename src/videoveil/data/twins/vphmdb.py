"""VPHMDB: the HMDB51 twin with five private attributes per video."""

from __future__ import annotations

from dataclasses import replace

from videoveil.data.twins import hmdb51
from videoveil.data.twins.plan import Scale, Twin
from videoveil.data.twins.video_privacy import label_pickle, video_labels


def plan(seed: int, scale: Scale) -> Twin:
    base = hmdb51.plan(seed, scale)
    labels = {f"{v.label}/{v.stem}": video_labels(v.play) for v in hmdb51.shots(seed, scale)}
    found = dict(base.files)
    found["hmdb51_privacy_attribute_label.pickle"] = label_pickle({f"{k}.mp4": v for k, v in labels.items()})
    truth = tuple(replace(item, attributes=labels[item.id]) for item in base.truth)
    return Twin("vphmdb", base.reels, files=found, truth=truth)
