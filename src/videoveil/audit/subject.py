"""What is audited: the same videos on two sides, raw and as an anonymizer leaves them.

    Subject.of(dataset, open_anonymizer("downsample:4"))

An anonymizer works on pixels, and attackers see the files that it publishes (`audit.published`) and the features that
an encoder makes of them; or it works on features, and attackers see nothing else. A subject of pairs has two folders of
videos, whatever made them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from videoveil import files
from videoveil.anonymizers import named
from videoveil.anonymizers.named import BlackFrames as BlackFrames
from videoveil.anonymizers.named import Untouched as Untouched
from videoveil.attacks.attributes import Labels, own_attributes
from videoveil.audit import published
from videoveil.data.records import Dataset, Item
from videoveil.errors import UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks.base import Clips, Features

if TYPE_CHECKING:
    from videoveil.anonymizers import LatentAnonymizer, NoiseKey
    from videoveil.anonymizers.obfuscate.detectors import Detector
    from videoveil.features.pixels import FrameAnonymizer
    from videoveil.training.clip_batches import FramePainter

Which = Literal["raw", "anonymized"]
WHICH: tuple[Which, Which] = ("raw", "anonymized")
STATIC = 4  # static clips of a video
ALL, DENSE = "all", "dense:4"  # clips of which there are features: end to end, or one every four frames


# --- anonymizers by name ------------------------------------------------------------------------------------


def open_anonymizer(
    source: str,
    key: NoiseKey | None = None,
    *,
    detector: Detector | None = None,
    fail_closed: bool = False,
) -> Any:
    """Any anonymizer by name; one that wants noise and was given no key gets that of audits."""
    made = named.open_anonymizer(source, key=key, detector=detector, fail_closed=fail_closed)
    if getattr(made, "wants_noise", False) and made.key is None:
        made.key = _trial_key()
    return made


def _trial_key() -> NoiseKey:
    """Of noise in an audit only, where every run must be the same; what is published has a secret one."""
    from videoveil.anonymizers import NoiseKey

    return NoiseKey(hashlib.sha256(b"videoveil audit").digest())


# --- sides --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """The videos as one side has them. `latent`: only features leave it, and they go through this.

    published: the files that left `pixels` or `paint`, once they are made; until then frames go through on the fly.
    keep_empty: frames are published as they are in which the detector of `pixels` found nobody; else they are black.
    """

    which: Which
    dataset: Dataset
    pixels: FrameAnonymizer | None = None
    paint: FramePainter | None = None
    latent: LatentAnonymizer | None = None
    published: Dataset | None = None
    keep_empty: bool = False

    @property
    def clips(self) -> Clips | None:
        """Its pictures; None where it has none to show."""
        if self.latent is not None:
            return None
        return self.on_the_fly if self.published is None else Clips(self.published)

    @property
    def on_the_fly(self) -> Clips:
        """The anonymizer itself at work on pictures of whatever size it is shown."""
        return Clips(self.dataset, anonymizer=self.pixels, paint=self.paint)

    def identity(self) -> str:
        """Changes with the files and with what they go through."""
        through = self.on_the_fly.through()
        if through:
            through |= {"published": published.FORM} | ({"empty": "keep"} if self.keep_empty else {})
        if self.latent is not None:
            secret = getattr(self.latent, "key", None)
            through = {
                "latent": self.latent.content_hash(),
                "key": None if secret is None else secret.fingerprint(),
            }
        return files.value_hash([_stamps(self.dataset), through])


def _stamps(dataset: Dataset) -> list[list[Any]]:
    found = []
    for item in sorted(dataset.items, key=lambda one: one.id):
        stat = item.path.stat()
        found.append([item.id, item.split, stat.st_size, stat.st_mtime_ns])
    return found


@dataclass(frozen=True)
class Subject:
    """Two sides of the same videos and what is known of the people in them."""

    title: str  # the data in a word
    anonymizer: str  # and what they went through
    raw: Side
    anonymized: Side
    labels: Labels = own_attributes
    train: str = "train"
    test: str = "test"
    encoder: str = "tiny"
    weights: str | None = None
    twin: bool = False  # synthetic: nothing said about it holds for real people
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # for config.yaml

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        anonymizer: Any = None,
        *,
        name: str = "",
        labels: Labels = own_attributes,
        paint: FramePainter | None = None,
        keep_empty: bool = False,
        **options: Any,
    ) -> Subject:
        """One dataset, and what an anonymizer (or a painter of boxes) makes of it."""
        from videoveil.anonymizers import LatentAnonymizer
        from videoveil.pipeline.checks import covers_parts

        if keep_empty and not covers_parts(anonymizer):
            raise UsageError(
                f"keep_empty: {name or 'this anonymizer'} leaves no frame as it was; it belongs to "
                + ", ".join(named.FOUND)
            )

        raw = Side("raw", dataset)
        if isinstance(anonymizer, LatentAnonymizer):
            veiled = Side("anonymized", dataset, latent=anonymizer)
        else:
            veiled = Side("anonymized", dataset, anonymizer, paint, keep_empty=keep_empty)
        words = name or getattr(anonymizer, "kind", "") or type(anonymizer).__name__
        twin = (dataset.root / ".twin").is_file()
        made = cls(dataset.name, words, raw, veiled, labels, twin=twin, **options)
        return made.with_splits()

    @property
    def dataset(self) -> Dataset:
        return self.raw.dataset

    def side(self, which: Which) -> Side:
        return self.raw if which == "raw" else self.anonymized

    def with_splits(self) -> Subject:
        """Test on "test", or on "val" where there is no test split."""
        there = self.dataset.counts()
        if self.test not in there and "val" in there:
            return replace(self, test="val")
        return self

    def items(self, split: str) -> tuple[Item, ...]:
        return self.dataset.split(split)

    def seen(self) -> str:
        """In what form attackers get what is published."""
        side = self.anonymized
        if side.latent is not None:
            return "features that went through the anonymizer"
        return published.FORM if side.published not in (None, side.dataset) else "the files as they are"

    def known(self, item: Item) -> Mapping[str, int]:
        """The attributes of an item that attackers are asked for."""
        return self.labels(item) or {}

    def with_published(
        self, folder: Path, device: str = "auto", tell: published.Tell | None = None
    ) -> Subject:
        """With what leaves its anonymizer as files in `folder`, for attackers to look at."""
        side = self.anonymized
        if side.latent is not None or (side.pixels is None and side.paint is None):
            return self
        made = published.publish(
            side.dataset,
            side.pixels,
            folder,
            paint=side.paint,
            keep_empty=side.keep_empty,
            device=device,
            tell=tell,
        )
        originals, labels = {item.id: item for item in side.dataset.items}, self.labels
        # what is known of a video may go by its own file
        return replace(
            self,
            anonymized=replace(side, published=made),
            labels=lambda item: labels(originals.get(item.id, item)),
        )

    def identity(self) -> str:
        """The data and what is asked about them: results of one are never taken for those of another."""
        told = [
            [item.id, item.action, item.subject, dict(self.known(item)), _times(item)]
            for item in self.dataset.items
        ]
        return files.value_hash(
            [_stamps(self.dataset), told, self.train, self.test, self.encoder, self.weights]
        )


def _times(item: Item) -> list[Any]:
    """What is known of when something happens."""
    spans = [[one.first, one.stop, one.value] for one in item.anomaly_spans]
    segments = [[one.label, str(one.start), str(one.end)] for one in item.segments]
    return [item.anomaly, item.anomaly_class, spans, segments]


# --- features -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stores:
    """Where the features of both sides are; made when they are first asked for."""

    subject: Subject
    raw_folder: Path
    own_folder: Path
    device: str = "auto"
    workers: int = 1

    def why_not(self) -> str:
        """Why there are no features; empty where there are."""
        sides = (self.subject.raw, self.subject.anonymized)
        if any(side.paint is not None and side.published is None for side in sides):
            return "boxes are painted into whole videos, of which no features are extracted here"
        return ""

    def folder(self, which: Which, grid: str = ALL) -> Path:
        plain = self.raw_folder if which == "raw" else self.own_folder
        return plain if grid == ALL else plain.with_name(f"{plain.name}-{grid.replace(':', '-')}")

    def make(self, which: Which, progress: Any = None, grid: str = ALL) -> FeatureStore:
        """Extract, or go on with what a killed extraction left."""
        from videoveil.encoders.registry import create
        from videoveil.features.anonymize import anonymize
        from videoveil.features.extract import extract, recipe_for

        side, folder = self.subject.side(which), self.folder(which, grid)
        if side.latent is not None:
            self.make("raw", progress, grid)
            anonymize(
                self.folder("raw", grid),
                folder,
                side.latent,
                labels=True,
                device=self.device,
                progress=progress,
            )
            return FeatureStore.open(folder)
        network = create(self.subject.encoder, weights=self.subject.weights)
        few = STATIC if grid == ALL else 0  # attackers look at static clips; detection does not
        recipe = recipe_for(network, clips=grid, static=10 if self._many_static() else few)
        extract(
            side.published or side.dataset,
            folder,
            network,
            recipe,
            device=self.device,
            workers=self.workers,
            progress=progress,
            anonymizer=side.pixels if side.published is None else None,
        )
        return FeatureStore.open(folder)

    def _many_static(self) -> bool:
        """An anonymizer that subtracts static features was made with ten of them."""
        return bool(getattr(self.subject.anonymized.latent, "wants_static", False))

    def features(self, which: Which, split: str | None = None, grid: str = ALL) -> Features:
        folder = self.folder(which, grid)
        if not (folder / "index").is_dir():
            self.make(which, grid=grid)
        return Features(FeatureStore.open(folder), split=split)
