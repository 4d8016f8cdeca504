"""What features still tell: private attributes of VISPR from f_T(f_A(x)) by TeD-SPAD's five-layer network."""

from __future__ import annotations

from videoveil.protocols.base import Evaluation
from videoveil.protocols.columns import on_features, strongest

PROTOCOLS = (
    Evaluation(
        "feature-leakage",
        "Private attributes from features",
        (on_features("ted_spad/T1", extra=strongest("mlp5")),),
        learned_encoder=True,
        trained_on=("ucf101",),
    ),
)
