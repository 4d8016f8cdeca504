"""A trained task on one's own video or on stored features: what is said, from when to when, in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videoveil import devices, files
from videoveil.data.records import Item
from videoveil.encoders import Encoder, create
from videoveil.errors import BadItems, UsageError
from videoveil.features.extract import features_of
from videoveil.features.pixels import FrameAnonymizer, PixelVeil
from videoveil.features.store import FeatureRecipe, FeatureStore, VideoFeatures
from videoveil.media.sampling import cached_equidistant
from videoveil.tasks import suits
from videoveil.tasks.action.metrics import top
from videoveil.tasks.action.network import FittedNetwork
from videoveil.tasks.action.probe import FittedProbe
from videoveil.tasks.anomaly import FittedAnomaly
from videoveil.tasks.detection import FittedDetection
from videoveil.tasks.feature_set import feature_problems
from videoveil.tasks.mgfn.sources import make_video as anomaly_video
from videoveil.tasks.mgfn.sources import snippet
from videoveil.tasks.runs import Run
from videoveil.tasks.tridet.sources import make_video as detection_video

if TYPE_CHECKING:
    from videoveil.anonymizers import LatentAnonymizer
    from videoveil.features.anonymize import Passage

FAMILIES = {
    "action": ("action", "action-network"),
    "detection": ("detection",),
    "anomaly": ("anomaly",),
}  # what is asked for → tasks that answer it


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the video with what was said of it."""

    start: float  # seconds
    end: float
    label: str
    score: float


@dataclass(frozen=True)
class Prediction:
    """What a model says about a video. `spans` are clips for actions and anomalies, segments for detection."""

    task: str
    video: str
    duration: float  # seconds, to the end of the last frame
    model: str
    spans: tuple[Span, ...]
    answer: tuple[tuple[str, float], ...] = ()  # of the whole video, the most probable first
    truth: tuple[Span, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "video": self.video,
            "duration": self.duration,
            "model": self.model,
            "answer": [{"label": label, "score": score} for label, score in self.answer],
            "spans": [asdict(span) for span in self.spans],
            "truth": [asdict(span) for span in self.truth],
        }


def predict(
    video: str | Path,
    run: Run,
    task: str | None = None,
    *,
    weights: str | None = None,
    anonymizer: LatentAnonymizer | None = None,
    pixels: FrameAnonymizer | None = None,
    device: str = "auto",
    least: float = 0.05,
    truth: Sequence[Span] = (),
) -> Prediction:
    """What the run's model says about a video file.

    Features are made as those it was trained on: the same encoder, known by its hash, and the same recipe. `weights`
    are the encoder's where it has none of its own. A model that was trained on anonymized features needs the very
    `anonymizer` they went through, and one that was trained on anonymized pictures the very `pixels` anonymizer.
    `least` leaves out detections that are less certain. `task`, where it is given, is what the model must be for.
    """
    require_task(run, task)
    path = Path(video)
    item = Item(path.stem, path, "test")
    fitted = run.fitted()
    if isinstance(fitted, FittedNetwork):
        if "paint" in run.source:
            raise UsageError(f"{run.name}: trained on frames in which people were covered; cover them first")
        veil = _required_pixels(pixels, run.source.get("anonymizer"), run)
        return _whole_network(item, fitted.to(_device(device)), run, truth, veil)
    recipe = FeatureRecipe(**run.source["recipe"])
    facts = run.source["encoder"]
    hidden = facts.get("anonymizer")
    if anonymizer is not None or hidden:
        _require_anonymizer(anonymizer, hidden, run)
    made = facts["encoder"] if hidden else facts
    veil = _required_pixels(pixels, made.get("pixels"), run)
    encoder = encoder_of(made if veil is None else made["encoder"], weights)
    bytes_only = veil is not None and veil.eight_bit
    features = features_of(item, encoder, recipe, device=device, anonymizer=pixels, eight_bit=bytes_only)
    if anonymizer is not None:
        features = _anonymized(path, features, anonymizer, device)
    return _said(_Film(str(path), item, features, recipe, Clock.of(path)), fitted, run, least, truth)


