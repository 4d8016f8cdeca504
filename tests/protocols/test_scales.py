from __future__ import annotations

import pytest

from videoveil.errors import UsageError
from videoveil.protocols.scales import PAPER, SMALL, TINY, Network


def test_the_published_settings_are_the_papers() -> None:
    scratch = PAPER.action(Network("r3d.18-spact"), 112)
    assert (scratch.epochs, scratch.optimizer, scratch.learning_rate, scratch.clips) == (
        150,
        "adam",
        1e-3,
        10,
    )
    assert (scratch.weights, scratch.size) == ("random", 112)
    tuned = PAPER.action(Network("r2plus1d.18", "k400.safetensors"), 112)
    assert (tuned.weights, tuned.learning_rate, tuned.freeze_norm) == ("k400.safetensors", 1e-4, True)
    attack = PAPER.frames(Network("resnet.50"), 224)
    assert (attack.networks, attack.size, attack.epochs, attack.patience) == (("resnet.50",), 224, 100, 0)
    probe = PAPER.probe()
    assert (probe.batch, probe.epochs, probe.standardise) == (512, 50, False)
    assert PAPER.detection().width == 512
    assert PAPER.anomaly().epochs == 1000
    assert (PAPER.static, PAPER.dense, PAPER.items) == (10, 4, 0)


def test_small_scales_put_one_network_in_the_place_of_all() -> None:
    for scale in (TINY, SMALL):
        one, other = (scale.stand_in(model, {}) for model in ("resnet.152", "r2plus1d.18@kinetics"))
        assert (one.word, one.instead_of) == ("tiny", "resnet.152")
        assert (other.word, other.instead_of) == ("tiny@own", "r2plus1d.18@kinetics")
        assert scale.action(other, 112).weights == ""
        assert scale.action(one, 112).weights == "random"
        assert scale.action(one, 112).size == scale.size


def test_published_weights_must_be_given_at_full_size() -> None:
    assert PAPER.can("resnet.50", {})
    assert not PAPER.can("resnet.50@imagenet", {})
    with pytest.raises(UsageError, match=r"--weights resnet\.50@imagenet=FILE"):
        PAPER.stand_in("resnet.50@imagenet", {})
    assert PAPER.stand_in("resnet.50@imagenet", {"resnet.50@imagenet": "f"}) == Network("resnet.50", "f")


def test_frames_with_labels_are_all_looked_at_as_published_and_a_few_of_them_at_smaller_sizes() -> None:
    network = Network("resnet.50")
    assert PAPER.frames(network, 224, labelled_frames=True).frame_stride == 1
    assert PAPER.frames(network, 224).frame_stride == 0  # a label for the whole video: ten frames are enough
    for scale in (TINY, SMALL):
        few = scale.frames(network, 224, labelled_frames=True)
        assert (few.frame_stride, few.frames) == (0, scale.views)
