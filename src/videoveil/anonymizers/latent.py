"""The latent anonymizer: features in, features of the same shape out, through a pipeline of stages.

Outside training every clip is treated by itself, and everything is computed in float64 and rounded once, at the end. In
float32 a product differs in its last bits between batch sizes; attention can make much of that, and quantisation a
whole level, so that a clip would after all depend on the batch it came in.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from videoveil.anonymizers import config as settings
from videoveil.anonymizers.adapter import AttentionAdapter, AttentionOnlyAdapter
from videoveil.anonymizers.card import Account, ModelCard, card_of_latent
from videoveil.anonymizers.config import LatentConfig, StageConfig
from videoveil.anonymizers.derived import Derived
from videoveil.anonymizers.erase import Eraser
from videoveil.anonymizers.errors import NotExportable, ShapeMismatch, Withheld
from videoveil.anonymizers.keep import Keeper
from videoveil.anonymizers.keys import FreshNoise, KeyedNoise, NoiseKey, row_contents
from videoveil.anonymizers.mlp import MLPAdapter
from videoveil.anonymizers.motion import MotionOnly
from videoveil.anonymizers.noise import NoiseFloor
from videoveil.anonymizers.publish import Published
from videoveil.anonymizers.quantise import Quantiser
from videoveil.anonymizers.rank import RankBottleneck
from videoveil.anonymizers.stage import Context, FitData, FittedStage, NoiseSource, Stage
from videoveil.anonymizers.static_residual import StaticResidualMap
from videoveil.encoders.base import COUNTER, seeded, tensors_hash
from videoveil.errors import UsageError


def build_stage(width: int, stage: StageConfig, place: int = 0) -> Stage:
    """The module of one stage; `place` tells several noise stages of a pipeline apart."""
    match stage:
        case settings.Attention():
            return AttentionAdapter(width, stage)
        case settings.AttentionOnly():
            return AttentionOnlyAdapter(width, stage)
        case settings.MLP():
            return MLPAdapter(width, stage)
        case settings.Rank():
            return RankBottleneck(width, stage)
        case settings.Noise():
            return NoiseFloor(width, stage, label=f"stage {place}")
        case settings.Quantise():
            return Quantiser(width, stage)
        case settings.StaticResidual():
            return StaticResidualMap(width, stage)
        case settings.Motion():
            return MotionOnly(width, stage)
        case settings.Erase():
            return Eraser(width, stage)
        case settings.Keep():
            return Keeper(width, stage)


class LatentAnonymizer(Published):
    """Stages in the order of the configuration.

    `key` is the secret of the noise stages, if there are any. It belongs to the process and its owner: it is in no
    file that is written here. `card` holds what a model card says beside the configuration.
    """

    format: ClassVar[str] = "videoveil-latent-anonymizer-1"
    title: ClassVar[str] = "Latent anonymizer"
    config_type: ClassVar[type[LatentConfig]] = LatentConfig
    config: LatentConfig

    def __init__(
        self,
        config: LatentConfig,
        *,
        key: NoiseKey | None = None,
        card: ModelCard | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.config, self.key, self.card = config, key, card or ModelCard()
        with seeded(seed):
            self.stages = nn.ModuleList(build_stage(config.width, s, i) for i, s in enumerate(config.stages))
        self._derived = Derived()

    # --- use ------------------------------------------------------------------------------------------------

    def forward(
        self,
        x: Tensor,
        *,
        static: Tensor | None = None,
        mask: Tensor | None = None,
        content: Sequence[str | bytes] | None = None,
    ) -> Tensor:
        """(N, d) or (N, S, d) → the same shape and type.

        static: (N, d) or (N, K, d), static features of each clip's video as the encoder gave them. mask: (N, S), True
        where a token is real; other tokens have no influence and come out as 0. content: what names each row for
        keyed noise (say, hash of the video and start of the clip); rows of one content get one noise. Without it the
        row's own bytes do: equal rows get equal noise in any batch, but a clip that is encoded again in another batch
        has other last bits, hence other noise, and averaging would take it off. So name what you export, or let `wrap`
        and `veil anonymize-features` do so. Anything that is not a number, going in or coming out, raises `Withheld`.
        """
        tokens = self._tokens(x, mask)
        if not tokens.numel():
            return x.clone()
        still = self._static(static, len(tokens))
        context = Context(mask, still, self._noise(tokens, mask, content))
        if self.training:
            out = self._run(tokens, context, exact=False)
        else:  # autocast would make the exported numbers depend on the caller
            with torch.autocast(x.device.type, enabled=False):
                out = self._run(tokens, context, exact=True)
        if mask is not None:
            out = out.masked_fill(~mask[..., None], 0)
        out = out.to(x.dtype).view(x.shape)
        if not bool(out.isfinite().all()):
            raise Withheld(self._blame(tokens, context))
        return out

    def transform(self, x: Tensor, *, static: Tensor | None = None) -> Tensor:
        """(N, d) or (N, S, d) → the same shape: the stages as training sees them, in the caller's precision.

        Nothing is checked and nothing waits for the device, so that a training step can be captured as a whole; who
        trains checks the losses. For export there is `forward`.
        """
        tokens = x.unsqueeze(1) if x.dim() == 2 else x
        context = Context(None, static, FreshNoise())
        for stage in self._parts():
            tokens = stage.apply_to(tokens, context)
        return tokens.reshape(x.shape)

    def _run(self, x: Tensor, context: Context, *, exact: bool) -> Tensor:
        if not exact:
            x = x.float()
            for stage in self.stages:
                x = stage(x, context)
            return x
        home, context = x.device, context.to(_exact_place(x))
        x = x.to(_exact_place(x)).double()
        for stage, tensors in zip(self.stages, self._doubled()):
            x = functional_call(stage, tensors, (x, context))
        return x.to(torch.float32 if home.type == "mps" else x.dtype).to(home)

    def _doubled(self) -> list[dict[str, Tensor]]:
        """Every stage's tensors in float64; kept until one changes, unless a gradient is to go through them."""
        if torch.is_grad_enabled():
            return [_doubled(stage) for stage in self.stages]
        return self._derived.get("double", self, lambda: [_doubled(stage) for stage in self.stages])

    def weights_changed(self) -> None:
        """To be called where weights were changed behind PyTorch's back: a replayed graph, or through `.data`."""
        self._derived.forget()

    def _parts(self) -> list[Stage]:
        return [stage for stage in self.stages if isinstance(stage, Stage)]

    # --- inputs ---------------------------------------------------------------------------------------------

    def _tokens(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(N, S, d), padding set to 0."""
        width = self.config.width
        if x.dim() not in (2, 3) or x.shape[-1] != width or not x.is_floating_point():
            raise ShapeMismatch(
                f"features must be floats (N, {width}) or (N, S, {width}), not {tuple(x.shape)} {x.dtype}"
            )
        tokens = x.unsqueeze(1) if x.dim() == 2 else x
        if mask is not None:
            if mask.dtype != torch.bool or mask.shape != tokens.shape[:2]:
                raise ShapeMismatch(
                    f"mask must be bool {tuple(tokens.shape[:2])}, not {mask.dtype} {tuple(mask.shape)}"
                )
            if not bool(mask.any(1).all()):
                raise ShapeMismatch("mask: a clip has no real token; leave it out")
            tokens = tokens.masked_fill(~mask[..., None], 0)
        if not bool(tokens.isfinite().all()):
            row = int((~tokens.isfinite()).flatten(1).any(1).nonzero()[0])
            raise Withheld(
                f"features of clip {row} are NaN or infinite before anonymization; extract them again"
            )
        return tokens

    def _static(self, static: Tensor | None, count: int) -> Tensor | None:
        if static is None or not self.wants_static:
            return None
        still = static.mean(1) if static.dim() == 3 else static
        if still.shape != (count, self.config.width):
            width = self.config.width
            raise ShapeMismatch(
                f"static features must be ({count}, {width}) or ({count}, K, {width}), not {tuple(static.shape)}"
            )
        if not bool(still.isfinite().all()):
            raise Withheld("static features are NaN or infinite; extract them again")
        return still

    def _noise(
        self, tokens: Tensor, mask: Tensor | None, content: Sequence[str | bytes] | None
    ) -> NoiseSource | None:
        if content is not None and len(content) != len(tokens):
            raise ShapeMismatch(f"content names {len(content)} rows of {len(tokens)}")
        if self.training:
            return FreshNoise()
        if self.key is None or not self.wants_noise:
            return None
        if content is None:
            rows = [b"row\0" + row for row in row_contents(tokens, mask)]
        else:
            rows = [b"name\0" + (part.encode() if isinstance(part, str) else part) for part in content]
        # bound to these weights: two anonymizers with one key must not share noise, or their difference has none
        bound = self._derived.get("hash", self, self.content_hash).encode()
        return KeyedNoise(self.key, [bound + b"\0" + row for row in rows])

    def _blame(self, tokens: Tensor, context: Context) -> str:
        """Where the first number that is none came from."""
        x = tokens.float()
        with torch.no_grad():
            for place, stage in enumerate(self._parts()):
                x = stage(x, context)
                if not bool(x.isfinite().all()):
                    kind = self.config.stages[place].kind
                    return f"stage {place} ({kind}) gave NaN or infinite features; nothing is given out"
        return "the features are too large for their type; nothing is given out"

    # --- facts ----------------------------------------------------------------------------------------------

    @property
    def exportable(self) -> bool:
        """Whether every stage treats every clip by itself."""
        return all(stage.exportable for stage in self._parts())

    @property
    def wants_noise(self) -> bool:
        return any(stage.wants_noise for stage in self._parts())

    @property
    def wants_static(self) -> bool:
        return any(stage.wants_static for stage in self._parts())

    @property
    def fitted(self) -> bool:
        return all(bool(stage.fitted) for stage in self._parts() if isinstance(stage, FittedStage))

    def export_problems(self, *, need_key: bool = True) -> list[str]:
        """What keeps its output from being exported now; `need_key=False`: what keeps itself from being published."""
        found = []
        if not self.exportable:
            found.append(
                "it attends across the batch (cross_sample=True): a clip's output depends on other clips"
            )
        if self.training:
            found.append("it is in training mode: call .eval()")
        if not self.fitted:
            found.append("a stage has not been fitted: call fit_from with features of training videos")
        if need_key and self.wants_noise and self.key is None:
            found.append("it adds noise and has no key: set .key = NoiseKey.generate() and keep the key")
        return found

    def content_hash(self) -> str:
        """SHA-256 of width, stages and tensors: what the output depends on, beside the key."""
        identity = {key: value for key, value in self.config.to_json().items() if key in ("width", "stages")}
        state = {key: value for key, value in self.state_dict().items() if not key.endswith(COUNTER)}
        return tensors_hash(identity, state)

    def account(self) -> Account:
        return card_of_latent(self)

    # --- fitting --------------------------------------------------------------------------------------------

    @torch.no_grad()
    def fit_from(
        self,
        features: Tensor,
        *,
        static: Tensor | None = None,
        videos: Tensor | None = None,
        owners: Tensor | None = None,
        actions: Tensor | None = None,
        spare: Tensor | None = None,
        seed: int = 0,
    ) -> LatentAnonymizer:
        """Give every stage the numbers it takes from data, in order, each from what the stages before it make of it.

        features (n, d) or (n, S, d) of moving clips of training videos; static (n, d) or (n, K, d) of the same clips'
        videos. For `Erase` and `Keep`: videos (V, K, d), static clips by video; owners (n,), which of those videos a
        clip is of; actions (n,), what is done in it; spare (c, d), a linear head's rows. Adapters are left as they
        are, so fit again after they have been trained.
        """
        tokens = self._tokens(features, None)
        still = self._static(static, len(tokens))
        for name, given in (("owners", owners), ("actions", actions)):
            if given is not None and given.shape != (len(tokens),):
                raise ShapeMismatch(f"{name} must be ({len(tokens)},), not {tuple(given.shape)}")
        noise = FreshNoise(torch.Generator().manual_seed(seed))
        was_training = self.training
        self.eval()
        try:
            for stage in self._parts():
                stage.fit_from(FitData(tokens, still, videos, owners, actions, spare))
                tokens = stage(tokens.float(), Context(None, still, noise))
                if videos is not None:
                    videos = _through(stage, videos, noise)
        finally:
            self.train(was_training)
        return self


def _through(stage: Stage, videos: Tensor, noise: NoiseSource) -> Tensor:
    """(V, K, d) static clips through a stage, each as a clip of its own; their own mean is their static feature."""
    count, clips, width = videos.shape
    own = videos.mean(1, keepdim=True).expand(-1, clips, -1).reshape(-1, width).float()
    rows = videos.float().reshape(count * clips, 1, width)
    out: Tensor = stage(rows, Context(None, own, noise))
    return out.view(count, clips, width)


def _doubled(stage: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers in float64; flags and counters as they are."""
    tensors = dict(itertools.chain(stage.named_parameters(), stage.named_buffers()))
    return {
        name: t.to(_exact_place(t)).double() if t.is_floating_point() else t for name, t in tensors.items()
    }


def _exact_place(x: Tensor) -> torch.device:
    """Where float64 can be computed: at home, unless home has none."""
    return torch.device("cpu") if x.device.type == "mps" else x.device


def require_exportable(anonymizer: Any) -> None:
    """Raise `NotExportable` unless the anonymizer's output may leave the process.

    Every command that writes features or frames calls this first. What does not say that it is exportable is not.
    """
    name = type(anonymizer).__name__
    if hasattr(anonymizer, "export_problems"):
        problems = list(anonymizer.export_problems())
    elif getattr(anonymizer, "exportable", False):
        problems = ["it is in training mode: call .eval()"] if getattr(anonymizer, "training", False) else []
    else:
        problems = ["it does not treat every clip by itself, or does not say so"]
    if problems:
        raise NotExportable(f"{name}: its output cannot be exported: " + "; ".join(problems))


def latent(width: int, *stages: StageConfig, **options: Any) -> LatentAnonymizer:
    """A new anonymizer in eval mode: `latent(768, Attention(), Rank(24))`.

    options: `tokens` and `encoder` of the configuration; `key`, `card` and `seed` of the anonymizer.
    """
    own = {name: options.pop(name) for name in ("key", "card", "seed") if name in options}
    if not stages:
        raise UsageError("latent: name at least one stage, such as Attention()")
    return LatentAnonymizer(LatentConfig(width, stages, **options), **own).eval()
