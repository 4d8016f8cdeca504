from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives import ROTATION_CHANCE, quarter_labels, rotate_quarters, rotation_loss


def turned(frame: list[list[float]]) -> list[list[float]]:
    """A quarter counter-clockwise: the last column becomes the first row."""
    return [[row[column] for row in frame] for column in reversed(range(len(frame)))]


def slow(logits: Tensor, labels: Tensor) -> float:
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist()):
        total -= math.log(math.exp(row[label]) / sum(math.exp(value) for value in row))
    return total / len(logits)


def test_golden_turns() -> None:
    views, labels = rotate_quarters(torch.tensor([[[[1, 2], [3, 4]]]]))
    assert views[:, 0].tolist() == [[[1, 2], [3, 4]], [[2, 4], [1, 3]], [[4, 3], [2, 1]], [[3, 1], [4, 2]]]
    assert labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("count", "channels", "size"), [(1, 3, 4), (3, 1, 5), (2, 2, 1)])
def test_every_view_is_its_frame_turned_as_often_as_its_label_says(
    count: int, channels: int, size: int
) -> None:
    frames = torch.rand(count, channels, size, size, generator=torch.Generator().manual_seed(0))
    views, labels = rotate_quarters(frames)
    assert views.shape == (4 * count, channels, size, size)
    for place, label in enumerate(labels.tolist()):
        for channel in range(channels):
            expected = frames[place % count, channel].tolist()
            for _ in range(label):
                expected = turned(expected)
            assert views[place, channel].tolist() == expected


def test_gradient_comes_back_to_the_frames_from_all_four_turns() -> None:
    frames = torch.rand(2, 3, 4, 4, requires_grad=True)
    views, _ = rotate_quarters(frames)
    views.sum().backward()
    assert frames.grad is not None
    assert torch.equal(frames.grad, torch.full_like(frames, 4.0))


@pytest.mark.parametrize("count", [1, 4, 9])
def test_loss_equals_the_slow_twin(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    logits = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (count,), generator=generator)
    assert float(rotation_loss(logits, labels)) == pytest.approx(slow(logits, labels), rel=1e-12)
    assert torch.autograd.gradcheck(lambda x: rotation_loss(x, labels), logits.requires_grad_())


def test_the_loss_of_a_frame_is_the_mean_over_its_four_turns() -> None:
    logits = torch.randn(12, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    labels = quarter_labels(3, logits.device)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    found = rotation_loss(logits, labels, per="sample")
    assert found.tolist() == pytest.approx([slow(logits[n::3], labels[n::3]) for n in range(3)])
    assert float(found.mean()) == pytest.approx(float(rotation_loss(logits, labels)))


def test_a_blind_network_has_the_loss_of_chance() -> None:
    assert float(rotation_loss(torch.zeros(8, 4), torch.arange(8) % 4)) == pytest.approx(ROTATION_CHANCE)
    assert pytest.approx(1.3862944) == ROTATION_CHANCE


def test_half_precision_logits_are_compared_in_float32() -> None:
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        loss = rotation_loss(logits, torch.arange(6) % 4)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(slow(logits.double(), torch.arange(6) % 4), rel=1e-6)


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match="H = W"):
        rotate_quarters(torch.zeros(2, 3, 4, 5))
    with pytest.raises(UsageError, match=r"\(M, 4\)"):
        rotation_loss(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))
    for labels in (torch.arange(4).repeat(2), quarter_labels(2, torch.device("cpu"))[:7]):
        with pytest.raises(UsageError, match="rows and labels of `rotate_quarters`"):
            rotation_loss(torch.zeros(len(labels), 4), labels, per="sample")
