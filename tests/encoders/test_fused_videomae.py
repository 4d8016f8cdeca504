"""VideoMAE written for bfloat16: the same function as the published network, and independent of its neighbours."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from tests.encoders.helpers import small
from videoveil.encoders.base import Encoder
from videoveil.encoders.fused_videomae import FusedVideoMAE

SIZES: list[dict[str, Any]] = [
    {},
    {"depth": 0},
    {"depth": 5, "width": 96, "heads": 4, "mlp": 192, "size": 48},
]


def lively(encoder: Encoder) -> Encoder:
    """Every number moved, so that no gain is 1 and no shift or bias 0."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in encoder.network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return encoder


def clips_for(encoder: Encoder, count: int = 3) -> Tensor:
    spec = encoder.input
    shape = (count, 3, spec.frames, spec.size, spec.size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(2))


def fused(encoder: Encoder) -> nn.Module:
    found = encoder.lowered()
    assert isinstance(found, FusedVideoMAE)
    return found


@torch.inference_mode()
@pytest.mark.parametrize("pool", ["mean+fc_norm", "mean", "layernorm+mean"])
@pytest.mark.parametrize("sizes", SIZES)
def test_in_single_precision_it_is_the_published_network(pool: str, sizes: dict[str, Any]) -> None:
    encoder = lively(small("videomae.b", pool=pool, **sizes))
    pictures = clips_for(encoder)
    rewritten = FusedVideoMAE(encoder, torch.float32)
    for wanted, *found in zip(
        encoder.vector_and_tokens(pictures.float() / 255),
        rewritten(pictures),
        rewritten(pictures.float() / 255),
    ):
        for one in found:
            assert one.shape == wanted.shape
            assert float((one - wanted).abs().max()) < 5e-6 * float(wanted.abs().max())


@torch.inference_mode()
@pytest.mark.parametrize("pool", ["mean+fc_norm", "layernorm+mean"])
def test_in_bfloat16_it_points_where_single_precision_does(pool: str) -> None:
    encoder = lively(small("videomae.b", pool=pool, depth=6))
    pictures = clips_for(encoder)
    found, wanted = fused(encoder)(pictures), encoder.vector_and_tokens(pictures.float() / 255)
    for one, other in zip(found, wanted):
        assert one.dtype == torch.float32
        assert float(cosine_similarity(one, other, dim=-1).min()) > 0.999
        assert not torch.equal(one, other)


@torch.inference_mode()
@pytest.mark.parametrize("moved", [False, True])
def test_in_bfloat16_it_is_nearer_to_single_precision_than_autocast_is(moved: bool) -> None:
    encoder = small("videomae.b", depth=6, width=96, heads=4, mlp=192, size=48)
    encoder = lively(encoder) if moved else encoder
    for pictures in (clips_for(encoder, 8), 128 + clips_for(encoder, 8) // 2):
        wanted = encoder(pictures.float() / 255)
        with torch.autocast("cpu", torch.bfloat16):
            usual = encoder(pictures.float() / 255).float()
        assert float((fused(encoder)(pictures)[0] - wanted).norm()) < float((usual - wanted).norm())


@torch.inference_mode()
def test_a_clip_does_not_feel_its_neighbours() -> None:
    encoder = lively(small("videomae.b"))
    rewritten, pictures = fused(encoder), clips_for(encoder, 4)
    together = rewritten(pictures)[0]
    for place in range(4):
        alone = rewritten(pictures[place : place + 1])[0]
        assert float(cosine_similarity(alone, together[place : place + 1]).min()) > 0.9999
    others = pictures.clone()
    others[1:] = 255 - others[1:]
    assert torch.equal(rewritten(others)[0][0], together[0])


def test_it_is_a_copy_and_leaves_the_network_and_its_hash_alone() -> None:
    encoder = lively(small("videomae.b"))
    before = encoder.content_hash()
    rewritten = fused(encoder)
    assert encoder.content_hash() == before
    assert rewritten.state_dict().keys() == {
        "vector_norm.weight",
        "vector_norm.bias",
    }  # the network's own, shared
    pictures = clips_for(encoder)
    with torch.inference_mode():
        kept = rewritten(pictures)[0]
        encoder.network.videomae.encoder.layer[0].output.dense.weight.zero_()
        assert torch.equal(rewritten(pictures)[0], kept)


def test_families_without_one_say_so() -> None:
    assert small("r3d.18").lowered() is None
