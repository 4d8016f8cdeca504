"""Networks that are taught people: the order of their lessons, and who chooses the epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from videoveil.attacks.identity import IdentityConfig
from videoveil.attacks.identity_networks import Alternating, Strangers, vectors
from videoveil.attacks.pictures import HeldOut
from videoveil.training.supervised import Batch, Batches

CONFIG = IdentityConfig(networks=("mobilenet.v1-0.25",), size=32, frames=2)


class Numbered(Batches):
    def __init__(self, name: str, steps: int):
        self.name, self.steps = name, steps

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        for step in range(self.steps):
            yield Batch(torch.zeros(1), torch.zeros(1), 1.0, (f"{self.name}{step}",))


def test_sources_take_turns_until_each_is_through() -> None:
    both = Alternating([Numbered("a", 3), Numbered("b", 1)])
    assert both.steps == 4
    order = [batch.ids[0] for batch in both.epoch(0, 0, 1, torch.device("cpu"))]
    assert order == ["a0", "b0", "a1", "a2"]


def test_vectors_have_length_one_and_do_not_depend_on_company() -> None:
    network = CONFIG.build("mobilenet.v1-0.25", "scratch", 2, 0).eval()
    pictures = torch.randint(0, 256, (3, 3, 2, 32, 32), dtype=torch.uint8)
    found = vectors(network, [pictures / 255])
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(3))
    assert np.allclose(found[:1], vectors(network, [pictures[:1] / 255]), atol=1e-6)


def test_held_out_people_choose_the_epoch_and_one_alone_cannot() -> None:
    network = CONFIG.build("mobilenet.v1-0.25", "scratch", 2, 0).eval()
    views = HeldOut(torch.randint(0, 256, (4, 3, 2, 32, 32), dtype=torch.uint8), None, 0)
    videos = np.arange(4)
    judge = Strangers(views, np.array(["x", "x", "y", "y"]), videos)
    value = judge.look(network, 0)["validation"]
    assert 0 < value <= 1
    assert judge.best == value
    again = Strangers(views, judge.people, videos)
    again.restore(judge.tensors(), [{"epoch": 0, "validation": value}])
    assert again.best == value
    alone = Strangers(views, np.array(["x"] * 4), videos)
    assert alone.look(network, 0) == {}
    once = Strangers(views, np.array(["w", "x", "y", "z"]), videos)
    assert once.look(network, 0) == {}
