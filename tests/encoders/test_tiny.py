from __future__ import annotations

import torch

from videoveil.encoders import create
from videoveil.encoders.tiny import Block, ConvNorm, PairStem, _pairs

from .helpers import close, parameters


def test_tiny_is_small_and_has_eight_tokens_of_256() -> None:
    encoder = create("tiny", weights="random")
    assert parameters(encoder) == 994_208
    assert (encoder.tokens, encoder.width, encoder.input.frames, encoder.input.size) == (8, 256, 16, 112)


def test_pairs_are_neighbouring_frames_and_an_odd_last_one_is_its_own_neighbour() -> None:
    clips = torch.rand(2, 3, 5, 4, 4)
    pairs, steps = _pairs(clips)
    assert steps == 3
    assert pairs.shape == (6, 6, 4, 4)
    assert torch.equal(pairs[4, :3], clips[1, :, 2])  # clip 1, step 1
    assert torch.equal(pairs[4, 3:], clips[1, :, 3])
    assert torch.equal(pairs[2, :3], clips[0, :, 4])
    assert torch.equal(pairs[2, 3:], clips[0, :, 4])


def ran_in(layer: ConvNorm) -> ConvNorm:
    """With batch-norm statistics as after some training."""
    torch.nn.init.uniform_(layer.norm.running_mean, -1, 1)
    torch.nn.init.uniform_(layer.norm.running_var, 0.5, 2)
    torch.nn.init.uniform_(layer.norm.weight, 0.5, 2)
    torch.nn.init.uniform_(layer.norm.bias, -1, 1)
    return layer.eval()


def test_the_stem_sees_mean_and_difference_of_two_frames() -> None:
    stem = ran_in(PairStem(6, 5, (3, 3), 2))
    first, second = torch.rand(2, 2, 3, 9, 9)
    seen = torch.cat(((first + second) / 2, second - first), 1)
    with torch.inference_mode():
        assert close(stem.norm(stem.conv(seen)), stem(torch.cat((first, second), 1)))


def test_folding_the_norm_changes_nothing_but_the_speed() -> None:
    layer = ran_in(ConvNorm(4, 6, (3, 1), 2))
    x = torch.randn(2, 4, 7, 5)
    with torch.inference_mode():
        assert close(layer.norm(layer.conv(x)), layer(x))


def norm3(layer: ConvNorm, x: torch.Tensor) -> torch.Tensor:
    norm = layer.norm
    return torch.nn.functional.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
    )


@torch.inference_mode()
def test_folded_time_equals_plain_three_dimensional_convolutions() -> None:
    block = Block(4, 6, 2).eval()
    shortcut = block.shortcut[1]
    for layer in (block.space, block.time, shortcut):
        ran_in(layer)
    clips = torch.randn(2, 4, 3, 8, 10)  # (N, C, S, H, W)
    fast = block(clips.transpose(1, 2).reshape(6, 4, 8, 10), 3).unflatten(0, (2, 3)).transpose(1, 2)

    conv3d = torch.nn.functional.conv3d
    y = conv3d(clips, block.space.conv.weight[:, :, None], None, (1, 2, 2), (0, 1, 1))
    y = conv3d(norm3(block.space, y).relu(), block.time.conv.weight[..., None], None, 1, (1, 0, 0))
    pooled = torch.nn.functional.avg_pool3d(clips, (1, 2, 2))
    y = norm3(block.time, y) + norm3(shortcut, conv3d(pooled, shortcut.conv.weight[:, :, None]))
    assert close(y.relu(), fast)


@torch.inference_mode()
def test_tiny_tells_order_in_time_and_colour_apart() -> None:
    encoder = create("tiny", weights="random")
    clips = torch.rand(1, 3, 16, 112, 112)
    feature = encoder(clips)
    assert not close(feature, encoder(clips.flip(2)), 1e-3)
    assert not close(feature, encoder(clips.flip(1)), 1e-3)


@torch.inference_mode()
def test_tiny_takes_other_lengths_and_sizes() -> None:
    encoder = create("tiny", weights="random")
    assert encoder.temporal_tokens(torch.rand(1, 3, 7, 90, 100)).shape == (1, 4, 256)


def test_tiny_learns_motion_from_a_few_steps() -> None:
    """Two classes that differ only in direction: no single frame tells them apart."""
    from videoveil.encoders import Classifier

    generator = torch.Generator().manual_seed(0)
    bars = torch.zeros(16, 3, 8, 32, 32)
    labels = torch.arange(16) % 2
    for clip, label in zip(bars, labels):
        start = int(torch.randint(32, (1,), generator=generator))
        for t in range(8):
            clip[:, t, :, (start + (2 * t if label else -2 * t)) % 32] = 1
    classifier = Classifier(create("tiny", weights="random"), 2).train()
    optimiser = torch.optim.AdamW(classifier.parameters(), lr=3e-3)
    for _ in range(30):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(classifier(bars), labels).backward()
        optimiser.step()
    assert (classifier(bars).argmax(1) == labels).float().mean() == 1
