"""PA-HMDB51: actions of its 515 videos by networks that never saw them, attributes frame by frame by VISPR's attackers.

On pictures (penalty paper) and on features (SPLAVU, single frames as static clips); there also by attackers who learnt
from the other half of its videos.
"""

from __future__ import annotations

from videoveil.protocols.base import Evaluation, Panel, Want
from videoveil.protocols.columns import on_pictures
from videoveil.protocols.measures import ActionProbe, FrameAttributes
from videoveil.protocols.papers import PaperColumn, table
from videoveil.protocols.two_fold import TwoFoldAttributes

BEST = PaperColumn("PA-HMDB51 cMAP, strongest attacker", "cmap", "%", "lower", ("vispr", "pa-hmdb51"))
OTHER_HALF = PaperColumn(
    "PA-HMDB51 cMAP, strongest of those who learnt from its other half", "cmap", "%", "lower", ("pa-hmdb51",)
)

PROTOCOLS = (
    Evaluation(
        "pa-hmdb51",
        "PA-HMDB51 on pictures",
        (on_pictures("penalty/T1", size=224, only=("PA-HMDB51",)),),
        looks="pixels",
        baselines=("Raw", "Down-2x", "Down-4x"),
        trained_on=("hmdb51", "pa-hmdb51"),
        note="The labelled videos are never trained on; published code trains on the 286 of them in split 1.",
    ),
    Evaluation(
        "pa-hmdb51-features",
        "PA-HMDB51 on features",
        (
            Panel(
                table("splavu/T11"),
                {
                    "PA-HMDB51 cMAP": Want(FrameAttributes(), "cmap_mlp2"),
                    "PA-HMDB51 top-1": Want(ActionProbe("pa-hmdb51"), "top1"),
                },
                {BEST: Want(FrameAttributes(), "cmap"), OTHER_HALF: Want(TwoFoldAttributes(), "cmap")},
            ),
        ),
        trained_on=("kinetics400", "hmdb51", "pa-hmdb51"),
    ),
)
