"""How large an evaluation is: `tiny` to see that everything runs, `small` for two cores, `paper` as published.

Smaller scales put a small network in the place of every published one and say so in every cell that it fills.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from videoveil.audit.rules import Rules
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.attacks import FrameConfig
    from videoveil.tasks.action.network import NetworkConfig
    from videoveil.tasks.action.probe import ProbeConfig
    from videoveil.tasks.mgfn import MGFNConfig
    from videoveil.tasks.tridet import TriDetConfig

OWN_WEIGHTS = "tiny"  # the network that comes with weights
SPACT_SIDE = 112  # of SPAct's pictures; those of TeD-SPAD and the penalty paper have 224


@dataclass(frozen=True)
class Network:
    """What measures: a registered network, and where its weights come from ("" scratch, "own", a file…)."""

    name: str
    start: str = ""
    instead_of: str = ""

    @property
    def word(self) -> str:
        """As attacks name it."""
        return f"{self.name}@{self.start}" if self.start else self.name


@dataclass(frozen=True)
class Scale:
    """Numbers of everything that is trained. 0 is "all", or "as published" where that is known (`FullSize`)."""

    name: str
    items: int = 0  # of a split at most, evenly over its classes
    long_items: int = 0  # of untrimmed videos, of either kind
    network: str = ""  # in the place of every published network
    size: int = 0  # of pictures, where another than the published one
    action_epochs: int = 0
    attack_epochs: int = 0
    views: int = 0  # of a test video
    frame_stride: int = 0  # of test videos with a label for every frame: every so many; 0: as many as `views`
    probe_epochs: int = 0
    static: int = 10  # static clips of a video
    dense: int = 4  # frames from one clip to the next, for detection
    temporal: bool = True  # the published detector and anomaly network, not small ones
    temporal_epochs: int = 0
    kinds: tuple[str, ...] = ()  # attackers on features that compete; (): the whole suite
    workers: int = 2
    # test items below which nothing is measurable; not in the name of a result, which it leaves as it is
    least_items: int = field(default=Rules.least_items, repr=False)

    def stand_in(self, model: str, weights: Mapping[str, str]) -> Network:
        """The network for a published one: `NAME`, or `NAME@WHERE` for one that begins from weights."""
        name, _, start = model.partition("@")
        if self.network:
            return Network(self.network, "own" if start and self.network == OWN_WEIGHTS else "", model)
        if start and model not in weights:
            raise UsageError(
                f"{model}: begins from published weights; give them with --weights {model}=FILE "
                "(or torchvision:NAME, or a hub id)"
            )
        return Network(name, weights.get(model, ""))

    def can(self, model: str, weights: Mapping[str, str]) -> bool:
        """Whether there are weights for it, where it needs some."""
        return bool(self.network) or "@" not in model or model in weights

    # --- settings of tasks and attacks ---

    def action(
        self, network: Network, size: int, target: str = "action", *, raw: bool = False
    ) -> NetworkConfig:
        """`raw`: it learns from raw videos."""
        from videoveil.tasks.action.network import fine_tune, scratch

        base = fine_tune() if network.start else replace(scratch(), optimizer="adam", weight_decay=0.0)
        return replace(
            base,
            encoder=network.name,
            weights=_weights(network),
            target=target,  # type: ignore[arg-type]
            size=self.size or size,
            epochs=self.action_epochs,
            warmup_epochs=min(base.warmup_epochs, max(0, self.action_epochs - 1)),
            clips=self.views or 10,
            workers=self.workers,
        )

    def frames(
        self, network: Network, size: int, *, labelled_frames: bool = False, images: bool = False
    ) -> FrameConfig:
        """`labelled_frames`: the test videos have a label for every frame (PA-HMDB51). `images`: it learns from
        images, not from videos."""
        from videoveil.attacks import FrameConfig

        return FrameConfig(
            networks=(network.word,),
            size=self.size or size,
            epochs=self.attack_epochs,
            per_video=1 if self.attack_epochs == 1 else 4,
            frames=self.views or 10,
            frame_stride=self.frame_stride if labelled_frames else 0,
            workers=self.workers,
        )

    def probe(self) -> ProbeConfig:
        from videoveil.tasks.action.probe import paper, recommended

        if not self.probe_epochs:
            return paper()
        return replace(recommended(), epochs=self.probe_epochs)

    def detection(self) -> TriDetConfig:
        from videoveil.tasks.detection import small, thumos14

        if self.temporal:
            return thumos14()
        if not self.temporal_epochs:
            return small()
        return replace(
            small(),
            width=32,
            mlp_width=32,
            group_norm_groups=4,
            max_seq_len=96,
            warmup_epochs=1,
            cosine_epochs=self.temporal_epochs,
        )

    def anomaly(self) -> MGFNConfig:
        from videoveil.tasks.mgfn import recommended, small

        if self.temporal:
            return recommended()
        return small(epochs=self.temporal_epochs, batch=2) if self.temporal_epochs else small()


@dataclass(frozen=True)
class FullSize(Scale):
    """What is trained is trained as its paper does it, which the side of the pictures tells.

    112: SPAct. 224: TeD-SPAD and the penalty paper, whose f'_T learns for 100 epochs from raw videos and for 50 from
    anonymized ones. Tables of the penalty paper that repeat SPAct's columns are measured at 112 and as there. Networks
    that begin from weights are fine-tuned as TeD-SPAD does it, at 1e-4 with batch norm frozen, for no other paper says
    how; their epochs and clips are those of the side.
    """

    def action(
        self, network: Network, size: int, target: str = "action", *, raw: bool = False
    ) -> NetworkConfig:
        from videoveil.tasks.action.network import fine_tune, spact, ted_spad

        paper = spact() if size == SPACT_SIDE else ted_spad(raw)
        if network.start:
            tuned = fine_tune()
            paper = replace(
                paper,
                batch=tuned.batch,
                learning_rate=tuned.learning_rate,
                freeze_norm=tuned.freeze_norm,
            )
        return replace(
            paper,
            encoder=network.name,
            weights=_weights(network),
            target=target,  # type: ignore[arg-type]
            size=self.size or size,
            epochs=self.action_epochs or paper.epochs,
            clips=self.views or paper.clips,
            workers=self.workers,
        )

    def frames(
        self, network: Network, size: int, *, labelled_frames: bool = False, images: bool = False
    ) -> FrameConfig:
        """Images are seen once in an epoch. Of a video no paper says how often: four frames of it."""
        from videoveil.attacks.frames import spact, ted_spad

        attacker = spact() if size == SPACT_SIDE else ted_spad()
        return replace(
            attacker,
            networks=(network.word,),
            size=self.size or size,
            epochs=self.attack_epochs or attacker.epochs,
            per_video=attacker.per_video if images else 4,
            frames=self.views or 10,
            frame_stride=self.frame_stride if labelled_frames else 0,
            workers=self.workers,
        )


def _weights(network: Network) -> str:
    """As tasks name them."""
    return {"": "random", "own": ""}.get(network.start, network.start)


TINY = Scale(
    "tiny",
    items=24,
    long_items=2,
    network="tiny",
    size=32,
    action_epochs=1,
    attack_epochs=1,
    views=2,
    probe_epochs=20,
    static=2,
    dense=16,
    temporal=False,
    temporal_epochs=1,
    kinds=("linear", "mlp2"),
    workers=1,
    least_items=2,  # untrimmed videos of either kind: enough to see that it runs, for nothing else
)
SMALL = Scale(
    "small",
    network="tiny",
    size=64,
    action_epochs=12,
    attack_epochs=12,
    views=5,
    probe_epochs=100,
    static=4,
    temporal=False,
)
PAPER = FullSize(
    "paper", frame_stride=1
)  # all labelled frames: the published chance level is that of all of them
SCALES = {scale.name: scale for scale in (TINY, SMALL, PAPER)}


def scale(name: str) -> Scale:
    if name not in SCALES:
        raise UsageError(f"size {name!r}: choose one of {', '.join(SCALES)}")
    return SCALES[name]
