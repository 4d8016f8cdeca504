"""Plain values as YAML, for people. Scalars are written as JSON, which YAML understands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
WORDS = {
    "null",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "nan",
    "inf",
}  # mean something else in YAML


def yaml(value: Mapping[str, Any]) -> str:
    """A mapping of strings, numbers, lists and mappings as YAML text."""
    return "\n".join(_lines(value, 0)) + "\n"


def _lines(value: Any, depth: int) -> list[str]:
    indent = "  " * depth
    if isinstance(value, Mapping):
        lines = []
        for key, part in value.items():
            lines += _entry(f"{indent}{_scalar(str(key))}:", part, depth)
        return lines
    lines = []
    for part in value:
        if isinstance(part, Mapping) and part:
            inner = _lines(part, depth + 1)
            lines += [f"{indent}- {inner[0].lstrip()}", *inner[1:]]
        else:
            lines += _entry(f"{indent}-", part, depth)
    return lines


def _entry(head: str, part: Any, depth: int) -> list[str]:
    nested = isinstance(part, Mapping | list | tuple)
    if nested and part and not _flat(part):
        return [head, *_lines(part, depth + 1)]
    return [f"{head} {_scalar(part)}"]


def _flat(value: Any) -> bool:
    """A list of scalars fits on one line."""
    return isinstance(value, list | tuple) and not any(isinstance(v, Mapping | list | tuple) for v in value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_scalar(part) for part in value) + "]"
    if isinstance(value, float):
        return (
            repr(value) if "e" not in repr(value) or "." in repr(value) else repr(value).replace("e", ".0e")
        )
    return json.dumps(value, ensure_ascii=False)
