"""PA-HMDB51: the HMDB51 twin with per-frame private attributes for a third of its videos."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from videoveil.data.theatre.play import Play, attribute_spans
from videoveil.data.twins import hmdb51
from videoveil.data.twins.plan import Scale, Twin

ATTRIBUTES = ("skin_color", "face", "gender", "nudity", "relationship")


def annotated(number: int) -> bool:
    """Every third video carries attributes."""
    return number % 3 == 1


def plan(seed: int, scale: Scale) -> Twin:
    videos = hmdb51.shots(seed, scale, turns=3)
    found = hmdb51.split_files(videos)
    truth = []
    for label in sorted({v.label for v in videos}):
        mine = [v for v in videos if v.label == label and annotated(v.number)]
        entries = {f"{v.stem}.avi": attributes_json(v.play) for v in mine}
        found[f"PrivacyAttributes/{label}.json"] = json.dumps(entries, indent=4).encode()
    for v in videos:
        item = hmdb51.item(v, "test" if annotated(v.number) else "train")
        truth.append(replace(item, attribute_spans=attribute_spans(v.play)) if annotated(v.number) else item)
    return Twin("pa-hmdb51", hmdb51.reels(videos), files=found, truth=tuple(truth))


def attributes_json(play: Play) -> dict[str, Any]:
    """The file's grammar: per attribute `[first, last inclusive, value or list of values]`, neighbours merged."""
    out: dict[str, Any] = {name: [] for name in ATTRIBUTES}
    for span in attribute_spans(play):
        for name in ATTRIBUTES:
            value = span.values[name]
            plain: int | list[int] = value[0] if len(value) == 1 else list(value)
            rows = out[name]
            if rows and rows[-1][2] == plain and rows[-1][1] == span.first - 1:
                rows[-1][1] = span.stop - 1
            else:
                rows.append([span.first, span.stop - 1, plain])
    return out | {"review": True, "note": ""}
