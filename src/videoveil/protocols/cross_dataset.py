"""Trained on UCF101; actions of UCF101 by fresh networks, private attributes of VISPR1 by fresh attackers."""

from __future__ import annotations

from videoveil.protocols.base import Evaluation
from videoveil.protocols.columns import on_pictures

PROTOCOLS = (
    Evaluation(
        "cross-dataset",
        "Known actions and attributes across datasets: UCF101 and VISPR1",
        (
            on_pictures("spact/T3", size=112),
            on_pictures("spact/T4", size=112),
            on_pictures("spact/T5", size=112),
            on_pictures("spact/T7", size=112),
            on_pictures("penalty/T1", size=224, only=("UCF101", "VISPR1")),
            on_pictures("penalty/S2", size=112),
            on_pictures("penalty/S4", size=112),
            on_pictures("penalty/S5", size=112),
        ),
        looks="pixels",
        baselines=("Raw", "Down-2x", "Down-4x"),
        trained_on=("ucf101",),
    ),
)
