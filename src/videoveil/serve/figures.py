"""What is known of a model: the figures of its card, and those of its audit, which come with intervals.

{"kind": "privacy" | "utility", "name", "metric", "value", "low", "high", "raw", "chance", "better": "low" | "high"}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from videoveil import shipped
from videoveil.errors import UsageError
from videoveil.serve.settings import Model

CONFIG, METRICS = "config.json", "metrics.json"
Figure = dict[str, Any]


def describe(model: Model) -> dict[str, Any]:
    """All that a client sees of a model: its name, its figures and where they come from."""
    card = _card(model)
    audit = {} if model.audit is None else _read(model.audit / METRICS, f"--audit of {model.name}")
    figures = [*_audited(audit), *_measured(card)]
    data = audit.get("data", {})
    return {
        "name": model.name,
        "training_data": str(card.get("training_data", "")),
        "notes": str(card.get("notes", "")),
        "license": str(card.get("license", "")),
        "figures": figures,
        "audit": None
        if not audit
        else {
            "privacy": audit["verdict"]["privacy"],
            "utility": audit["verdict"]["utility"],
            "data": str(data.get("name", "")),
            "synthetic": bool(data.get("synthetic", False)),
            "level": audit["rules"]["level"],
        },
    }


def _card(model: Model) -> dict[str, Any]:
    """The card in a model's folder; the classical ones have none."""
    folder = shipped.folder(model.source) if model.source in shipped.names() else Path(model.source)
    path = folder / CONFIG
    return dict(_read(path, f"model {model.name}").get("card", {})) if path.is_file() else {}


def _read(path: Path, what: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{what}: {path} cannot be read ({error})") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what}: {path} holds {type(value).__name__}, not an object")
    return value


def _measured(card: dict[str, Any]) -> list[Figure]:
    """Where a card has single values, of one training, no interval is made up for them."""
    found = []
    for one in card.get("measurements", ()):
        kind = "privacy" if one["kind"] == "attack" else "utility"
        figure = {name: one.get(name) for name in ("name", "metric", "value", "low", "high", "raw", "chance")}
        found.append({"kind": kind, **figure, "better": _better(kind)})
    return found


def _audited(audit: dict[str, Any]) -> list[Figure]:
    """The best attacker and the best user of every question that could be measured."""
    found = []
    for one in audit.get("questions", ()):
        score = one.get("anonymized")
        if not one.get("judged") or not score:
            continue
        kind = "utility" if one["role"] == "utility" else "privacy"
        raw = one.get("raw") or {}
        found.append(
            {
                "kind": kind,
                "name": f"{one['name']}, by {one['strongest']}" if one.get("strongest") else one["name"],
                "metric": one["metric"],
                "value": score["value"],
                "low": score["low"],
                "high": score["high"],
                "raw": raw.get("value"),
                "chance": one.get("chance"),
                "better": _better(kind),
            }
        )
    return found


def _better(kind: str) -> str:
    return "low" if kind == "privacy" else "high"
