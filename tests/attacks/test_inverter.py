"""From features back to pictures: the linear map, and the decoder that goes on from it."""

from __future__ import annotations

import numpy as np
import torch

from videoveil.attacks.fidelity import psnr
from videoveil.attacks.inverter import Decoder, Nearest, NetworkInverter, RowBatches, linear_inverter


def rows(count: int, seed: int) -> tuple[np.ndarray, torch.Tensor]:
    """Pictures that a few numbers decide, and a mixture of those numbers."""
    rng = np.random.default_rng(seed)
    hidden = rng.uniform(0, 1, size=(count, 3))
    drawing = np.random.default_rng(7).uniform(0, 0.33, size=(3, 3 * 16 * 16))
    mixing = np.random.default_rng(8).normal(size=(3, 6))
    return hidden @ mixing, torch.from_numpy(hidden @ drawing).float().reshape(-1, 3, 16, 16)


def test_a_linear_map_draws_what_is_linear() -> None:
    train, test = rows(60, 0), rows(20, 1)
    found = linear_inverter(*train, held_out=rows(20, 2))
    assert float(psnr(found(test[0]), test[1]).mean()) > 40


def test_a_decoder_begins_as_the_linear_map_and_the_judge_keeps_the_best() -> None:
    train, held_out = rows(60, 0), rows(20, 2)
    linear = linear_inverter(*train, held_out=held_out)
    network = Decoder(linear, 4).eval()
    assert torch.allclose(
        NetworkInverter(linear.scaling, network)(held_out[0]), linear(held_out[0]), atol=1e-4
    )
    inputs = torch.from_numpy(linear.scaling(held_out[0])).float()
    judge = Nearest(inputs, held_out[1])
    judge.look(network, -1)
    before = judge.best
    with torch.no_grad():
        network.linear.weight.mul_(0.1)
    assert judge.look(network, 0)["validation"] < before
    network.load_state_dict(judge.state)
    assert torch.allclose(
        NetworkInverter(linear.scaling, network)(held_out[0]), linear(held_out[0]), atol=1e-4
    )


def test_every_row_comes_once_in_an_epoch_and_in_another_order_in_the_next() -> None:
    numbers = torch.arange(10.0)[:, None]
    batches = RowBatches(numbers, numbers, 4, 0)
    orders = []
    for epoch in (0, 1):
        seen = list(batches.epoch(epoch, 0, 1, torch.device("cpu")))
        assert [len(batch.inputs) for batch in seen] == [4, 4, 2]
        orders.append(torch.cat([batch.inputs for batch in seen]).flatten().tolist())
        assert sorted(orders[-1]) == list(range(10))
    assert orders[0] != orders[1]
    shares = [list(batches.epoch(0, rank, 2, torch.device("cpu"))) for rank in (0, 1)]
    both = torch.cat([batch.inputs for share in shares for batch in share]).flatten().tolist()
    assert sorted(both) == list(range(10))
