"""The pixel anonymizer: frames in, frames of the same size out, through a pipeline of stages.

`forward` is the way out of the process: it checks what goes in and what comes out, treats every frame by itself and
raises rather than give out anything that is not whole. `transform` is the same pipeline as training sees it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from videoveil.anonymizers.card import Account, ModelCard
from videoveil.anonymizers.derived import Derived
from videoveil.anonymizers.errors import NotExportable, ShapeMismatch, Withheld
from videoveil.anonymizers.keys import NoiseKey
from videoveil.anonymizers.pixel import card as cards
from videoveil.anonymizers.pixel import config as settings
from videoveil.anonymizers.pixel.config import PixelConfig, StageConfig
from videoveil.anonymizers.pixel.frames import to_clips, to_frames
from videoveil.anonymizers.pixel.noise import FreshFrameNoise, KeyedFrameNoise, frame_names, video_names
from videoveil.anonymizers.pixel.outline import Outline
from videoveil.anonymizers.pixel.remove import Grey, Levels, LowResolution, NoiseFloor
from videoveil.anonymizers.pixel.stage import Context, PixelStage
from videoveil.anonymizers.pixel.unet import UNet
from videoveil.anonymizers.pixel.unetpp import UNetPP
from videoveil.anonymizers.publish import Published
from videoveil.devices import repeatable
from videoveil.encoders.base import COUNTER, seeded, tensors_hash
from videoveil.errors import UsageError

AT_ONCE = 2**20  # pixels that go through a network together: bounds the memory of a long clip


def build_stage(stage: StageConfig, place: int = 0) -> PixelStage:
    """The module of one stage; `place` tells several noise stages of a pipeline apart."""
    match stage:
        case settings.UNet():
            return UNet(stage)
        case settings.UNetPP():
            return UNetPP(stage)
        case settings.Grey():
            return Grey()
        case settings.LowResolution():
            return LowResolution(stage)
        case settings.Levels():
            return Levels(stage)
        case settings.Outline():
            return Outline(stage)
        case settings.NoiseFloor():
            return NoiseFloor(stage, label=f"stage {place}")


class PixelAnonymizer(Published):
    """Stages in the order of the configuration.

    `key` is the secret of the noise stages, if there are any. It belongs to the process and its owner: it is in no
    file that is written here. `card` holds what a model card says beside the configuration.
    """

    format: ClassVar[str] = "videoveil-pixel-anonymizer-1"
    title: ClassVar[str] = "Pixel anonymizer"
    config_type: ClassVar[type[PixelConfig]] = PixelConfig
    config: PixelConfig

    def __init__(
        self,
        config: PixelConfig | None = None,
        *,
        key: NoiseKey | None = None,
        card: ModelCard | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.config, self.key, self.card = config or PixelConfig(), key, card or ModelCard()
        with seeded(seed):
            self.stages = nn.ModuleList(build_stage(s, i) for i, s in enumerate(self.config.stages))
        self._derived = Derived()

    # --- training -------------------------------------------------------------------------------------------

    def transform(self, x: Tensor) -> Tensor:
        """Frames (N, 3, H, W) or clips (N, 3, T, H, W) → the same shape: differentiable, in the caller's precision.

        Values are not checked and nothing waits for the device; noise is fresh with every call. With
        `out="none"` in the last stage values can leave [0, 1], as the papers train it. For export there is `forward`.
        """
        legacy = self.config.legacy_reshape
        frames = to_frames(x, legacy_reshape=legacy)
        context = Context(FreshFrameNoise(x.shape[2] if x.dim() == 5 else 1))
        for stage in self.stages:
            frames = stage(frames, context)
        return to_clips(frames, x, legacy_reshape=legacy)

    @torch.no_grad()
    def identity_error(self, frames: Tensor) -> float:
        """Mean |x − f(x)| of frames or clips (bytes or floats) in eval mode: 0 would be no anonymization at all."""
        was_training, total = self.training, 0.0
        self.eval()
        try:
            rows = max(1, _frames_at_once(frames) // (frames.shape[2] if frames.dim() == 5 else 1))
            for part in frames.split(rows):
                x = part.float() / 255 if part.dtype == torch.uint8 else part
                total += float((x - self.transform(x).clamp(0, 1)).abs().sum(dtype=torch.float64))
        finally:
            self.train(was_training)
        return total / max(1, frames.numel())

    # --- export ---------------------------------------------------------------------------------------------

    def forward(self, x: Tensor, *, content: Sequence[str | bytes] | None = None) -> Tensor:
        """Frames (N, 3, H, W) or clips (N, 3, T, H, W), floats in [0, 1] or bytes → the same shape and type.

        content: the name of every row's video, for noise of one draw per video; other noise depends on the frame's own
        pixels. What a frame becomes does not depend on the batch or the clip it comes in. Anything wrong, going in or
        coming out, raises, and nothing is given out. No gradient: for training there is `transform`; for speed there is
        `pixel.engine`.
        """
        if self.training:
            raise NotExportable(
                "this anonymizer is in training mode: call .eval(), or use .transform to train"
            )
        with torch.autocast(x.device.type, enabled=False), _exact(x.device):
            return self.export(x, self.parts(), self._at_once(x), content)

    def _at_once(self, x: Tensor) -> int:
        """Frames that go through the stages together.

        A network's output differs in its last bits between batch sizes, and rounding behind it, to levels or to bytes,
        can make a whole step of that: then one frame at a time. On a CPU that costs nothing, so it is always done.
        """
        rounded = self.quantises_a_network or x.dtype == torch.uint8
        if self.networks and (rounded or x.device.type == "cpu"):
            return 1
        return _frames_at_once(x)

    @torch.no_grad()
    def export(
        self, x: Tensor, stages: Sequence[Any], at_once: int, content: Sequence[str | bytes] | None = None
    ) -> Tensor:
        """`forward` through given stages: its own, or faster ones that stand for them (`pixel.engine`)."""
        frames = self._checked(x)
        if not frames.numel():
            return x.clone()
        noise = self._noise(frames, x, content)
        done = []
        for begin in range(0, len(frames), at_once):
            chosen = slice(begin, begin + at_once)
            context = Context(None if noise is None else noise.part(chosen))
            done.append(self._one_part(frames[chosen], stages, context, begin))
        legacy = self.config.legacy_reshape
        return to_clips(torch.cat(done), x, legacy_reshape=legacy).contiguous()

    def _one_part(self, frames: Tensor, stages: Sequence[Any], context: Context, begin: int) -> Tensor:
        """(m, 3, H, W) as they came in → what may be given out."""
        x = _as_floats(frames, self._precision())
        for stage in stages:
            x = stage(x, context)
        if x.stride(1) == 0:  # one plane stands for three colours, and is looked at once
            x = x[:, :1]
        bounds = torch.stack(x.aminmax())  # what is no number is both the least and the most
        if not bool(bounds.isfinite().all()):
            row = int((~x.isfinite()).flatten(1).any(1).nonzero()[0])
            raise Withheld(f"frame {begin + row} came out as NaN or infinite; nothing is given out")
        x = x.clamp(0, 1)
        x = x.mul_(255).round_().to(torch.uint8) if frames.dtype == torch.uint8 else x.to(frames.dtype)
        return x.expand(-1, 3, -1, -1)

    def _checked(self, x: Tensor) -> Tensor:
        """Frames (M, 3, H, W), as they came in."""
        frames = to_frames(x, legacy_reshape=self.config.legacy_reshape).contiguous()
        if x.dtype == torch.uint8 or not x.numel():
            return frames
        if not x.is_floating_point():
            raise ShapeMismatch(f"frames must be floats in [0, 1] or bytes (uint8), not {x.dtype}")
        low, high = (float(bound) for bound in frames.detach().aminmax())
        if math.isnan(low) or math.isnan(high):
            raise Withheld("a frame has NaN before anonymization; decode it again")
        if low < 0 or high > 1:
            raise Withheld(
                f"frames must lie in [0, 1], these run from {low:.4g} to {high:.4g}; divide bytes by 255 and subtract "
                "no mean"
            )
        return frames

    def _noise(
        self, frames: Tensor, x: Tensor, content: Sequence[str | bytes] | None
    ) -> KeyedFrameNoise | None:
        if content is not None and len(content) != len(x):
            raise ShapeMismatch(f"content names {len(content)} rows of {len(x)}")
        if self.key is None or not self.wants_noise:
            return None
        bound = self._derived.get("hash", self, self.content_hash).encode()
        length = x.shape[2] if x.dim() == 5 else 1
        videos = None if content is None else video_names(content, length, bound)
        return KeyedFrameNoise(self.key, frame_names(_as_floats(frames, torch.float32), bound), videos)

    def _precision(self) -> torch.dtype:
        """What its weights are computed in."""
        return next((p.dtype for p in self.parameters()), torch.float32)

    # --- facts ----------------------------------------------------------------------------------------------

    def parts(self) -> list[PixelStage]:
        """The stages."""
        return [stage for stage in self.stages if isinstance(stage, PixelStage)]

    @property
    def networks(self) -> list[PixelStage]:
        """The stages that are learned networks."""
        return [stage for stage in self.parts() if stage.network]

    @property
    def quantises_a_network(self) -> bool:
        """Whether levels are cut out of what a network has computed."""
        behind = False
        for stage in self.parts():
            if stage.quantises and behind:
                return True
            behind |= stage.network
        return False

    @property
    def exportable(self) -> bool:
        """Whether it is given true frames, every one by itself."""
        return not self.config.legacy_reshape

    @property
    def wants_noise(self) -> bool:
        return any(stage.wants_noise for stage in self.parts())

    @property
    def wants_content(self) -> bool:
        """Whether `forward` has to be told the names of the videos."""
        return any(isinstance(stage, NoiseFloor) and stage.per == "video" for stage in self.parts())

    def export_problems(self, *, need_key: bool = True) -> list[str]:
        """What keeps its output from being exported now; `need_key=False`: what keeps itself from being published."""
        found = []
        if not self.exportable:
            found.append("it cuts clips into frames that mix colours and times (legacy_reshape=True)")
        if self.training:
            found.append("it is in training mode: call .eval()")
        if need_key and self.wants_noise and self.key is None:
            found.append("it adds noise and has no key: set .key = NoiseKey.generate() and keep the key")
        return found

    def content_hash(self) -> str:
        """SHA-256 of stages and tensors: what the output depends on, beside the key."""
        identity = {k: v for k, v in self.config.to_json().items() if k in ("stages", "legacy_reshape")}
        state = {key: value for key, value in self.state_dict().items() if not key.endswith(COUNTER)}
        return tensors_hash(identity, state)

    def account(self) -> Account:
        return cards.account(self)


def pixel(*stages: StageConfig, **options: Any) -> PixelAnonymizer:
    """A new anonymizer in eval mode: `pixel(UNet(width=16), Grey(), LowResolution(28))`.

    options: `size` and `legacy_reshape` of the configuration; `key`, `card` and `seed` of the anonymizer.
    """
    own = {name: options.pop(name) for name in ("key", "card", "seed") if name in options}
    if not stages:
        raise UsageError("pixel: name at least one stage, such as UNet()")
    return PixelAnonymizer(PixelConfig(stages, **options), **own).eval()


def _as_floats(frames: Tensor, precision: torch.dtype) -> Tensor:
    return frames.to(precision).div_(255) if frames.dtype == torch.uint8 else frames.to(precision)


def _frames_at_once(x: Tensor) -> int:
    return max(1, AT_ONCE // max(1, x.shape[-2] * x.shape[-1]))


@contextlib.contextmanager
def _exact(device: torch.device) -> Iterator[None]:
    """On CUDA, convolutions in full float32 that give the same result every time; nothing changes on a CPU."""
    if device.type != "cuda":
        yield
        return
    convolution = torch.backends.cudnn.conv  # type: ignore[attr-defined]
    before = convolution.fp32_precision
    with repeatable():
        convolution.fp32_precision = "ieee"
        try:
            yield
        finally:
            convolution.fp32_precision = before
