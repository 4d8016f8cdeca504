"""Gait with and without consistency: who is walking (CASIA-B), untrained as published and by attackers that learn."""

from __future__ import annotations

from videoveil.protocols.base import Evaluation, Panel, Want
from videoveil.protocols.measures import FeatureAttributes, Gait
from videoveil.protocols.papers import PaperColumn, table

BEST = PaperColumn("CASIA-B top-1, strongest attacker", "top1", "%", "lower", ("casia-b",))
PROTOCOLS = (
    Evaluation(
        "gait",
        "Who is known by their walk",
        (
            Panel(
                table("splavu/T6"),
                {
                    "VISPR cMAP": Want(FeatureAttributes("mlp2"), "cmap_mlp2"),
                    "CASIA-B top-1": Want(Gait(), "cosine_nm"),
                },
                {BEST: Want(Gait(), "top1")},
            ),
        ),
        trained_on=("hmdb51",),
    ),
)
