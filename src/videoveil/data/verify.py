"""`veil data verify`: count what is there, compare with the official numbers, say everything that is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from videoveil.data import registry
from videoveil.data.frame_truth import TOLERANCE, check_truth
from videoveil.data.pa_hmdb51 import labelled_frames
from videoveil.data.records import Dataset, Item
from videoveil.errors import DataError, VeilError


@dataclass(frozen=True)
class Count:
    """One official split (or other variant) of a dataset."""

    variant: str
    splits: dict[str, int]
    official: dict[str, int] | None  # None: no official number applies, e.g. to a part of the classes
    classes: int
    all_classes: int | None  # in the whole dataset, where that is fixed
    per_class: dict[str, dict[str, int]]
    positives: dict[str, dict[str, int]]  # attribute → split → items that have it
    segments: dict[str, int]
    anomalous: dict[str, int]
    annotated: int  # items with frame-level truth or frame-level attributes
    labelled_frames: int  # frames with all private attributes

    @property
    def matches(self) -> bool | None:
        """Whether the official numbers are met; None where there are none to meet."""
        if self.official is None:
            return None
        return all(self.splits.get(split, 0) == number for split, number in self.official.items())


@dataclass(frozen=True)
class Report:
    """Everything `verify` found."""

    name: str
    root: str
    decoded: bool
    counts: tuple[Count, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        for count, record in zip(value["counts"], self.counts):
            count["matches"] = record.matches
        return value

    def rows(self) -> list[str]:
        """The report as lines for a person."""
        lines = [f"{self.name} in {self.root}" + ("" if self.decoded else " (annotations only)")]
        for count in self.counts:
            lines += _count_rows(count)
        shown = 20
        for title, found in (("note", self.notes), ("PROBLEM", self.problems)):
            lines += [f"{title}: {entry}" for entry in found[:shown]]
            if len(found) > shown:
                lines.append(f"{title}: … and {len(found) - shown} more")
        lines.append("ok" if not self.problems else f"{len(self.problems)} problems")
        return lines


def _count_rows(count: Count) -> list[str]:
    verdict = {
        True: "as published",
        False: f"published: {count.official}",
        None: "no official number applies",
    }
    splits = ", ".join(f"{split} {number}" for split, number in count.splits.items())
    of = "" if count.all_classes in (None, count.classes) else f" of {count.all_classes}"
    lines = [f"{count.variant or 'all'}: {splits}; {count.classes}{of} classes ({verdict[count.matches]})"]
    for label, numbers in count.per_class.items():
        lines.append(f"  {label}: " + ", ".join(f"{split} {number}" for split, number in numbers.items()))
    for attribute, numbers in count.positives.items():
        lines.append(
            f"  has {attribute}: " + ", ".join(f"{split} {number}" for split, number in numbers.items())
        )
    for title, found in (("segments", count.segments), ("anomalous", count.anomalous)):
        if found:
            lines.append(f"  {title}: " + ", ".join(f"{split} {number}" for split, number in found.items()))
    if count.annotated:
        lines.append(f"  items with frame-level annotation: {count.annotated}")
    if count.labelled_frames:
        lines.append(f"  frames with all private attributes: {count.labelled_frames}")
    return lines


def verify(
    name: str, root: str | Path, *, annotations_only: bool = False, options: Mapping[str, Any] | None = None
) -> Report:
    """Load a dataset (every official split, unless one is asked for) and, unless told otherwise, decode all of it.

    Options beside the choice of a split are checked with the first split only: they may not go with the others.
    """
    module = registry.entry(name).module
    given = registry.parse_options(name, options or {})
    counts: list[Count] = []
    problems: list[str] = []
    skipped: dict[str, None] = {}  # in order, each once: splits share their videos
    notes: dict[str, None] = {}
    paths: dict[Path, Item] = {}
    variants: tuple[dict[str, Any], ...] = getattr(module, "VARIANTS", ({},))
    if not given.keys() <= variants[0].keys():
        variants = variants[:1]
    choices = {_title(chosen): chosen for chosen in ({**variant, **given} for variant in variants)}
    for title, chosen in choices.items():
        try:
            dataset = registry.load(
                name, root, chosen, annotations_only=annotations_only, skip_bad=not annotations_only
            )
        except DataError as error:
            problems += [f"{title}: {error.message}" if title else error.message, *error.offenders]
            continue
        counts.append(count_items(dataset, title, module, annotations_only))
        skipped |= dict.fromkeys(dataset.skipped)
        notes |= dict.fromkeys(dataset.notes)
        paths.update({item.path: item for item in dataset})
    problems += skipped
    for count in counts:
        if count.matches is False:
            problems.append(f"{count.variant or name}: {count.splits} where {count.official} was published")
    problems += _wrong_positives(module, counts)
    frames = getattr(module, "OFFICIAL_LABELLED_FRAMES", None)
    problems += [
        f"{count.labelled_frames} frames have all attributes, {frames} were published"
        for count in counts
        if frames is not None and count.matches and count.labelled_frames != frames
    ]
    if not annotations_only:
        problems += [f"{item.id}: {reason}" for item in paths.values() if (reason := broken(item))]
    return Report(name, str(root), not annotations_only, tuple(counts), tuple(problems), tuple(notes))


def _title(options: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in options.items())


def count_items(dataset: Dataset, variant: str, module: Any, annotations_only: bool = False) -> Count:
    """Counts of a loaded dataset; official numbers apply only when all classes are there."""
    splits = dict(sorted(Counter(item.split for item in dataset).items()))
    published = module.OFFICIAL
    if annotations_only:  # where the annotations alone name fewer items
        published = getattr(module, "OFFICIAL_ANNOTATIONS", published)
    official = published.get(variant)
    whole = getattr(module, "CLASSES", None) in (None, len(dataset.classes)) and not _is_part(
        dataset, official
    )
    positives = {
        attribute: dict(
            sorted(Counter(i.split for i in dataset if (i.attributes or {}).get(attribute)).items())
        )
        for attribute in dataset.attributes
        if any(item.attributes for item in dataset)
    }
    return Count(
        variant=variant,
        splits=splits,
        official=official if whole else None,
        classes=len(dataset.classes),
        all_classes=getattr(module, "CLASSES", None),
        per_class=_per_class(dataset),
        positives=positives,
        segments=_tally(dataset, lambda item: len(item.segments)),
        anomalous=_tally(dataset, lambda item: int(bool(item.anomaly))),
        annotated=sum(bool(item.anomaly_spans or item.attribute_spans) for item in dataset),
        labelled_frames=sum(labelled_frames(item) for item in dataset),
    )


def _per_class(dataset: Dataset) -> dict[str, dict[str, int]]:
    """Class → split → items that show it: as their action, in a segment, among their tags or as an anomaly."""
    found: dict[str, Counter[str]] = {label: Counter() for label in dataset.classes}
    for item in dataset:
        anomalies = str(item.anomaly_class).split("-") if item.anomaly else ()
        for label in {item.action, *(s.label for s in item.segments), *item.actions, *anomalies}:
            if label in found:
                found[label][item.split] += 1
    return {label: dict(sorted(numbers.items())) for label, numbers in found.items()}


def _is_part(dataset: Dataset, official: Mapping[str, int] | None) -> bool:
    """What is far smaller than the original is a part of it (or a twin), not a broken whole."""
    return 2 * len(dataset) < sum((official or {}).values())


def _tally(dataset: Dataset, number: Any) -> dict[str, int]:
    found: Counter[str] = Counter()
    for item in dataset:
        found[item.split] += number(item)
    return {split: total for split, total in sorted(found.items()) if total}


def _wrong_positives(module: Any, counts: list[Count]) -> list[str]:
    """Attribute counts that differ from the published ones, for whole datasets."""
    published = getattr(module, "OFFICIAL_POSITIVES", {})
    wrong = []
    for count in counts:
        for split, numbers in published.items() if count.matches else ():
            for attribute, number in numbers.items():
                found = count.positives.get(attribute, {}).get(split)
                if found is not None and found != number:
                    wrong.append(f"{attribute} in {split}: {found} items, {number} were published")
    return wrong


def broken(item: Item) -> str | None:
    """Why an item cannot be decoded from beginning to end or does not fit its frame-level truth; None if neither."""
    from videoveil.media.image import read_image
    from videoveil.media.reader import open_video

    try:
        if item.kind == "image":
            read_image(item.path)
            return None
        with open_video(item.path) as video:
            frames, first, last = 0, Fraction(0), Fraction(0)
            for frame in video.frames():
                frames, first, last = frames + 1, first if frames else frame.time, frame.time
            rate = video.info.rate
        if item.split == "test" and item.anomaly is not None:
            check_truth(item, frames)
        return misfit(item, frames, last - first + (1 / rate if rate else 0))
    except VeilError as error:
        return str(getattr(error, "reason", error)).removeprefix(f"{item.id}: ")


def misfit(item: Item, frames: int, seconds: Fraction) -> str | None:
    """How the annotations of an item speak of a longer or shorter video than the file is; None if they fit."""
    if item.duration is not None and abs(item.duration - seconds) > max(Fraction(1), seconds / 50):
        return f"lasts {float(seconds):.2f} s, the annotations say {float(item.duration):.2f} s"
    last = max((span.stop for span in item.attribute_spans), default=0)
    if last > frames + TOLERANCE:
        return f"has {frames} frames, its attributes go up to frame {last}; is it at its own rate?"
    if item.clip is not None and item.clip[0] >= seconds:
        return f"lasts {float(seconds):.2f} s, the part that is meant begins at {float(item.clip[0]):.2f} s"
    return None
