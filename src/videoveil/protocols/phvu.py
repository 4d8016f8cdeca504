"""P-HVU: actions are useful; objects and scenes are private. The papers' own numbers for it could not be read.

`same-dataset`: the anonymizer is trained on P-HVU. `scenes-objects`: it was trained against scenes, and is asked about
objects, which it never heard of.
"""

from __future__ import annotations

from videoveil.protocols.base import Evaluation, Panel, Want, own_table
from videoveil.protocols.measures import Action, Tags
from videoveil.protocols.papers import PaperColumn

ACTIONS = PaperColumn("actions cMAP", "cmap", "%", "higher", ("phvu",))
OBJECTS = PaperColumn("objects cMAP", "cmap", "%", "lower", ("phvu",))
SCENES = PaperColumn("scenes cMAP", "cmap", "%", "lower", ("phvu",))
WANTS: dict[str, Want | None] = {
    ACTIONS.name: Want(Action("phvu", target="actions"), "cmap"),
    OBJECTS.name: Want(Tags("phvu", "objects"), "cmap"),
    SCENES.name: Want(Tags("phvu", "scenes"), "cmap"),
}
AGAINST_SCENES = (  # changes of a recipe, for P-HVU
    "settings.utility.target=actions",
    "settings.budget.kind=labels",
    "settings.budget.source=video",
    "settings.budget.labels=scenes",
)


def panel(name: str, title: str, columns: tuple[PaperColumn, ...]) -> Panel:
    return Panel(own_table(name, title, columns), {column.name: WANTS[column.name] for column in columns})


PROTOCOLS = (
    Evaluation(
        "same-dataset",
        "Useful and private labels of one dataset: P-HVU",
        (panel("same-dataset", "P-HVU", (ACTIONS, OBJECTS, SCENES)),),
        looks="pixels",
        baselines=("Raw", "Down-2x", "Down-4x"),
        trained_on=("phvu",),
    ),
    Evaluation(
        "scenes-objects",
        "Novel private labels: trained against scenes, asked about objects (P-HVU)",
        (panel("scenes-objects", "P-HVU, scenes → objects", (ACTIONS, OBJECTS)),),
        looks="pixels",
        baselines=("Raw", "Down-2x", "Down-4x"),
        trained_on=("phvu",),
        note="Give anonymizers whose budget was scenes: `veil train vita --data phvu:ROOT "
        + " ".join(f"--set {one}" for one in AGAINST_SCENES)
        + "`.",
    ),
)
