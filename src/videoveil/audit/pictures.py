"""Frames of test videos for the report: what the anonymizer leaves of them, and raw ones only where asked for."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from videoveil.attacks.reconstruction import ReconstructionAttack
from videoveil.audit.subject import Side, Subject
from videoveil.data.records import Item
from videoveil.media.sampling import equidistant
from videoveil.report.strips import Row, Sheet, sheet
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames

COLUMNS, HEIGHT = 6, 96


def strip(subject: Subject, videos: int, *, raw: bool = False) -> Sheet:
    """One row of frames for every video, over its raw one where that was asked for."""
    sides = (subject.raw, subject.anonymized) if raw else (subject.anonymized,)
    found = []
    for number in range(min(videos, len(subject.items(subject.test)))):
        for side in sides:
            item = sorted(side.dataset.split(subject.test), key=lambda one: one.id)[number]
            found.append(Row(f"{side.which} {number + 1}", shown(side, item)))
    return sheet(found, group=len(sides))


def shown(side: Side, item: Item) -> Tensor:
    """(COLUMNS, HEIGHT, width, 3) uint8 of evenly spaced frames."""
    clips = side.clips
    assert clips is not None
    frames = Frames(paint=clips.paint)
    places = [clip.indices[0] for clip in equidistant(frames.count(item), COLUMNS, 1)]
    pictures = frames.read(item, places).permute(0, 3, 1, 2).float().div(255)  # (COLUMNS, 3, H, W)
    veil = clips.veil()
    if veil is not None:
        pictures = veil(pictures.transpose(0, 1)[None], seed=seeds.number(0, "show", item.id))[0].transpose(
            0, 1
        )
    width = max(1, round(pictures.shape[-1] * HEIGHT / pictures.shape[-2]))
    pictures = functional.interpolate(pictures, (HEIGHT, width), mode="area")
    return pictures.permute(0, 2, 3, 1).clamp(0, 1).mul(255).round().to(torch.uint8)


def reconstructions(
    subject: Subject, model: Path, videos: int, folder: Path, *, raw: bool = False
) -> list[Path]:
    """One picture per video in `folder`: frames as published over what the trained `model` makes of them."""
    published, plain = subject.anonymized.clips, subject.raw.clips
    assert published is not None
    fitted = ReconstructionAttack(labels=subject.labels, raw=plain).load(model)
    test = published.with_split(subject.test)
    found = []
    for number, item in enumerate(sorted(test.items(), key=lambda one: one.id)[:videos], 1):
        path = folder / f"reconstruction-{number}.png"
        fitted.strip(test, item, raw=raw).write(path)
        found.append(path)
    return found
