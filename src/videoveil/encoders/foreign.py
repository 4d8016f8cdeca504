"""Reading checkpoints that others wrote, without ever running what is inside them.

A pickle is a program. It is first only listed: every global it would call must belong to tensors and plain containers.
Then it is read by `torch.load(weights_only=True)`, or, for arrays outside torch's own format, by an unpickler that
knows numpy arrays and nothing else.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from videoveil.encoders.checkpoints import listing, read_safetensors
from videoveil.encoders.model import State
from videoveil.errors import CheckpointError

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # first pickle of torch's old format
WRAPPERS = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "module",
    "network",
    "net",
    "backbone",
    "encoder",
    "weights",
    "params",
    "blobs",
)
_TENSOR_GLOBALS = re.compile(
    r"collections\.OrderedDict"
    r"|torch\._utils\._rebuild_\w+"
    r"|torch(\.storage)?\.\w*Storage"
    r"|torch\.(Size|device|Tensor|float16|float32|float64|bfloat16|u?int\d+|bool)"
    r"|torch\.nn\.parameter\.Parameter"
    r"|torch\.serialization\._get_layout"
    r"|_codecs\.encode"
)
_ARRAY_GLOBALS = re.compile(
    r"numpy\.(ndarray|dtype)"
    r"|numpy\.(_core|core)\.(multiarray\._reconstruct|numeric\._frombuffer)"
    r"|_codecs\.encode"
    r"|collections\.OrderedDict"
)
_STRINGS = (
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
)


def read_foreign(path: str | Path) -> tuple[State, str]:
    """All tensors of a foreign checkpoint and the wrapper they were found in (such as `state_dict`)."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0], ""
    if _head(path) == b"PK\x03\x04":
        return _tensors(path, _load_zip(path))
    if not _is_legacy(path):
        return _tensors(path, _load_arrays(path))
    _refuse_code(path, _legacy_globals(path), _TENSOR_GLOBALS)
    return _tensors(path, _torch_load(path))


def _head(path: Path) -> bytes:
    with path.open("rb") as handle:
        return handle.read(4)


# --- listing what a pickle would call ----------------------------------------------------------------------


def pickled_globals(stream: IO[bytes]) -> Iterator[str]:
    """`module.name` of every global that one pickle asks for, found by reading its opcodes only."""
    strings: list[str] = []  # strings pushed so far: STACK_GLOBAL takes the last two
    memo: dict[int, str] = {}
    last: str | None = None  # the string on top of the stack, if it is one
    argument: Any
    for opcode, argument, _ in pickletools.genops(stream):
        name = opcode.name
        if name in _STRINGS:
            last = str(argument)
            strings.append(last)
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            last = memo.get(int(argument)) or None
            if last is not None:
                strings.append(last)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            if last is not None:
                memo[len(memo) if name == "MEMOIZE" else int(argument)] = last
            elif name == "MEMOIZE":
                memo[len(memo)] = ""
        else:
            if name in ("GLOBAL", "INST"):
                yield str(argument).replace(" ", ".", 1)
            elif name == "STACK_GLOBAL":
                yield ".".join(strings[-2:]) if len(strings) > 1 else "an unnamed global"
            elif name.startswith("EXT"):
                yield f"copyreg extension {argument}"
            last = None


def _legacy_globals(path: Path) -> list[str]:
    """Globals of the pickles of torch's old format: magic, version, system, object, storage keys."""
    found: list[str] = []
    with path.open("rb") as handle:
        for _ in range(5):
            found += _listed(path, handle)
    return found


def _listed(path: Path, stream: IO[bytes]) -> list[str]:
    try:
        return list(pickled_globals(stream))
    except Exception as error:  # pickletools raises many kinds on damaged data
        raise CheckpointError(f"{path}: truncated or not a checkpoint ({error}); fetch it again") from error


