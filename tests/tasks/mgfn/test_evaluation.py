"""Frame scores and the report: repetition, stretching, pooling, classes, and every complaint at once."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.errors import BadItems
from videoveil.tasks.metrics import average_precision, pr_auc, roc_auc
from videoveil.tasks.mgfn.evaluation import evaluate, frame_scores, stretch
from videoveil.tasks.mgfn.videos import AnomalyVideo

from .synthetic import make_videos


def random_scores(videos: list[AnomalyVideo], seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {video.id: random.random(video.snippets).astype(np.float32) for video in videos}


@pytest.mark.parametrize("span", [16, 32, 7])
def test_a_snippet_score_is_repeated_for_its_frames(span: int) -> None:
    found = frame_scores(np.array([0.25, 0.5]), span)
    assert found.tolist() == [0.25] * span + [0.5] * span


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.integers(1, 90))
def test_stretching_equals_a_slow_twin(m: int, length: int) -> None:
    slow = np.full(length, -1.0)
    ratio = length / m
    for i in range(m):
        slow[int(i * ratio + 0.5) : int((i + 1) * ratio + 0.5)] = i
    found = stretch(np.arange(float(m)), length)
    assert found.shape == (length,)
    # a boundary that falls exactly on a half is decided by rounding noise in the slow form
    exact = [(2 * i * length) % (2 * m) != m for i in range(m + 1)]
    if all(exact):
        assert found.tolist() == slow.tolist()


@pytest.mark.parametrize("span", [16, 32])
def test_the_report_pools_all_frames_of_all_videos(span: int) -> None:
    videos = make_videos(8, span=span)
    scores = random_scores(videos)
    report = evaluate(scores, videos)
    truth = np.concatenate([v.truth for v in videos if v.truth is not None])
    pooled = np.concatenate([np.repeat(scores[v.id], span) for v in videos])
    overall = report.overall
    assert overall.roc_auc == roc_auc(truth, pooled)
    assert overall.pr_auc == pr_auc(truth, pooled)
    assert overall.ap == average_precision(truth, pooled)
    assert (overall.videos, overall.frames, overall.abnormal_frames) == (8, len(truth), truth.sum())
    assert (overall.roc_chance, overall.ap_chance) == (0.5, pytest.approx(truth.mean()))


def test_anomalous_videos_alone_and_every_class_are_reported() -> None:
    videos = make_videos(8)
    scores = random_scores(videos)
    report = evaluate(scores, videos)
    assert set(report.classes) == {"Abuse", "Fighting"}
    abnormal = [v for v in videos if v.label]
    assert report.abnormal_only == evaluate(scores, abnormal).overall
    fighting = [v for v in abnormal if v.class_name == "Fighting"]
    assert report.classes["Fighting"].within == evaluate(scores, fighting).overall
    normal = [v for v in videos if not v.label]
    assert report.classes["Fighting"].against_normal == evaluate(scores, fighting + normal).overall
    assert json.loads(json.dumps(report.to_json()))["overall"]["videos"] == 8


def test_a_video_of_two_classes_counts_for_both() -> None:
    videos = [replace(v, class_name="B1-B2") if v.label else v for v in make_videos(4)]
    report = evaluate(random_scores(videos), videos)
    assert set(report.classes) == {"B1", "B2"}
    assert report.classes["B1"] == report.classes["B2"]


def test_a_perfect_score_is_one_and_the_reverse_zero() -> None:
    videos = make_videos(6, span=4)
    perfect = {v.id: v.truth[::4] for v in videos if v.truth is not None}
    assert evaluate(perfect, videos).overall.roc_auc == 1.0
    assert evaluate({k: 1 - v for k, v in perfect.items()}, videos).overall.roc_auc == 0.0


def test_the_order_of_videos_does_not_matter() -> None:
    videos = make_videos(6)
    scores = random_scores(videos)
    assert evaluate(scores, videos) == evaluate(scores, videos[::-1])


def test_a_class_without_normal_frames_has_no_roc() -> None:
    videos = make_videos(4)
    all_abnormal = replace(videos[1], truth=np.ones(videos[1].frames, dtype=np.float32))
    report = evaluate(random_scores(videos), [videos[0], all_abnormal, *videos[2:]])
    assert report.classes["Abuse"].within.roc_auc is None
    assert report.classes["Abuse"].within.ap == 1.0


def test_every_offender_is_named_at_once() -> None:
    videos = make_videos(8)
    assert videos[1].truth is not None
    videos[0] = replace(videos[0], truth=None)
    videos[1] = replace(videos[1], truth=videos[1].truth[:-1])
    videos[2] = replace(videos[2], truth=np.ones(videos[2].frames))
    scores = random_scores(videos)
    del scores["v003"]
    scores["v004"] = scores["v004"][:-1]
    scores["v005"] = np.full(videos[5].snippets, np.nan)
    with pytest.raises(BadItems) as caught:
        evaluate(scores, videos)
    text = "\n".join(caught.value.offenders)
    for name in (
        "v000: no frame-level truth",
        "v001: the truth has",
        "v002: labelled normal",
        "v003: no scores",
    ):
        assert name in text
    assert "v004: scores of shape" in text
    assert "v005: scores of shape" in text
    assert len(caught.value.offenders) == 6


def test_a_length_mismatch_is_an_error_unless_allowed() -> None:
    videos = make_videos(6)
    assert videos[1].truth is not None
    videos[1] = replace(videos[1], truth=np.append(videos[1].truth, 0.0))
    scores = random_scores(videos)
    with pytest.raises(BadItems, match="v001: the truth has"):
        evaluate(scores, videos)
    assert evaluate(scores, videos, allow_length_mismatch=True).overall.frames == sum(
        len(v.truth) for v in videos if v.truth is not None
    )


def test_without_abnormal_frames_there_is_nothing_to_measure() -> None:
    normal = [v for v in make_videos(6) if not v.label]
    with pytest.raises(BadItems, match="no frame of any video is anomalous"):
        evaluate(random_scores(normal), normal)
