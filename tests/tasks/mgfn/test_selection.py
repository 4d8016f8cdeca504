"""Selection by masked magnitude: shapes, order, a slow twin, the mask's law."""

from __future__ import annotations

import pytest
import torch

from videoveil.tasks.mgfn.network import Scored
from videoveil.tasks.mgfn.selection import select, selection_mask, top_segments


def scored(videos: int, crops: int, length: int, width: int = 8, seed: int = 0) -> Scored:
    generator = torch.Generator().manual_seed(seed)
    return Scored(
        torch.rand(videos, crops, length, generator=generator),
        torch.randn(videos, crops, length, width, generator=generator),
    )


@pytest.mark.parametrize(("crops", "entries"), [(1, 16), (10, 160)])
def test_published_shapes(crops: int, entries: int) -> None:
    found = select(scored(16, crops, 32, width=1024), 3)
    assert found.video_scores.shape == (16,)
    assert found.features.shape == (entries, 3, 1024)
    assert found.segment_scores.shape == (16, 32)


@pytest.mark.parametrize(("videos", "crops", "length"), [(2, 1, 32), (4, 3, 10), (2, 10, 3), (2, 2, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_selection_equals_a_slow_twin(videos: int, crops: int, length: int, masked: bool) -> None:
    given = scored(videos, crops, length)
    mask = selection_mask(videos, length, 0.3, torch.Generator().manual_seed(5)) if masked else None
    found = select(given, 3, mask)
    for v in range(videos):
        loud = []
        for t in range(length):
            norms = [float(given.embedding[v, c, t].square().sum().sqrt()) for c in range(crops)]
            loud.append(sum(norms) / crops * (1.0 if mask is None else float(mask[v, t])))
        best = sorted(range(length), key=lambda t: -loud[t])[: min(3, length)]
        if sum(value > 0 for value in loud) < len(best):
            continue  # masked segments fill up in any order
        means = [float(given.scores[v, :, t].mean()) for t in best]
        assert float(found.video_scores[v]) == pytest.approx(sum(means) / len(means), rel=1e-5)
        for c in range(crops):
            assert torch.equal(found.features[c * videos + v], given.embedding[v, c, best])


def test_the_mask_keeps_three_tenths_and_scales_them_up() -> None:
    mask = selection_mask(400, 32, 0.7, torch.Generator().manual_seed(0))
    kept = mask > 0
    assert torch.allclose(mask[kept], torch.tensor(1 / 0.3))
    assert 0.28 < float(kept.float().mean()) < 0.32
    assert 9.2 < float(kept.sum(1).float().mean()) < 10.0  # about 9.6 of 32


def test_masks_repeat_with_their_generator_and_leave_the_global_one_alone() -> None:
    before = torch.random.get_rng_state()
    first, again = (selection_mask(3, 32, 0.7, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_one_mask_rules_all_crops() -> None:
    given = scored(2, 4, 32)
    mask = torch.zeros(2, 32)
    mask[:, [4, 9, 20]] = 1
    assert top_segments(given.embedding, mask, 3).sort(1).values.tolist() == [[4, 9, 20]] * 2


def test_fewer_segments_than_k_are_all_taken() -> None:
    found = select(scored(2, 1, 2), 3)
    assert found.features.shape == (2, 2, 8)


def test_gradients_reach_scores_and_embedding() -> None:
    given = Scored(*(t.requires_grad_() for t in scored(2, 1, 32)))
    found = select(given, 3)
    (found.video_scores.sum() + found.features.sum()).backward()
    assert given.scores.grad is not None
    assert int((given.scores.grad != 0).sum()) == 6
    assert given.embedding.grad is not None
    assert int((given.embedding.grad.abs().sum(-1) != 0).sum()) == 6
