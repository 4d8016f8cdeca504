from __future__ import annotations

import pytest
import torch
from torch import nn

from videoveil.anonymizers import MLP
from videoveil.anonymizers.mlp import MLPAdapter
from videoveil.anonymizers.stage import Context
from videoveil.errors import UsageError

from .pipelines import WIDTH, normal


@pytest.mark.parametrize(("depth", "parameters"), [(1, 592_128), (3, 1_776_384), (5, 2_960_640)])
def test_parameter_counts(depth: int, parameters: int) -> None:
    for residual in (False, True):
        with torch.device("meta"):
            adapter = MLPAdapter(768, MLP(depth, residual=residual))
        assert sum(p.numel() for p in adapter.parameters()) == parameters


def test_a_layer_is_linear_relu_norm_dropout() -> None:
    layer = MLPAdapter(WIDTH, MLP(1)).layers[0]
    assert [type(part) for part in layer] == [nn.Linear, nn.ReLU, nn.BatchNorm1d, nn.Dropout]
    assert layer[3].p == 0.1


def test_the_residual_form_adds_every_layer_to_its_input() -> None:
    adapter = MLPAdapter(WIDTH, MLP(2, residual=True)).eval()
    x = normal(4, 3, WIDTH)
    rows = x.reshape(-1, WIDTH)
    for layer in adapter.layers:
        rows = rows + layer(rows)
    assert torch.allclose(adapter(x), rows.view_as(x))


def test_zero_init_of_the_residual_form_is_the_identity() -> None:
    adapter, x = MLPAdapter(WIDTH, MLP(5, residual=True, init="zero")), normal(4, 2, WIDTH)
    assert torch.equal(adapter.eval()(x), x)
    assert torch.equal(adapter.train()(x), x)
    with pytest.raises(UsageError, match="residual=True"):
        MLP(init="zero")


def test_padding_has_no_part_in_batch_statistics() -> None:
    x = normal(4, 3, WIDTH)
    mask = torch.tensor([[True, True, True], [True, False, False], [True, True, False], [False, True, True]])
    padded, packed = MLPAdapter(WIDTH, MLP(2, dropout=0)), MLPAdapter(WIDTH, MLP(2, dropout=0))
    packed.load_state_dict(padded.state_dict())
    padded.train(), packed.train()
    out = padded(x.masked_fill(~mask[..., None], 99.0), Context(mask=mask))
    assert torch.allclose(out[mask], packed(x[mask][:, None])[:, 0], atol=1e-6)
    for mine, theirs in zip(padded.buffers(), packed.buffers()):
        assert torch.allclose(mine, theirs)
