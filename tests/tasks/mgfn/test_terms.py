"""Every term of the objective: golden values, slow twins over a grid, gradients at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from videoveil.tasks.mgfn import terms

A = torch.tensor([[0.1, 0.4, 0.2]])
B = torch.tensor([[0.9, 0.8, 0.5]])


# --- golden values -------------------------------------------------------------------------------------------


def test_golden_smoothness() -> None:
    assert float(terms.smoothness(A, B, "all")) == pytest.approx(1.84e-4, rel=1e-5)
    assert float(terms.smoothness(A, B, "abnormal")) == pytest.approx(8e-4 * 0.1, rel=1e-5)


def test_golden_sparsity() -> None:
    assert float(terms.sparsity(B, A)) == pytest.approx(3.666061e-3, rel=1e-6)
    assert float(terms.sparsity(A, B)) == pytest.approx(1.0430723e-2, rel=1e-6)


def test_golden_pairs() -> None:
    first, second = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[4.0, 6.0, 3.0]])
    assert float(terms.pair_loss(first, second, different=False)) == pytest.approx(25, rel=1e-5)
    assert float(terms.pair_loss(first, second, different=True)) == pytest.approx(38_025, rel=1e-6)


def test_the_inter_class_term_weighs_a_millionth() -> None:
    one, zero = torch.tensor(1.0), torch.tensor(0.0)
    assert float(terms.magnitude_contrastive(one, zero, zero)) == pytest.approx(1e-6)
    assert float(terms.magnitude_contrastive(zero, one, zero)) == pytest.approx(1e-3)
    assert float(terms.magnitude_contrastive(zero, zero, one)) == pytest.approx(1e-3)


# --- slow twins ----------------------------------------------------------------------------------------------

grid = pytest.mark.parametrize(("batch", "length"), [(2, 2), (4, 32), (6, 5)])


def scores(batch: int, length: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(batch * 100 + length)
    return torch.rand(2, batch, length, generator=generator).unbind()


@grid
def test_classification_equals_a_slow_twin(batch: int, length: int) -> None:
    normal, abnormal = scores(batch, length)
    quiet, loud = normal[:, 0], abnormal[:, 0]
    slow = [-math.log(1 - float(s)) for s in quiet] + [-math.log(float(s)) for s in loud]
    assert float(terms.classification(quiet, loud)) == pytest.approx(sum(slow) / (2 * batch), rel=1e-5)


@grid
@pytest.mark.parametrize("on", ["abnormal", "all", "abnormal-joined"])
def test_smoothness_equals_a_slow_twin(batch: int, length: int, on: str) -> None:
    normal, abnormal = scores(batch, length)
    rows = {
        "abnormal": abnormal.tolist(),
        "all": normal.tolist() + abnormal.tolist(),
        "abnormal-joined": [[s for row in abnormal.tolist() for s in row]],
    }[on]
    slow = sum((row[t + 1] - row[t]) ** 2 for row in rows for t in range(len(row) - 1))
    found = terms.smoothness(normal, abnormal, on)  # type: ignore[arg-type]
    assert float(found) == pytest.approx(8e-4 * slow, rel=1e-5)


@grid
@pytest.mark.parametrize("on", ["abnormal", "normal"])
def test_sparsity_equals_a_slow_twin(batch: int, length: int, on: str) -> None:
    normal, abnormal = scores(batch, length)
    rows = (normal if on == "normal" else abnormal).tolist()
    slow = math.sqrt(sum(s * s for row in rows for s in row))
    found = terms.sparsity(normal, abnormal, on)  # type: ignore[arg-type]
    assert float(found) == pytest.approx(8e-3 * slow, rel=1e-5)


def slow_pair(a: list[float], b: list[float], different: bool, margin: float) -> float:
    distance = math.sqrt(sum((x - y + 1e-6) ** 2 for x, y in zip(a, b)))
    return max(margin - distance, 0) ** 2 if different else distance**2


@pytest.mark.parametrize(("crops", "batch"), [(1, 2), (1, 6), (2, 4), (10, 2)])
@pytest.mark.parametrize("margin", [200.0, 5.0])
def test_the_contrastive_terms_equal_a_slow_twin(crops: int, batch: int, margin: float) -> None:
    generator = torch.Generator().manual_seed(crops + batch)
    normal, abnormal = (10 * torch.randn(2, crops * batch, 3, 7, generator=generator)).unbind()

    def magnitude(features: Tensor) -> list[list[float]]:
        return [[sum(abs(v) for v in segment) for segment in entry] for entry in features.tolist()]

    quiet, loud = magnitude(normal), magnitude(abnormal)
    assert terms.segment_magnitudes(normal).tolist() == [pytest.approx(row, rel=1e-5) for row in quiet]
    entries = crops * batch
    inter = sum(slow_pair(loud[i], quiet[i], True, margin) for i in range(entries)) / entries
    found = terms.inter_class(terms.segment_magnitudes(normal), terms.segment_magnitudes(abnormal), margin)
    assert float(found) == pytest.approx(inter, rel=1e-4)

    half = entries // 2
    released = sum(slow_pair(loud[half + i], loud[i], False, margin) for i in range(half)) / half
    mags = terms.segment_magnitudes(abnormal)
    assert float(terms.intra_class(mags, crops, "released")) == pytest.approx(released, rel=1e-4)

    pairs = [
        (crop * batch + video + batch // 2, crop * batch + video)
        for crop in range(crops)
        for video in range(batch // 2)
    ]
    videos = sum(slow_pair(loud[i], loud[j], False, margin) for i, j in pairs) / len(pairs)
    assert float(terms.intra_class(mags, crops, "videos")) == pytest.approx(videos, rel=1e-4)


# --- what the pairing means ----------------------------------------------------------------------------------


def test_with_one_crop_both_pairings_are_the_same() -> None:
    entries = torch.randn(6, 3)
    for mine, theirs in zip(terms.halves(entries, 1, "videos"), terms.halves(entries, 1, "released")):
        assert torch.equal(mine, theirs)


def test_the_released_pairing_compares_a_video_with_itself_once_there_are_ten_crops() -> None:
    crops, batch = 10, 4
    video = torch.arange(batch).repeat(crops)[:, None]  # crop-major: index = crop·B + video
    first, second = terms.halves(video, crops, "released")
    assert torch.equal(first, second)
    first, second = terms.halves(video, crops, "videos")
    assert not (first == second).any()


# --- edges ---------------------------------------------------------------------------------------------------


def test_perfect_and_hopeless_scores_stay_finite() -> None:
    normal = torch.tensor([0.0, 1.0], requires_grad=True)
    abnormal = torch.tensor([1.0, 0.0], requires_grad=True)
    loss = terms.classification(normal, abnormal)
    loss.backward()
    assert torch.isfinite(loss)
    assert normal.grad is not None
    assert torch.isfinite(normal.grad).all()


def test_a_score_that_is_no_number_gives_a_loss_that_is_no_number() -> None:
    fine = torch.tensor([0.2, 0.3])
    assert terms.classification(torch.tensor([0.2, float("nan")]), fine).isnan()


def test_equal_magnitudes_and_zero_scores_have_a_gradient() -> None:
    same = torch.ones(4, 3, requires_grad=True)
    zero = torch.zeros(2, 5, requires_grad=True)
    total = terms.intra_class(same) + terms.inter_class(same, same.detach()) + terms.sparsity(zero, zero)
    total.backward()
    for tensor in (same, zero):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


def test_smoothness_of_videos_does_not_cross_their_borders() -> None:
    flat = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert float(terms.smoothness(flat, flat, "abnormal")) == 0
    assert float(terms.smoothness(flat, flat, "all")) == 0
    assert float(terms.smoothness(flat, flat, "abnormal-joined")) == pytest.approx(8e-4)
