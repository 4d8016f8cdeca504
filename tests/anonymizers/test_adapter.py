"""Attention adapters: sizes, the identity, PyTorch's layer as the twin, and who sees whom."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from videoveil.anonymizers import Attention, AttentionOnly, ShapeMismatch
from videoveil.anonymizers.adapter import AttentionAdapter, AttentionOnlyAdapter, EncoderLayer, SelfAttention
from videoveil.anonymizers.stage import Context
from videoveil.errors import UsageError

from .pipelines import WIDTH, features, normal


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("width", "parameters"), [(768, 14_181_120), (1024, 25_199_616), (1280, 39_363_840), (1408, 47_625_600)]
)
def test_parameter_counts_at_depth_3(width: int, parameters: int) -> None:
    with torch.device("meta"):
        assert size(AttentionAdapter(width)) == parameters


@pytest.mark.parametrize("depth", [1, 3, 5])
@pytest.mark.parametrize("heads", [4, 8, 16])
def test_depth_counts_and_heads_do_not(depth: int, heads: int) -> None:
    assert size(AttentionAdapter(64, Attention(depth, heads))) == depth * (8 * 64**2 + 11 * 64)
    assert size(AttentionOnlyAdapter(64, AttentionOnly(depth, heads))) == depth * (4 * 64**2 + 4 * 64)


def test_the_released_block_has_7_million_weights_at_width_768() -> None:
    with torch.device("meta"):
        assert size(AttentionOnlyAdapter(768)) == 12 * 768**2 + 12 * 768 == 7_087_104


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("training", [False, True])
def test_zero_init_is_the_identity_bit_for_bit(tokens: int, training: bool) -> None:
    x = features(6 * tokens).view(6, tokens, WIDTH)
    for adapter in (AttentionAdapter(WIDTH), AttentionOnlyAdapter(WIDTH)):
        assert torch.equal(adapter.train(training)(x).view(torch.int32), x.view(torch.int32))


def test_zero_init_learns() -> None:
    """The silent layers get gradient at once, the rest as soon as they speak."""
    adapter = AttentionAdapter(WIDTH, Attention(1, 4))
    optimizer = torch.optim.SGD(adapter.parameters(), 0.1)
    x = normal(8, 3, WIDTH)
    for _ in range(2):
        optimizer.zero_grad()
        (adapter(x) - x.roll(1, 2)).square().mean().backward()
        optimizer.step()
    assert all(bool(p.grad.any()) for p in adapter.parameters() if p.grad is not None)
    assert all(p.grad is not None for p in adapter.parameters())
    assert not torch.equal(adapter(x), x)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("heads", [4, 8, 16])
def test_a_layer_equals_pytorchs(norm_first: bool, activation: str, heads: int) -> None:
    ours = EncoderLayer(
        WIDTH,
        Attention(1, heads, norm_first=norm_first, activation=activation, init="default"),  # type: ignore[arg-type]
    ).eval()
    twin = nn.TransformerEncoderLayer(
        WIDTH, heads, 2 * WIDTH, activation=activation, batch_first=True, norm_first=norm_first
    ).eval()
    state = ours.state_dict()
    for theirs, mine in (
        ("self_attn.in_proj_", "attention.qkv."),
        ("self_attn.out_proj.", "attention.out."),
        *((name, name) for name in ("norm1.", "norm2.", "linear1.", "linear2.")),
    ):
        for leaf in ("weight", "bias"):
            value = state[mine + leaf]
            value.copy_(normal(*value.shape, seed=len(theirs)) * 0.3)
            twin.state_dict()[theirs + leaf].copy_(value)
    x = normal(4, 5, WIDTH, seed=3)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4, [False] + [True] * 4])
    with torch.no_grad():
        expected, found = twin(x, src_key_padding_mask=~mask), ours(x, mask)
        assert float((found - expected)[mask].abs().max()) < 1e-5
        assert torch.allclose(ours(x), twin(x), atol=1e-5)


def test_the_default_init_is_pytorchs() -> None:
    torch.manual_seed(0)
    layer = EncoderLayer(256, Attention(1, 8, init="default"))
    twin = nn.TransformerEncoderLayer(256, 8, 512)
    pairs = (
        (layer.attention.qkv.weight, twin.self_attn.in_proj_weight),
        (layer.attention.out.weight, twin.self_attn.out_proj.weight),
        (layer.linear1.weight, twin.linear1.weight),
    )
    for mine, theirs in pairs:
        assert mine.std().item() == pytest.approx(theirs.std().item(), rel=0.02)
    assert not bool(layer.attention.qkv.bias.any())


def test_tokens_of_a_clip_see_each_other_and_clips_do_not() -> None:
    adapter = AttentionAdapter(WIDTH, Attention(1, 4, init="default")).eval()
    x = normal(3, 4, WIDTH)
    changed = x.clone()
    changed[1, 2] = normal(WIDTH, seed=9)
    different = (adapter(x) - adapter(changed)).abs().amax(2) > 1e-4
    assert different.any(1).tolist() == [False, True, False]
    assert bool(different[1].all())


def test_a_clip_may_have_its_tokens_in_any_order() -> None:
    adapter = AttentionAdapter(WIDTH, Attention(init="default", heads=4)).eval()
    x, order = normal(2, 6, WIDTH), torch.tensor([3, 1, 5, 0, 2, 4])
    assert torch.allclose(adapter(x[:, order]), adapter(x)[:, order], atol=1e-5)


@pytest.mark.parametrize("kind", [Attention, AttentionOnly])
def test_cross_sample_mixes_the_batch_and_says_that_it_cannot_export(kind: type) -> None:
    build = {Attention: AttentionAdapter, AttentionOnly: AttentionOnlyAdapter}[kind]
    adapter = build(WIDTH, kind(init="default", heads=4, cross_sample=True)).eval()
    assert not adapter.exportable
    x = normal(5, 1, WIDTH)
    assert (adapter(x)[:1] - adapter(x[:1])).abs().max().item() > 1e-2
    plain = build(WIDTH, kind(init="default", heads=4)).eval()
    plain.load_state_dict(adapter.state_dict())
    assert plain.exportable
    assert torch.allclose(adapter(x)[:, 0], plain(x[:, 0][None])[0], atol=1e-5)  # N clips as one sequence
    with pytest.raises(UsageError, match="takes no mask"):
        adapter(x, Context(mask=torch.ones(5, 1, dtype=torch.bool)))


@pytest.mark.parametrize("shape", [(4, WIDTH), (WIDTH,), (4, 1, WIDTH + 1), (2, 2, 2, WIDTH)])
def test_anything_but_three_axes_of_the_right_width_is_refused(shape: tuple[int, ...]) -> None:
    for adapter in (AttentionAdapter(WIDTH), AttentionOnlyAdapter(WIDTH)):
        with pytest.raises(ShapeMismatch, match=rf"must be \(N, S, {WIDTH}\)"):
            adapter(torch.zeros(shape))


@pytest.mark.parametrize("training", [False, True])
def test_a_token_alone_takes_the_short_way_to_the_numbers_of_the_long_one(training: bool) -> None:
    """A second token that is masked away forces the long way; without dropout both are the same function."""
    attention = SelfAttention(WIDTH, 4, 0.0).train(training)
    x, other = normal(5, 1, WIDTH), normal(5, 1, WIDTH)
    mask = torch.tensor([[True, False]]).expand(5, 2)
    short, long = attention(x), attention(torch.cat((x, other), 1), mask)[:, :1]
    torch.testing.assert_close(short, long)
    grads = [torch.autograd.grad(out.square().sum(), list(attention.parameters())) for out in (short, long)]
    for one, two in zip(*grads):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)


def test_dropout_drops_whole_heads_of_a_token_alone_at_the_right_rate() -> None:
    attention = SelfAttention(WIDTH, 4, 0.25).train()
    with torch.no_grad():
        attention.out.weight.copy_(torch.eye(WIDTH))
        x = normal(1, 1, WIDTH).expand(4000, 1, WIDTH)
        torch.manual_seed(0)
        heads = attention(x).view(4000, 4, -1)
        full = attention.eval()(x[:1]).view(1, 4, -1)
    dropped = (heads == 0).all(2)
    assert 0.23 < float(dropped.float().mean()) < 0.27
    torch.testing.assert_close(heads[~dropped], (full / 0.75).expand_as(heads)[~dropped])
