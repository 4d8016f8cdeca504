from __future__ import annotations

import pytest

from videoveil.attacks import FrameConfig
from videoveil.errors import UsageError
from videoveil.protocols.scales import PAPER, SMALL, TINY, Network
from videoveil.tasks.action.network import NetworkConfig, PaperConfig


def test_the_published_settings_are_the_papers() -> None:
    """Pictures of 112 are SPAct's, pictures of 224 those of TeD-SPAD and the penalty paper."""
    scratch = PAPER.action(Network("r3d.18-spact"), 112)
    assert isinstance(scratch, PaperConfig)
    assert (scratch.encoder, scratch.weights, scratch.size) == ("r3d.18-spact", "random", 112)
    assert (scratch.epochs, scratch.optimizer, scratch.learning_rate, scratch.weight_decay) == (
        150,
        "adam",
        1e-3,
        0.0,
    )
    assert (scratch.plateau, scratch.patience, scratch.warmup_epochs, scratch.gradient_clip) == (0.1, 0, 5, 0)
    assert (scratch.stride, scratch.clips, scratch.sampler) == (2, 10, "spact")
    assert (scratch.placing, scratch.augment, scratch.test) == ("random-spact", "weak", "spact-test")
    fell = [2.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.65]  # the last epoch was no better
    assert [scratch.rate(7.0, fell[:n]) for n in (6, 7)] == pytest.approx([1e-3, 1e-4])

    for raw, epochs in ((True, 100), (False, 50)):
        large = PAPER.action(Network("i3d.resnet50"), 224, raw=raw)
        assert isinstance(large, PaperConfig)
        assert (large.epochs, large.optimizer, large.learning_rate, large.batch) == (epochs, "adam", 1e-4, 16)
        assert (large.plateau, large.decay, large.warmup_epochs) == (0.0, "cosine", 5)
        assert (large.stride, large.clips, large.sampler) == (2, 10, "spact")
        assert (large.placing, large.augment, large.test) == ("random-ted-spad", "ted-spad", "ted-spad-test")
        assert (large.gradient_clip, large.weight_decay, large.dropout) == (0.0, 0.0, 0.5)

    tuned = PAPER.action(Network("r2plus1d.18", "k400.safetensors"), 112)
    assert isinstance(tuned, PaperConfig)
    assert (tuned.weights, tuned.learning_rate, tuned.freeze_norm) == ("k400.safetensors", 1e-4, True)
    assert (tuned.stride, tuned.epochs, tuned.plateau, tuned.test) == (2, 150, 0.1, "spact-test")

    attack = PAPER.frames(Network("resnet.50"), 224, images=True)
    assert (attack.networks, attack.size, attack.epochs, attack.patience) == (("resnet.50",), 224, 100, 0)
    assert (attack.batch, attack.factor, attack.per_video, attack.test) == (32, 0.2, 1, "ted-spad-test")
    small = PAPER.frames(Network("resnet.50"), 112, images=True)
    assert (small.size, small.per_video, small.test) == (112, 1, "spact-test-image")
    assert (small.epochs, small.factor, small.patience) == (150, 0.1, 0)
    assert (
        scratch.options()["norm"] == large.options()["norm"] == "zero_one"
    )  # no mean taken off, as in their code
    assert "norm" not in tuned.options()
    assert attack.options("scratch") == {"size": 224, "norm": "zero_one"}
    assert attack.options("file.safetensors") == {"size": 224}
    probe = PAPER.probe()
    assert (probe.batch, probe.epochs, probe.standardise) == (512, 50, False)
    assert PAPER.detection().width == 512
    assert PAPER.anomaly().epochs == 1000
    assert (PAPER.static, PAPER.dense, PAPER.items) == (10, 4, 0)


def test_smaller_scales_learn_as_they_did() -> None:
    """What is stored of them stays theirs: the same settings, under the same name."""
    plain = SMALL.action(Network("tiny"), 112)
    assert type(plain) is NetworkConfig
    expected = NetworkConfig(
        encoder="tiny",
        weights="random",
        size=64,
        clips=5,
        epochs=12,
        optimizer="adam",
        weight_decay=0.0,
    )
    assert plain == SMALL.action(Network("tiny"), 224, raw=True) == expected
    frames = FrameConfig(networks=("tiny",), size=64, epochs=12, frames=5)
    assert SMALL.frames(Network("tiny"), 112, images=True) == SMALL.frames(Network("tiny"), 224) == frames
    assert repr(SMALL).startswith(
        "Scale(name='small', items=0, long_items=0, network='tiny', size=64, action_"
    )


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
