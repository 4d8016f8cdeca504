"""The network against the published parameter counts, check values, and slow twins of its blocks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from videoveil.errors import CheckpointError
from videoveil.tasks.mgfn.config import MGFNConfig, Stage, small
from videoveil.tasks.mgfn.network import MGFN, ChannelNorm, Focus, Glance, from_state
from videoveil.tasks.mgfn.segments import with_magnitude


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def published(width: int) -> MGFN:
    with torch.device("meta"):
        return MGFN(width)


@pytest.fixture(scope="module")
def network() -> MGFN:
    torch.manual_seed(0)
    net = MGFN(12, small()).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d):  # as after some training
            nn.init.uniform_(module.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    return net


@pytest.mark.parametrize(
    ("width", "parameters"),
    [
        (512, 28_357_861),
        (768, 28_407_013),
        (1024, 28_456_165),
        (1280, 28_505_317),
        (1408, 28_529_893),
        (2048, 28_652_773),
    ],
)
def test_the_published_parameter_counts(width: int, parameters: int) -> None:
    assert count(published(width)) == parameters == 28_259_557 + 192 * width


def test_every_part_has_its_published_parameter_count() -> None:
    net = published(2048)
    assert count(net.to_tokens) == 393_280
    assert count(net.to_mag) == 256
    stages = [[count(part) for part in stage] for stage in net.stages]
    assert stages == [[186_432, 8_448], [643_236, 132_352], [27_285_696, 0]]
    layers = [[count(part) for part in stage[0].layers[0]] for stage in net.stages]
    assert layers == [
        [12_352, 16_576, 33_216],
        [49_280, 33_164, 131_968],
        [3_146_752, 2_100_320, 8_395_776],
    ]
    assert (count(net.to_logits), count(net.fc)) == (2_048, 1_025)


def test_state_names_are_those_of_the_public_checkpoints() -> None:
    state = {name: tuple(tensor.shape) for name, tensor in published(2048).state_dict().items()}
    expected = {
        "to_tokens.weight": (64, 2048, 3),
        "to_mag.weight": (64, 1, 3),
        "stages.0.0.layers.2.0.weight": (64, 64, 3),
        "stages.0.0.layers.0.1.norm.g": (1, 64, 1),
        "stages.0.0.layers.0.1.to_qkv.weight": (192, 64, 1),
        "stages.0.0.layers.0.1.to_out.bias": (64,),
        "stages.0.0.layers.0.2.0.b": (1, 64, 1),
        "stages.0.0.layers.0.2.1.weight": (256, 64, 1),
        "stages.0.0.layers.0.2.4.weight": (64, 256, 1),
        "stages.0.1.0.g": (1, 64, 1),
        "stages.0.1.1.weight": (128, 64, 1),
        "stages.1.0.layers.0.1.norm.running_mean": (128,),
        "stages.1.0.layers.0.1.to_v.weight": (128, 128, 1),
        "stages.1.0.layers.0.1.rel_pos.weight": (2, 1, 5),
        "stages.1.0.layers.0.1.rel_pos.bias": (2,),
        "stages.1.1.1.weight": (1024, 128, 1),
        "stages.2.0.layers.1.1.rel_pos.weight": (16, 1, 5),
        "stages.2.0.layers.1.2.4.bias": (1024,),
        "to_logits.0.weight": (1024,),
        "fc.weight": (1, 1024),
    }
    assert {name: state.get(name) for name in expected} == expected
    assert "stages.0.0.layers.0.1.to_qkv.bias" not in state
    assert "stages.1.0.layers.0.1.to_v.bias" not in state
    assert not any(name.startswith("stages.2.1") for name in state)


def test_channel_norm_adds_epsilon_to_the_deviation() -> None:
    found = ChannelNorm(4)(torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 4, 1)).flatten()
    assert found.tolist() == pytest.approx([-1.3416288, -0.4472096, 0.4472096, 1.3416288], abs=1e-7)
    tiny = ChannelNorm(2)(torch.tensor([1e-5, -1e-5]).view(1, 2, 1)).flatten()
    assert tiny.tolist() == pytest.approx([0.5, -0.5], rel=1e-4)  # deviation 1e-5 plus ε 1e-5


def test_focus_channels_belong_to_head_c_mod_heads() -> None:
    focus = Focus(4, head=2).eval()  # two heads
    _identity(focus.to_v)
    _identity(focus.to_out)
    focus.norm.eps = 0.0
    with torch.no_grad():
        focus.rel_pos.weight.zero_()
        focus.rel_pos.weight[:, 0, 2] = torch.tensor([1.0, 10.0])
        focus.rel_pos.bias.zero_()
        found = focus(torch.arange(1.0, 5).view(1, 4, 1).expand(-1, -1, 6))
    assert found[0, :, 3].tolist() == [1.0, 20.0, 3.0, 40.0]


def _identity(conv: nn.Conv1d) -> None:
    with torch.no_grad():
        conv.weight.copy_(torch.eye(conv.out_channels)[..., None])
        if conv.bias is not None:
            conv.bias.zero_()


def test_focus_equals_a_slow_twin() -> None:
    torch.manual_seed(0)
    focus = Focus(128).eval()
    x = torch.randn(2, 128, 7)
    with torch.no_grad():
        v = focus.to_v(focus.norm(x))
        padded = nn.functional.pad(v, (2, 2))
        slow = torch.empty_like(v)
        for channel in range(128):
            head = channel % 2
            taps = focus.rel_pos.weight[head, 0]
            for t in range(7):
                window = padded[:, channel, t : t + 5]
                slow[:, channel, t] = (window * taps).sum(-1) + focus.rel_pos.bias[head]
        assert torch.allclose(focus(x), focus.to_out(slow), atol=1e-5)


def test_glance_equals_a_slow_twin() -> None:
    torch.manual_seed(0)
    glance = Glance(128)  # two heads
    x = torch.randn(2, 128, 9)
    with torch.no_grad():
        q, k, v = glance.to_qkv(glance.norm(x)).chunk(3, dim=1)  # (2, 128, 9) each
        heads = []
        for head in range(2):
            own = slice(head * 64, head * 64 + 64)
            logits = q[:, own].transpose(1, 2) * 64**-0.5 @ k[:, own]
            heads.append((logits.softmax(-1) @ v[:, own].transpose(1, 2)).transpose(1, 2))
        assert torch.allclose(glance(x), glance.to_out(torch.cat(heads, 1)), atol=1e-5)


def slow_forward(net: MGFN, video: Tensor) -> Tensor:
    """(T, C+1) of one crop → (T,) scores: the assembly, written out."""
    x = video.T[None]
    x = net.to_tokens(x[:, :-1]) + net.magnitude_ratio * net.to_mag(x[:, -1:])
    for backbone, transition in net.stages:
        for shortcut, attention, feed in backbone.layers:
            x = x + shortcut(x)
            x = x + attention(x)
            y = feed[0](x)
            y = feed[1](y)
            y = 0.5 * y * (1 + torch.erf(y / math.sqrt(2)))  # exact GELU
            x = x + feed[4](y)
        x = transition(x)
    z = net.to_logits(x[0].T)
    return 1 / (1 + torch.exp(-net.fc(z)[:, 0]))


@torch.no_grad()
def test_the_whole_network_equals_a_slow_twin(network: MGFN) -> None:
    x = with_magnitude(torch.randn(2, 3, 21, 12))
    found = network(x)
    for video in range(2):
        for crop in range(3):
            assert torch.allclose(found.scores[video, crop], slow_forward(network, x[video, crop]), atol=1e-6)


def test_shapes_of_training_and_test_batches(network: MGFN) -> None:
    with torch.no_grad():
        train, test = network(torch.randn(32, 1, 32, 13)), network(torch.randn(1, 10, 57, 13))
    assert (train.scores.shape, train.embedding.shape) == ((32, 1, 32), (32, 1, 32, 128))
    assert (test.scores.shape, test.embedding.shape) == ((1, 10, 57), (1, 10, 57, 128))


@torch.no_grad()
def test_in_eval_a_video_does_not_depend_on_its_batch_or_place(network: MGFN) -> None:
    x = with_magnitude(torch.randn(6, 2, 32, 12))
    together = network(x)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert torch.allclose(network(x[order]).scores, together.scores[order], atol=1e-6)
    for i in range(6):
        alone = network(x[i : i + 1])
        assert torch.allclose(alone.scores[0], together.scores[i], atol=1e-6)
        assert torch.allclose(alone.embedding[0], together.embedding[i], atol=1e-4)


@torch.no_grad()
def test_eval_is_deterministic(network: MGFN) -> None:
    x = torch.randn(2, 1, 40, 13)
    assert torch.equal(network(x).scores, network(x).scores)


def test_at_initialisation_every_magnitude_is_the_root_of_the_width() -> None:
    """The published remark: ‖z‖₂ = √1024 = 32 and ‖z‖₁ ≈ 809 ± 6 before training."""
    torch.manual_seed(0)
    net = MGFN(32).eval()
    with torch.no_grad():
        z = net(with_magnitude(torch.randn(2, 1, 32, 32))).embedding
    l2, l1 = torch.linalg.vector_norm(z, dim=-1), torch.linalg.vector_norm(z, ord=1, dim=-1)
    assert float((l2 - 32).abs().max()) < 1e-3
    assert 795 < float(l1.mean()) < 825
    assert float(l1.std()) < 15


def test_the_magnitude_enters_with_ratio_alpha() -> None:
    torch.manual_seed(0)
    none, tenth = (
        MGFN(4, MGFNConfig(stages=(Stage(64, 1, "focus"),), magnitude_ratio=a)) for a in (0.0, 0.1)
    )
    tenth.load_state_dict(none.state_dict())
    x = torch.randn(2, 5, 9)
    expected = none.tokens(x) + 0.1 * none.to_mag(x[:, 4:])
    assert torch.allclose(tenth.tokens(x), expected, atol=1e-6)


def test_a_wrong_width_is_refused(network: MGFN) -> None:
    with pytest.raises(ValueError, match=r"12 \+ 1"):
        network(torch.randn(1, 1, 5, 12))


def test_public_weights_come_in_with_or_without_their_prefix(network: MGFN) -> None:
    state = {f"module.{name}": tensor for name, tensor in network.state_dict().items()}
    copy = from_state(state, small()).eval()
    assert copy.width == 12
    x = torch.randn(1, 1, 11, 13)
    with torch.no_grad():
        assert torch.equal(copy(x).scores, network(x).scores)


def test_weights_that_do_not_fit_are_listed(network: MGFN) -> None:
    state = dict(network.state_dict())
    state["fc.weight"] = torch.zeros(1, 7)
    state["extra.weight"] = state.pop("to_mag.bias")
    with pytest.raises(CheckpointError) as caught:
        from_state(state, small(), "model.pkl")
    for word in ("model.pkl", "to_mag.bias", "extra.weight", "fc.weight: (1, 7)"):
        assert word in str(caught.value)
    with pytest.raises(CheckpointError, match=r"no to_tokens\.weight"):
        from_state({}, small())
