"""Checkpoints in the hub's layout: `config.json` beside one or several weight files, downloaded or in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from videoveil.encoders.foreign import read_foreign
from videoveil.encoders.model import State
from videoveil.errors import CheckpointError

# in the order of preference; an index names the pieces of a checkpoint that was split
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)

Locate = Callable[[str], Path | None]


def read_folder(folder: Path) -> tuple[State, dict[str, Any]]:
    """Tensors and configuration of a downloaded snapshot."""
    return _read(str(folder), lambda name: found if (found := folder / name).is_file() else None)


def read_hub(repository: str) -> tuple[State, dict[str, Any]]:
    """The same, fetched from the hub (or its local cache)."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    def locate(name: str) -> Path | None:
        try:
            return Path(hf_hub_download(repository, name))
        except LocalEntryNotFoundError:
            raise  # also an EntryNotFoundError, but it means that the hub could not be asked
        except EntryNotFoundError:
            return None

    try:
        return _read(repository, locate)
    except CheckpointError:
        raise
    except Exception as error:  # the client raises its own errors, its transport's and the system's
        raise CheckpointError(
            f"hub:{repository}: could not be fetched ({type(error).__name__}: {error})\n"
            "check the name and the network, or fetch it elsewhere with "
            f"`hf download {repository} --local-dir DIR` and pass the folder as weights"
        ) from error


def _read(source: str, locate: Locate) -> tuple[State, dict[str, Any]]:
    config = locate("config.json")
    if config is None:
        raise CheckpointError(f"{source}: no config.json; a hub snapshot has one beside its weights")
    for name in WEIGHTS:
        if path := locate(name):
            return _weights(source, path, locate), _json(config)
    raise CheckpointError(f"{source}: none of {', '.join(WEIGHTS)} is there")


def _weights(source: str, path: Path, locate: Locate) -> State:
    if path.suffix != ".json":
        return read_foreign(path)[0]
    state: State = {}
    for piece in sorted(set(_json(path).get("weight_map", {}).values())):
        if Path(piece).name != piece:
            raise CheckpointError(f"{source}: its index names {piece!r}, which is outside the snapshot")
        found = locate(piece)
        if found is None:
            raise CheckpointError(f"{source}: {piece} is missing; fetch the snapshot again")
        state |= read_foreign(found)[0]
    return state


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); fetch the snapshot again") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds a {type(value).__name__}, not an object")
    return value
