from __future__ import annotations

import pytest
import torch

from videoveil.encoders import registry
from videoveil.encoders.fitting import on_meta

from .helpers import close, moving, small


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("r3d.18", {}),
        ("r3d.50", {}),
        ("r2plus1d.18", {}),
        ("swin3d.t", {}),
        ("s3d", {"frames": 16, "size": 224}),
        ("resnet.18", {"frames": 1}),
        ("resnet.50", {"frames": 1}),
    ],
)
def test_vector_and_layer_give_the_logits_of_the_library_network(name: str, options: dict) -> None:
    encoder = small(name, classes=5, **options)
    clips = moving(encoder)
    native = (clips - encoder.mean) / encoder.std
    logits = encoder.network(native[:, :, 0] if encoder.kind == "image" else native)
    assert close(logits, encoder.logits(clips), 1e-4)


@torch.inference_mode()
def test_the_class_token_of_mvit_gives_the_logits_of_the_library_network() -> None:
    encoder = small("mvit.v2-s", classes=5)
    clips = moving(encoder)
    positions = encoder.network.pos_encoding  # where the library keeps the size of its input
    positions.temporal_size, positions.spatial_size = 2, (16, 16)
    logits = encoder.network((clips - encoder.mean) / encoder.std)
    assert close(logits, encoder.logits(clips), 1e-4)


def test_layer4_of_spacts_r3d18_keeps_the_temporal_length() -> None:
    encoder = on_meta("r3d.18-spact", registry.MODELS["r3d.18-spact"], {})
    x = torch.empty(1, 3, 16, 112, 112, device="meta")
    found = {}
    for name in ("stem", "layer1", "layer2", "layer3", "layer4"):
        x = encoder.network.get_submodule(name)(x)
        found[name] = tuple(x.shape[1:])
    del found["layer1"]
    assert found == {
        "stem": (64, 16, 56, 56),
        "layer2": (128, 8, 28, 28),
        "layer3": (256, 4, 14, 14),
        "layer4": (512, 4, 7, 7),
    }
    conv = encoder.network.get_submodule("layer4.0.conv1.0")
    assert (conv.stride, conv.dilation, conv.padding) == ((1, 2, 2), (2, 1, 1), (2, 1, 1))
    assert encoder.network.get_submodule("layer4.0.downsample.0").stride == (1, 2, 2)
    assert (encoder.input.mean, encoder.input.std) == ((0.0,) * 3, (1.0,) * 3)


def test_spacts_r3d18_takes_every_r3d18_checkpoint() -> None:
    plain = on_meta("r3d.18", registry.MODELS["r3d.18"], {}).network.state_dict()
    spact = on_meta("r3d.18-spact", registry.MODELS["r3d.18-spact"], {}).network.state_dict()
    assert {k: v.shape for k, v in plain.items()} == {k: v.shape for k, v in spact.items()}
