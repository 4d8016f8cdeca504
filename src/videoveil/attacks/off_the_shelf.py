"""Detectors that nobody here trained: whether they still find, in published frames, the people they find in raw ones.

    DetectorAttack((CenterFace(), Hog())).fit(source).score(Clips(dataset, "test", anonymizer))

Any detector of `anonymizers.obfuscate` will do: faces or people, ONNX files of the user's own. The score is the share
of its raw detections that it makes again in the published frame (IoU of a half or more). Chance is the share that the
published frames of *other* videos hit: boxes in the middle of the picture are hit by anybody's. A detector that finds
nobody in the raw frames either says nothing, and is left out.

Not being detected is not being unrecognisable; being detected shows that a person can be seen, not who it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from videoveil import devices, files
from videoveil.anonymizers.obfuscate.boxes import Boxes, checked, iou
from videoveil.attacks.frames import raw_of
from videoveil.attacks.reconstructor import Pairs
from videoveil.data.records import Item
from videoveil.errors import BadItems, UsageError
from videoveil.media import sampling
from videoveil.tasks.base import Clips, Metric, Progress, Role, Score, as_clips
from videoveil.tasks.outcomes import MeanOutcome, Outcome
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames, check

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.anonymizers.obfuscate.detectors import Detector
    from videoveil.features.pixels import PixelVeil

OTHERS = "published frames of other videos: the share of raw detections that their detections hit"
NOBODY = "not measurable: no detector finds anybody in the raw frames"


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """How much is looked at, and what counts as found."""

    frames: int = 4  # of a video, evenly spaced
    iou: float = 0.5
    workers: int = 2

    def __post_init__(self) -> None:
        if self.frames < 1 or self.workers < 1 or not 0 < self.iou <= 1:
            raise UsageError(
                f"frames={self.frames}, workers={self.workers} must be at least 1, iou={self.iou} in (0, 1]"
            )


@dataclass(frozen=True)
class Named:
    """A detector under a name of its own, so that two files of one kind can be told apart.

    It remembers what it found: raw frames are looked at for every seed, and on both sides of an audit.
    """

    name: str
    detector: Detector
    _found: dict[str, Boxes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def covers(self) -> str:
        return self.detector.covers

    def boxes(self, frame: np.ndarray) -> Boxes:
        key = hashlib.sha256(repr(frame.shape).encode() + frame.tobytes()).hexdigest()
        if key not in self._found:
            self._found[key] = self.detector.boxes(frame)
        return self._found[key].copy()

    def identity(self) -> str:
        return self.detector.identity()


@dataclass(frozen=True)
class Seen:
    """What a detector finds in the frames of one video."""

    item: str
    raw: tuple[Boxes, ...]  # one (n, 5) per frame
    published: tuple[Boxes, ...]  # in pixels of the raw frame
    size: tuple[int, int]  # height and width of the raw frames


@dataclass(frozen=True)
class DetectorAttack:
    """Whether people can still be seen by machines that know nothing of the anonymizer."""

    detectors: tuple[Detector, ...]
    config: DetectorConfig = field(default_factory=DetectorConfig)
    raw: Clips | None = None
    name: ClassVar[str] = "off-the-shelf"
    role: ClassVar[Role] = "attack"

    def __post_init__(self) -> None:
        names = [one.name for one in self.detectors]
        if not names or len(set(names)) != len(names):
            raise UsageError(
                f"off-the-shelf: give at least one detector, and each of another kind or name, not {names}"
            )

    def fit(
        self,
        train: Clips,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedDetectors:
        """Nothing is learnt."""
        as_clips(train, "a detector")
        made = FittedDetectors(self, seed, device)
        if run is not None:
            made.save(run / "attack.json")
        return made

    def load(self, source: str | Path) -> FittedDetectors:
        raise UsageError(f"{source}: detectors learn nothing; run the attack again")


@dataclass
class FittedDetectors:
    """Detectors, ready to look."""

    task: DetectorAttack
    seed: int = 0
    device: str = "cpu"

    def seen(self, test: Clips) -> dict[str, list[Seen]]:
        """What every detector finds in every video, ordered by id."""
        test = as_clips(test, "a detector")
        items = tuple(sorted(test.items(), key=lambda item: item.id))
        if not items:
            raise BadItems("no videos to work on: the split has none")
        pairs = Pairs(self.task.raw or raw_of(test), test)
        raw, published = pairs.of(items)
        check(raw, Frames(), self.task.config.workers)
        if pairs.raw.dataset is not test.dataset:
            check(published, Frames(), self.task.config.workers)
        found: dict[str, list[Seen]] = {one.name: [] for one in self.task.detectors}
        for one, two in zip(raw, published):
            shown, hidden = self._frames(test, one, two)
            for detector in self.task.detectors:
                found[detector.name].append(_look(detector, one.id, shown, hidden))
        return found

    def _frames(self, test: Clips, raw: Item, published: Item) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Frames uint8 (H, W, 3) of a video as they were filmed and as they were published."""
        plain = Frames()
        indices = frame_numbers(plain.count(raw), self.task.config.frames)
        shown = plain.read(raw, indices).numpy()
        source = Frames(paint=test.paint)
        if source.count(published) != plain.count(raw):
            raise BadItems(
                "raw and published videos differ in length:",
                [f"{raw.id}: {plain.count(raw)} and {source.count(published)} frames"],
            )
        hidden = source.read(published, indices).numpy() if test.paint or raw != published else shown
        veil = test.veil()
        if veil is not None:
            noise = seeds.number(self.seed, "test", raw.id)
            hidden = _published(hidden, veil, noise, devices.choose(self.device))
        return list(shown), list(hidden)

    def outcomes(self, test: Clips) -> dict[str, Outcome]:
        """The share of its raw detections that each detector makes again, over the videos where it makes any."""
        found: dict[str, Outcome] = {}
        for name, videos in self.seen(test).items():
            there = [video for video in videos if any(len(boxes) for boxes in video.raw)]
            if not there:
                continue
            values = np.array([share(one.raw, one.published, self.task.config.iou) for one in there])
            found[f"found_{name}"] = MeanOutcome(
                "found",
                tuple(one.item for one in there),
                values,
                _by_chance(there, videos, self.task.config.iou),
            )
        return found

    def score(self, test: Clips) -> Score:
        """The share that the best detector finds again, then that of each; None where none finds anybody."""
        each = [
            Metric(n, m.value, m.chance)
            for n, m in ((n, o.measure()) for n, o in self.outcomes(test).items())
        ]
        if not each:
            return Score(
                DetectorAttack.name, len(test.items()), (Metric("found", None, None),), baseline=NOBODY
            )
        best = max(each, key=lambda metric: metric.value or 0.0)
        return Score(
            DetectorAttack.name, len(test.items()), (replace(best, name="found"), *each), baseline=OTHERS
        )

    def save(self, destination: str | Path) -> None:
        value: dict[str, Any] = {one.name: one.identity() for one in self.task.detectors}
        files.write_json(destination, value)


