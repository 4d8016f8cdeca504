"""SPLAVU's suite: attributes of VISPR, actions, detection on THUMOS14, anomalies of UCF-Crime; and its ablations."""

from __future__ import annotations

from videoveil.protocols.base import Evaluation
from videoveil.protocols.columns import on_features, strongest

ENCODERS = {
    "I3D": "i3d.inception",
    "VideoMAE-B": "videomae.b",
    "V-JEPA-H": "vjepa2.h",
    "VideoMAEv2-G": "videomaev2.g",
}  # InternVideo-H has no open counterpart here: its rows stay empty

PROTOCOLS = (
    Evaluation(
        "five-tasks",
        "Five tasks on features",
        (on_features("splavu/T1", blocks=ENCODERS, extra=strongest()),),
        trained_on=("kinetics400",),
        baselines=("Raw", "Down-2x", "Down-4x"),
    ),
    Evaluation(
        "five-tasks-ablations",
        "The ablations of the five tasks: training data, tasks, losses, adapter, weights, encoders",
        (
            *(on_features(f"splavu/{name}") for name in ("T3", "T4", "T5", "T8", "T9", "T10")),
            on_features("splavu/T12", blocks=ENCODERS),
            on_features("splavu/T14", leave=("minutes",)),
        ),
        baselines=("Raw",),
    ),
)
