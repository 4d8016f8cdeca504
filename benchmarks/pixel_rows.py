"""The pixel anonymizers that `pixel_study` compares, by name, and at what scale they are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from videoveil.anonymizers.pixel.config import (
    Grey,
    Levels,
    LowResolution,
    NoiseFloor,
    Outline,
    StageConfig,
    UNet,
    UNetPP,
)
from videoveil.recipes import (
    PixelRecipe,
    noisy_features,
    penalty,
    spact,
    ted_spad,
    veil_pixel,
    veil_pixel_plain,
    vita,
)
from videoveil.recipes.veil_pixel import veil_pixel_attackers
from videoveil.training.minimax_settings import Budget, Headway, Phase, Rates, Start

if TYPE_CHECKING:
    from videoveil.attacks.frames import ClipConfig, FrameConfig
    from videoveil.attacks.reconstruction import ReconstructionConfig
    from videoveil.tasks.action.network import NetworkConfig

Family = Literal["classical", "published", "ours"]
RAW = "raw"


@dataclass(frozen=True)
class Scale:
    """How large everything is: frames of `size`², the width of UNets, epochs."""

    name: str
    twin: str  # size of the action twin
    surveillance: str  # and of the twin with anomalies
    size: int
    frames: int
    width: int  # of a UNet that is published with 64
    own_width: int  # of ours
    utility: str  # f_T and the fresh f'_T
    budget: str  # f_B
    attackers: tuple[str, ...]  # fresh f'_B on frames
    clip_attackers: tuple[str, ...]  # and on clips
    start: Start
    epochs: int  # of the minimax
    target_epochs: int  # of fresh utility nets
    attack_epochs: int
    batch: int
    precision: str
    own_weights: bool = (
        False  # f_T and f'_T start from the weights that come with their network, not from random ones
    )
    stride: int = 2  # source frames from one frame of a clip to the next
    augment: str = "weak"  # of clips, for f_T, f'_T and clip attackers
    image_augment: str = "weak-image"  # of frames, for their attackers
    attack_test: str = ""  # how test pictures are cut for attackers; empty: their own default
    views: int = 5  # of a test video, for attackers
    target_clips: int = 10  # and for f'_T
    frame_views: int = 4  # of a training video in an epoch, for attackers on frames
    clip_views: int = 2  # and on clips
    target_rate: float = 1e-3  # of fresh utility nets
    target_batch: int = 32
    attack_batch: int = 32
    clip_attack_epochs: int = 0  # 0: as on frames

    def target(self, workers: int) -> NetworkConfig:
        """How a fresh f'_T learns."""
        from videoveil.tasks.action.network import NetworkConfig

        return NetworkConfig(
            encoder=self.utility,
            weights="" if self.own_weights else "random",
            size=self.size,
            stride=self.stride,
            augment=self.augment,
            clips=self.target_clips,
            epochs=self.target_epochs,
            batch=self.target_batch,
            learning_rate=self.target_rate,
            warmup_epochs=1 if self.own_weights else 2,
            precision=self.precision,
            workers=workers,
            checkpoint_every=1000,
        )

    def frame_attack(self, workers: int) -> FrameConfig:
        """How fresh attackers on frames learn."""
        from videoveil.attacks.frames import FrameConfig

        return FrameConfig(
            networks=self.attackers,
            augment=self.image_augment,
            per_video=self.frame_views,
            frames=self.views,
            epochs=self.attack_epochs,
            **self._attack(workers),
        )

    def clip_attack(self, workers: int) -> ClipConfig:
        """And on clips."""
        from videoveil.attacks.frames import ClipConfig

        return ClipConfig(
            networks=self.clip_attackers,
            augment=self.augment,
            per_video=self.clip_views,
            clips=self.views,
            epochs=self.clip_attack_epochs or self.attack_epochs,
            **self._attack(workers),
        )

    def reconstruction(self, workers: int) -> ReconstructionConfig:
        """How somebody with pairs of raw and published frames learns to draw the raw ones."""
        from videoveil.attacks.reconstruction import ReconstructionConfig

        return ReconstructionConfig(
            width=self.own_width,
            size=self.size,
            epochs=self.attack_epochs,
            per_video=self.frame_views,
            network_epochs=self.attack_epochs,
            networks=self.attackers[:1],
            workers=workers,
            precision=self.precision,
            checkpoint_every=1000,
        )

    def _attack(self, workers: int) -> dict[str, Any]:
        return {
            **({"test": self.attack_test} if self.attack_test else {}),
            "size": self.size,
            "batch": self.attack_batch,
            "workers": workers,
            "precision": self.precision,
            "checkpoint_every": 1000,
        }


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            name="gpu",
            twin="small",
            surveillance="small",
            size=64,
            frames=16,
            width=32,
            own_width=32,
            utility="tiny",  # from scratch, so few videos teach R3D-18 nothing: 12.5 % of the actions
            budget="resnet.18",
            # from scratch, ResNet-18 finds 48 in raw frames and R3D-18 37 in raw clips; these 79 and 82
            attackers=("tiny@own",),
            clip_attackers=("tiny@own",),
            start=Start(
                identity_epochs=25,
                identity_goal=0.02,
                identity_warmup=2,
                identity_rate=2e-3,
                utility_epochs=4,
                budget_epochs=6,
                rate=1e-3,
            ),
            epochs=30,
            target_epochs=14,
            attack_epochs=12,
            batch=24,
            precision="bf16-mixed",
            own_weights=True,
            stride=1,
            augment="ted-spad-weak",
            image_augment="ted-spad-weak",
            attack_test="ted-spad-test",
            frame_views=2,
            clip_views=2,
            target_rate=2e-3,
            target_batch=16,
            attack_batch=16,
        ),
        Scale(
            name="cpu",
            twin="small",
            surveillance="small",
            size=64,
            frames=16,
            width=4,
            own_width=4,
            utility="tiny",
            budget="mobilenet.v1-0.25",
            attackers=("tiny@own",),  # from scratch, 192 videos teach a network of frames next to nothing
            clip_attackers=("tiny@own",),
            start=Start(
                identity_epochs=10,
                identity_goal=0.05,
                identity_warmup=1,
                identity_rate=3e-3,
                utility_epochs=2,
                budget_epochs=2,
                rate=1e-3,
            ),
            epochs=4,
            target_epochs=12,
            attack_epochs=10,
            batch=16,
            precision="32-true",
            own_weights=True,
            stride=1,  # what its weights were learnt with: at 2 it loses ten points
            augment="ted-spad-weak",  # crops alone: other colours and erased parts need more epochs
            image_augment="ted-spad-weak",
            attack_test="ted-spad-test",
            target_clips=5,
            frame_views=2,
            clip_views=1,
            target_rate=2e-3,
            target_batch=16,
            attack_batch=16,
            clip_attack_epochs=16,
        ),
        Scale(
            name="try",
            twin="tiny",
            surveillance="tiny",
            size=32,
            frames=6,
            width=4,
            own_width=4,
            utility="tiny",
            budget="mobilenet.v1-0.25",
            attackers=("mobilenet.v1-0.25",),
            clip_attackers=("tiny@own",),
            start=Start(identity_epochs=1, utility_epochs=1, budget_epochs=1),
            epochs=1,
            target_epochs=1,
            attack_epochs=1,
            batch=8,
            precision="32-true",
        ),
    )
}


