"""Frame-level truth as vectors: half-open spans, cuts, padding, and the checks on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import quick
from videoveil.data.frame_truth import TOLERANCE, check_truth, frame_truth
from videoveil.data.records import FrameSpan, Item
from videoveil.errors import AnnotationError

edges = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda e: (e[0], e[0] + e[1]))


def watched(*spans: tuple[int, int], mask: int | None = None, anomaly: bool = True) -> Item:
    extra = {} if mask is None else {"mask_frames": str(mask)}
    found = tuple(FrameSpan(first, stop) for first, stop in spans)
    return Item("Abuse001_x264", Path("x.mp4"), "test", anomaly=anomaly, anomaly_spans=found, extra=extra)


@quick
@given(st.lists(edges, max_size=3), st.integers(0, 80))
def test_truth_equals_a_slow_twin(spans: list[tuple[int, int]], frames: int) -> None:
    slow = [float(any(first <= f < stop for first, stop in spans)) for f in range(frames)]
    truth = frame_truth(watched(*spans, anomaly=bool(spans)), frames)
    assert truth.tolist() == slow
    assert (truth.dtype, truth.shape) == (np.float32, (frames,))


@quick
@given(st.lists(st.integers(0, 1), min_size=1, max_size=40), st.integers(0, 60))
def test_a_mask_is_cut_or_goes_on_with_its_last_value(mask: list[int], frames: int) -> None:
    ones = [(f, f + 1) for f, value in enumerate(mask) if value]
    slow = (mask + [mask[-1]] * frames)[:frames]
    assert frame_truth(watched(*ones, mask=len(mask), anomaly=bool(ones)), frames).tolist() == slow


def test_without_a_mask_nothing_goes_on() -> None:
    assert frame_truth(watched((2, 4)), 6).tolist() == [0, 0, 1, 1, 0, 0]


def test_truth_that_fits_passes() -> None:
    check_truth(watched((2, 4)), 6)
    check_truth(watched(anomaly=False), 6)
    check_truth(watched((2, 6 + TOLERANCE)), 6)
    check_truth(watched((2, 6), mask=6 + TOLERANCE), 6)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (watched(), "abnormal, but nothing says which frames are"),
        (watched((6, 9)), "abnormal, but 0 of its 6 frames"),
        (watched((2, 4), anomaly=False), "normal, but 2 of its 6 frames"),
        (watched((2, 7 + TOLERANCE)), "annotated up to frame 71, the video has 6"),
        (watched((2, 4), mask=7 + TOLERANCE), "annotated up to frame 71, the video has 6"),
    ],
)
def test_truth_that_cannot_be_is_an_error_with_the_video_named(item: Item, reason: str) -> None:
    with pytest.raises(AnnotationError, match=f"Abuse001_x264: {reason}"):
        check_truth(item, 6)
