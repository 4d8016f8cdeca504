"""What an ONNX file says about its inputs and outputs, read from the bytes; and a copy with free input sizes.

ONNX files are protocol buffers: fields of (number, wire type, value), messages inside messages. A few fields are all
that is needed here, so no library is. The numbers are those of the ONNX schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

_GRAPH = 7  # of a model
_INITIALIZER, _INPUT, _OUTPUT, _VALUE_INFO = 5, 11, 12, 13  # of a graph
_INITIALIZER_NAME = 8
_NAME, _TYPE = 1, 2  # of an input or output
_TENSOR = 1  # of its type
_ELEMENT, _SHAPE = 1, 2  # of a tensor type
_DIMENSION = 1  # of a shape
_DIM_VALUE, _DIM_PARAM = 1, 2  # of a dimension

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
FLOAT, FLOAT16 = 1, 10  # element types


class NotOnnx(ValueError):
    """Bytes that do not follow the wire format, or hold no graph."""


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; None where a size is left open."""

    name: str
    shape: tuple[int | None, ...]
    element: int


@dataclass(frozen=True)
class Graph:
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class _Field:
    number: int
    wire: int
    value: int  # of a varint
    body: bytes  # of a length-delimited field
    raw: bytes  # the whole field as it stood


def read_graph(model: bytes) -> Graph:
    """Inputs and outputs of a model; weights that are listed as inputs are left out."""
    body = _only(model, _GRAPH)
    weights = set()
    for part in _fields(body):
        if part.number == _INITIALIZER:
            weights |= {f.body for f in _fields(part.body) if f.number == _INITIALIZER_NAME}
    inputs = tuple(_port(part.body) for part in _fields(body) if part.number == _INPUT)
    outputs = tuple(_port(part.body) for part in _fields(body) if part.number == _OUTPUT)
    named = {name.decode("utf-8", "replace") for name in weights}
    return Graph(tuple(port for port in inputs if port.name not in named), outputs)


def with_open_sizes(model: bytes) -> bytes:
    """The same model with batch, height and width of its picture inputs and of all outputs left open.

    Some files were written for one size although their layers do for any. Sizes noted for values inside are dropped.
    """
    wanted = {port.name.encode() for port in read_graph(model).inputs}

    def open_up(part: _Field) -> bytes:
        if part.number == _VALUE_INFO:
            return b""
        if part.number == _OUTPUT or (part.number == _INPUT and _only(part.body, _NAME) in wanted):
            return _message(part.number, _opened(part.body))
        return part.raw

    return _edited(model, _GRAPH, lambda graph: b"".join(open_up(part) for part in _fields(graph)))


def _opened(port: bytes) -> bytes:
    name = _only(port, _NAME)

    def shape(body: bytes) -> bytes:
        parts = [part for part in _fields(body) if part.number == _DIMENSION]
        fixed = {1} if len(parts) == 4 else set()  # channels stay
        return b"".join(
            part.raw if place in fixed else _message(_DIMENSION, _message(_DIM_PARAM, name + b"_%d" % place))
            for place, part in enumerate(parts)
        )

    return _edited(port, _TYPE, lambda kind: _edited(kind, _TENSOR, lambda t: _edited(t, _SHAPE, shape)))


def _port(body: bytes) -> Port:
    name = _only(body, _NAME).decode("utf-8", "replace")
    tensor = _first(_first(body, _TYPE), _TENSOR)
    element = next((f.value for f in _fields(tensor) if f.number == _ELEMENT), 0)
    dimensions = [f.body for f in _fields(_first(tensor, _SHAPE)) if f.number == _DIMENSION]
    sizes = [next((f.value for f in _fields(d) if f.number == _DIM_VALUE), None) for d in dimensions]
    return Port(name, tuple(size or None for size in sizes), element)


def _first(body: bytes, number: int) -> bytes:
    """The first field with this number, or nothing."""
    return next((f.body for f in _fields(body) if f.number == number), b"")


def _only(body: bytes, number: int) -> bytes:
    found = [f.body for f in _fields(body) if f.number == number]
    if len(found) != 1:
        raise NotOnnx(f"{len(found)} fields {number} where there is one in every ONNX file")
    return found[0]


def _edited(body: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """A message with every field of this number rewritten."""
    return b"".join(
        _message(number, change(part.body)) if part.number == number else part.raw for part in _fields(body)
    )


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(body: bytes) -> Iterator[_Field]:
    place = 0
    while place < len(body):
        start = place
        key, place = _read_varint(body, place)
        number, wire, value, content = key >> 3, key & 7, 0, b""
        if wire == _VARINT:
            value, place = _read_varint(body, place)
        elif wire == _BYTES:
            length, place = _read_varint(body, place)
            content, place = body[place : place + length], place + length
        elif wire in (_FIXED32, _FIXED64):
            place += 4 if wire == _FIXED32 else 8
        else:
            raise NotOnnx(f"wire type {wire} at byte {start}")
        if number == 0 or place > len(body):
            raise NotOnnx(f"a field at byte {start} goes beyond the end")
        yield _Field(number, wire, value, content, body[start:place])


def _read_varint(body: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(body):
            break
        byte = body[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise NotOnnx(f"a number breaks off at byte {place}")
