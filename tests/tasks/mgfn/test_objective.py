"""The whole objective: a slow twin, order of the batch, gradients into features and adapters."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from videoveil.tasks.mgfn import terms
from videoveil.tasks.mgfn.config import MGFNConfig, released, small, ted_spad
from videoveil.tasks.mgfn.network import MGFN, Scored
from videoveil.tasks.mgfn.objective import losses, normals_first
from videoveil.tasks.mgfn.segments import draw_rows, mean_by_owner, segment_means, with_magnitude
from videoveil.tasks.mgfn.selection import select, selection_mask

LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])


def network(width: int = 6) -> MGFN:
    torch.manual_seed(0)
    return MGFN(width, small())


@pytest.mark.parametrize("crops", [1, 3])
@pytest.mark.parametrize("config", [small(), replace(released(), stages=small().stages)])
def test_the_total_equals_its_terms_written_out(crops: int, config: MGFNConfig) -> None:
    net = network().eval()
    features = torch.randn(8, crops, 32, 6)
    found = losses(net, features, LABELS, config, masked=False)
    with torch.no_grad():
        scored = net(with_magnitude(features))
        s = scored.scores.mean(1)
        chosen = torch.linalg.vector_norm(scored.embedding, dim=-1).mean(1).topk(3, dim=1).indices
        video = s.gather(1, chosen).mean(1)
        picked = [
            torch.stack([scored.embedding[v, c, chosen[v]] for c in range(crops) for v in half])
            for half in (range(4), range(4, 8))
        ]
        quiet, loud = (p.abs().sum(-1) for p in picked)
        total = (
            nn.functional.binary_cross_entropy(video, LABELS.float())
            + terms.smoothness(s[:4], s[4:], config.smoothness_on)
            + terms.sparsity(s[:4], s[4:], config.sparsity_on)
            + 0.001
            * (
                0.001 * terms.inter_class(quiet, loud)
                + terms.intra_class(quiet, crops, config.pairs)
                + terms.intra_class(loud, crops, config.pairs)
            )
        )
    assert found.values()["total"] == pytest.approx(float(total), rel=1e-5)


def test_the_first_losses_are_of_the_published_size() -> None:
    """At initialisation L_sce ≈ 0.70, L_inter ≈ 3.5e4, L_intra ≈ 2e2."""
    torch.manual_seed(0)
    net = MGFN(48)
    with torch.no_grad():
        scored = net(with_magnitude(torch.randn(16, 1, 32, 48)))
    picked = [
        select(Scored(*(t[part] for t in scored)), 3, selection_mask(8, 32, 0.7))
        for part in (slice(0, 8), slice(8, 16))
    ]
    quiet, loud = (terms.segment_magnitudes(p.features) for p in picked)
    assert 0.55 < float(terms.classification(picked[0].video_scores, picked[1].video_scores)) < 0.85
    assert 2.8e4 < float(terms.inter_class(quiet, loud)) < 4e4
    assert 30 < float(terms.intra_class(quiet)) < 800


def test_labels_may_come_in_any_order() -> None:
    net, config = network().eval(), small()
    features = torch.randn(8, 1, 32, 6)
    mixed = torch.tensor([4, 0, 5, 1, 2, 6, 7, 3])  # classes interleaved, the order inside each kept
    here = losses(net, features, LABELS, config, masked=False).values()
    there = losses(net, features[mixed], LABELS[mixed], config, masked=False).values()
    assert there == pytest.approx(here, rel=1e-5)


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 1], [0, 0, 0, 0], [0, 2, 1, 1], [0, 0, 0, 1, 1, 1]])
def test_a_batch_that_cannot_be_paired_is_refused(labels: list[int]) -> None:
    with pytest.raises(ValueError, match=r"same even number|must be 0 or 1"):
        normals_first(torch.tensor(labels))


def test_a_missing_crop_axis_is_one_crop() -> None:
    net = network().eval()
    features = torch.randn(8, 32, 6)
    plain = losses(net, features, LABELS, small(), masked=False).values()
    assert plain == losses(net, features[:, None], LABELS, small(), masked=False).values()


def test_the_same_generator_gives_the_same_loss() -> None:
    net = network().eval()
    features = torch.randn(8, 32, 6)

    def total(seed: int) -> float:
        found = losses(net, features, LABELS, small(), torch.Generator().manual_seed(seed))
        return found.values()["total"]

    assert total(0) == total(0)
    assert len({total(seed) for seed in range(5)}) > 1


def test_every_parameter_gets_a_gradient() -> None:
    net = network()
    losses(net, torch.randn(8, 32, 6), LABELS, small(), torch.Generator().manual_seed(0)).total.backward()
    silent = [n for n, p in net.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_an_adapter_in_front_is_reached_through_features_and_through_magnitudes() -> None:
    net = network().eval()
    adapter = nn.Linear(6, 6)
    videos = [torch.randn(50, 6) for _ in range(8)]

    def gradient() -> torch.Tensor:
        adapter.zero_grad()
        segments = torch.stack([segment_means(adapter(video), 32) for video in videos])
        losses(net, segments, LABELS, small(), masked=False).total.backward()
        assert adapter.weight.grad is not None
        return adapter.weight.grad.clone()

    both = gradient()
    assert float(both.abs().sum()) > 0
    with torch.no_grad():
        net.to_tokens.weight.zero_()  # now only the magnitude channel leads back
    magnitude_only = gradient()
    assert float(magnitude_only.abs().sum()) > 0
    with torch.no_grad():
        net.to_mag.weight.zero_()
    assert float(gradient().abs().sum()) == 0


def test_an_adapter_on_a_few_drawn_rows_of_each_segment_gets_a_gradient() -> None:
    adapter = nn.Linear(6, 6)
    segments = []
    for i in range(8):
        rows, owner = draw_rows(500, 32, 4, torch.Generator().manual_seed(i))
        segments.append(mean_by_owner(adapter(torch.randn(500, 6)[rows]), owner, 32))
    losses(network(), torch.stack(segments), LABELS, small()).total.backward()
    assert adapter.weight.grad is not None
    assert float(adapter.weight.grad.abs().sum()) > 0


def test_the_published_variants_differ_in_what_they_regularise() -> None:
    assert (released().smoothness_on, released().sparsity_on) == ("all", "normal")
    assert (ted_spad().smoothness_on, ted_spad().sparsity_on) == ("abnormal-joined", "abnormal")
    net = network().eval()
    features = torch.randn(8, 32, 6)
    totals = {
        losses(net, features, LABELS, replace(c, stages=small().stages), masked=False).values()["total"]
        for c in (MGFNConfig(), released(), ted_spad())
    }
    assert len(totals) == 3
