"""Anomalies of three sets by MGFN, on features of the network that was trained with the anonymizer (TeD-SPAD)."""

from __future__ import annotations

from videoveil.protocols.base import Evaluation, Panel, Want
from videoveil.protocols.measures import Attributes, PixelAnomaly
from videoveil.protocols.papers import table

WANTS: dict[str, Want | None] = {
    "VISPR cMAP": Want(Attributes("vispr", "resnet.50", 224), "cmap"),
    "UCF-Crime AUC": Want(PixelAnomaly("ucf-crime"), "roc_auc"),
    # what is printed as AP there is the area under the curve by the trapezoid rule
    "XD-Violence AP": Want(PixelAnomaly("xd-violence"), "pr_auc"),
    "ShanghaiTech AUC": Want(PixelAnomaly("shanghaitech"), "roc_auc"),
}


def panel(name: str) -> Panel:
    found = table(name)
    return Panel(found, {column.name: WANTS[column.name] for column in found.columns})


PROTOCOLS = (
    Evaluation(
        "anomaly",
        "Privacy and anomaly detection on three sets",
        tuple(panel(f"ted_spad/{name}") for name in ("S2", "T2", "T3", "T4", "T5", "T6", "S3", "S4")),
        looks="pixels",
        baselines=("Raw", "Down-2x", "Down-4x"),
        learned_encoder=True,
        trained_on=("ucf101",),
    ),
)
