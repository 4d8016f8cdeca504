"""Weight and checkpoint files: one safetensors file each, with everything that is not a tensor as JSON inside."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from videoveil import files
from videoveil.encoders.checkpoints import differences, read_safetensors
from videoveil.errors import CheckpointError

State = Mapping[str, Tensor]


def write(destination: str | Path, form: str, tensors: State, facts: Mapping[str, Any]) -> None:
    """One file, whole or absent; equal contents give equal bytes."""
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    text = json.dumps({"format": form, "facts": dict(facts)}, sort_keys=True, ensure_ascii=False)
    with files.atomic_path(destination) as temporary:
        # one metadata entry: the writer keeps several in no fixed order
        save_file(plain, temporary, metadata={"about": text})


def read(source: str | Path, form: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write` wrote in the same format; any other file is refused."""
    tensors, metadata = read_safetensors(source)
    try:
        about = json.loads(metadata["about"])
        found, facts = about["format"], dict(about["facts"])
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"{source}: not a file of format {form!r} ({error!r})") from error
    if found != form:
        raise CheckpointError(f"{source}: format {found!r}, expected {form!r}")
    return dict(tensors), facts


def fill(network: nn.Module, tensors: State, source: str) -> None:
    """Load weights; every missing, unknown or misshapen one is listed."""
    if problems := differences(network, tensors):
        raise CheckpointError("\n".join([f"{source}: not the weights of this network", *problems]))
    network.load_state_dict(dict(tensors))


def part(tensors: State, name: str) -> dict[str, Tensor]:
    """The tensors whose name starts with `name.`, without it."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and step counts as `<parameter number>.<name>`."""
    state = optimizer.state_dict()["state"]
    return {f"{n}.{name}": torch.as_tensor(value) for n, row in state.items() for name, value in row.items()}


def fill_optimizer(optimizer: torch.optim.Optimizer, tensors: State) -> None:
    """Put back what `optimizer_tensors` took out."""
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state[int(number)][name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": dict(state)})


def completed(record: Any, written: Any) -> Any:
    """What was written of a record, with every field that it lacks at its default, in records inside it too.

    A version that did not know a field yet behaved as its default does, so its runs can be gone on with.
    """
    if not is_dataclass(record) or not isinstance(written, Mapping):
        return written
    found = {name: completed(getattr(record, name, None), value) for name, value in written.items()}
    for one in fields(record):
        if one.name not in found and one.default is not MISSING:
            found[one.name] = one.default
    return found


def require_same(path: Path, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """A run is continued only with the data and settings it was begun with; what differs is named."""
    differ = sorted(k for k in mine.keys() | theirs.keys() if mine.get(k) != theirs.get(k))
    if differ:
        raise CheckpointError(
            f"{path}: belongs to a run with other {', '.join(differ)}; use another folder, or the same settings"
        )
