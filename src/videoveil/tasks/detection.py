"""Temporal action detection as a task: TriDet on the dense features of untrimmed videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from videoveil.errors import CheckpointError
from videoveil.tasks.base import Features, Metric, Progress, Role, Score, as_features
from videoveil.tasks.tridet import (
    Detections,
    DetectionVideo,
    FittedTriDet,
    TriDetConfig,
    evaluate,
    fit,
    from_store,
    truth_of,
)
from videoveil.tasks.tridet.baseline import Tiling
from videoveil.tasks.tridet.checks import cut_to_video
from videoveil.training import checkpoints

if TYPE_CHECKING:
    from lightning.fabric import Fabric

FORMAT = "videoveil-detection-1"
MODEL = "model.safetensors"
UNIFORM = "segments of each class's median training length, end to end over every video"


def thumos14() -> TriDetConfig:
    """The published setting."""
    return TriDetConfig()


def small() -> TriDetConfig:
    """Half as wide and for shorter windows, with an average that forgets its start within a few hundred steps."""
    return TriDetConfig(
        width=256,
        mlp_width=384,
        max_seq_len=192,
        learning_rate=3e-4,
        ema_decay=0.98,
        warmup_epochs=3,
        cosine_epochs=12,
    )


@dataclass(frozen=True)
class ActionDetection:
    """Which actions happen from when to when."""

    config: TriDetConfig = field(default_factory=thumos14)
    cut: bool = (
        False  # annotations outside their video (the public THUMOS14 file has some) are cut, not refused
    )
    name: ClassVar[str] = "detection"
    role: ClassVar[Role] = "utility"

    def fit(
        self,
        train: Features,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedDetection:
        train = as_features(train, "detection", "extract them first (clips='dense:4')")
        videos = detection_videos(train, cut=self.cut)
        classes = train.records().classes
        found = fit(
            videos, classes, self.config, run=run, seed=seed, device=device, progress=progress, fabric=fabric
        )
        fitted = FittedDetection(found, Tiling.of(videos, classes), self.cut)
        if run is not None and (fabric is None or fabric.is_global_zero):
            fitted.save(run / MODEL)
        return fitted

    def load(self, source: str | Path) -> FittedDetection:
        return FittedDetection.load(source)


def detection_videos(source: Features, *, cut: bool = False) -> list[DetectionVideo]:
    """The videos of a source; with `cut` without what lies outside them."""
    videos = from_store(source.store, source.dataset, source.split)
    return cut_to_video(videos)[0] if cut else videos


@dataclass
class FittedDetection:
    """A detector, and what knowing only the training labels would find."""

    detector: FittedTriDet
    blind: Tiling
    cut: bool = False

    @property
    def history(self) -> Sequence[Mapping[str, Any]]:
        return self.detector.history

    @property
    def names(self) -> tuple[str, ...]:
        return self.detector.classes

    def detect(self, videos: Sequence[DetectionVideo]) -> list[Detections]:
        return self.detector.detect(videos)

    def score(self, test: Features) -> Score:
        """mAP at the thresholds .3:.1:.7 and their mean, with that of uniform segments."""
        return self.score_videos(detection_videos(test, cut=self.cut))

    def score_videos(self, videos: Sequence[DetectionVideo]) -> Score:
        truth = truth_of(videos)
        found, blind = self.detector.score(videos), evaluate(self.blind.detections(videos), truth)
        metrics = [Metric("mAP", found.mean, blind.mean)]
        metrics += [Metric(f"mAP@{t:g}", value, blind.at[t]) for t, value in found.at.items()]
        by_chance = blind.per_class()
        per_class = {name: {"ap": ap, "chance": by_chance[name]} for name, ap in found.per_class().items()}
        return Score(ActionDetection.name, len(videos), tuple(metrics), per_class, UNIFORM)

    def save(self, destination: str | Path) -> None:
        blind = {"lengths": list(self.blind.lengths), "shares": list(self.blind.shares)}
        facts = {**self.detector.facts(), "blind": blind, "cut": self.cut}
        checkpoints.write(destination, FORMAT, self.detector.network.state_dict(), facts)

    @classmethod
    def load(cls, source: str | Path) -> FittedDetection:
        tensors, facts = checkpoints.read(source, FORMAT)
        detector = FittedTriDet.of_facts(tensors, facts, str(source))
        try:
            blind = facts["blind"]
            tiling = Tiling(detector.classes, tuple(blind["lengths"]), tuple(blind["shares"]))
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{source}: its description is damaged ({error!r})") from error
        return cls(detector, tiling, bool(facts.get("cut", False)))