def predict_store(
    store: FeatureStore,
    run: Run,
    task: str | None = None,
    *,
    dataset: str | None = None,
    split: str | None = None,
    anonymizer: LatentAnonymizer | None = None,
    device: str = "auto",
    least: float = 0.05,
) -> Iterator[Prediction]:
    """What the run's model says about every video of a store, one after the other, by their ids.

    The features must be what the model was trained on: the same encoder, arithmetic and clips, and the same anonymizer
    or none. Of a raw store, a model of anonymized features gets them through its `anonymizer` first.
    """
    require_task(run, task)
    if run.source["kind"] != "features":
        raise UsageError(f"{run.name}: looks at the videos themselves; give a video, not features")
    suits.require_encoder(run.source, store, run.name)
    fitted, passage = run.fitted(), None
    if not isinstance(fitted, FittedProbe):
        suits.require_grid(run.source, store, run.name)
    if anonymizer is not None:
        _require_anonymizer(anonymizer, run.source["encoder"].get("anonymizer"), run)
    if anonymizer is not None and "anonymizer" not in store.encoder:
        passage = _passage(store, anonymizer, device)
    else:
        suits.require_veil(run.source, store, run.name)
    entries = store.items(dataset, split)
    if not entries:
        there = ", ".join(store.dataset(dataset).counts())
        raise UsageError(f"{store.root}: no items in split {split!r}; there are {there or 'none'}")
    for entry in entries:
        features = store.read(entry)
        if wrong := feature_problems(features.clip, store.encoder.get("width")):
            raise BadItems(
                f"{store.root}: features that cannot be used:", [f"{entry.item.id}: {w}" for w in wrong]
            )
        if passage is not None:
            features = passage(features, entry.key)
        film = _Film(entry.item.id, entry.item, features, store.recipe, EvenClock.of(features))
        yield _said(film, fitted, run, least, ())


def require_task(run: Run, task: str | None) -> None:
    """The model is for what was asked of it."""
    if task is None:
        return
    if task not in FAMILIES:
        raise UsageError(f"--task {task}: choose one of {', '.join(FAMILIES)}")
    if run.task not in FAMILIES[task]:
        raise UsageError(f"{run.name}: trained for {run.task}, not for {task}")


@dataclass(frozen=True)
class _Film:
    """A video as its features, and when its frames are shown."""

    name: str
    item: Item
    features: VideoFeatures
    recipe: FeatureRecipe
    clock: Clock | EvenClock


def _said(film: _Film, fitted: Any, run: Run, least: float, truth: Sequence[Span]) -> Prediction:
    if isinstance(fitted, FittedProbe):
        return _probe(film, fitted, run, truth)
    if isinstance(fitted, FittedDetection):
        return _detection(film, fitted, run, least, truth)
    if isinstance(fitted, FittedAnomaly):
        return _anomaly(film, fitted, run, truth)
    raise UsageError(f"{run.name}: a model for {run.task} cannot say anything about one video")


def _passage(store: FeatureStore, anonymizer: LatentAnonymizer, device: str) -> Passage:
    """The way of raw features through an anonymizer that is made for them."""
    from videoveil.features.anonymize import Passage, check

    check(store, anonymizer)
    return Passage(anonymizer, devices.choose(device))


def _device(name: str) -> str:
    return str(devices.choose(name))


def encoder_of(facts: Any, weights: str | None) -> Encoder:
    """The very encoder that the features were made with; another one is refused."""
    encoder = create(facts["name"], weights=weights, **facts.get("options", {}))
    if encoder.content_hash() != facts["hash"]:
        raise UsageError(
            f"the model was trained on features of {facts['name']} with hash {facts['hash'][:8]}, this one has "
            f"{encoder.content_hash()[:8]}; give the encoder's weights with --weights"
        )
    return encoder


