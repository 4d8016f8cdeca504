"""What every training said, on the disk: one file each, whole or absent, so that nothing is trained twice.

A file has its name from everything that decides what is in it. What was said of raw videos is in the cache, where other
audits of the same data find it.
"""

from __future__ import annotations

import json
from pathlib import Path

import videoveil
from videoveil import files
from videoveil.audit import detections
from videoveil.audit.case import Case
from videoveil.audit.detections import DetectionOutcome
from videoveil.audit.participant import Answers, Participant
from videoveil.audit.subject import Which
from videoveil.tasks import outcomes

ANSWERS = 3  # which answers a training gives; others are not taken from a cache


def file(case: Case, one: Participant, which: Which, seed: int) -> Path:
    """Where the result of one training is, by everything that decides it."""
    sides = list(case.sides.values()) if which == "anonymized" else [case.sides["raw"]]
    key = files.value_hash(
        [
            case.data,
            sides,
            one.name,
            one.settings(case.settings.gpu),
            seed,
            videoveil.__version__,
            ANSWERS,
            "" if one.reads == "clips" else case.features,
        ]
    )
    folder = case.cache / "results" if which == "raw" else case.out / "results"
    return folder / f"{one.name}-{which}-{seed}-{key[:16]}.npz"


def model(case: Case, one: Participant) -> Path:
    """What it learnt from anonymized videos with the first seed, for pictures."""
    return file(case, one, "anonymized", case.settings.seed).with_suffix(".safetensors")


def keep(path: Path, found: Answers, seconds: float) -> None:
    """What a training said, and how long it took."""
    files.write_json(path.with_suffix(".json"), {"seconds": round(seconds, 3)})
    detected = {name: o for name, o in found.items() if isinstance(o, DetectionOutcome)}
    if detected:
        detections.save(_detections_of(path), detected)
    # last: where this file is, everything is
    outcomes.save(path, {name: o for name, o in found.items() if name not in detected})


def read(path: Path) -> Answers:
    found = outcomes.load(path)
    beside = _detections_of(path)
    return {**found, **detections.load(beside)} if beside.is_file() else found


def seconds(path: Path, unknown: float) -> float:
    """How long the training took; `unknown` where that was not noted."""
    note = path.with_suffix(".json")
    return float(json.loads(note.read_text("utf-8"))["seconds"]) if note.is_file() else unknown


def _detections_of(path: Path) -> Path:
    """Beside the result of a training: what a detector found, which is of another form."""
    return path.with_suffix(".detections.npz")
