"""One attacker on pictures: its loss, how its epoch is chosen, and its starts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from videoveil.attacks.frames import ClipConfig, FrameConfig
from videoveil.attacks.picture_networks import PictureAttacker, Validation, known_loss
from videoveil.attacks.pictures import HeldOut
from videoveil.encoders.registry import info


def test_the_loss_of_an_item_is_the_sum_over_what_is_known_of_it() -> None:
    """The slow, obvious twin."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 3, generator=draw)
    targets = torch.randint(0, 2, (5, 3), generator=draw).float()
    targets[0, 1] = targets[3] = torch.nan
    found = known_loss(logits, targets)
    for row in range(5):
        slow = 0.0
        for value, truth in zip(logits[row].tolist(), targets[row].tolist()):
            if truth == truth:
                chance = 1 / (1 + np.exp(-value))
                slow -= np.log(chance if truth else 1 - chance) / 3
        assert float(found[row]) == pytest.approx(slow, abs=1e-5)
    assert float(found[3]) == 0.0


def test_held_out_training_videos_choose_the_epoch() -> None:
    views = HeldOut(torch.zeros(2, 3, 1, 4, 4, dtype=torch.uint8), None, 0)
    judge = Validation(views, np.array([[0.0], [1.0]]))

    class Says(torch.nn.Module):
        def __init__(self, gap: float):
            super().__init__()
            self.gap = torch.nn.Parameter(torch.tensor(gap))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([torch.zeros(1), self.gap.reshape(1)])

    history = []
    for epoch, gap in enumerate((-1.0, 2.0, 3.0, -2.0)):
        history.append({"epoch": epoch, "loss": 1.0, **judge.look(Says(gap), epoch)})
    assert [record["validation"] for record in history] == [0.5, 1.0, 1.0, 0.5]
    assert (judge.epoch, float(judge.state["gap"])) == (1, 2.0)  # the first of equals
    again = Validation(views, judge.truth)
    again.restore(judge.tensors(), history)
    assert (again.epoch, again.best, float(again.state["gap"])) == (1, 1.0, 2.0)
    unknown = Validation(views, np.full((2, 1), np.nan))
    assert unknown.look(Says(1.0), 0) == {}
    assert not unknown.state


def test_where_no_epoch_could_be_judged_the_last_one_counts() -> None:
    config = FrameConfig(networks=("tiny",), size=16)
    network = config.build("tiny", "scratch", 1, 0)
    views = HeldOut(torch.zeros(1, 3, 1, 16, 16, dtype=torch.uint8), None, 0)
    judge = Validation(views, np.array([[np.nan]]))
    history = [{"epoch": n, "loss": 1.0, **judge.look(network.eval(), n)} for n in range(3)]
    made = PictureAttacker.of("tiny", network, config.lens(network), judge, history)
    assert (made.epoch, made.chosen) == (2, network)
    assert list(made.networks()) == [""]


@pytest.mark.parametrize(
    "name", ["resnet.18", "resnet.34", "resnet.50", "resnet.101", "resnet.152", "mobilenet.v1-1.0"]
)
def test_the_published_attackers_can_all_be_built(name: str) -> None:
    width = info(name).width
    for config in (FrameConfig(networks=(name,)), ClipConfig(networks=(name,))):
        assert config.attackers() == ((name, "scratch"),)
    assert width == {"resnet.18": 512, "resnet.34": 512, "mobilenet.v1-1.0": 1024}.get(name, 2048)


def test_attention_begins_as_the_mean_and_then_prefers_what_it_has_learnt_to() -> None:
    network = ClipConfig(networks=("mobilenet.v1-0.25",), size=32)
    mean = dataclasses.replace(network, pooling="mean").build("mobilenet.v1-0.25", "scratch", 2, 0).eval()
    made = network.build("mobilenet.v1-0.25", "scratch", 2, 0).eval()
    clips = torch.rand(2, 3, 4, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(made(clips), mean(clips), atol=1e-6)
        tokens = made.encoder.temporal_tokens(clips)
        made.attention.weight.copy_(1e6 * (tokens[:1, 2] - tokens[0].mean(0)))
        _, features = made.with_features(clips)
    assert torch.allclose(features[0], tokens[0, 2], atol=1e-5)


def test_every_network_is_tried_with_every_start_unless_it_names_its_own() -> None:
    config = FrameConfig(networks=("resnet.18", "tiny@own"), starts=("scratch", "w.safetensors"))
    assert config.attackers() == (
        ("resnet.18", "scratch"),
        ("resnet.18", "w.safetensors"),
        ("tiny", "own"),
    )
    titles = [config.title(*one) for one in config.attackers()]
    assert titles == ["resnet.18", "resnet.18@w.safetensors", "tiny@own"]