def _require_anonymizer(given: LatentAnonymizer | None, wanted: Any, run: Run) -> None:
    """The anonymizer that the model's features went through, key and all, or none where they are raw."""
    if not wanted:
        raise UsageError(f"{run.name}: trained on raw features; leave the anonymizer out")
    if given is None:
        raise UsageError(
            f"{run.name}: trained on features that anonymizer {wanted['hash'][:12]} made; give it with --anonymizer"
        )
    if given.content_hash() != wanted["hash"]:
        raise UsageError(
            f"{run.name}: trained on features that anonymizer {wanted['hash'][:12]} made, and this one is "
            f"{given.content_hash()[:12]}"
        )
    key = given.key.fingerprint() if given.wants_noise and given.key is not None else None
    if given.wants_noise and key != wanted["key"]:
        raise UsageError(
            f"{run.name}: its features have the noise of key {wanted['key']}; give it with --key"
        )


def _required_pixels(given: FrameAnonymizer | None, wanted: Any, run: Run) -> PixelVeil | None:
    """The pixel anonymizer that the model's pictures went through, or none where they are raw."""
    if not wanted:
        if given is not None:
            raise UsageError(f"{run.name}: trained on raw pictures; leave the pixel anonymizer out")
        return None
    if given is None:
        raise UsageError(
            f"{run.name}: trained on pictures that anonymizer {wanted['hash'][:12]} made; give it with --pixels"
        )
    if given.content_hash() != wanted["hash"]:
        raise UsageError(
            f"{run.name}: trained on pictures that anonymizer {wanted['hash'][:12]} made, and this one is "
            f"{given.content_hash()[:12]}"
        )
    return PixelVeil(given, wanted["eight_bit"])


def _anonymized(path: Path, raw: VideoFeatures, anonymizer: LatentAnonymizer, device: str) -> VideoFeatures:
    from videoveil.features.anonymize import Passage

    return Passage(anonymizer, devices.choose(device))(raw, f"predict {files.file_hash(path)}")


@dataclass(frozen=True)
class Clock:
    """When every frame of a video is shown, as the file itself says: frames need not be equally long."""

    pts: np.ndarray  # (frames,) int64, in units of base
    base: Fraction
    rate: Fraction | None

    @classmethod
    def of(cls, path: Path) -> Clock:
        from videoveil.media.reader import open_video

        with open_video(path) as video:
            return cls(video.index(), video.info.time_base, video.info.rate)

    def start(self, frame: int) -> float:
        """Seconds at which a frame appears."""
        return float(int(self.pts[frame]) * self.base)

    def stop(self, frame: int) -> float:
        """Seconds at which the next frame appears; the last one stays as long as the frame rate says."""
        if frame + 1 < len(self.pts):
            return self.start(frame + 1)
        return float(int(self.pts[frame]) * self.base + (1 / self.rate if self.rate else 0))

    @property
    def end(self) -> float:
        return self.stop(len(self.pts) - 1)

    def at(self, place: float) -> float:
        """Seconds at a place between frames, counted in frames from the first."""
        frame = min(max(int(place), 0), len(self.pts) - 1)
        start, stop = self.start(frame), self.stop(frame)
        return start + min(max(place - frame, 0.0), 1.0) * (stop - start)

    def spans(self, features: VideoFeatures) -> list[tuple[float, float]]:
        """From the first frame of every clip to the end of its last one."""
        frames = np.searchsorted(self.pts, features.pts)
        return [(self.start(int(first)), self.stop(int(last))) for first, last in frames]


@dataclass(frozen=True)
class EvenClock:
    """When the frames of stored features are shown: clips know their own times, the rest follows the frame rate."""

    clips: tuple[tuple[float, float], ...]
    rate: Fraction | None
    end: float

    @classmethod
    def of(cls, features: VideoFeatures) -> EvenClock:
        frame = 1 / features.rate if features.rate else Fraction(0)
        clips = tuple((float(first), float(last + frame)) for first, last in features.times())
        whole = float(features.frames * frame)
        return cls(clips, features.rate, max([whole, *(stop for _, stop in clips)]))

    def at(self, place: float) -> float:
        """Seconds at a place between frames, counted in frames from the first."""
        return min(max(place, 0.0) / float(self.rate), self.end) if self.rate else 0.0

    def spans(self, features: VideoFeatures) -> list[tuple[float, float]]:
        return list(self.clips)


