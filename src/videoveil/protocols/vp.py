"""VPHMDB and VPUCF: actions and five private attributes of the same videos; and from VPHMDB to VPUCF."""

from __future__ import annotations

from videoveil.protocols.base import Evaluation
from videoveil.protocols.columns import on_pictures

PROTOCOLS = (
    Evaluation(
        "vp",
        "Actions and attributes of the same videos: VPHMDB",
        (on_pictures("penalty/T1", size=224, only=("VPHMDB",)),),
        looks="pixels",
        baselines=("Raw", "Down-2x", "Down-4x"),
        trained_on=("vphmdb", "hmdb51"),
    ),
    Evaluation(
        "vp-novel",
        "From VPHMDB to VPUCF",
        (on_pictures("penalty/T2", size=224, only=("VPHMDB→",)),),
        looks="pixels",
        baselines=("Raw",),
        trained_on=("vphmdb", "hmdb51"),
    ),
)
