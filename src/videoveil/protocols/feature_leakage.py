"""What features still tell: private attributes of VISPR from f_T(f_A(x)) by TeD-SPAD's five-layer network.

Pictures are cut as in its tests, four fifths of each side.
"""

from __future__ import annotations

from videoveil.protocols.base import Evaluation
from videoveil.protocols.columns import on_features, strongest
from videoveil.protocols.measures import PixelAttributes

PROTOCOLS = (
    Evaluation(
        "feature-leakage",
        "Private attributes from features",
        (on_features("ted_spad/T1", attributes=PixelAttributes, extra=strongest("mlp5", PixelAttributes)),),
        learned_encoder=True,
        trained_on=("ucf101",),
    ),
)
