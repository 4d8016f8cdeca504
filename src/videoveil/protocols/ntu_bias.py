"""Gender bias: a probe that is trained where an action and a gender go together, tested where they do not.

NTU-Bias-F and -M (95 % and 5 % of the videos of an action by one gender), and Toyota Smarthome as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from videoveil.protocols.base import Evaluation, Panel, Want
from videoveil.protocols.measures import GenderGap
from videoveil.protocols.papers import PaperColumn, table

METRICS = {"female top-1": "female", "male top-1": "male", "overall top-1": "overall", "gap": "gap"}
PER_CLASS = PaperColumn("mean per class", "mean_per_class", "%", "higher", ("toyota-smarthome",))


def panel(name: str, measure: GenderGap, extra: Mapping[PaperColumn, Want | None] | None = None) -> Panel:
    columns: dict[str, Want | None] = {column: Want(measure, metric) for column, metric in METRICS.items()}
    return Panel(table(name), columns, extra or {})


HOME = GenderGap("toyota-smarthome")
PROTOCOLS = (
    Evaluation(
        "ntu-bias",
        "Gender bias on NTU RGB+D 60",
        (
            panel("splavu/T2-F", GenderGap("ntu60", "F")),
            panel("splavu/T2-M", GenderGap("ntu60", "M")),
        ),
        trained_on=("kinetics400",),
    ),
    Evaluation(
        "smarthome",
        "Gender bias on Toyota Smarthome",
        (panel("splavu/T2-TSH", HOME, {PER_CLASS: Want(HOME, "mean_per_class")}),),
        trained_on=("kinetics400",),
    ),
)