def _probe(film: _Film, fitted: FittedProbe, run: Run, truth: Sequence[Span]) -> Prediction:
    rows, clock = fitted.clip_probabilities(film.features.clip), film.clock
    whole = rows[list(cached_equidistant(len(rows), fitted.config.clips))].mean(0)
    return _action(film.name, fitted.names, rows, whole, clock.spans(film.features), clock.end, run, truth)


def _whole_network(
    item: Item, fitted: FittedNetwork, run: Run, truth: Sequence[Span], veil: PixelVeil | None
) -> Prediction:
    clock, rows = Clock.of(item.path), fitted.clip_probabilities(fitted.clips_of(item), veil, item.id)
    spans = [(clock.start(clip.start), clock.stop(clip.stop - 1)) for clip in fitted.places(len(clock.pts))]
    return _action(str(item.path), fitted.names, rows, rows.mean(0), spans, clock.end, run, truth)


def _action(
    name: str,
    names: Sequence[str],
    rows: np.ndarray,
    whole: np.ndarray,
    times: Sequence[tuple[float, float]],
    duration: float,
    run: Run,
    truth: Sequence[Span],
) -> Prediction:
    spans = [
        Span(start, end, names[int(row.argmax())], float(row.max())) for (start, end), row in zip(times, rows)
    ]
    answer = tuple(top(whole.tolist(), names))
    return Prediction("action", name, duration, run.name, tuple(spans), answer, tuple(truth))


def _detection(
    film: _Film, fitted: FittedDetection, run: Run, least: float, truth: Sequence[Span]
) -> Prediction:
    features, clock = film.features, film.clock
    if features.rate is None:
        raise UsageError(f"{film.name}: does not state its frames per second, so times cannot be computed")
    video = detection_video(film.item, features.clip, features, features.rate, film.recipe)
    (found,) = fitted.detect([video])
    rate = float(
        features.rate
    )  # the detector counts in frames of one length; the file says when they are shown
    spans = tuple(
        Span(clock.at(d.start * rate), clock.at(d.end * rate), d.label, d.score)
        for d in found
        if d.score >= least
    )
    return Prediction("detection", film.name, clock.end, run.name, spans, truth=tuple(truth))


def _anomaly(film: _Film, fitted: FittedAnomaly, run: Run, truth: Sequence[Span]) -> Prediction:
    span = snippet(film.recipe, film.features.frames)
    video = anomaly_video(film.item, film.features.clip, span)
    scores = fitted.model.scores([video])[film.item.id]
    spans = tuple(
        Span(start, end, "anomaly", float(score))
        for (start, end), score in zip(film.clock.spans(film.features), scores)
    )
    answer = (("anomaly", float(scores.max())),)
    return Prediction("anomaly", film.name, film.clock.end, run.name, spans, answer, tuple(truth))


def read_truth(text: str) -> tuple[Span, ...]:
    """`3.5-8` or `3.5-8:Fighting, 12-15`, or a JSON file: a list of {start, end, label}, or what `predict` wrote."""
    path = Path(text)
    if path.suffix == ".json":
        return _truth_file(path)
    found = []
    for word in text.split(","):
        times, _, label = word.strip().partition(":")
        start, dash, end = times.partition("-")
        try:
            found.append(_truth_span(float(start), float(end) if dash else float("nan"), label.strip()))
        except ValueError as error:
            raise UsageError(
                f"--truth {word.strip()!r}: write START-END or START-END:LABEL in seconds"
            ) from error
    return tuple(found)


def _truth_span(start: float, end: float, label: str) -> Span:
    if not 0 <= start < end < float("inf"):
        raise ValueError(f"{start:g} to {end:g} is not a stretch of time")
    return Span(start, end, label or "truth", 1.0)


def _truth_file(path: Path) -> tuple[Span, ...]:
    import json

    try:
        value = json.loads(path.read_text("utf-8"))
        rows = value if isinstance(value, list) else value.get("truth") or value["spans"]
        return tuple(_truth_span(float(r["start"]), float(r["end"]), str(r.get("label", ""))) for r in rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a JSON list of {{start, end, label}} in seconds ({error})") from error
