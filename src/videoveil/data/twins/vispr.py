"""VISPR: photographs with the attributes a viewer could name, one JSON file per picture."""

from __future__ import annotations

import json
from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.play import vispr_labels
from videoveil.data.theatre.playwright import photo
from videoveil.data.twins.plan import HEIGHT, WIDTH, Scale, Still, Twin, text
from videoveil.data.vispr import OFFICIAL, SETS


def plan(seed: int, scale: Scale) -> Twin:
    stills, truth, found = [], [], {}
    for part, (split, official) in enumerate(OFFICIAL[""].items(), 1):
        listed = []
        for k in range(max(6, official * scale.images // 1000)):
            play = photo("vispr", seed, split, k, width=WIDTH, height=HEIGHT, population=seed)
            stem = f"2017_{10_000_000 * part + 37 * k:08d}"
            image, note = f"images/{split}2017/{stem}.jpg", f"annotations/{split}2017/{stem}.json"
            labels = vispr_labels(play)
            names = [name for name, value in labels.items() if value] or ["a0_safe"]
            found[note] = json.dumps({"id": stem, "image_path": image, "labels": names}).encode()
            listed.append(note)
            stills.append(Still(image, play))
            attributes = {name: labels[name] for name in SETS["vispr1"]}
            truth.append(
                Item(
                    id=f"{split}2017/{stem}",
                    path=Path(image),
                    split=split,
                    kind="image",
                    attributes=attributes,
                )
            )
        found[f"{split}2017.txt"] = text(listed)
    return Twin("vispr", stills=tuple(stills), files=found, truth=tuple(truth))
