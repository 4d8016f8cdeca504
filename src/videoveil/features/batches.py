"""Batches of clips through an encoder: in one arithmetic, compiled or not, and on a GPU with the next one on its way.

`Forward` is the computation. `Flow` brings bytes to it and features back. On a GPU it has two places: while one batch
is computed, the clips of the next are put together in memory the GPU can read by itself, and are copied there. Frames
travel as bytes, a quarter of what floats would take, and become floats on the device.

Shapes: B clips (3, T, s, s), width d, S temporal tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from videoveil import devices
from videoveil.encoders.fused_videomae import FusedVideoMAE
from videoveil.errors import UsageError
from videoveil.features.pixels import PixelVeil
from videoveil.features.precision import arithmetic
from videoveil.features.store import Precision

if TYPE_CHECKING:
    from videoveil.encoders.base import Encoder

APART = 0.1  # compiled from uncompiled features, as a share of how far clips that differ much are apart
Encoded = tuple[Tensor, Tensor | None]  # (B, d) and, if asked for, (B, S, d), in single precision


class _Features(nn.Module):
    """Clips, bytes or floats in [0, 1] → vector and tokens, by whatever computes them."""

    def __init__(self, encoder: Encoder, lowered: nn.Module | None, tokens: bool):
        super().__init__()
        self.encoder, self.lowered, self.tokens = encoder, lowered, tokens

    def forward(self, clips: Tensor) -> Encoded:
        if self.lowered is not None:
            vector, kept = self.lowered(clips)
            return vector, kept if self.tokens else None
        floats = clips if clips.is_floating_point() else clips.float().div(255)
        if not self.tokens:
            return self.encoder(floats).float(), None
        vector, kept = self.encoder.vector_and_tokens(floats)
        return vector.float(), kept.float()


class Forward:
    """(B, 3, T, s, s) uint8 → (B, d) and, with `tokens`, (B, S, d), on the device and without gradients.

    `veil`: what clips go through first. `compiled`: by torch.compile, which pays after some hundred batches. A compiler
    may change the function without a word (it has), so before the first batch of a shape it and the network itself must
    say the same of clips made for that.
    """

    def __init__(
        self,
        encoder: Encoder,
        device: torch.device,
        *,
        precision: Precision = "fp32",
        tokens: bool = False,
        compiled: bool = False,
        veil: PixelVeil | None = None,
    ):
        self.device, self.precision, self.veil = device, precision, veil
        encoder = encoder.to(device).eval()
        lowered = encoder.lowered() if precision == "bf16" else None
        if precision == "bf16" and lowered is None and device.type == "cuda":
            devices.fast_layout(encoder.network)
        self.name = encoder.name
        self.plain = _Features(encoder, lowered, tokens)
        self.compute: Any = self.plain
        self.shapes: set[torch.Size] | None = None  # that compiled and plain agree on
        if compiled:
            self.shapes = set()
            self.compute = (
                _Features(encoder, lowered.compiled(), tokens)
                if isinstance(lowered, FusedVideoMAE)
                else torch.compile(self.plain, dynamic=False)
            )

    @torch.inference_mode()
    def __call__(self, pictures: Tensor, content: Sequence[str] | None = None) -> Encoded:
        """`content` names what each clip was cut from, for the noise of a veil that is keyed."""
        pictures = pictures.to(self.device, non_blocking=True)
        if self.veil is not None:
            pictures = self.veil.export(pictures, content or [""] * len(pictures))
        with arithmetic(self.precision, self.device):
            if self.shapes is not None and pictures.shape not in self.shapes:
                self._require_agreement(pictures)
                self.shapes.add(pictures.shape)
            found: Encoded = self.compute(pictures)
        return found

    def _require_agreement(self, like: Tensor) -> None:
        """Compiled, the network still says of clips of this shape what it says uncompiled."""
        same_kind = like.is_inference()  # tensors of the other kind would be compiled for once more
        with torch.inference_mode(same_kind):
            shown = different_clips(like)
        wanted, found = self.plain(shown)[0], self.compute(shown)[0]
        spread = wanted - wanted.mean(0) if len(wanted) > 1 else wanted
        apart = float((found - wanted).norm() / spread.norm())
        if not apart <= APART:  # written so that NaN is refused too
            raise UsageError(
                f"{self.name}: compiled by torch {torch.__version__} for {self.device.type} it gives other features "
                f"({apart:.2f} of the distance between clips that differ much; at most {APART} is rounding): nothing "
                "was extracted; leave out --compile"
            )


def different_clips(like: Tensor) -> Tensor:
    """Clips of the shape and kind of `like` that differ in brightness, in a slope across the picture and in noise."""
    count, _, frames, height, width = like.shape
    generator = torch.Generator().manual_seed(0)
    level, across, down = (torch.rand(count, 3, 1, 1, 1, generator=generator) for _ in range(3))
    x, y = torch.linspace(-1, 1, width), torch.linspace(-1, 1, height)[:, None]
    noise = torch.rand(count, 3, frames, height, width, generator=generator)
    shown = (level + (across - 0.5) * x + (down - 0.5) * y + 0.2 * (noise - 0.5)).clamp(0, 1)
    if like.is_floating_point():
        return shown.to(like.device, like.dtype)
    return shown.mul(255).to(like.dtype).to(like.device)


class _Place:
    """Memory for one batch on its way to a GPU and for its features on the way back."""

    def __init__(self, shape: Sequence[int], device: torch.device):
        self.host = torch.empty(tuple(shape), dtype=torch.uint8, pin_memory=True)
        self.there = torch.empty(tuple(shape), dtype=torch.uint8, device=device)
        self.done = torch.cuda.Event()
        self.back: list[Tensor | None] = [None, None]

    def fetch(self, found: Encoded) -> None:
        """Start copying features to the host; `done` says when they are there."""
        for place, tensor in enumerate(found):
            kept = self.back[place]
            if tensor is not None and (kept is None or kept.shape != tensor.shape):
                self.back[place] = kept = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            if tensor is not None and kept is not None:
                kept.copy_(tensor, non_blocking=True)
        self.done.record(torch.cuda.current_stream(self.there.device))


class Flow:
    """Batches in, features out, in order: `submit` up to `depth` batches more than have been collected.

    On a CPU a batch is computed when it is submitted, and `depth` is 1.
    """

    def __init__(self, forward: Forward, batch: int, shape: Sequence[int]):
        """`shape`: of one clip, (3, T, s, s)."""
        self.forward, self.batch, self.shape = forward, batch, tuple(shape)
        self.depth = 2 if forward.device.type == "cuda" else 1
        self._ready: deque[Encoded] = deque()  # of a CPU
        self._flying: deque[tuple[_Place, int]] = deque()  # of a GPU
        self._free: list[_Place] = []
        if forward.device.type == "cuda":
            self._free = [_Place((batch, *shape), forward.device) for _ in range(self.depth)]
            self._copying = torch.cuda.Stream(forward.device)
            # the places may be memory that is still being written for somebody else
            self._copying.wait_stream(torch.cuda.current_stream(forward.device))

    def submit(self, rows: Sequence[Tensor], content: Sequence[str], *, full: bool) -> None:
        """Clips (3, T, s, s) or still ones (3, 1, s, s) as one batch; with `full` filled up with its last clip."""
        missing = self.batch - len(rows) if full else 0
        rows, content = [*rows, *[rows[-1]] * missing], [*content, *[content[-1]] * missing]
        if self.forward.device.type != "cuda":
            self._ready.append(self.forward(torch.stack([row.expand(self.shape) for row in rows]), content))
            return
        place = self._free.pop()
        for target, row in zip(place.host, rows):
            target.copy_(row)
        there = place.there[: len(rows)]
        with torch.cuda.stream(self._copying):
            there.copy_(place.host[: len(rows)], non_blocking=True)
        torch.cuda.current_stream(self.forward.device).wait_stream(self._copying)
        place.fetch(self.forward(there, content))
        self._flying.append((place, len(rows)))

    def collect(self) -> Encoded:
        """The features of the oldest batch that was not collected, on the host."""
        if self.forward.device.type != "cuda":
            pooled, tokens = self._ready.popleft()
            return pooled.cpu(), None if tokens is None else tokens.cpu()
        place, count = self._flying.popleft()
        place.done.synchronize()
        vector, kept = (None if tensor is None else tensor[:count].clone() for tensor in place.back)
        assert vector is not None
        self._free.append(place)
        return vector, kept
