"""Attackers that learnt from raw pictures and stay as they are; and the practical protocol, with a fine-tuned f'_T.

Such an attacker can be blinded by any change it has not seen. What it says is no measure of what is left: read it
beside an attacker that learns from anonymized pictures (cross-dataset).
"""

from __future__ import annotations

from videoveil.protocols.base import Evaluation
from videoveil.protocols.columns import on_pictures

BASELINES = ("Raw", "Down-2x", "Down-4x")
PROTOCOLS = (
    Evaluation(
        "raw-pretrained",
        "Frozen attackers that learnt from raw pictures",
        (
            on_pictures("spact/T2", size=112, frozen=True),
            on_pictures("penalty/S3", size=112, frozen=True),
        ),
        looks="pixels",
        baselines=BASELINES,
        trained_on=("ucf101",),
    ),
    Evaluation(
        "practical",
        "A pretrained action network is fine-tuned, attackers are frozen",
        (on_pictures("spact/T6", size=112, frozen=True),),
        looks="pixels",
        baselines=BASELINES,
        trained_on=("ucf101",),
    ),
)