def _is_legacy(path: Path) -> bool:
    """Whether the first pickle is the magic number of torch's old format."""
    with path.open("rb") as handle:
        try:
            return any(argument == LEGACY_MAGIC for _, argument, _ in pickletools.genops(handle))
        except Exception as error:  # pickletools raises many kinds on damaged data
            raise CheckpointError(
                f"{path}: neither a torch checkpoint, a safetensors file nor a pickle of arrays, or cut short "
                f"({error}); fetch it again"
            ) from error


def _refuse_code(path: Path, found: list[str], allowed: re.Pattern[str]) -> None:
    if bad := sorted({name for name in found if not allowed.fullmatch(name)}):
        raise CheckpointError(
            f"{path}: contains pickled code and was not opened\n{listing('it asks for', bad)}\n"
            "on a machine you trust with it, save the bare state dictionary: torch.save(model.state_dict(), FILE)"
        )


# --- reading -----------------------------------------------------------------------------------------------


MAX_PICKLE = 64 * 2**20  # the pickle of an archive holds names and shapes, the tensors lie beside it


def _load_zip(path: Path) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            swollen = [
                i.filename
                for i in archive.infolist()
                if i.filename.endswith(".pkl") and i.file_size > MAX_PICKLE
            ]
            if swollen:
                raise CheckpointError(
                    f"{path}: refused, {swollen[0]} inside is larger than {MAX_PICKLE} bytes"
                )
            pickles = {name: archive.read(name) for name in names if name.endswith(".pkl")}
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise CheckpointError(f"{path}: truncated or damaged archive ({error}); fetch it again") from error
    if code := [name for name in names if "/code/" in name or name.endswith("constants.pkl")]:
        raise CheckpointError(f"{path}: a TorchScript archive, which is code\n{listing('it holds', code)}")
    if not pickles:
        raise CheckpointError(
            f"{path}: an archive without a checkpoint inside; it holds {', '.join(names[:5])}"
        )
    for data in pickles.values():
        _refuse_code(path, _listed(path, io.BytesIO(data)), _TENSOR_GLOBALS)
    return _torch_load(path)


def _torch_load(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"{path}: refused by torch's weights-only reader: {error}") from error
    except Exception as error:  # the reader raises many kinds on damaged data
        raise CheckpointError(f"{path}: truncated or damaged ({error}); fetch it again") from error


class _ArrayUnpickler(pickle.Unpickler):
    """Plain containers and numpy arrays only."""

    def find_class(self, module: str, name: str) -> Any:
        if not _ARRAY_GLOBALS.fullmatch(f"{module}.{name}"):
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return super().find_class(module, name)


def _load_arrays(path: Path) -> Any:
    """A plain pickle of numpy arrays, as Caffe2 models are published (written by Python 2, hence the encoding)."""
    with path.open("rb") as handle:
        _refuse_code(path, _listed(path, handle), _ARRAY_GLOBALS)
        handle.seek(0)
        try:
            return _ArrayUnpickler(handle, encoding="latin1").load()
        except Exception as error:  # the unpickler raises many kinds on damaged data
            raise CheckpointError(f"{path}: damaged pickle of arrays ({error}); fetch it again") from error


# --- finding the state dictionary --------------------------------------------------------------------------


def _tensors(path: Path, content: Any) -> tuple[State, str]:
    wrapper: list[str] = []
    while isinstance(content, Mapping):
        inner = next((key for key in WRAPPERS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        wrapper.append(inner)
        content = content[inner]
    if not isinstance(content, Mapping):
        raise CheckpointError(f"{path}: holds a {type(content).__name__}, not a state dictionary")
    state = {str(key): tensor for key, value in content.items() if (tensor := _tensor(value)) is not None}
    if not state:
        raise CheckpointError(
            f"{path}: no tensors inside; its keys are {', '.join(map(str, list(content)[:10]))}"
        )
    return state, ".".join(wrapper)


def _tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu" and value.dtype.itemsize <= 8:
        return torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="), order="C"))
    return None
