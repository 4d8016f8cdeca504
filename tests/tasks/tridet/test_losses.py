"""The loss: published check values, slow twins, gradient routes, the running normaliser."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.tasks.tridet import Normaliser, TriDetConfig, losses
from videoveil.tasks.tridet.assign import Target, assign, points
from videoveil.tasks.tridet.losses import distance_iou, focal, overlap, pad
from videoveil.tasks.tridet.network import Level, TriDet

from .make import SMALL, WIDTH, awake, small

TARGETS = [
    Target(torch.tensor([[4.3, 11.0], [20.0, 50.2], [4.3, 11.0]]), torch.tensor([0, 2, 1])),
    Target(torch.tensor([[10.0, 13.5]]), torch.tensor([1])),
]


def sequences(seed: int = 0, lengths: tuple[int, ...] = (60, 33)) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(WIDTH, steps, generator=generator) for steps in lengths]


@pytest.mark.parametrize(
    ("logit", "target", "value", "tolerance"),
    [(0.0, 1.0, 0.0433217, 1e-7), (2.0, 0.0, 1.2375586, 1e-6), (-4.595, 0.0, 7.54e-7, 5e-10)],
)
def test_focal_loss_has_its_published_values(
    logit: float, target: float, value: float, tolerance: float
) -> None:
    assert float(focal(torch.tensor(logit), torch.tensor(target))) == pytest.approx(value, abs=tolerance)


@pytest.mark.parametrize(
    ("predicted", "target", "value"),
    [((2, 3), (4, 1), 0.6530612), ((0, 0), (1, 1), 1.0), ((2, 3), (2, 3), 0.0)],
)
def test_distance_iou_has_its_published_values(
    predicted: tuple[float, float], target: tuple[float, float], value: float
) -> None:
    one, two = torch.tensor([predicted], dtype=torch.float32), torch.tensor([target], dtype=torch.float32)
    assert float(distance_iou(one, two)) == pytest.approx(value, abs=1e-6)


def test_overlap_of_the_published_example() -> None:
    assert 1 - float(overlap(torch.tensor([[2.0, 3.0]]), torch.tensor([[4.0, 1.0]]))) == pytest.approx(
        0.5714286
    )


def test_the_normaliser_is_updated_before_it_is_used() -> None:
    norm = Normaliser.of(TriDetConfig())
    assert norm.update(50) == pytest.approx(95.0)
    assert norm.update(0) == pytest.approx(0.9 * 95 + 0.1)
    assert norm.value == pytest.approx(85.6)


# --- the whole loss against a twin that visits one instant and class at a time ------------------------------


def slow_loss(
    levels: list[Level], targets: list[Target], norm: float, config: TriDetConfig
) -> tuple[float, float]:
    classification = regression = 0.0
    where = points(config.max_seq_len, config)
    for video, target in enumerate(targets):
        wanted, q = assign(where, target, 3, config.centre_radius), 0
        for level in levels:
            for t in range(level.logits.shape[-1]):
                for label in range(3):
                    if level.mask[video, t]:
                        c, r = slow_entry(
                            level, video, label, t, wanted.classes[q, label], wanted.offsets[q], config
                        )
                        classification, regression = classification + c, regression + r
                q += 1
    return classification / norm, regression / norm


def slow_entry(
    level: Level, video: int, label: int, t: int, hot: Tensor, wanted: Tensor, config: TriDetConfig
) -> tuple[float, float]:
    from .test_trident import slow_decode

    p = 1 / (1 + math.exp(-float(level.logits[video, label, t])))
    if not hot:
        return 0.75 * -math.log(1 - p) * p**2, 0.0
    (left, right), (left_true, right_true) = slow_decode(level, video, label, t, config.bins), wanted.tolist()
    inter = min(left, left_true) + min(right, right_true)
    union = left + right + left_true + right_true - inter
    enclosing = max(left, left_true) + max(right, right_true)
    centre = 0.5 * (right - left - right_true + left_true)
    iou = inter / union
    return 0.25 * -math.log(p) * (1 - p) ** 2 * iou**0.2, 1 - iou + (centre / enclosing) ** 2


@pytest.mark.parametrize("seed", [0, 1])
@torch.no_grad()
def test_the_loss_equals_its_slow_twin(seed: int) -> None:
    network = awake(seed=seed)
    found = losses(network, sequences(seed), TARGETS, Normaliser(), SMALL)
    levels = network(*pad(sequences(seed), SMALL.max_seq_len))
    classification, regression = slow_loss(levels, TARGETS, found.normaliser, SMALL)
    assert found.positives > 10
    assert found.normaliser == pytest.approx(90 + 0.1 * found.positives)
    assert float(found.classification) == pytest.approx(classification, rel=1e-5)
    assert float(found.regression) == pytest.approx(regression, rel=1e-5)
    assert float(found.total) == pytest.approx(classification + regression, rel=1e-5)


# --- properties ---------------------------------------------------------------------------------------------


def nothing() -> Target:
    return Target(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))


def test_without_any_action_the_loss_is_finite_and_every_parameter_has_a_gradient() -> None:
    network = awake()
    found = losses(network, sequences(), [nothing(), nothing()], Normaliser(), SMALL)
    found.total.backward()
    assert (found.positives, float(found.regression)) == (0, 0.0)
    assert found.normaliser == pytest.approx(90.1)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_an_action_in_the_padding_is_not_learnt() -> None:
    behind = Target(torch.tensor([[45.0, 55.0]]), torch.tensor([0]))
    found = losses(awake(), sequences(lengths=(33,)), [behind], Normaliser(), SMALL)
    assert found.positives == 0


def test_gradients_reach_the_features_but_not_through_the_boundary_heads() -> None:
    network, inputs = awake(), [x.requires_grad_() for x in sequences()]
    losses(network, inputs, TARGETS, Normaliser(), SMALL).total.backward()
    assert all(x.grad is not None and x.grad.abs().sum() > 0 for x in inputs)
    # cut off everything but the boundary heads: then nothing may come back to the features
    mask = torch.ones(1, 1, 64, dtype=torch.bool)
    x = torch.randn(1, WIDTH, 64, requires_grad=True)
    levels = network(x, mask)
    boundary = sum(level.start.sum() + level.end.sum() for level in levels)
    assert torch.autograd.grad(boundary, x, allow_unused=True, retain_graph=True)[0] is None
    assert torch.autograd.grad(levels[0].centre.sum(), x)[0].any()


def heads_gradient(network: TriDet, config: TriDetConfig) -> float:
    """What the classification loss alone sends to the start head."""
    network.zero_grad()
    losses(network, sequences(), TARGETS, Normaliser(), config).total.backward()
    assert network.start_head.cls_head.conv.weight.grad is not None
    return float(network.start_head.cls_head.conv.weight.grad.abs().sum())


def test_the_iou_weight_teaches_the_boundary_heads_unless_it_is_detached() -> None:
    only_classes = small(regression_weight=0.0)
    assert heads_gradient(awake(), only_classes) > 0
    assert heads_gradient(awake(), small(regression_weight=0.0, detach_iou_weight=True)) == 0


def test_an_empty_prediction_does_not_give_an_infinite_gradient() -> None:
    offsets = torch.zeros(1, 2, requires_grad=True)
    weight = overlap(offsets, torch.tensor([[1.0, 1.0]])).clamp(min=1e-6) ** 0.2
    (weight + distance_iou(offsets, torch.tensor([[1.0, 1.0]]))).sum().backward()
    assert offsets.grad is not None
    assert offsets.grad.isfinite().all()


def test_a_sequence_longer_than_the_window_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\(12, 65\).*64 steps; truncate"):
        losses(awake(), sequences(lengths=(65,)), TARGETS[:1], Normaliser(), SMALL)


def test_noise_is_added_to_the_padded_sequence() -> None:
    network, noise = awake(), [torch.full((WIDTH, 64), 0.5)] * 2
    one = losses(network, sequences(), TARGETS, Normaliser(), SMALL, noise=noise)
    batch, mask = pad(sequences(), 64)
    logits = network(batch + 0.5, mask)
    two = losses(lambda *_: logits, sequences(), TARGETS, Normaliser(), SMALL)
    assert torch.equal(one.total, two.total)
    assert not torch.equal(one.total, losses(network, sequences(), TARGETS, Normaliser(), SMALL).total)
