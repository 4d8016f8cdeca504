"""The one interface of all encoders: clips in, feature vectors or temporal tokens out.

Shapes: N clips, T frames, H×W pixels, S temporal tokens, C feature width.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from videoveil.errors import UsageError

Kind = Literal["video", "image"]

# network, normalised clips (N, 3, T, H, W) → clip vector (N, C), temporal tokens (N, S, C)
Pool = Callable[[nn.Module, Tensor], tuple[Tensor, Tensor]]

NORMS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "minus1_1": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "zero_one": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
COUNTER = (
    "num_batches_tracked"  # batch-norm bookkeeping: absent from old checkpoints, without effect on features
)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What an encoder wants to be fed: `frames` every `stride`-th frame, short side `resize`, centre crop `size`²."""

    frames: int
    size: int
    resize: int
    stride: int = 1
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)  # mean and std apply to pixels in [0, 1]
    std: tuple[float, ...] = (1.0, 1.0, 1.0)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw everything inside from `seed` and leave the global random state as it was.

    Only the CPU generator is seeded: networks are always initialised on the CPU, and a seed that also reset the
    CUDA generators would change the caller's randomness.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def tensors_hash(identity: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over a JSON-able identity and tensors (sorted names, dtype, shape, little-endian bytes)."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class Encoder(nn.Module):
    """A network with its input description; `forward` gives the clip vector, `temporal_tokens` keeps time.

    `network` is the published architecture with the published parameter names, its classification layer (`head`)
    included. Pixels are normalised inside, so callers always hand over clips in [0, 1].
    Where `mean_pooled` is true, `temporal_tokens(x).mean(1) == forward(x)`; it is false for class-token, attentive
    and post-normalised pooling, where the vector is no plain mean of the tokens.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        name: str,
        network: nn.Module,
        spec: InputSpec,
        *,
        pool: Pool,
        width: int,
        tokens: int,
        kind: Kind,
        head: str,
        options: Mapping[str, Any],
        mean_pooled: bool = True,
        head_fits: bool = True,
        fixed: bool = False,
        min_frames: int = 1,
        lower: Callable[[Encoder], nn.Module] | None = None,
    ):
        super().__init__()
        self.name = name
        self.network = network
        self.input = spec
        self.width = width
        self.tokens = tokens
        self.kind: Kind = kind
        self.options = dict(options)
        self.mean_pooled = mean_pooled
        self._pool = pool
        self._head = head
        self._head_fits = head_fits
        self._fixed = fixed
        self._min_frames = min_frames
        self._lower = lower
        for key, values in (("mean", spec.mean), ("std", spec.std)):
            # made on the CPU even while a network is being built on the meta device
            column = torch.tensor(values, device="cpu").view(1, 3, 1, 1, 1)
            self.register_buffer(key, column, persistent=False)
        if not self.options["classes"]:
            self.drop_head()

    # --- features ---

    def forward(self, clips: Tensor) -> Tensor:
        """(N, 3, T, H, W) in [0, 1] → (N, C). Image encoders average over frames and also take (N, 3, H, W)."""
        return self.vector_and_tokens(clips)[0]

    def temporal_tokens(self, clips: Tensor) -> Tensor:
        """(N, 3, T, H, W) in [0, 1] → (N, S, C): pooled over space only; S is `tokens` for `input.frames` frames."""
        return self.vector_and_tokens(clips)[1]

    def vector_and_tokens(self, clips: Tensor) -> tuple[Tensor, Tensor]:
        """Both of the above from one pass."""
        return self._pool(self.network, self._normalised(clips))

    def lowered(self) -> nn.Module | None:
        """The same function written for bfloat16, where the family has such a one: a copy of the weights as they are.

        It takes clips (N, 3, T, H, W), bytes or floats in [0, 1], and gives vector and tokens in single precision.
        """
        return None if self._lower is None else self._lower(self).eval()

    def _normalised(self, clips: Tensor) -> Tensor:
        if self.kind == "image" and clips.dim() == 4:
            clips = clips.unsqueeze(2)  # (N, 3, H, W) → one frame
        self._check(clips)
        return (clips - self.mean.to(clips.dtype)) / self.std.to(clips.dtype)

    def _check(self, clips: Tensor) -> None:
        shape = tuple(clips.shape)
        if clips.dim() != 5 or shape[1] != 3:
            raise UsageError(f"{self.name}: clips must be (N, 3, T, H, W), not {shape}")
        if not clips.is_floating_point():
            raise UsageError(
                f"{self.name}: clips must be floats in [0, 1], not {clips.dtype}; divide bytes by 255"
            )
        size = self.input.size
        if self._fixed and shape[2:] != (self.input.frames, size, size):
            raise UsageError(
                f"{self.name}: takes exactly {self.input.frames} frames of {size}×{size}, not {shape[2:]}; resample "
                "the clips, or create the encoder with other frames= and size= where its family allows that"
            )
        if shape[2] < self._min_frames:
            raise UsageError(f"{self.name}: needs at least {self._min_frames} frames, not {shape[2]}")

    # --- classification layer ---

    @property
    def classes(self) -> int:
        """Outputs of the network's own classification layer; 0 when it has none."""
        return int(self.options["classes"])

    def drop_head(self) -> None:
        """Remove the classification layer; features and `content_hash` do not change."""
        parent, _, leaf = self._head.rpartition(".")
        setattr(self.network.get_submodule(parent), leaf, nn.Identity())
        self.options["classes"] = 0

    def head_parameters(self) -> tuple[Tensor, Tensor]:
        """Weight (classes, C) and bias (classes,) of the network's own classification layer."""
        if not self.classes:
            raise UsageError(f"{self.name}: has no classification layer; create it with classes=N")
        if not self._head_fits:
            raise UsageError(
                f"{self.name}: pool={self.options['pool']!r} is not what its classification layer was made for"
            )
        found = dict(self.network.get_submodule(self._head).named_parameters())
        weight = next(value for key, value in found.items() if key.endswith("weight"))
        bias = next(value for key, value in found.items() if key.endswith("bias"))
        return weight.flatten(1), bias  # 1×1×1 convolutions are linear layers

    def logits(self, clips: Tensor) -> Tensor:
        """(N, 3, T, H, W) → (N, classes) by the network's own classification layer, without dropout."""
        return nn.functional.linear(self(clips), *self.head_parameters())

    def is_head(self, key: str) -> bool:
        """Whether a state-dict key of `network` belongs to the classification layer."""
        return key.startswith(f"{self._head}.")

    # --- identity ---

    def identity(self) -> dict[str, Any]:
        """Everything but the tensors that decides a feature."""
        options = {key: value for key, value in self.options.items() if key != "classes"}
        return {"name": self.name, "input": asdict(self.input), "options": options}

    def recreation(self) -> dict[str, Any]:
        """Options that `create` makes an encoder of the same shape from; its classification layer is left out."""
        geometry = {key: getattr(self.input, key) for key in ("frames", "size", "resize", "stride")}
        return {**self.options, **geometry, "classes": 0}

    def content_hash(self) -> str:
        """SHA-256 of what the features depend on: identity and tensors; the same on every machine.

        The classification layer and batch-norm counters take no part, so a feature cache survives a change of head.
        """
        state = self.network.state_dict()
        return tensors_hash(self.identity(), {k: v for k, v in state.items() if self.counts(k)})

    def counts(self, key: str) -> bool:
        """Whether the tensor `key` of `network` enters `content_hash`."""
        return not self.is_head(key) and not key.endswith(COUNTER)


