"""The challenge's JSON files."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from videoveil.data.records import Segment
from videoveil.errors import AnnotationError
from videoveil.tasks.tridet.activitynet import read_annotations, read_results, write_results
from videoveil.tasks.tridet.inference import detect

from .make import CLASSES, awake, some_videos


def annotated(**changes: Any) -> dict[str, Any]:
    row = {"label": "Diving", "label_id": 7, "segment": [1.5, 3.7], "segment(frames)": [45.0, 111.0]}
    return {"subset": "Validation", "duration": 10.1, "fps": 30.0, "annotations": [row], **changes}


def write(path: Path, database: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"version": "Thumos14-30fps", "database": database}))
    return path


def test_annotations_are_read_exactly(tmp_path: Path) -> None:
    other = [{"label": "BaseballPitch", "label_id": 0, "segment": [0, 1]}]
    path = write(tmp_path / "a.json", {"v1": annotated(), "v2": annotated(subset="Test", annotations=other)})
    found = read_annotations(path)
    assert found.classes == ("BaseballPitch", "Diving")
    (video,) = found.subset("validation")
    assert video.segments == (Segment("Diving", Fraction("1.5"), Fraction("3.7")),)
    assert (video.id, video.duration, video.fps) == ("v1", Fraction("10.1"), 30)
    assert [v.id for v in found.subset("TEST")] == ["v2"]


def test_classes_without_ids_are_sorted_by_name_and_fps_may_be_absent(tmp_path: Path) -> None:
    rows = [{"label": label, "segment": [0, 1]} for label in ("b", "a")]
    video = annotated(annotations=rows)
    del video["fps"]
    found = read_annotations(write(tmp_path / "a.json", {"v": video}))
    assert found.classes == ("a", "b")
    assert found.videos[0].fps is None


def test_every_mistake_in_the_annotations_is_listed(tmp_path: Path) -> None:
    database = {
        "no-duration": {"subset": "Test", "annotations": []},
        "text": annotated(duration="long"),
        "stopped": annotated(fps=0),
        "label": annotated(annotations=[{"label": 3, "segment": [0, 1]}]),
        "pair": annotated(annotations=[{"label": "a", "segment": [0]}]),
        "other-id": annotated(annotations=[{"label": "Diving", "label_id": 8, "segment": [0, 1]}]),
        "fine": annotated(),
    }
    with pytest.raises(AnnotationError) as caught:
        read_annotations(write(tmp_path / "a.json", database))
    text = "\n".join(caught.value.offenders)
    assert len(caught.value.offenders) == 6
    assert all(
        name in text for name in ("no-duration", "text", "stopped", "label", "pair", "several label ids")
    )
    (tmp_path / "b.json").write_text("[]")
    with pytest.raises(AnnotationError, match="'database'"):
        read_annotations(tmp_path / "b.json")


def test_results_survive_the_file(tmp_path: Path) -> None:
    found = detect(awake(), some_videos(2), CLASSES)
    write_results(tmp_path / "r.json", found)
    for one, back in zip(found, read_results(tmp_path / "r.json", CLASSES)):
        assert one.video == back.video
        for name in ("segments", "labels", "scores"):
            assert np.array_equal(getattr(one, name), getattr(back, name))
    value = json.loads((tmp_path / "r.json").read_text())
    assert set(value["results"]["video_000"][0]) == {"label", "score", "segment"}


def test_every_mistake_in_the_results_is_listed(tmp_path: Path) -> None:
    good = {"label": "jump", "score": 0.5, "segment": [0, 1]}
    bad = [
        {**good, "label": "sleep"},
        {**good, "segment": [2, 1]},
        {**good, "score": float("nan")},
        {"label": "jump"},
        3,
    ]
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"results": {"v": [good, *bad], "w": "nothing"}}))
    with pytest.raises(AnnotationError) as caught:
        read_results(path, CLASSES)
    assert len(caught.value.offenders) == 6
    assert "'sleep' is not one of the 3 classes" in caught.value.offenders[0]
    path.write_text("{}")
    with pytest.raises(AnnotationError, match="'results'"):
        read_results(path, CLASSES)
