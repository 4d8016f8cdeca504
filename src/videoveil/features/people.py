"""What a store of anonymized features says about its videos: what happens in them, not who is in them.

A record keeps what names the video and what tasks are trained and scored on. Everything else that a dataset says is
left out: private attributes, subjects, genders, objects and scenes, groups, cameras and conditions, and the places of
the raw files. What is kept is listed here, so that a field that comes later is left out until somebody lists it.
The id stays, without which nothing could be joined or continued; it is the name of a file, and may tell something.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from videoveil.data.records import Dataset, Item

WITHHELD = Path("withheld")  # stands for the folder of the raw videos
KEPT = (
    "id",
    "split",
    "kind",
    "action",
    "actions",
    "segments",
    "anomaly",
    "anomaly_class",
    "anomaly_spans",
    "duration",
    "rate",
    "clip",
)


def without_people(dataset: Dataset) -> Dataset:
    """The records without what they say about people and about where the raw videos are."""
    return replace(
        dataset,
        root=WITHHELD,
        items=tuple(_without_people(item) for item in dataset.items),
        attributes=(),
        skipped=(),  # reasons and notes are free text, with names of files and labels in it
        notes=(),
    )


def _without_people(item: Item) -> Item:
    return Item(path=Path(f"{WITHHELD}/{item.id}"), **{name: getattr(item, name) for name in KEPT})
