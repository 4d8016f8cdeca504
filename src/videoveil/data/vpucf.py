"""VPUCF: UCF101 with five private attributes per video.

ROOT as for UCF101, and ROOT/ucf101_privacy_attribute_label.pickle:
    "<Class>/<stem>.mp4" → int64 array of shape (1, 5): skin colour, face, gender, nudity, relationship
    (or ….csv with the columns File Path, Array Values)
"""

from __future__ import annotations

from pathlib import Path

from videoveil.data import ucf101
from videoveil.data.records import Dataset
from videoveil.data.video_privacy import attach

CLASSES = ucf101.CLASSES
VARIANTS = ucf101.VARIANTS
OFFICIAL = ucf101.OFFICIAL


def load(
    root: str | Path, *, split: int = 1, annotations_only: bool = False, skip_bad: bool = False
) -> Dataset:
    base = ucf101.load(root, split=split, annotations_only=annotations_only, skip_bad=skip_bad)
    return attach(base, "vpucf", "ucf101_privacy_attribute_label")
