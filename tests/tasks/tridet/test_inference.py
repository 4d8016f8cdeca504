"""From features to detections: a slow twin, and what a result must not depend on."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from tests.speed import cpu_seconds, slower
from videoveil.errors import BadItems
from videoveil.tasks.tridet import Detections, DetectionVideo, TriDetConfig
from videoveil.tasks.tridet.inference import detect, padded_length
from videoveil.tasks.tridet.losses import pad
from videoveil.tasks.tridet.network import TriDet, build

from .make import CLASSES, SMALL, awake, small, some_video, some_videos
from .test_nms import slow as slow_nms
from .test_trident import slow_decode


def slow_detect(
    network: TriDet, video: DetectionVideo, config: TriDetConfig
) -> list[tuple[str, float, float, float]]:
    """(label, start, end, score) in the order of the scores."""
    features = torch.from_numpy(video.array().T)
    levels = network(*pad([features], padded_length(features.shape[1], config)))
    rows = []
    for stride, level in zip(config.strides, levels):
        here = []
        for t in range(level.logits.shape[-1]):
            for label in range(len(CLASSES)):
                score = float(torch.sigmoid(level.logits[0, label, t])) * bool(level.mask[0, t])
                if score > config.pre_nms_score:
                    left, right = slow_decode(level, 0, label, t, config.bins)
                    here.append((t * stride - left * stride, t * stride + right * stride, score, label))
        here.sort(key=lambda row: -row[2])
        rows += [row for row in here[: config.pre_nms_top] if row[1] - row[0] > config.min_duration]
    seconds = lambda step: min(max((step * 4 + 8) / 25, 0.0), float(video.duration))  # noqa: E731
    kept = slow_nms(rows, config.max_segments)
    return [(CLASSES[rows[i][3]], seconds(rows[i][0]), seconds(rows[i][1]), score) for i, score in kept]


@pytest.mark.parametrize("changes", [{}, {"pre_nms_top": 20, "max_segments": 15, "pre_nms_score": 0.01}])
@torch.no_grad()
def test_detection_equals_its_slow_twin(changes: dict[str, float]) -> None:
    config = small(**changes)
    network, video = awake(config), some_video(0, steps=40)
    found = list(detect(network, [video], CLASSES)[0])
    twin = slow_detect(network, video, config)
    assert len(found) == len(twin) > 10
    for d, (label, start, end, score) in zip(found, twin):
        assert d.label == label
        assert (d.start, d.end, d.score) == pytest.approx((start, end, score), abs=1e-4)


def same(one: Detections, two: Detections) -> bool:
    return (
        one.video == two.video
        and np.array_equal(one.labels, two.labels)
        and np.allclose(one.segments, two.segments, atol=1e-4)
        and np.allclose(one.scores, two.scores, atol=1e-5)
    )


def test_neither_batch_size_nor_order_nor_neighbours_change_a_result() -> None:
    network = awake()
    # two that are longer than the window stand between short ones
    videos = [some_video(i, steps=steps, actions=4) for i, steps in enumerate((50, 64, 90, 30, 93, 1, 65))]
    alone = {video.id: detect(network, [video], CLASSES)[0] for video in videos}
    for size in (1, 2, 3, 7):
        assert all(same(d, alone[d.video]) for d in detect(network, videos, CLASSES, batch_size=size))
    backwards = detect(network, videos[::-1], CLASSES, batch_size=4)
    assert [d.video for d in backwards] == [v.id for v in videos[::-1]]
    assert all(same(d, alone[d.video]) for d in backwards)


def test_the_length_depends_on_the_video_alone() -> None:
    assert [padded_length(n, SMALL) for n in (1, 64, 65, 72, 73)] == [64, 64, 72, 72, 80]
    assert padded_length(12_540, TriDetConfig()) == 12_544


def test_detections_are_sorted_inside_the_video_and_no_more_than_asked_for() -> None:
    found = detect(awake(small(max_segments=25)), some_videos(3), CLASSES)
    for one, video in zip(found, some_videos(3)):
        assert len(one) == 25
        assert (np.diff(one.scores) <= 0).all()
        assert (one.segments[:, 0] <= one.segments[:, 1]).all()
        assert one.segments.min() >= 0
        assert one.segments.max() <= float(video.duration)


def test_a_sure_network_without_candidates_finds_nothing() -> None:
    network = build(12, 3, SMALL, seed=0)
    torch.nn.init.constant_(network.cls_head.cls_head.conv.bias, -50.0)  # type: ignore[arg-type]
    found = detect(network, some_videos(2), CLASSES)
    assert [len(one) for one in found] == [0, 0]
    assert found[0].segments.shape == (0, 2)


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        (np.zeros((0, 12), np.float32), "0 steps"),
        (np.zeros((9, 11), np.float32), "11 wide instead of 12"),
        (np.full((9, 12), math.nan, np.float32), "9 of 9 steps have NaN"),
    ],
)
def test_features_that_cannot_be_searched_are_named(features: np.ndarray, reason: str) -> None:
    video = dataclasses.replace(some_video(7), features=features)
    with pytest.raises(BadItems, match=f"video_007: .*{reason}"):
        detect(awake(), [some_video(0), video], CLASSES)


@pytest.mark.slow
def test_the_published_network_searches_2304_steps_200_times_faster_than_real_time() -> None:
    """Two cores at full speed have 2·307/200 s of processor time for 2,304 steps of four frames at 30 fps."""
    network = build(768, 20, TriDetConfig(), seed=0)
    torch.nn.init.constant_(network.cls_head.cls_head.conv.bias, -2.0)  # type: ignore[arg-type]  # many candidates
    video = some_video(0, steps=2304, width=768)
    classes = tuple(map(str, range(20)))
    assert len(detect(network, [video], classes)[0]) == 2000
    assert cpu_seconds(lambda: detect(network, [video], classes)) < 2 * (2304 * 4 / 30) / 200 * slower()
