"""Label pickles of other projects, read without trusting them.

A pickle is a program. The unpickler here knows no names but the few that numpy's arrays need, and even those are not
numpy's own functions: they only note what was asked for. Arrays are built afterwards, from plain bytes and a plain type
such as `<f8`, so that nothing in the file reaches code that could be tricked. Anything else is an error that says what
was asked for.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from videoveil import files
from videoveil.errors import AnnotationError, UnsafePickle

MAX_BYTES = 256 * 2**20
MAX_DEPTH = 32
_TYPE = re.compile(r"(?P<kind>b1|[iu][1248]|f[248]|[SU][0-9]{1,6})")


class _Refused(Exception):
    """What a pickle may not do; becomes an `UnsafePickle` that names the file."""


class _Noted:
    """Base of the stand-ins: a pickle can set no state on them but the one they expect."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        raise _Refused(f"it changes a {type(self).__name__.strip('_').lower()}")


@dataclass(slots=True)
class _Function(_Noted):
    """A name that the pickle may call."""

    call: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


@dataclass(slots=True)
class _Type(_Noted):
    """An array's type, such as `<f8`."""

    kind: str
    order: str = "<"

    def __setstate__(self, state: Any) -> None:
        # version, byte order, sub-array, names, fields; further numbers only repeat the size
        _, order, *rest = state
        if order not in ("<", ">", "|", "=") or any(part is not None for part in rest[:3]):
            raise _Refused("it holds an array of a compound type")
        self.order = str(order)

    def plain(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.kind)


@dataclass(slots=True)
class _Array(_Noted):
    """An array to be built."""

    type: Any = None
    shape: Any = ()
    order: str = "C"
    data: Any = b""

    def __setstate__(self, state: Any) -> None:
        *_, self.shape, self.type, fortran, self.data = state
        self.order = "F" if fortran else "C"

    def plain(self) -> np.ndarray:
        data = self.data.encode("latin1") if isinstance(self.data, str) else self.data  # str: from Python 2
        sizes = isinstance(self.shape, tuple) and all(type(n) is int and n >= 0 for n in self.shape)
        if not isinstance(self.type, _Type) or not isinstance(data, bytes | bytearray) or not sizes:
            raise _Refused("it holds an array of objects")
        kind = self.type.plain()
        if self.order not in ("C", "F") or len(data) != math.prod(self.shape) * kind.itemsize:
            raise _Refused(f"it holds an array of {len(data)} bytes for the shape {self.shape}")
        flat = np.frombuffer(data, kind) if data else np.empty(0, kind)
        # a copy in this machine's byte order: aligned, writable, and not tied to the file's bytes
        return flat.reshape(self.shape, order=self.order).astype(kind.newbyteorder("="), order="C")  # type: ignore[arg-type, call-overload]


@dataclass(slots=True)
class _Scalar(_Noted):
    """A single number in an array type."""

    type: Any
    data: Any

    def plain(self) -> Any:
        return _Array(self.type, (), "C", self.data).plain()[()]


def _note_type(kind: Any, *_: Any) -> _Type:
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise _Refused(f"it holds an array of type {kind!r}")
    return _Type(kind)


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes as protocols 0 to 2 write them (no bytes at all they write as a call of `bytes`)."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _Refused(f"it encodes text as {encoding!r}")
    return text.encode("latin1")


def _allowed() -> dict[tuple[str, str], Callable[..., Any]]:
    found: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "dtype"): _note_type,
        ("numpy", "ndarray"): _not_callable,
        ("_codecs", "encode"): _encode,
        ("__builtin__", "bytes"): lambda: b"",
        ("builtins", "bytes"): lambda: b"",
    }
    for core in ("numpy.core", "numpy._core"):
        found[core + ".multiarray", "_reconstruct"] = lambda *_: _Array()
        found[core + ".multiarray", "scalar"] = lambda kind, data=b"": _Scalar(kind, data)
        found[core + ".numeric", "_frombuffer"] = lambda data, kind, shape, order="C": _Array(
            kind, shape, order, data
        )
    return found


def _not_callable(*_: Any) -> Any:
    raise _Refused("it makes an array in an unusual way")


_ALLOWED = _allowed()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _Refused(f"it asks for {module}.{name}")
        return _Function(_ALLOWED[module, name])

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused(f"it refers to the outside object {pid!r}")


def load_labels(path: str | Path) -> Any:
    """The content of a label pickle: dicts, lists, tuples, strings, numbers and numeric numpy arrays."""
    path = Path(path)
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise AnnotationError(f"{path}: cannot be read ({error.strerror})") from error
    if size > MAX_BYTES:
        raise UnsafePickle(f"{path}: {size} bytes, more than the {MAX_BYTES} a label file may have")
    try:
        _check_memo(data)
        # Python 2 wrote the bytes of arrays as text; latin1 is the one encoding that keeps them
        return _plain(_PlainUnpickler(io.BytesIO(data), encoding="latin1").load(), {}, 0)
    except _Refused as error:
        raise UnsafePickle(
            f"{path}: refused, {error}; only plain containers and numpy arrays of numbers are read"
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise UnsafePickle(
            f"{path}: not a readable label pickle ({type(error).__name__}: {error})"
        ) from error


def _check_memo(data: bytes) -> None:
    """The memo is a table as long as its highest index, so a file of ten bytes could ask for all memory."""
    for code, argument, _ in pickletools.genops(data):
        if code.name.endswith("PUT") and int(argument or 0) > len(data):
            raise _Refused(f"it numbers its objects up to {argument} in {len(data)} bytes")


def _plain(value: Any, done: dict[int, Any], depth: int) -> Any:
    """`value` with the stand-ins replaced by arrays, and nothing but plain types all the way down.

    `done` keeps what was converted, so that shared parts stay shared and a small file cannot grow without end.
    """
    if value is None or type(value) in (str, bytes, int, float, bool):
        return value
    if depth > MAX_DEPTH:
        raise _Refused(f"it nests more than {MAX_DEPTH} deep, or contains itself")
    if id(value) in done:
        return done[id(value)]
    out: Any
    if isinstance(value, _Array | _Scalar):
        out = value.plain()
    elif type(value) is dict:
        out = {_plain(k, done, depth + 1): _plain(v, done, depth + 1) for k, v in value.items()}
    elif type(value) in (list, tuple, set, frozenset):
        out = type(value)(_plain(part, done, depth + 1) for part in value)
    else:
        raise _Refused(f"it holds a {type(value).__name__.strip('_').lower()}")
    done[id(value)] = out
    return out


def dump_labels(path: str | Path, labels: dict[str, np.ndarray]) -> None:
    """Write a label pickle as the other projects do: a dict from names to arrays."""
    files.write_bytes(path, pickle.dumps(labels, protocol=4))
