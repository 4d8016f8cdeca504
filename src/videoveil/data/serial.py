"""Records as plain JSON and back, without loss: fractions as `"n/d"` strings, paths as strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from videoveil.data.records import AttributeSpan, Dataset, FrameSpan, Item, Segment

_ITEM_FIELDS = tuple(f.name for f in fields(Item))


def item_to_json(item: Item) -> dict[str, Any]:
    """Only what the item says; empty fields are left out."""
    out: dict[str, Any] = {"id": item.id, "path": str(item.path), "split": item.split, "kind": item.kind}
    for name in _ITEM_FIELDS:
        value = getattr(item, name)
        if name not in out and value is not None and (isinstance(value, bool) or value not in ((), {}, "")):
            out[name] = _plain(value)
    return out


def item_from_json(value: Mapping[str, Any]) -> Item:
    known = dict(value)
    known["path"] = Path(known["path"])
    for name in ("actions", "objects", "scenes"):
        known[name] = tuple(known.get(name, ()))
    known["segments"] = tuple(
        Segment(s["label"], Fraction(s["start"]), Fraction(s["end"])) for s in known.get("segments", ())
    )
    known["anomaly_spans"] = tuple(FrameSpan(**s) for s in known.get("anomaly_spans", ()))
    known["attribute_spans"] = tuple(
        AttributeSpan(s["first"], s["stop"], {k: tuple(v) for k, v in s["values"].items()})
        for s in known.get("attribute_spans", ())
    )
    for name in ("duration", "rate"):
        known[name] = Fraction(known[name]) if name in known else None
    if "clip" in known:
        start, end = known["clip"]
        known["clip"] = (Fraction(start), Fraction(end))
    return Item(**known)


def dataset_to_json(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "root": str(dataset.root),
        "classes": list(dataset.classes),
        "attributes": list(dataset.attributes),
        "items": [item_to_json(item) for item in dataset.items],
        "skipped": list(dataset.skipped),
        "notes": list(dataset.notes),
    }


def dataset_from_json(value: Mapping[str, Any]) -> Dataset:
    return Dataset(
        name=value["name"],
        root=Path(value["root"]),
        items=tuple(item_from_json(item) for item in value["items"]),
        classes=tuple(value["classes"]),
        attributes=tuple(value["attributes"]),
        skipped=tuple(value["skipped"]),
        notes=tuple(value["notes"]),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction | Path):
        return str(value)
    if isinstance(value, Segment | FrameSpan | AttributeSpan):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value
