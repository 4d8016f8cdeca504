from __future__ import annotations

import hashlib
import json

import pytest
import torch
from torch import nn

from videoveil.encoders import Classifier, InputSpec, create
from videoveil.encoders.base import seeded, tensors_hash
from videoveil.errors import UsageError

from .helpers import close, moving, small


def test_the_hash_is_sha256_of_identity_sorted_names_dtype_shape_and_bytes() -> None:
    tensors = {"b": torch.tensor([1.5, -2.0]), "a": torch.arange(6, dtype=torch.int64).view(2, 3)}
    digest = hashlib.sha256(json.dumps({"name": "x"}, separators=(",", ":")).encode())
    digest.update(b"\na torch.int64 (2, 3)\n" + tensors["a"].numpy().astype("<i8").tobytes())
    digest.update(b"\nb torch.float32 (2,)\n" + tensors["b"].numpy().astype("<f4").tobytes())
    assert tensors_hash({"name": "x"}, tensors) == digest.hexdigest()


def test_the_hash_sees_names_dtypes_shapes_and_values_but_not_memory_layout() -> None:
    value = torch.arange(24.0).view(2, 3, 2, 2)
    base = tensors_hash({}, {"w": value})
    assert tensors_hash({}, {"w": value.contiguous(memory_format=torch.channels_last)}) == base
    assert tensors_hash({}, {"v": value}) != base
    assert tensors_hash({}, {"w": value.double()}) != base
    assert tensors_hash({}, {"w": value.view(3, 2, 2, 2)}) != base
    assert tensors_hash({}, {"w": value + 1}) != base
    assert tensors_hash({"norm": "imagenet"}, {"w": value}) != base
    assert tensors_hash({}, {"w": value.bfloat16(), "scalar": torch.tensor(3)}) != base


def test_seeded_restores_the_random_state_even_after_an_error() -> None:
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="inside"), seeded(3):
        torch.rand(3)
        raise ValueError("inside")
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("clips", "message"),
    [
        (torch.zeros(3, 16, 112, 112), r"must be \(N, 3, T, H, W\), not \(3, 16, 112, 112\)"),
        (torch.zeros(1, 16, 3, 112, 112), r"must be \(N, 3, T, H, W\)"),
        (torch.zeros(1, 3, 16, 112, 112, dtype=torch.uint8), r"floats in \[0, 1\], not torch.uint8; divide"),
    ],
)
def test_clips_of_the_wrong_form_are_refused(clips: torch.Tensor, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        create("tiny", weights="random")(clips)


def test_networks_of_fixed_size_refuse_other_clips_instead_of_misreading_them() -> None:
    encoder = small("vjepa2.l")
    with pytest.raises(UsageError, match=r"takes exactly 4 frames of 32×32, not \(4, 48, 48\)"):
        encoder(torch.zeros(1, 3, 4, 48, 48))
    with pytest.raises(UsageError, match="needs at least 8 frames, not 4"):
        small("i3d.resnet50")(torch.zeros(1, 3, 4, 64, 64))


@torch.inference_mode()
def test_image_encoders_take_images_and_average_the_frames_of_clips() -> None:
    encoder = small("resnet.18")
    clips = moving(encoder)
    frames = torch.cat([encoder(clips[:, :, t]) for t in range(clips.shape[2])])
    assert close(encoder(clips), frames.mean(0, keepdim=True))
    assert close(encoder.temporal_tokens(clips)[0], frames)


def test_the_input_description_cannot_be_changed_behind_the_hash() -> None:
    spec = InputSpec(frames=16, size=112, resize=128)
    with pytest.raises(AttributeError):
        spec.frames = 8  # type: ignore[misc]


def test_a_classifier_owns_its_layer_and_is_reproducible() -> None:
    first = Classifier(create("mobilenet.v1-0.25"), 7, dropout=0.5, seed=1)
    second = Classifier(create("mobilenet.v1-0.25"), 7, dropout=0.5, seed=1)
    assert torch.equal(first.head.weight, second.head.weight)
    assert first.classes == 7
    assert first.encoder.classes == 0
    assert [key for key in first.state_dict() if "fc" in key] == []
    assert isinstance(first.encoder.network.get_submodule("fc"), nn.Identity)


@torch.inference_mode()
def test_a_restored_classifier_gives_the_networks_own_logits() -> None:
    encoder = small("r3d.18", classes=11)
    clips = moving(encoder, 2)
    expected = encoder.network((clips - encoder.mean) / encoder.std)
    assert close(encoder.logits(clips), expected)
    classifier = Classifier(encoder, 11, dropout=0.5, restore=True).eval()
    logits, features = classifier.with_features(clips)
    assert close(logits, expected)
    assert close(features, encoder(clips))
    assert torch.equal(classifier(clips), logits)


def test_every_parameter_of_a_classifier_is_trained() -> None:
    encoder = small("mobilenet.v1-0.25")
    classifier = Classifier(encoder, 3).train()
    classifier(moving(encoder, 2)).sum().backward()
    unused = [name for name, value in classifier.named_parameters() if value.grad is None]
    assert unused == []


def test_restoring_a_layer_that_is_not_there_or_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="has no classification layer"):
        Classifier(create("tiny", weights="random"), 3, restore=True)
    with pytest.raises(UsageError, match="its layer has 5 classes, 3 were asked for"):
        Classifier(create("tiny", weights="random", classes=5), 3, restore=True)
    with pytest.raises(UsageError, match=r"pool='mean' is not what its classification layer was made for"):
        small("timesformer.b", pool="mean", classes=5).logits(torch.zeros(1, 3, 4, 32, 32))
    with pytest.raises(UsageError, match="at least one class, not 0"):
        Classifier(create("tiny", weights="random"), 0)
