"""Columns of printed tables with the measure that fills each, read off what the table says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from videoveil.protocols import papers
from videoveil.protocols.base import Measure, Panel, Want
from videoveil.protocols.measures import (
    Action,
    ActionProbe,
    Anomaly,
    Attributes,
    Detection,
    FeatureAttributes,
)
from videoveil.protocols.papers import PaperColumn

STRONGEST = PaperColumn("VISPR cMAP, strongest attacker", "cmap", "%", "lower", ("vispr",))


def on_pictures(name: str, *, size: int, only: Sequence[str] = (), **attack: Any) -> Panel:
    """A table of networks on pictures: top-1 of actions, cMAP and F1 of attributes, by the columns' own networks.

    `only`: the columns whose name begins so. `attack` are settings of the attack: `frozen`, `attributes`, `test`.
    """
    table = papers.table(name)
    columns: dict[str, Want | None] = {}
    for column in table.columns:
        if only and not column.name.startswith(tuple(only)):
            continue
        columns[column.name] = _picture_want(column, size, attack)
    return Panel(table, columns)


def _picture_want(column: PaperColumn, size: int, attack: Mapping[str, Any]) -> Want:
    if column.metric == "top1":
        return Want(Action(column.datasets[-1], column.model, size), "top1")
    measure = Attributes(column.datasets[0], column.model, size)
    if "pa-hmdb51" in column.datasets:
        measure = replace(measure, test="pa-hmdb51")
    elif "VISPR2" in column.name:
        measure = replace(measure, attributes="vispr2")
    return Want(replace(measure, **attack), column.metric)


TASKS: dict[str, Measure] = {
    "kinetics400": ActionProbe("kinetics400"),
    "ucf101": ActionProbe("ucf101"),
    "hmdb51": ActionProbe("hmdb51"),
    "toyota-smarthome": ActionProbe("toyota-smarthome"),
    "thumos14": Detection(),
    "ucf-crime": Anomaly("ucf-crime"),
}
HEADLINES = {"top1": "top1", "mAP": "mAP", "roc_auc": "roc_auc"}


def on_features(
    name: str,
    *,
    blocks: Mapping[str, str] | None = None,
    leave: Sequence[str] = (),
    extra: Mapping[PaperColumn, Want | None] | None = None,
    attributes: type[FeatureAttributes] = FeatureAttributes,
) -> Panel:
    """A table of probes, detectors and attackers on features; `leave` are columns that another protocol fills."""
    table = papers.table(name)
    columns: dict[str, Want | None] = {}
    for column in table.columns:
        if column.name in leave:
            continue
        if column.metric == "cmap":
            columns[column.name] = Want(attributes(column.model), f"cmap_{column.model}")
        else:
            columns[column.name] = Want(TASKS[column.datasets[0]], HEADLINES[column.metric])
    return Panel(table, columns, extra or {}, blocks or {})


def strongest(
    kind: str = "mlp2", attributes: type[FeatureAttributes] = FeatureAttributes
) -> dict[PaperColumn, Want | None]:
    """Beside the published attacker, the one of the suite that does best."""
    return {STRONGEST: Want(attributes(kind), "cmap")}
