"""The network: sizes and names of the published model, its block against a slow twin, independence of videos."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.errors import CheckpointError, UsageError
from videoveil.tasks.tridet import FittedTriDet, Normaliser, TriDetConfig, losses
from videoveil.tasks.tridet.assign import Target
from videoveil.tasks.tridet.network import SGP_CONVS, SGPBlock, TriDet, build, draw_paths
from videoveil.tasks.tridet.optimise import optimizer

from .make import SMALL, WIDTH, awake, small

CLASSES = 20


def published() -> TriDet:
    with torch.device("meta"):
        return TriDet(2048, CLASSES, TriDetConfig())


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("width", "parameters"),
    [
        (768, 14_023_524),
        (1024, 14_416_740),
        (1280, 14_809_956),
        (1408, 15_006_564),
        (2048, 15_989_604),
        (1, 12_845_412),
    ],
)
def test_the_network_has_the_published_number_of_parameters_at_every_width(
    width: int, parameters: int
) -> None:
    with torch.device("meta"):
        network = TriDet(width, CLASSES, TriDetConfig())
    assert count(network) == parameters == 12_843_876 + 1536 * width


def test_every_part_has_its_published_number_of_parameters() -> None:
    network = published()
    backbone = network.backbone
    assert [p.numel() for p in backbone.embd.parameters()] == [3_145_728, 786_432]
    assert count(backbone.embd_norm) == 2_048
    assert [count(block) for block in backbone.stem] == [800_000] * 2
    assert [count(block) for block in backbone.branch] == [801_024] * 5
    assert count(backbone) == 9_539_328
    assert count(network.neck) == 6_144
    assert [count(h) for h in (network.cls_head, network.start_head, network.end_head)] == [1_605_652] * 3
    assert count(network.reg_head) == 1_627_176


def expected_names() -> set[str]:
    both = ("weight", "bias")
    names = {f"backbone.embd.{i}.conv.weight" for i in range(2)}
    names |= {f"backbone.embd_norm.{i}.{p}" for i in range(2) for p in both}
    for kind, blocks in (("stem", 2), ("branch", 5)):
        parts = ("ln", "gn", "psi", "fc", "convw", "convkw", "global_fc", "mlp.0", "mlp.2")
        names |= {f"backbone.{kind}.{i}.{part}.{p}" for i in range(blocks) for part in parts for p in both}
    names |= {f"backbone.branch.{i}.drop_path_{part}.scale" for i in range(5) for part in ("out", "mlp")}
    names |= {f"neck.fpn_norms.{level}.{p}" for level in range(6) for p in both}
    for head, last in (
        *((head, "cls_head") for head in ("cls_head", "start_head", "end_head")),
        ("reg_head", "offset_head"),
    ):
        names |= {f"{head}.head.{i}.conv.weight" for i in range(2)}
        names |= {f"{head}.norm.{i}.{p}" for i in range(2) for p in both}
        names |= {f"{head}.{last}.conv.{p}" for p in both}
    return names | {f"reg_head.scale.{level}.scale" for level in range(6)}


def test_the_weights_have_the_published_names_and_shapes() -> None:
    state = published().state_dict()
    assert set(state) == expected_names()
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    assert shapes["backbone.stem.0.convkw.weight"] == (512, 1, 11)
    assert shapes["backbone.stem.0.psi.weight"] == (512, 1, 1)
    assert shapes["backbone.stem.0.ln.weight"] == (1, 512, 1)
    assert shapes["backbone.stem.0.gn.weight"] == (512,)
    assert shapes["backbone.branch.4.drop_path_out.scale"] == (1, 512, 1)
    assert shapes["cls_head.cls_head.conv.weight"] == (20, 512, 3)
    assert shapes["reg_head.offset_head.conv.weight"] == (34, 512, 3)
    assert shapes["reg_head.scale.0.scale"] == ()


def test_a_published_checkpoint_loads_with_its_averaged_weights() -> None:
    network, average = awake(seed=1), awake(seed=2)
    state = {
        "epoch": 40,
        "state_dict": {f"module.{k}": v for k, v in network.state_dict().items()},
        "state_dict_ema": {f"module.{k}": v for k, v in average.state_dict().items()},
    }
    x, mask = torch.randn(1, WIDTH, 64), torch.ones(1, 1, 64, dtype=torch.bool)
    loaded = FittedTriDet.of_published(state, ("a", "b", "c"), SMALL).network
    assert torch.equal(loaded(x, mask)[0].logits, average(x, mask)[0].logits)
    raw = FittedTriDet.of_published(state, ("a", "b", "c"), SMALL, ema=False).network
    assert torch.equal(raw(x, mask)[0].logits, network(x, mask)[0].logits)
    del state["state_dict_ema"]["module.neck.fpn_norms.0.weight"]
    with pytest.raises(CheckpointError, match=r"missing \(1\):\s+neck.fpn_norms.0.weight"):
        FittedTriDet.of_published(state, ("a", "b", "c"), SMALL)
    with pytest.raises(CheckpointError, match="not tensors: epoch"):
        FittedTriDet.of_published({"epoch": 3}, ("a",), SMALL)


def test_the_class_outputs_start_at_the_prior_and_all_other_biases_at_zero() -> None:
    network = build(WIDTH, 3, SMALL, seed=0)
    for head in (network.cls_head, network.start_head, network.end_head):
        assert torch.allclose(head.cls_head.conv.bias, torch.tensor(-4.59512))
    convs = [m for m in network.modules() if isinstance(m, torch.nn.Conv1d) and m.bias is not None]
    assert sum(bool(conv.bias.any()) for conv in convs) == 3
    assert torch.equal(network.backbone.branch[0].drop_path_out.scale, torch.full((1, 32, 1), 1e-4))


# --- the block against a twin that computes one number at a time --------------------------------------------


def slow_depthwise(x: list[list[float]], conv: torch.nn.Conv1d) -> list[list[float]]:
    kernel = conv.weight.shape[-1]
    rows = []
    for c, row in enumerate(x):
        taps, bias = conv.weight[c, 0].tolist(), float(conv.bias[c])
        at = lambda t, row=row: row[t] if 0 <= t < len(row) else 0.0  # noqa: E731
        rows.append(
            [bias + sum(taps[j] * at(t + j - kernel // 2) for j in range(kernel)) for t in range(len(row))]
        )
    return rows


def slow_norm(x: list[list[float]], weight: list[float], bias: list[float]) -> list[list[float]]:
    """Over the channels of every step."""
    channels, steps = len(x), len(x[0])
    result = [[0.0] * steps for _ in range(channels)]
    for t in range(steps):
        column = [x[c][t] for c in range(channels)]
        mean = sum(column) / channels
        deviation = (sum((v - mean) ** 2 for v in column) / channels + 1e-5) ** 0.5
        for c in range(channels):
            result[c][t] = (column[c] - mean) / deviation * weight[c] + bias[c]
    return result


def slow_block(block: SGPBlock, x: Tensor, mask: list[bool]) -> Tensor:
    """x (C, T) of one video."""
    rows = x.tolist()
    if block.halves:
        rows = [[max(row[max(t - 1, 0) : t + 2]) for t in range(0, len(row), 2)] for row in rows]
        mask = mask[::2]
    channels, steps = len(rows), len(rows[0])
    u = slow_norm(rows, block.ln.weight.flatten().tolist(), block.ln.bias.flatten().tolist())
    psi, fc, cw, ck = (slow_depthwise(u, getattr(block, name)) for name in ("psi", "fc", "convw", "convkw"))
    mean = [[sum(row) / steps] for row in u]
    phi = [max(row[0], 0.0) for row in slow_depthwise(mean, block.global_fc)]
    out = torch.zeros(channels, steps)
    for c in range(channels):
        gain = float(block.drop_path_out.scale[0, c, 0]) if block.halves else 1.0
        for t in range(steps):
            y = fc[c][t] * phi[c] + (cw[c][t] + ck[c][t]) * psi[c][t] + u[c][t]
            out[c, t] = (rows[c][t] if mask[t] else 0.0) + gain * y
    normed = F.group_norm(out[None], block.gn.num_groups, block.gn.weight, block.gn.bias)[0]
    first, last = block.mlp[0], block.mlp[2]
    hidden = F.gelu(first.weight[:, :, 0] @ normed + first.bias[:, None])
    update = last.weight[:, :, 0] @ hidden + last.bias[:, None]
    return out + (block.drop_path_mlp.scale[0] if block.halves else 1.0) * update


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("window", [1, 3])
def test_the_sgp_block_equals_its_slow_twin(halves: bool, window: int) -> None:
    config = small(sgp_window=window, sgp_k=2.0)
    network = awake(config)
    block = (network.backbone.branch if halves else network.backbone.stem)[0]
    x, mask = torch.randn(32, 24), [t < 17 for t in range(24)]
    with torch.no_grad():
        fast, fast_mask = block(x[None], torch.tensor(mask)[None, None])
        assert torch.allclose(fast[0], slow_block(block, x, mask), atol=2e-5)
    assert fast_mask[0, 0].tolist() == (mask[::2] if halves else mask)


# --- masks and batches ---------------------------------------------------------------------------------------


def batch_of(lengths: list[int], length: int = 64, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(len(lengths), width, length, generator=generator)
    mask = torch.arange(length)[None, None] < torch.tensor(lengths)[:, None, None]
    return x * mask, mask


def test_levels_halve_and_padded_outputs_are_zero() -> None:
    levels = awake()(*batch_of([64, 37]))
    assert [level.logits.shape for level in levels] == [(2, 3, 64), (2, 3, 32), (2, 3, 16), (2, 3, 8)]
    assert [int(level.mask[1].sum()) for level in levels] == [37, 19, 10, 5]
    for level in levels:
        for output in (level.logits, level.start, level.end, level.centre):
            assert not output[1].transpose(0, 1)[~level.mask[1]].any()
        assert (level.centre >= 0).all()
        assert level.centre.shape[1] == 18


@torch.no_grad()
def test_a_video_gets_the_same_answer_alone_and_among_others() -> None:
    network = awake()
    x, mask = batch_of([64, 37, 5, 50])
    together = network(x, mask)
    for i in range(4):
        for level, alone in zip(together, network(x[i : i + 1], mask[i : i + 1])):
            for a, b in zip(level, alone):
                torch.testing.assert_close(a[i].float(), b[0].float(), rtol=0, atol=1e-5)
    order = torch.tensor([2, 0, 3, 1])
    for level, shuffled in zip(together, network(x[order], mask[order])):
        torch.testing.assert_close(level.logits[order], shuffled.logits, rtol=0, atol=1e-5)


@torch.no_grad()
def test_what_stands_in_the_padding_matters_only_at_the_edge_of_the_first_convolution() -> None:
    """The embedding masks its output, so content more than one step into the padding is never seen."""
    network = awake()
    x, mask = batch_of([40])
    dirty = x.clone()
    dirty[..., 41:] = 100.0
    for a, b in zip(network(x, mask), network(dirty, mask)):
        assert torch.equal(a.logits, b.logits)
    dirty[..., 40] = 100.0
    assert not torch.equal(network(x, mask)[0].logits, network(dirty, mask)[0].logits)


def test_a_length_that_cannot_be_halved_is_refused() -> None:
    with pytest.raises(UsageError, match="multiple of 8"):
        awake()(torch.zeros(1, WIDTH, 60), torch.ones(1, 1, 60, dtype=torch.bool))


# --- the SGP start -------------------------------------------------------------------------------------------


def five_steps(config: TriDetConfig) -> TriDet:
    network = build(WIDTH, 3, config, seed=0)
    stepper, norm = optimizer(network, config), Normaliser()
    generator = torch.Generator().manual_seed(0)
    target = Target(torch.tensor([[4.0, 11.0], [20.0, 50.0]]), torch.tensor([0, 2]))
    for _ in range(5):
        stepper.zero_grad()
        losses(
            network, [torch.randn(WIDTH, 60, generator=generator)], [target], norm, config
        ).total.backward()
        stepper.step()
    return network


def sgp_parameters(network: TriDet) -> dict[str, Tensor]:
    return {n: p for n, p in network.named_parameters() if any(f".{conv}." in n for conv in SGP_CONVS)}


def test_sgp_convolutions_that_start_at_zero_never_get_a_gradient() -> None:
    network = five_steps(small())
    for name, parameter in sgp_parameters(network).items():
        assert not parameter.any(), name
        assert not parameter.grad.any(), name  # type: ignore[union-attr]
    assert not network.sgp_active()


@pytest.mark.parametrize("start", ["gates", "normal"])
def test_the_other_starts_let_every_sgp_convolution_learn(start: str) -> None:
    network = five_steps(small(sgp_init=start))
    before = build(WIDTH, 3, small(sgp_init=start), seed=0)
    assert network.sgp_active()
    for name, parameter in sgp_parameters(network).items():
        assert not torch.equal(parameter, before.get_parameter(name)), name


def test_gates_start_from_exactly_the_function_of_the_published_start() -> None:
    x, mask = batch_of([50, 64])
    zero, gates = build(WIDTH, 3, small(), seed=4), build(WIDTH, 3, small(sgp_init="gates"), seed=4)
    assert gates.sgp_active()
    for a, b in zip(zero(x, mask), gates(x, mask)):
        assert torch.equal(a.logits, b.logits)
        assert torch.equal(a.centre, b.centre)


# --- random numbers -----------------------------------------------------------------------------------------


def test_building_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, two = build(WIDTH, 3, SMALL, seed=0), build(WIDTH, 3, SMALL, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(one.parameters(), two.parameters()):
        assert torch.equal(a, b)


def test_paths_are_dropped_at_the_stated_rate_and_keep_their_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([draw_paths(small(drop_path=0.1), generator) for _ in range(4000)])
    assert drawn.shape == (4000, 6)
    assert drawn.unique().tolist() == pytest.approx([0.0, 1 / 0.9])
    assert drawn.mean() == pytest.approx(1.0, abs=0.01)


@torch.no_grad()
def test_a_dropped_path_leaves_the_block_as_if_its_scale_were_zero() -> None:
    network = awake()
    x, mask = batch_of([64, 64])
    paths = torch.ones(2, 6)
    paths[1, 2] = 0  # the first path of the second branch block, in the second video
    dropped = network(x, mask, paths)
    torch.testing.assert_close(dropped[3].logits[0], network(x, mask)[3].logits[0])
    network.backbone.branch[1].drop_path_out.scale.zero_()
    torch.testing.assert_close(dropped[3].logits[1], network(x, mask)[3].logits[1])
