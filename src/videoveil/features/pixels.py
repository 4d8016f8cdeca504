"""Clips through a pixel anonymizer on their way to a network that is trained, scored or asked for features.

A fresh model sees what would be published. For training and scoring the anonymizer runs on the fly, in float, in eval
mode and without gradients, on the very pictures the network would have got. Stored videos have 8 bits, which is not
quite what a float network gets: `eight_bit` rounds to 1/255.

Shapes: N clips of T frames.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from videoveil import files
from videoveil.anonymizers.errors import ShapeMismatch, Withheld

PIXELS = {
    "cpu": 2**21,
    "cuda": 2**25,
}  # sent through at once; one layer of 64 channels takes 256 bytes of each


class FrameAnonymizer(Protocol):
    """Frames in, frames out: a trained network or a classical obfuscation."""

    def transform(self, frames: Tensor) -> Tensor:
        """Clips (N, 3, T, H, W) in [0, 1] → the same: the batched path, noise drawn from torch's generator."""
        ...

    def content_hash(self) -> str: ...

    def to(self, device: Any) -> Any: ...

    def eval(self) -> Any: ...


@dataclass(frozen=True)
class PixelVeil:
    """An anonymizer as a step before a network. Its output is checked: nothing that is not a picture goes on."""

    anonymizer: FrameAnonymizer
    eight_bit: bool = False

    def facts(self) -> dict[str, Any]:
        """What decides its output, for a run's identity."""
        return {"hash": self.anonymizer.content_hash(), "eight_bit": self.eight_bit}

    @torch.no_grad()
    def __call__(self, clips: Tensor, *, seed: int | None = None) -> Tensor:
        """(N, 3, T, H, W) in [0, 1] → the same. Noise comes from `seed`, or without one from torch's own state."""
        with _own_noise(seed, clips.device), self._ready(clips.device):
            parts = [self.anonymizer.transform(part) for part in _parts(clips)]
        return self._checked(torch.cat(parts), clips)

    @torch.no_grad()
    def export(self, pictures: Tensor, content: Sequence[str]) -> Tensor:
        """Clips (N, 3, T, H, W) uint8 → floats in [0, 1], by the anonymizer's checked path, for what is stored.

        Noise is keyed; `content` (N) names the video of every clip. With `eight_bit` bytes go in and come out, exactly
        those of an anonymized video.
        """
        run: Any = self.anonymizer
        named = {"content": list(content)} if getattr(run, "wants_content", False) else {}
        clips = pictures.float().div(255)
        with self._ready(pictures.device):
            made: Tensor = run(pictures if self.eight_bit else clips, **named)
        return self._checked(made.float().div(255) if self.eight_bit else made, clips)

    @contextlib.contextmanager
    def _ready(self, device: torch.device) -> Iterator[None]:
        """On the device, in eval mode and float32 inside; a network that was training goes on doing so afterwards."""
        training = bool(getattr(self.anonymizer, "training", False))
        self.anonymizer.to(device)
        self.anonymizer.eval()
        try:
            with torch.autocast(device.type, enabled=False):
                yield
        finally:
            if training:
                self.anonymizer.train()  # type: ignore[attr-defined]

    def _checked(self, made: Tensor, clips: Tensor) -> Tensor:
        if made.shape != clips.shape:
            raise ShapeMismatch(
                f"the anonymizer made {tuple(made.shape)} of clips {tuple(clips.shape)}; frames keep their size"
            )
        if not bool(torch.isfinite(made).all()):
            raise Withheld("the anonymizer gave NaN or infinite pixels; nothing of it is used")
        made = made.to(clips.dtype).clamp(0.0, 1.0)
        return made.mul(255).round().div(255) if self.eight_bit else made


def combined(encoder: dict[str, Any], veil: PixelVeil) -> dict[str, Any]:
    """What stands for an encoder behind an anonymizer in a store: both in one hash, and each by itself."""
    key = getattr(veil.anonymizer, "key", None) if getattr(veil.anonymizer, "wants_noise", False) else None
    facts = {**veil.facts(), "key": None if key is None else key.fingerprint()}
    return {
        **encoder,
        "name": f"{encoder['name']}+pixels-{facts['hash'][:12]}",
        "hash": files.value_hash({"encoder": encoder["hash"], "pixels": facts}),
        "encoder": {name: encoder[name] for name in ("name", "hash", "options")},
        "pixels": facts,
    }


def _parts(clips: Tensor) -> Sequence[Tensor]:
    """As many clips at once as memory allows; the same cut for the same shape."""
    _, _, time, height, width = clips.shape
    room = PIXELS["cpu" if clips.device.type == "cpu" else "cuda"]
    return clips.split(max(1, room // (time * height * width)))


@contextlib.contextmanager
def _own_noise(seed: int | None, device: torch.device) -> Iterator[None]:
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