class Classifier(nn.Module):
    """Encoder plus linear layer: the action classifier f_T and the attribute classifier f_B of the pixel methods.

    The classifier owns its layer: the encoder's own one is removed, after `restore=True` has copied it.
    """

    def __init__(
        self, encoder: Encoder, classes: int, dropout: float = 0.0, *, seed: int = 0, restore: bool = False
    ):
        super().__init__()
        if classes < 1:
            raise UsageError(f"a classifier needs at least one class, not {classes}")
        with seeded(seed):
            self.head = nn.Linear(encoder.width, classes)
            nn.init.normal_(self.head.weight, std=0.01)
            nn.init.zeros_(self.head.bias)
        if restore:
            weight, bias = encoder.head_parameters()
            if len(weight) != classes:
                raise UsageError(
                    f"{encoder.name}: its layer has {len(weight)} classes, {classes} were asked for"
                )
            with torch.no_grad():
                self.head.weight.copy_(weight)
                self.head.bias.copy_(bias)
        encoder.drop_head()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)

    @property
    def classes(self) -> int:
        return self.head.out_features

    def forward(self, clips: Tensor) -> Tensor:
        """(N, 3, T, H, W) in [0, 1] → logits (N, classes)."""
        return self.with_features(clips)[0]

    def with_features(self, clips: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, classes) and the features (N, C) they were made from, for losses that need both."""
        features = self.encoder(clips)
        logits: Tensor = self.head(self.dropout(features))
        return logits, features
