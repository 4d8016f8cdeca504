"""A Python file of the user's own, named on the command line as `FILE.py` or `FILE.py:NAME`.

Naming such a file runs it, with the rights of whoever named it: that is the same as `python FILE.py`, and why only a
path that ends in `.py` is taken for one. Folders of weights and names on the hub never run code.
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from videoveil.errors import UsageError

_SOURCE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^\W\d]\w*))?")


@dataclass(frozen=True)
class Own:
    """What a file gave: `value` is what it calls `name`, `hash` the SHA-256 of its text, which is what was run."""

    file: str
    name: str
    value: Any
    hash: str


def is_own(source: str) -> bool:
    """Whether this names a Python file, be it there or not."""
    return _SOURCE.fullmatch(source) is not None


def load(source: str, default: str) -> Own:
    """Run the file and take from it what the source names, or else `default`."""
    found = _SOURCE.fullmatch(source)
    if found is None:
        raise UsageError(f"{source!r}: a Python file is named as FILE.py or FILE.py:NAME")
    path, name = Path(found["file"]), found["name"] or default
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give the path of your own Python file")
    text = path.read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    module = _run(path, text, digest)
    if not hasattr(module, name):
        raise UsageError(f"{path}: has no {name!r}; call it that, or say which one is meant: {path}:NAME")
    return Own(path.name, name, getattr(module, name), digest)


def _run(path: Path, text: bytes, digest: str) -> ModuleType:
    """The bytes that were hashed, as a module; nothing is written beside the file."""
    module = ModuleType(f"videoveil_own_{digest[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[module.__name__]
        raise UsageError(f"{path}{_where(error, path)}: cannot be run ({_said(error)})") from error
    return module


def _said(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}"


def _where(error: Exception, path: Path) -> str:
    """`:LINE` of the user's file in which it went wrong."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    return f":{lines[-1]}" if lines else ""
