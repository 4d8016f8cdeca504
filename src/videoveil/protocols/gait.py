"""Gait with and without consistency: who is walking (CASIA-B), untrained as published and by attackers that learn.

The paper's figure is of normal walks (nm) among walks from all sides. Beside it: people with a bag (bg) and in a coat
(cl), and the usual protocol of gait, where a walk is looked for among walks from other sides only.
"""

from __future__ import annotations

from videoveil.protocols.base import Evaluation, Panel, Want
from videoveil.protocols.measures import FeatureAttributes, Gait
from videoveil.protocols.papers import PaperColumn, table

WALKS = {"nm": "", "bg": ", with a bag", "cl": ", in a coat"}
SIDES = {Gait(): "", Gait(exclude_same_view=True): ", other sides only"}
ATTACKERS = {"cosine": "", "top1": ", strongest attacker"}
PUBLISHED = Want(Gait(), "cosine_nm")


def _column(name: str) -> PaperColumn:
    return PaperColumn(name, "top1", "%", "lower", ("casia-b",))


WANTED = {
    _column(f"CASIA-B top-1{walk}{side}{attacker}"): Want(measure, f"{metric}_{condition}")
    for measure, side in SIDES.items()
    for condition, walk in WALKS.items()
    for metric, attacker in ATTACKERS.items()
}
OURS = {column: want for column, want in WANTED.items() if want != PUBLISHED}
PROTOCOLS = (
    Evaluation(
        "gait",
        "Who is known by their walk",
        (
            Panel(
                table("splavu/T6"),
                {
                    "VISPR cMAP": Want(FeatureAttributes("mlp2"), "cmap_mlp2"),
                    "CASIA-B top-1": PUBLISHED,
                },
                OURS,
            ),
        ),
        trained_on=("hmdb51",),
        note="Published: normal walks, among walks from all sides. The other columns of CASIA-B are ours.",
    ),
)
