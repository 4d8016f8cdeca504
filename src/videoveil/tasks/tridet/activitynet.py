"""The JSON files of the ActivityNet challenge: annotations in, results out and in.

Annotations: `{"database": {ID: {"subset", "duration", "fps"?, "annotations": [{"label", "segment": [a, b]}]}}}`.
Results: `{"results": {ID: [{"label", "score", "segment": [a, b]}]}}`. Times are in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.data.reading import Complaints, read_json, seconds
from videoveil.data.records import Segment
from videoveil.errors import AnnotationError
from videoveil.tasks.tridet.records import Detection, Detections

VERSION = "videoveil-1"


@dataclass(frozen=True, slots=True)
class AnnotatedVideo:
    """What an annotation file says about one video."""

    id: str
    subset: str  # in lower case: "training", "validation", "test", …
    duration: Fraction
    fps: Fraction | None
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Annotations:
    """An annotation file; `classes` are collected over all subsets, by label id where every label has one."""

    classes: tuple[str, ...]
    videos: tuple[AnnotatedVideo, ...]

    def subset(self, name: str) -> list[AnnotatedVideo]:
        return [video for video in self.videos if video.subset == name.lower()]


def read_annotations(path: str | Path) -> Annotations:
    """Read an annotation file; every mistake in it is listed."""
    path, complaints = Path(path), Complaints()
    value = read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("database"), dict):
        raise AnnotationError(f"{path}: expected an object with 'database'")
    videos: list[AnnotatedVideo] = []
    ids: dict[str, set[Any]] = {}
    for name, entry in value["database"].items():
        try:
            videos.append(_annotated(name, entry, ids))
        except (KeyError, TypeError, ValueError) as error:
            complaints.add(path, None, f"{name}: {type(error).__name__} {error}")
    complaints.found += [
        f"{path.name}: {label} has several label ids" for label, n in ids.items() if len(n) > 1
    ]
    complaints.settle(path.name)
    return Annotations(_classes(ids), tuple(videos))


def _annotated(name: str, entry: Any, ids: dict[str, set[Any]]) -> AnnotatedVideo:
    segments = []
    for row in entry["annotations"]:
        label, (start, end) = row["label"], row["segment"]
        if not isinstance(label, str):
            raise TypeError(f"label {label!r} must be text")
        segments.append(Segment(label, seconds(start), seconds(end)))
        ids.setdefault(label, set()).add(row.get("label_id"))
    duration = seconds(entry["duration"])
    fps = seconds(entry["fps"]) if entry.get("fps") is not None else None
    if not duration or fps == 0:
        raise ValueError("duration and fps must be above 0")
    return AnnotatedVideo(name, str(entry["subset"]).lower(), duration, fps, tuple(segments))


def _classes(ids: dict[str, set[Any]]) -> tuple[str, ...]:
    numbers = {label: next(iter(found)) for label, found in ids.items()}
    if all(type(n) is int for n in numbers.values()) and len(set(numbers.values())) == len(numbers):
        return tuple(sorted(numbers, key=lambda label: numbers[label]))
    return tuple(sorted(numbers))


def results_to_json(detections: Sequence[Detections]) -> dict[str, Any]:
    """The results file of a set of videos; a video without detections has an empty list."""
    results = {
        one.video: [{"label": d.label, "score": d.score, "segment": [d.start, d.end]} for d in one]
        for one in detections
    }
    return {"version": VERSION, "results": results, "external_data": {"used": False, "details": ""}}


def write_results(path: str | Path, detections: Sequence[Detections]) -> None:
    files.write_json(path, results_to_json(detections))


def read_results(path: str | Path, classes: Sequence[str]) -> list[Detections]:
    """Read a results file, ours or anybody's; every mistake in it is listed. A label must be one of `classes`."""
    path, complaints = Path(path), Complaints()
    value = read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("results"), dict):
        raise AnnotationError(f"{path}: expected an object with 'results'")
    known, read = set(classes), []
    for video, rows in value["results"].items():
        found = []
        for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
            try:
                found.append(_result(video, row, known))
            except (KeyError, TypeError, ValueError) as error:
                complaints.add(path, None, f"{video}, result {number}: {type(error).__name__} {error}")
        read.append(Detections.collect(video, tuple(classes), found))
    complaints.settle(path.name)
    return read


def _result(video: str, row: Any, known: set[str]) -> Detection:
    label, score, (start, end) = row["label"], row["score"], row["segment"]
    if label not in known:
        raise ValueError(f"{label!r} is not one of the {len(known)} classes")
    numbers = [float(v) for v in (start, end, score)]
    if not all(map(math.isfinite, numbers)) or numbers[1] < numbers[0]:
        raise ValueError(f"segment {start} to {end}, score {score}")
    return Detection(video, label, *numbers)