@dataclass(frozen=True)
class Row:
    """A classical obfuscation by its method's name, a recipe, or both, one after the other."""

    family: Family
    recipe: PixelRecipe | None = None
    method: str = ""  # of `anonymizers.obfuscate`, with the theatre's own boxes
    told: bool = False  # its budget nets are told what the attack will ask
    anomaly: bool = False  # also scored on anomalies
    only_faces: bool = False  # `method` covers faces and not people, where detectors look for both
    shipped: str = ""  # in place of a recipe: what comes with the package


def model(row: str) -> str:
    """Of a row `=NAME`, the anonymizer's name, folder or hub id; empty for other rows."""
    return row[1:] if row.startswith("=") else ""


def scaled(recipe: PixelRecipe, scale: Scale, **changes: Any) -> PixelRecipe:
    """A recipe at the scale of the study: all of one size, one kind of f_T and f_B, the same epochs."""
    own = recipe.settings
    budget = own.budget
    encoder = scale.utility
    weights = "own" if scale.own_weights else ""
    if any(phase.turn == "restyle" for phase in own.phases) and encoder == "tiny":
        encoder, weights = "r3d.18", ""  # the loss looks at its layers
    if budget is not None:
        members = (scale.utility if budget.kind == "clips" else scale.budget,) * len(budget.members)
        budget = replace(budget, members=members, source="video")
    return replace(
        recipe,
        stages=tuple(_width(stage, recipe.name, scale) for stage in recipe.stages),
        settings=replace(
            own,
            utility=replace(
                own.utility,
                encoder=encoder,
                weights=weights,
                frames=scale.frames,
                stride=scale.stride,
                dropout=0.0,  # belongs to the published network
                augment=scale.augment if scale.own_weights else own.utility.augment,
            ),
            budget=budget,
            size=scale.size,
            epochs=scale.epochs if own.epochs else 0,
            batch=scale.batch,
            privacy_batch=scale.batch,
            start=scale.start,
            precision=scale.precision,
            keep_every=10,
            checkpoint_every=1000,
            headway=Headway(),  # a comparison shows what comes out, also where nothing was gained
            **changes,
        ),
    )


