"""Novel actions and attributes: trained on UCF101 and VISPR1, asked about HMDB51, PA-HMDB51 and VISPR2."""

from __future__ import annotations

from videoveil.protocols.base import Evaluation
from videoveil.protocols.columns import on_pictures

PROTOCOLS = (
    Evaluation(
        "novel",
        "Novel actions and attributes: UCF101 → HMDB51 and PA-HMDB51, VISPR1 → VISPR2",
        (on_pictures("penalty/T2", size=224, only=("UCF101→", "VISPR1→")),),
        looks="pixels",
        baselines=("Raw",),
        trained_on=("ucf101",),
        note="The anonymizer never saw a label of the target; the networks that measure are trained on it.",
    ),
)
