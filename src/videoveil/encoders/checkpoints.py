"""Our own weight files: safetensors with the encoder's name, options and provenance in the metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from videoveil import files
from videoveil.encoders.base import COUNTER, Encoder
from videoveil.encoders.model import State
from videoveil.errors import CheckpointError

FORMAT = "videoveil-encoder-1"
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The contents of one of our files."""

    encoder: str
    options: Mapping[str, Any]
    provenance: Mapping[str, Any]
    tensors: State


def listing(title: str, items: Iterable[str]) -> str:
    """`title` and up to twenty items, one per line; empty when there are none."""
    found = list(items)
    lines = [f"{title} ({len(found)}):", *(f"  {item}" for item in found[:SHOWN])]
    if len(found) > SHOWN:
        lines.append(f"  … and {len(found) - SHOWN} more")
    return "\n".join(lines) if found else ""


def save(encoder: Encoder, destination: str | Path, provenance: Mapping[str, Any] | None = None) -> None:
    """Write the encoder's weights and everything needed to build it again."""
    write(encoder, encoder.network.state_dict(), destination, provenance or {})


def write(
    encoder: Encoder, tensors: Mapping[str, Tensor], destination: str | Path, provenance: Mapping[str, Any]
) -> None:
    """Write `tensors` as the weights of `encoder`, whose own may live on the meta device."""
    options = {**encoder.options, "frames": encoder.input.frames, "size": encoder.input.size}
    options |= {"resize": encoder.input.resize, "stride": encoder.input.stride}
    metadata = {
        "format": FORMAT,
        "encoder": encoder.name,
        "options": json.dumps(options, sort_keys=True),
        "provenance": json.dumps(dict(provenance), sort_keys=True),
    }
    # Shared or strided storage is not representable: every tensor gets its own plain memory.
    plain = {key: value.detach().cpu().clone().contiguous() for key, value in tensors.items()}
    with files.atomic_path(destination) as temporary:
        save_file(plain, temporary, metadata=metadata)


def read_safetensors(path: str | Path) -> tuple[State, dict[str, str]]:
    """Tensors and metadata of any safetensors file."""
    try:
        with safe_open(path, framework="pt") as handle:
            tensors = {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 - not a mapping
            return tensors, dict(handle.metadata() or {})
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error}); fetch it again") from error


def read(path: str | Path) -> Checkpoint:
    """Read one of our files; anything else is refused with the command that brings it in."""
    tensors, metadata = read_safetensors(path)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: not written by this program (format {metadata.get('format')!r}); bring it in with "
            f"`veil convert {path} --to ENCODER`"
        )
    try:
        options, provenance = json.loads(metadata["options"]), json.loads(metadata["provenance"])
        return Checkpoint(metadata["encoder"], options, provenance, tensors)
    except (KeyError, ValueError) as error:
        raise CheckpointError(
            f"{path}: its metadata is damaged ({error}); convert the source again"
        ) from error


def differences(network: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """What keeps `tensors` from being the weights of `network`; batch-norm counters may be absent."""
    expected = network.state_dict()
    missing = [key for key in expected if key not in tensors and not key.endswith(COUNTER)]
    unexpected = [key for key in tensors if key not in expected]
    shapes = [
        f"{key}: {tuple(tensors[key].shape)} instead of {tuple(expected[key].shape)}"
        for key in expected
        if key in tensors and tensors[key].shape != expected[key].shape
    ]
    texts = [listing("missing", missing), listing("unexpected", unexpected), listing("wrong shape", shapes)]
    return [text for text in texts if text]


def load(encoder: Encoder, tensors: Mapping[str, Tensor], source: str) -> None:
    """Fill the encoder's network; anything but absent batch-norm counters is an error that lists every key."""
    if problems := differences(encoder.network, tensors):
        raise CheckpointError("\n".join([f"{source}: not the weights of {encoder.name}", *problems]))
    encoder.network.load_state_dict(dict(tensors), strict=False)
