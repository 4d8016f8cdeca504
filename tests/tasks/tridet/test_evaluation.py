"""mAP: the published check value, a slow twin, and what it must not depend on."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.data.records import Segment
from videoveil.errors import AnnotationError
from videoveil.tasks.tridet import Detection, Detections, evaluate
from videoveil.tasks.tridet.evaluation import (
    THRESHOLDS,
    interpolated_precision,
    temporal_iou,
    without_doubles,
)

Truth = dict[str, list[Segment]]


def detections(rows: list[Detection], classes: tuple[str, ...] = ("x", "y", "z")) -> list[Detections]:
    videos = {row.video for row in rows}
    return [Detections.collect(v, classes, [row for row in rows if row.video == v]) for v in sorted(videos)]


def segments(label: str, *pairs: tuple[int, int]) -> list[Segment]:
    return [Segment(label, Fraction(a), Fraction(b)) for a, b in pairs]


def test_the_published_example_is_reproduced() -> None:
    truth = {"a": segments("x", (0, 4), (10, 20)), "b": segments("x", (0, 5))}
    found = [
        Detection("a", "x", 0, 4, 0.9),
        Detection("a", "x", 11, 20, 0.8),
        Detection("b", "x", 1, 3, 0.7),
        Detection("c", "x", 0, 1, 0.95),
    ]
    scores = evaluate(detections(found), truth)
    assert list(scores.at.values()) == pytest.approx([0.75, 0.75, 0.4444, 0.4444, 0.4444], abs=1e-4)
    assert scores.mean == pytest.approx(sum(scores.at.values()) / 5)


def test_perfect_detections_score_one() -> None:
    truth = {
        "a": segments("x", (0, 4), (10, 20)) + segments("y", (0, 4)),
        "b": segments("z", (3, 5)),
        "c": [],
    }
    found = [
        Detection(v, s.label, float(s.start), float(s.end), 0.5) for v, rows in truth.items() for s in rows
    ]
    assert evaluate(detections(found), truth).mean == 1.0


def test_a_class_without_detections_scores_zero_and_a_class_without_truth_does_not_count() -> None:
    truth = {"a": segments("x", (0, 4)) + segments("y", (5, 9))}
    found = [Detection("a", "x", 0, 4, 0.9), Detection("a", "z", 0, 4, 0.9)]
    scores = evaluate(detections(found), truth)
    assert scores.per_class() == {"x": 1.0, "y": 0.0}
    assert scores.mean == 0.5
    assert evaluate([], truth).mean == 0.0


def test_a_second_detection_of_the_same_action_is_wrong() -> None:
    truth = {"a": segments("x", (0, 10), (20, 30))}
    once = [Detection("a", "x", 0, 10, 0.9), Detection("a", "x", 20, 30, 0.5)]
    assert evaluate(detections(once), truth).mean == 1.0
    twice = [*once, Detection("a", "x", 0, 10, 0.7)]
    assert evaluate(detections(twice), truth).mean == pytest.approx(0.5 + 0.5 * 2 / 3)


def test_repeated_and_empty_annotations_do_not_count() -> None:
    rows = [
        Segment("x", Fraction(0), Fraction(4)),
        Segment("x", Fraction(1, 2000), Fraction(4)),
        Segment("x", Fraction(5), Fraction(5)),
        Segment("y", Fraction(0), Fraction(4)),
        Segment("x", Fraction(1, 100), Fraction(4)),
    ]
    assert without_doubles(rows) == [rows[0], rows[3], rows[4]]
    with pytest.raises(AnnotationError, match="nothing to score"):
        evaluate([], {"a": [rows[2]]})


def test_interpolation_takes_the_best_precision_to_the_right() -> None:
    assert interpolated_precision(np.array([False, True, True, True]), 3) == pytest.approx(0.75)
    assert interpolated_precision(np.array([True, False, True]), 2) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert interpolated_precision(np.zeros(0, dtype=bool), 3) == 0.0


# --- a twin that does what the evaluation algorithm says, word by word --------------------------------------


def slow_ap(found: list[Detection], truth: Truth, label: str, threshold: float) -> float:
    found = sorted((d for d in found if d.label == label), key=lambda d: (-d.score, d.video, d.start, d.end))
    true = {v: [s for s in without_doubles(rows) if s.label == label] for v, rows in truth.items()}
    matched: set[tuple[str, int]] = set()
    hits = []
    for d in found:
        rows = true.get(d.video, [])
        overlaps = sorted(((slow_iou(d, s), n) for n, s in enumerate(rows)), key=lambda p: (-p[0], p[1]))
        hit = False
        for iou, n in overlaps:
            if iou < threshold:
                break
            if (d.video, n) not in matched:
                matched.add((d.video, n))
                hit = True
                break
        hits.append(hit)
    total, area, recall = sum(map(len, true.values())), 0.0, 0.0
    precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(len(hits))]
    for i, hit in enumerate(hits):
        if hit:
            reached = sum(hits[: i + 1]) / total
            area += (reached - recall) * max(precisions[i:])
            recall = reached
    return area


def slow_iou(d: Detection, s: Segment) -> float:
    inter = max(0.0, min(d.end, float(s.end)) - max(d.start, float(s.start)))
    union = (d.end - d.start) + float(s.end - s.start) - inter
    return inter / union


spans = st.tuples(st.integers(0, 20), st.integers(1, 12)).map(lambda p: (p[0], p[0] + p[1]))
truths = st.dictionaries(
    st.sampled_from("abc"),
    st.lists(st.tuples(st.sampled_from("xy"), spans).map(lambda p: segments(p[0], p[1])[0]), max_size=5),
    max_size=3,
)
guesses = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), spans, st.integers(1, 9)).map(
        lambda p: Detection(p[0], p[1], float(p[2][0]), float(p[2][1]), p[3] / 10)
    ),
    max_size=25,
)


@given(truths, guesses, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_map_equals_its_slow_twin_in_any_order(
    truth: Truth, found: list[Detection], rng: random.Random
) -> None:
    labels = sorted({s.label for rows in truth.values() for s in rows})
    if not labels:
        return
    shuffled = detections(found)
    rng.shuffle(shuffled)
    scores = evaluate(shuffled, truth)
    for row, label in zip(scores.precision, labels):
        expected = [slow_ap(found, truth, label, threshold) for threshold in THRESHOLDS]
        assert row.tolist() == pytest.approx(expected, abs=1e-12)


def test_iou_of_touching_empty_and_nested_segments() -> None:
    found = temporal_iou(np.array([[0.0, 4.0], [2.0, 2.0]]), np.array([[4.0, 6.0], [0.0, 8.0], [2.0, 2.0]]))
    assert found.tolist() == [[0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]


def test_the_report_is_plain_json() -> None:
    truth = {"a": segments("x", (0, 4))}
    scores = evaluate(detections([Detection("a", "x", 0, 3, 0.9)]), truth).to_json()
    assert scores["mAP_at"] == {"0.3": 1.0, "0.4": 1.0, "0.5": 1.0, "0.6": 1.0, "0.7": 1.0}
    assert scores["AP"] == {"x": 1.0}
