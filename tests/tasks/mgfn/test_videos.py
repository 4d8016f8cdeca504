"""The checks before training and scoring: every offender is named, in one error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from videoveil.errors import BadItems
from videoveil.tasks.mgfn.training_set import class_batch, epoch_batches, prepare
from videoveil.tasks.mgfn.videos import AnomalyVideo, Inspector

from .synthetic import make_videos


def inspected(videos: list[AnomalyVideo], **options: object) -> list[str]:
    inspector = Inspector(**options)  # type: ignore[arg-type]
    for video in videos:
        inspector.admit(video)
    with pytest.raises(BadItems) as caught:
        inspector.settle("test")
    return list(caught.value.offenders)


def test_sound_videos_pass() -> None:
    inspector = Inspector(width=16, same_crops=True, need_truth=True)
    assert all(inspector.admit(video) for video in make_videos(6))
    inspector.settle("test")


def with_nan(video: AnomalyVideo) -> np.ndarray:
    features = video.features.copy()
    features[4, 2] = np.nan
    return features


def test_every_kind_of_broken_video_is_named() -> None:
    good = make_videos(14)
    bad = [
        replace(good[0], features=np.zeros((0, 16), np.float32), truth=None),
        replace(good[1], features=with_nan(good[1])),
        replace(good[2], features=good[2].features[:, :7]),
        replace(good[3], features=np.zeros(16, np.float32), truth=None),
        replace(good[4], features=good[4].features.astype(np.int64)),
        replace(good[5], label=2),
        replace(good[6], frames_per_snippet=0),
        replace(good[7], truth=good[7].truth[:-3]),  # type: ignore[index]
        replace(good[8], truth=good[8].truth + 0.5),  # type: ignore[operator]
        replace(good[9], truth=np.zeros(good[9].frames)),
        replace(good[10], id=good[12].id),
        replace(good[11], problems=("the file is torn",)),
    ]
    text = "\n".join(inspected([*bad, *good[12:]]))
    for expected in (
        "v000: features are empty, shape (0, 16)",
        "v001: 1 values are NaN, infinite or beyond float32, the first in snippet 4",
        "v002: 7 channels wide, the others have 16",
        "v003: features of shape (16,)",
        "v004: features of type int64",
        "v005: label 2",
        "v006: frames_per_snippet 0",
        "v007: the truth has",
        "v008: the truth must be one row of 0 and 1",
        "v009: labelled anomalous, but 0 frames",
        "v012: this id appears more than once",
        "v011: the file is torn",
    ):
        assert expected in text
    assert len(text.splitlines()) == 12


def test_a_model_names_the_width_it_expects() -> None:
    found = inspected(make_videos(2, width=8), width=16)
    assert found == [
        "v000: 8 channels wide, the model expects 16",
        "v001: 8 channels wide, the model expects 16",
    ]


def test_training_needs_the_same_crops_everywhere() -> None:
    videos = [*make_videos(5), replace(make_videos(6, crops=2)[5], id="two")]
    assert inspected(videos, same_crops=True) == ["two: 2 crop(s), the others have 1"]


def test_values_that_overflow_float32_are_not_numbers() -> None:
    video = make_videos(1)[0]
    huge = replace(video, features=video.features.astype(np.float64) * 1e300)
    assert "beyond float32" in inspected([huge])[0]


def test_both_classes_are_needed() -> None:
    videos = make_videos(8)
    normal = [v for v in videos if not v.label]
    with pytest.raises(BadItems, match=r"0 anomalous video\(s\), at least 2"):
        prepare(normal, 32)
    with pytest.raises(BadItems, match=r"1 normal video\(s\), at least 2"):
        prepare([v for v in videos if v.label] + normal[:1], 32)
    with pytest.raises(BadItems, match=r"0 normal(.|\n)*0 anomalous"):
        prepare([], 32)


def test_half_precision_features_are_taken_as_float32() -> None:
    videos = [replace(v, features=v.features.astype(np.float16)) for v in make_videos(4)]
    assert str(prepare(videos, 32).segments.dtype) == "torch.float32"


def test_the_training_set_holds_segments_not_videos() -> None:
    data = prepare(iter(make_videos(6, crops=3)), 32)  # a generator will do: each video is read once
    assert data.segments.shape == (6, 3, 32, 16)
    assert data.labels.tolist() == [0, 1, 0, 1, 0, 1]


def test_the_fingerprint_changes_with_the_data() -> None:
    videos = make_videos(6)
    other = [replace(videos[0], features=videos[0].features + 1e-3), *videos[1:]]
    prints = {prepare(v, 32).fingerprint() for v in (videos, videos, other, videos[::-1])}
    assert len(prints) == 3


def test_batches_are_as_large_as_the_smaller_class_allows_and_even() -> None:
    data = prepare(make_videos(10), 32)
    assert [class_batch(b, data) for b in (2, 4, 16)] == [2, 4, 4]


def test_batches_have_normals_first_and_use_every_video_at_most_once() -> None:
    data = prepare(make_videos(20), 32)
    batches = epoch_batches(data, 4, torch.Generator().manual_seed(0))
    assert len(batches) == 2
    for batch in batches:
        assert data.labels[batch].tolist() == [0] * 4 + [1] * 4
    used = torch.cat(batches).tolist()
    assert len(set(used)) == len(used)
    assert epoch_batches(data, 4, None)[0].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


def test_ranks_share_the_batches_of_one_order() -> None:
    data = prepare(make_videos(20), 32)

    def batches(rank: int, ranks: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(3)
        return [b.tolist() for b in epoch_batches(data, 2, generator, rank, ranks)]

    alone = batches(0, 1)
    assert [batches(0, 2), batches(1, 2)] == [alone[0:4:2], alone[1:4:2]]