def frame_numbers(total: int, count: int) -> list[int]:
    """Up to `count` frames of a video, evenly spaced."""
    return sorted({clip.indices[0] for clip in sampling.equidistant(total, min(count, total), 1)})


@torch.no_grad()
def _published(images: np.ndarray, veil: PixelVeil, seed: int, device: torch.device) -> np.ndarray:
    """(n, H, W, 3) uint8 → the same through the anonymizer, as a stored video would show it."""
    clip = torch.from_numpy(np.ascontiguousarray(images)).permute(3, 0, 1, 2)[None].float().div(255)
    made = veil(clip.to(device), seed=seed)[0].mul(255).round().clamp(0, 255).to(torch.uint8)
    return np.ascontiguousarray(made.permute(1, 2, 3, 0).cpu().numpy())


def _look(detector: Detector, item: str, shown: Sequence[np.ndarray], hidden: Sequence[np.ndarray]) -> Seen:
    size = (shown[0].shape[0], shown[0].shape[1])
    raw = tuple(checked(detector.boxes(np.ascontiguousarray(image)), detector.name) for image in shown)
    published = tuple(
        _scaled(checked(detector.boxes(np.ascontiguousarray(image)), detector.name), image.shape[:2], size)
        for image in hidden
    )
    return Seen(item, raw, published, size)


def _scaled(boxes: Boxes, source: Sequence[int], target: Sequence[int]) -> Boxes:
    """Boxes of a picture of one size in pixels of another."""
    factor = np.array([target[1] / source[1], target[0] / source[0]] * 2 + [1.0])
    return np.asarray(boxes * factor, dtype=np.float32)


def share(raw: Sequence[Boxes], published: Sequence[Boxes], least: float) -> float:
    """The share of all raw boxes that have a published one of their own with at least that IoU, frame by frame."""
    total = sum(len(boxes) for boxes in raw)
    return sum(hits(one, two, least) for one, two in zip(raw, published)) / total


def hits(raw: Boxes, published: Boxes, least: float) -> int:
    """How many raw boxes are hit; each published box counts for one of them, the nearest pairs first."""
    overlap = iou(raw, published)
    count = 0
    while overlap.size and overlap.max() >= least:
        row, column = np.unravel_index(int(overlap.argmax()), overlap.shape)
        overlap[row, :], overlap[:, column] = -1.0, -1.0
        count += 1
    return count


def _by_chance(there: Sequence[Seen], every: Sequence[Seen], least: float) -> np.ndarray | None:
    """For each video the mean share that the other videos' published frames hit; None where there is no other."""
    if len(every) < 2:
        return None
    return np.array([float(np.mean(list(_others(one, every, least)))) for one in there])


def _others(one: Seen, every: Sequence[Seen], least: float, most: int = 8) -> Iterator[float]:
    """By up to `most` other videos, evenly spaced among them."""
    rest = [other for other in every if other.item != one.item]
    for place in sorted({int(p) for p in np.linspace(0, len(rest) - 1, min(most, len(rest)))}):
        moved = [_scaled(boxes, rest[place].size, one.size) for boxes in rest[place].published]
        frames = [moved[i % len(moved)] for i in range(len(one.raw))]
        yield share(one.raw, frames, least)
