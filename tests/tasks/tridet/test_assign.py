"""Label assignment: published check values and a slow twin."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.tasks.tridet import TriDetConfig
from videoveil.tasks.tridet.assign import Target, assign, points

CONFIG = TriDetConfig()


def positives(
    steps: int, target: Target, classes: int = 20
) -> dict[tuple[int, int], tuple[list[int], list[float]]]:
    """(level, time) → classes and offsets."""
    where = points(steps, CONFIG)
    found = assign(where, target, classes, CONFIG.centre_radius)
    rows = {}
    for q in found.classes.any(1).nonzero()[:, 0].tolist():
        key = CONFIG.strides.index(int(where.stride[q])), int(where.time[q])
        rows[key] = (
            found.classes[q].nonzero()[:, 0].tolist(),
            [round(v, 4) for v in found.offsets[q].tolist()],
        )
    return rows


def test_a_full_window_has_4536_instants() -> None:
    where = points(2304, CONFIG)
    assert len(where) == 4536
    assert [int((where.stride == s).sum()) for s in CONFIG.strides] == [2304, 1152, 576, 288, 144, 72]
    assert where.time[2304:2307].tolist() == [0, 2, 4]


def test_the_published_example_is_reproduced() -> None:
    target = Target(torch.tensor([[10.3, 16.9], [10.3, 40.1]]), torch.tensor([3, 7]))
    assert positives(64, target) == {
        (0, 13): ([3], [2.7, 3.9]),
        (0, 14): ([3], [3.7, 2.9]),
        (1, 12): ([3], [0.85, 2.45]),
        (1, 16): ([3], [2.85, 0.45]),
        (3, 16): ([7], [0.7125, 3.0125]),
        (3, 24): ([7], [1.7125, 2.0125]),
        (3, 32): ([7], [2.7125, 1.0125]),
    }


def test_actions_of_equal_length_share_an_instant() -> None:
    both = Target(torch.tensor([[10.0, 16.0], [10.0, 16.0005], [10.0, 16.5]]), torch.tensor([7, 4, 1]))
    found = positives(64, both)
    assert found[(0, 13)] == ([4, 7], [3.0, 3.0])


def test_without_actions_everything_is_negative() -> None:
    nothing = Target(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    found = assign(points(64, CONFIG), nothing, 20)
    assert found.classes.shape == (126, 20)
    assert not found.classes.any()


def slow_assign(
    steps: int, segments: list[list[float]], labels: list[int]
) -> dict[tuple[int, int], set[int]]:
    rows = {}
    for level, (stride, (low, high)) in enumerate(zip(CONFIG.strides, CONFIG.regression_ranges)):
        for t in range(0, steps, stride):
            fits = []
            for (a, b), label in zip(segments, labels):
                centre = (a + b) / 2
                inside = t - max(centre - 1.5 * stride, a) > 0 and min(centre + 1.5 * stride, b) - t > 0
                if inside and low <= max(t - a, b - t) <= high:
                    fits.append((b - a, label))
            if fits:
                rows[level, t] = {label for length, label in fits if length <= min(fits)[0] + 1e-3}
    return rows


# eighths are exact in float32, so the twin in float64 makes the same comparisons
eighths = st.integers(-24, 64 * 8).map(lambda n: n / 8)


@given(st.lists(st.tuples(eighths, st.integers(1, 400), st.integers(0, 4)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_assignment_equals_its_slow_twin(actions: list[tuple[float, int, int]]) -> None:
    segments = [[a, a + length / 8] for a, length, _ in actions]
    labels = [label for *_, label in actions]
    target = Target(torch.tensor(segments).reshape(-1, 2), torch.tensor(labels, dtype=torch.int64))
    found = positives(64, target, classes=5)
    assert {key: set(classes) for key, (classes, _) in found.items()} == slow_assign(64, segments, labels)
    for (level, t), (_, (left, right)) in found.items():
        stride = CONFIG.strides[level]
        edges = [t - left * stride, t + right * stride]
        assert min(abs(edges[0] - a) + abs(edges[1] - b) for a, b in segments) < 0.05
