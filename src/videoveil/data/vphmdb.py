"""VPHMDB: HMDB51 with five private attributes per video.

ROOT as for HMDB51, and ROOT/hmdb51_privacy_attribute_label.pickle (or .csv), as for VPUCF
"""

from __future__ import annotations

from pathlib import Path

from videoveil.data import hmdb51
from videoveil.data.records import Dataset
from videoveil.data.video_privacy import attach

CLASSES = hmdb51.CLASSES
VARIANTS = hmdb51.VARIANTS
OFFICIAL = hmdb51.OFFICIAL


def load(
    root: str | Path, *, split: int = 1, annotations_only: bool = False, skip_bad: bool = False
) -> Dataset:
    base = hmdb51.load(root, split=split, annotations_only=annotations_only, skip_bad=skip_bad)
    return attach(base, "vphmdb", "hmdb51_privacy_attribute_label")
