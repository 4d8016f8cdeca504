"""What all configurations check of themselves, and how they are read back from JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from videoveil.errors import UsageError


def known(record: type[Any], value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """`value` as arguments of `record`; an unknown one is an error, because it would silently not be honoured."""
    fields = dataclasses.fields(record)
    names = {f.name for f in fields}
    if unknown := sorted(set(value) - names):
        raise UsageError(
            f"{what}: unknown settings {', '.join(unknown)}; known are {', '.join(sorted(names))}"
        )
    required = {f.name for f in fields if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(required - set(value)):
        raise UsageError(f"{what}: needs {', '.join(missing)}")
    return dict(value)


def stage_to_json(stage: Any) -> dict[str, Any]:
    """A stage's settings and, under "kind", which stage they are of."""
    return {"kind": stage.kind, **dataclasses.asdict(stage)}


def stage_from_json(kinds: Mapping[str, type[Any]], value: Mapping[str, Any]) -> Any:
    """What `stage_to_json` wrote; `kinds` says which stages there are."""
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise UsageError(f"stage of kind {kind!r}: there are {', '.join(kinds)}")
    rest = {key: part for key, part in value.items() if key != "kind"}
    return kinds[kind](**known(kinds[kind], rest, kind))


def at_least(record: Any, **bounds: int) -> None:
    """Whole numbers with a lower bound."""
    for name, bound in bounds.items():
        value = getattr(record, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < bound:
            raise UsageError(f"{record.kind}: {name}={value!r} must be a whole number of at least {bound}")


def fraction(record: Any, name: str) -> None:
    """A share that leaves something over."""
    if not 0 <= getattr(record, name) < 1:
        raise UsageError(f"{record.kind}: {name}={getattr(record, name)} must be in [0, 1)")


def positive(record: Any, name: str) -> None:
    """A finite number above 0; written so that NaN is refused too."""
    if not 0 < getattr(record, name) < float("inf"):
        raise UsageError(f"{record.kind}: {name}={getattr(record, name)} must be above 0")


def truth(record: Any, *names: str) -> None:
    """Yes or no, not something that Python takes for one of them."""
    for name in names:
        if not isinstance(getattr(record, name), bool):
            raise UsageError(f"{record.kind}: {name}={getattr(record, name)!r} must be true or false")


def one_of(record: Any, name: str, choices: tuple[str, ...]) -> None:
    """A word from a list."""
    if getattr(record, name) not in choices:
        raise UsageError(
            f"{record.kind}: {name}={getattr(record, name)!r} must be one of {', '.join(choices)}"
        )
