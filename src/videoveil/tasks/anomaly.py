"""Anomaly detection as a task: MGFN on consecutive clips, learnt from one label per video, scored frame by frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from videoveil.tasks.base import Features, Metric, Progress, Role, Score, as_features
from videoveil.tasks.mgfn import (
    AnomalyReport,
    AnomalyVideo,
    FittedMGFN,
    MGFNConfig,
    fit,
    from_store,
    recommended,
)

if TYPE_CHECKING:
    from lightning.fabric import Fabric

MODEL = "model.safetensors"
CONSTANT = "the same score for every frame"


@dataclass(frozen=True)
class AnomalyDetection:
    """When something unusual happens."""

    config: MGFNConfig = field(default_factory=recommended)
    name: ClassVar[str] = "anomaly"
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
    ) -> FittedAnomaly:
        train = as_features(train, "anomaly detection", "extract them first (clips='all')")
        videos = from_store(train.store, train.dataset, train.split)
        return FittedAnomaly(
            fit(videos, self.config, run=run, seed=seed, device=device, progress=progress, fabric=fabric)
        )

    def load(self, source: str | Path) -> FittedAnomaly:
        return FittedAnomaly.load(source)


@dataclass
class FittedAnomaly:
    """A trained MGFN behind the contract of all tasks."""

    model: FittedMGFN

    @property
    def history(self) -> Sequence[Mapping[str, Any]]:
        return self.model.history

    def score(self, test: Features) -> Score:
        """Frame-level ROC-AUC, AP and PR-AUC of all frames; per class against all normal videos and within its own."""
        return self.score_videos(from_store(test.store, test.dataset, test.split, with_truth=True))

    def score_videos(self, videos: Sequence[AnomalyVideo]) -> Score:
        return as_score(self.model.score(videos))

    def save(self, destination: str | Path) -> None:
        self.model.save(destination)

    @classmethod
    def load(cls, source: str | Path) -> FittedAnomaly:
        return cls(FittedMGFN.load(source))


def as_score(report: AnomalyReport) -> Score:
    """An anomaly report in the words of all tasks."""
    overall, inside = report.overall, report.abnormal_only
    metrics = (
        Metric("roc_auc", overall.roc_auc, overall.roc_chance),
        Metric("ap", overall.ap, overall.ap_chance),
        Metric("pr_auc", overall.pr_auc, overall.ap_chance),
        Metric("roc_auc_abnormal_videos", inside.roc_auc, inside.roc_chance),
    )
    per_class = {
        name: {
            "roc_auc": areas.against_normal.roc_auc,
            "ap": areas.against_normal.ap,
            "roc_auc_within": areas.within.roc_auc,
            "videos": float(areas.within.videos),
        }
        for name, areas in report.classes.items()
    }
    return Score(AnomalyDetection.name, overall.videos, metrics, per_class, CONSTANT)