def _width(stage: StageConfig, name: str, scale: Scale) -> StageConfig:
    if isinstance(stage, UNet):
        return replace(stage, width=scale.own_width if name.startswith("veil") else scale.width)
    if isinstance(stage, UNetPP) and scale.name != "gpu":
        return UNet(width=scale.width)  # fourteen million weights are too many for two cores
    if isinstance(stage, LowResolution) and stage.size:
        return replace(stage, size=max(2, round(stage.size * scale.size / 112)))
    return stage


# of the published .3, .5, .7 and .9 the last three never bind at these sizes, and gave one f_A to the bit; .15 is felt
BOUNDS = (0.15, 0.3, 0.5)
UNFELT = (0.7, 0.9)  # run only where they are named
FAST = Rates(anonymizer=3e-4, utility=3e-4, budget=3e-4)  # fewer steps than published, so larger ones


def code(name: str, *stages: StageConfig) -> PixelRecipe:
    """Stages that need no training, as a recipe."""
    return PixelRecipe(
        name=name, stages=stages, settings=replace(spact().settings, epochs=0, budget=Budget())
    )


def published(recipe: PixelRecipe, scale: Scale) -> PixelRecipe:
    return scaled(recipe, scale, rates=FAST)


def bounded(scale: Scale, bounds: Sequence[float]) -> dict[str, Row]:
    """The penalty-driven method with each of the bounds."""
    return {f"penalty, B={b:g}": Row("published", published(penalty(b), scale)) for b in bounds}


def known(scale: Scale) -> dict[str, Row]:
    """Everything that can be asked for by name."""
    return {**rows(scale), **bounded(scale, UNFELT), **candidates(scale)}


def rows(scale: Scale) -> dict[str, Row]:
    """What is compared, by name."""
    short = scale.size // 4
    found = {
        "downsample 2×": Row("classical", code("down2", LowResolution(factor=2, up="bilinear"))),
        "downsample 4×": Row("classical", code("down4", LowResolution(factor=4, up="bilinear"))),
        "blacken": Row("classical", method="blacken"),
        "strong blur": Row("classical", method="strong-blur"),
        "weak blur": Row("classical", method="weak-blur"),
        "SPAct": Row("published", published(spact(), scale), anomaly=True),
        # TeD-SPAD's network with SPAct's objective: which of the two is it?
        "SPAct, UNet++": Row("published", published(replace(spact(), stages=ted_spad().stages), scale)),
        "TeD-SPAD": Row("published", published(ted_spad(), scale), anomaly=True),
        **bounded(scale, BOUNDS),
        "VITA, told": Row("published", published(vita(), scale), told=True),
        "Noisy-Features": Row("published", published(noisy_features(), scale)),
        "grey code": Row("ours", code("grey", Grey(), LowResolution(size=short, up="bilinear"), Levels(4))),
        "veil-pixel": Row("ours", veil_pixel(), anomaly=True),
        "blacken, then veil-pixel": Row("ours", veil_pixel(), method="blacken"),
        "veil-pixel, no attackers": Row("ours", scaled(veil_pixel_plain(), scale)),
        "veil-pixel, attackers": Row("ours", scaled(veil_pixel_attackers(), scale)),
    }
    if scale.name != "gpu":  # without a UNet++ that is SPAct
        del found["SPAct, UNet++"]
    return found


def candidates(scale: Scale) -> dict[str, Row]:
    """What our default was chosen from, on validation seeds; sizes are shares of the frame's short side."""
    side = scale.size
    found: dict[str, Row] = {"grey": Row("ours", code("only-grey", Grey()))}
    for share in (0.5, 0.35, 0.25, 0.15, 0.1):
        small = LowResolution(size=max(2, round(share * side)), up="bilinear")
        found[f"colour {share:g}"] = Row("ours", code("colour", small))
        found[f"grey {share:g}"] = Row("ours", code("grey", Grey(), small))
        for levels in (2, 4):
            stages = (Grey(), small, Levels(levels))
            found[f"grey {share:g} levels {levels}"] = Row("ours", code("grey-levels", *stages))
    for share in (1.0, 0.75, 0.5, 0.25, 0.15):
        for threshold in (0.1, 0.15, 0.25):
            stage = Outline(max(2, round(share * side)), threshold)
            found[f"outline {share:g} threshold {threshold:g}"] = Row("ours", code("outline", stage))
    found["outline, soft"] = Row(
        "ours", code("soft", Outline(), LowResolution(size=max(2, round(0.35 * side)), up="bilinear"))
    )
    found["outline, noise .2"] = Row("ours", code("noisy", Outline(), NoiseFloor(sigma=0.2)))
    attackers = veil_pixel_attackers()
    more = replace(attackers.settings, phases=(Phase("anonymizer", 4), Phase("auxiliary", 2)), w_budget=3.0)
    found["veil-pixel, attackers ×3"] = Row("ours", scaled(replace(attackers, settings=more), scale))
    return found
