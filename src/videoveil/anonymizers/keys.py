"""Noise that is part of an exported feature: the same every time for its owner, unpredictable for anybody else.

Three things are wanted of it at once. It must not depend on the batch, its size or its order. It must be the same when
a clip is exported again, or averaging many exports would take it off. And nobody who has the anonymizer's weights may
be able to compute it, or subtracting would take it off. So the noise of a row is a function of the row's content and
of a secret key: HMAC-SHA-256 of the content under the key seeds SHAKE-256, whose output becomes normal numbers.
Without the key that stream cannot be told from a random one.

What this does not do:

- Equal content gives equal output under one key: a clip can be recognised as the same clip. One key per release keeps
  releases apart.
- Other content gets other noise, be it another clip of the same video, another recording of the same person, or the
  same clip with another last bit: what many rows have in common can be found by averaging them. An encoder gives a clip
  other last bits in another batch, so features that leave the process are named by their clip (`clip_contents`, or
  video and place), not by their own bytes (`row_contents`). Rows that are given
  one `content` (all clips of a video, or of a person) get one noise, which cannot be averaged away; what they do not
  have in common is then seen without noise, in their differences.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from videoveil import files
from videoveil.errors import UsageError

BYTES = 32
MINIMUM = 16
DOMAIN = b"videoveil latent noise 1\0"


class NoiseKey:
    """A secret of at least 16 bytes. It is never written with weights or features, and does not show when printed."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes):
        if not isinstance(secret, bytes) or len(secret) < MINIMUM:
            raise UsageError(
                f"a noise key is at least {MINIMUM} bytes of a secret; make one with NoiseKey.generate()"
            )
        self._secret = secret

    @classmethod
    def generate(cls) -> NoiseKey:
        """A new key from the system's random source."""
        return cls(secrets.token_bytes(BYTES))

    @classmethod
    def load(cls, path: str | Path) -> NoiseKey:
        """Read a key that `save` wrote."""
        try:
            return cls(bytes.fromhex(Path(path).read_text("ascii").strip()))
        except (OSError, ValueError) as error:  # the value is not part of the message: it may be a secret
            raise UsageError(f"{path}: not a readable noise key ({type(error).__name__})") from None

    def save(self, path: str | Path) -> None:
        """Write the key where only this user can read it; an existing file is never replaced."""
        if not Path(path).parent.is_dir():
            raise UsageError(f"{path}: its folder does not exist; make it first")
        if not files.create_text(path, self._secret.hex() + "\n", mode=0o600):
            raise UsageError(f"{path}: exists; a key that is replaced cannot be had back")

    def fingerprint(self) -> str:
        """Names the key without telling it: for the provenance of exported features."""
        return hmac.new(self._secret, DOMAIN + b"fingerprint", hashlib.sha256).hexdigest()[:16]

    def seed(self, label: str, content: bytes) -> bytes:
        """32 bytes that only the key, the label and the content together give."""
        message = DOMAIN + hashlib.sha256(label.encode()).digest() + hashlib.sha256(content).digest()
        return hmac.new(self._secret, message, hashlib.sha256).digest()

    def __repr__(self) -> str:
        return f"NoiseKey({self.fingerprint()})"


# Noise of a clip with several tokens has two parts: one draw for the clip, or the mean of its tokens would have less of
# it than each of them; and one draw for every token, or the difference of two tokens would have none.


@dataclass(frozen=True, slots=True)
class FreshNoise:
    """New noise with every call: for training."""

    generator: torch.Generator | None = None

    def draw(self, like: Tensor, mask: Tensor | None, label: str) -> Tensor:
        """Normal numbers (N, S, d): variance 1 for a clip of one token, 1 + 1 for a token among several."""
        count, tokens, width = like.shape
        noise = self._normal(like, (count, 1, width)).expand(like.shape)
        if tokens == 1:
            return noise
        several = True if mask is None else (mask.sum(1) > 1)[:, None, None]
        return noise + several * self._normal(like, (count, tokens, width))

    def _normal(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        device = like.device if self.generator is None else self.generator.device
        return torch.randn(shape, generator=self.generator, dtype=like.dtype, device=device).to(like.device)


@dataclass(frozen=True, slots=True)
class KeyedNoise:
    """The noise of given contents under a key: for export."""

    key: NoiseKey
    contents: Sequence[bytes]

    def draw(self, like: Tensor, mask: Tensor | None, label: str) -> Tensor:
        """As `FreshNoise.draw`, but row i depends on the key, the label, contents[i] and its number of tokens alone."""
        real = np.ones(like.shape[:2], bool) if mask is None else mask.cpu().numpy()
        noise = np.zeros(like.shape)
        for row, tokens, content in zip(noise, real, self.contents):
            count, width = int(tokens.sum()), like.shape[2]
            row[tokens] = normals(self.key.seed(f"{label} clip", content), width)
            if count > 1:
                seed = self.key.seed(f"{label} tokens", content)
                row[tokens] += normals(seed, count * width).reshape(count, width)
        return torch.from_numpy(noise).to(device=like.device, dtype=like.dtype)


def normals(seed: bytes, count: int) -> np.ndarray:
    """`count` standard normal numbers from a seed: SHAKE-256, 53 bits per number, Box–Muller."""
    pairs = -(-count // 2)
    stream = hashlib.shake_256(seed).digest(16 * pairs)
    uniform = (np.frombuffer(stream, "<u8") >> np.uint64(11)).astype(np.float64)
    uniform = (uniform + 0.5) / 2.0**53  # in (0, 1), never an end
    radius, angle = np.sqrt(-2 * np.log(uniform[:pairs])), 2 * np.pi * uniform[pairs:]
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[:count]


def clip_contents(clips: Tensor) -> list[bytes]:
    """What names each clip of (N, …): its shape and the hash of its pixels, whatever other clips come with it."""
    return [_clip_content(clip) for clip in clips.detach()]


def _clip_content(clip: Tensor) -> bytes:
    """Floats in [0, 1] count as the bytes they stand for: the same pixels, or nearly the same, are the same clip."""
    if clip.dtype == torch.uint8:
        pixels = clip.cpu().numpy()
    elif clip.is_floating_point() and bool(((clip >= 0) & (clip <= 1)).all()):
        pixels = (clip.float() * 255).round().to(torch.uint8).cpu().numpy()
    else:
        pixels = (clip.float() + 0.0).cpu().numpy().astype("<f4")  # + 0: one zero, not two
    shape = " ".join(map(str, (pixels.dtype.name, *pixels.shape)))
    return f"clip {shape} ".encode() + hashlib.sha256(pixels.tobytes()).digest()


def row_contents(x: Tensor, mask: Tensor | None = None) -> list[bytes]:
    """The bytes of every row of x (N, S, d) as float32, padding left out: what a row is when nothing else names it."""
    rows = (x.detach().float() + 0.0).cpu().contiguous().numpy()  # + 0: one zero, not two
    if mask is None:
        return [row.astype("<f4").tobytes() for row in rows]
    return [row[keep].astype("<f4").tobytes() for row, keep in zip(rows, mask.cpu().numpy())]
