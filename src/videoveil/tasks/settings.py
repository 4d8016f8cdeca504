"""Frozen settings ↔ JSON and `name=value` words, for every task alike."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from videoveil.errors import UsageError

C = TypeVar("C")


def to_json(config: Any) -> dict[str, Any]:
    """Fields as JSON values; tuples become lists, records inside become objects."""
    own = getattr(config, "to_json", None)
    value: dict[str, Any] = own() if own else dataclasses.asdict(config)
    return value


def from_json(kind: type[C], value: Mapping[str, Any]) -> C:
    """What `to_json` wrote; an unknown field is an error, because it would silently not be honoured."""
    own = getattr(kind, "from_json", None)
    if own is not None:
        made: C = own(dict(value))
        return made
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(value) - known):
        raise UsageError(
            f"{kind.__name__}: no setting {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in value.items()}
    return kind(**given)


def override(config: C, words: Mapping[str, str]) -> C:
    """The config with some fields replaced, their values given as text; a value of the wrong kind is named."""
    value = to_json(config)
    for key, text in words.items():
        if key not in value:
            raise UsageError(
                f"{type(config).__name__}: no setting {key!r}; there are {', '.join(sorted(value))}"
            )
        value[key] = _parsed(key, text, value[key])
    try:
        return from_json(type(config), value)
    except (TypeError, ValueError) as error:  # a list or record of the wrong shape
        given = ", ".join(f"{key}={text}" for key, text in words.items())
        raise UsageError(f"{type(config).__name__}: {given} cannot be used ({error})") from error


def _parsed(key: str, text: str, present: Any) -> Any:
    if isinstance(present, str):
        return text
    try:
        found = json.loads(text.lower() if text in ("True", "False", "None") else text)
    except ValueError as error:
        raise UsageError(f"{key}={text!r}: expected something like {json.dumps(present)}") from error
    if isinstance(present, float) and isinstance(found, int) and not isinstance(found, bool):
        return float(found)
    infinite = isinstance(found, float) and not math.isfinite(found)
    if infinite or (present is not None and type(found) is not type(present)):
        raise UsageError(f"{key}={text!r}: expected something like {json.dumps(present)}")
    return found
