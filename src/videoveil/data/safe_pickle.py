"""Label pickles of other projects, read without trusting them.

A pickle is a program. The unpickler here knows no names but those numpy needs to rebuild plain arrays, so nothing else
can be called; anything else in the file is an error that says what was asked for.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from videoveil import files
from videoveil.errors import UnsafePickle

MAX_BYTES = 256 * 2**20
_ALLOWED = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")} | {
    (f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")
}


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes, path: Path):
        super().__init__(io.BytesIO(data))
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnsafePickle(
                f"{self.path}: refused, it asks for {module}.{name}; only plain containers and numpy arrays are read"
            )
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafePickle(f"{self.path}: refused, it refers to the outside object {pid!r}")


def load_labels(path: str | Path) -> Any:
    """The content of a label pickle: dicts, lists, tuples, strings, numbers and numeric numpy arrays."""
    path = Path(path)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise UnsafePickle(f"{path}: {size} bytes, more than the {MAX_BYTES} a label file may have")
    try:
        value = _PlainUnpickler(path.read_bytes(), path).load()
    except UnsafePickle:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise UnsafePickle(
            f"{path}: not a readable label pickle ({type(error).__name__}: {error})"
        ) from error
    _check(value, path)
    return value


def _check(value: Any, path: Path) -> None:
    """Only plain types all the way down; object arrays could hide anything."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            pending += [*current.keys(), *current.values()]
        elif isinstance(current, list | tuple | set | frozenset):
            pending += list(current)
        elif isinstance(current, np.ndarray):
            if current.dtype.hasobject:
                raise UnsafePickle(f"{path}: refused, it holds an array of objects")
        elif not isinstance(current, str | bytes | int | float | bool | np.generic | None):
            raise UnsafePickle(f"{path}: refused, it holds a {type(current).__name__}")


def dump_labels(path: str | Path, labels: dict[str, np.ndarray]) -> None:
    """Write a label pickle as the other projects do: a dict from names to arrays."""
    files.write_bytes(path, pickle.dumps(labels, protocol=4))
