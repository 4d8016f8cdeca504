"""UNet and UNet++ are the published ones: counts, shapes, names and wiring."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from videoveil._torchvision import torchvision
from videoveil.anonymizers import ShapeMismatch, pixel
from videoveil.anonymizers.pixel import StageConfig, UNet, UNetPP, build_stage
from videoveil.encoders import convert, create, save
from videoveil.errors import CheckpointError, UsageError

from .pipelines import NETWORKS, frames, settled


@pytest.mark.parametrize(
    ("stage", "count"),
    [
        (UNet(), 17_267_523),
        (UNet(bias=False), 17_263_107),
        (UNet(up="transposed"), 31_043_651),
        (UNetPP(), 13_898_787),
    ],
)
def test_parameter_counts_are_the_published_ones(stage: StageConfig, count: int) -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in build_stage(stage).parameters()) == count


@pytest.mark.parametrize("stage", [UNet(), UNetPP()], ids=["unet", "unet++"])
@pytest.mark.parametrize(
    "size", [(112, 112), (128, 128), (224, 224), (240, 320), (16, 16), (17, 31), (113, 57)]
)
def test_shape_is_kept_at_full_width(stage: StageConfig, size: tuple[int, int]) -> None:
    with torch.device("meta"):
        out = build_stage(stage)(torch.empty(2, 3, *size))
    assert out.shape == (2, 3, *size)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("size", [(16, 16), (16, 40), (33, 47)])
@torch.no_grad()
def test_outputs_have_the_shape_of_inputs_and_lie_in_range(name: str, size: tuple[int, int]) -> None:
    anonymizer, x = settled(NETWORKS[name]), frames(2, *size)
    out = anonymizer.transform(x)
    assert out.shape == x.shape
    if "no activation" in name:
        assert bool((out < 0).any() or (out > 1).any())  # in training nothing cuts
    else:
        assert 0 < float(out.min()) < float(out.max()) < 1
    exported = anonymizer(x)
    assert 0 <= float(exported.min()) <= float(exported.max()) <= 1


@pytest.mark.parametrize("stage", [UNet(4), UNetPP()], ids=["unet", "unet++"])
@pytest.mark.parametrize("size", [(15, 64), (64, 15)])
def test_frames_too_small_to_halve_four_times_are_refused(stage: StageConfig, size: tuple[int, int]) -> None:
    with pytest.raises(ShapeMismatch, match="at least 16"):
        pixel(stage)(torch.rand(1, 3, *size))


@torch.no_grad()
def test_the_first_output_does_not_saturate() -> None:
    """Or the identity could hardly be learned from there."""
    for stage in (UNet(8), UNetPP()):
        out = pixel(stage).transform(frames(2, 32, 32))
        assert float((out - 0.5).abs().max()) < 0.45


def test_channels_of_the_unet_are_those_of_the_table() -> None:
    with torch.device("meta"):
        network = build_stage(UNet())
        shapes: dict[str, torch.Size] = {}
        for name, module in network.named_children():
            module.register_forward_hook(
                lambda _m, _i, out, name=name: shapes.__setitem__(name, out.shape[1:])
            )
        network(torch.empty(1, 3, 112, 112))
    assert {name: tuple(shape) for name, shape in shapes.items()} == {
        "inc": (64, 112, 112),
        "down1": (128, 56, 56),
        "down2": (256, 28, 28),
        "down3": (512, 14, 14),
        "down4": (512, 7, 7),
        "up1": (256, 14, 14),
        "up2": (128, 28, 28),
        "up3": (64, 56, 56),
        "up4": (64, 112, 112),
        "outc": (3, 112, 112),
    }


def test_the_skip_comes_first_and_the_enlarged_tensor_second() -> None:
    network, seen = settled((UNet(4),)).stages[0], {}
    network.down1.register_forward_hook(lambda _m, _i, out: seen.__setitem__("skip", out))
    network.up3.conv.register_forward_pre_hook(lambda _m, inputs: seen.__setitem__("both", inputs[0]))
    network(frames(1, 18, 18))
    skip, enlarged = seen["both"].split(8, 1)
    assert torch.equal(skip, seen["skip"])
    # 18 halves to 9; 9 halves to 4, which doubles to 8: the missing line comes last, as nothing
    assert enlarged.shape == skip.shape == (1, 8, 9, 9)
    assert not bool(enlarged[..., -1, :].any() or enlarged[..., -1].any())
    assert bool(enlarged[..., 0, :].any() and enlarged[..., 0].any())


def test_the_part_of_the_unetpp_that_never_runs_takes_no_gradient() -> None:
    """Distributed training would wait for it forever."""
    anonymizer = pixel(UNetPP()).train()
    anonymizer.transform(frames(2, 32, 32)).sum().backward()
    without = {n.split(".")[3] for n, p in anonymizer.named_parameters() if p.grad is None}
    assert without == {"layer4"}
    assert not any(p.requires_grad for n, p in anonymizer.named_parameters() if "layer4" in n)


def test_the_unetpp_mirrors_frames_up_to_multiples_of_16() -> None:
    anonymizer, x = settled((UNetPP(),)), frames(1, 32, 48)
    cut = x[..., :29, :37]
    mirrored = nn.functional.pad(cut, (0, 11, 0, 3), mode="reflect")
    with torch.no_grad():
        assert torch.allclose(anonymizer(cut), anonymizer(mirrored)[..., :29, :37], atol=1e-6)


@pytest.mark.parametrize("source", ["file", "torchvision:IMAGENET1K_V1"])
def test_the_encoder_of_the_unetpp_starts_from_weights_of_a_resnet_18(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = torchvision.models.resnet18(weights=None)
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    if source == "file":
        source = str(tmp_path / "ours.safetensors")
        convert(tmp_path / "theirs.safetensors", "resnet.18", source)
    else:  # from torchvision's own cache
        monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
        (tmp_path / "checkpoints").mkdir()
        url = torchvision.models.ResNet18_Weights.IMAGENET1K_V1.url
        torch.save(theirs.state_dict(), tmp_path / "checkpoints" / url.rpartition("/")[2])
    network = build_stage(UNetPP())
    network.load_encoder(source)
    assert torch.equal(network.encoder.layer3[0].conv1.weight, theirs.layer3[0].conv1.weight)
    x = frames(1, 32, 32)
    theirs.eval(), network.eval()
    with torch.no_grad():
        e1 = theirs.relu(theirs.bn1(theirs.conv1(x)))
        e4 = theirs.layer3(theirs.layer2(theirs.layer1(theirs.maxpool(e1))))
        found = network.encoder(x)
    assert torch.equal(found[0], e1)
    assert torch.equal(found[3], e4)
    with pytest.raises(CheckpointError, match="not the weights of a ResNet-18"):
        network.start_from({"conv1.weight": torch.zeros(1)})


def test_what_is_no_resnet_18_for_the_unetpp_is_said(tmp_path: Path) -> None:
    network, path = build_stage(UNetPP()), tmp_path / "other.safetensors"
    save(create("mobilenet.v1-0.25", classes=0), path)
    begun = "the encoder of a UNet\\+\\+ starts from a ResNet-18: "
    for source, says in (
        (path, r".*holds weights of mobilenet\.v1-0\.25, not of resnet\.18"),
        (tmp_path / "none.safetensors", ".*no such file"),
    ):
        with pytest.raises(CheckpointError, match=begun + says):
            network.load_encoder(source)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match=begun + r".*veil convert"):
        network.load_encoder(path)
    with pytest.raises(UsageError, match=r"no weights 'V9'; there are IMAGENET1K_V1"):
        network.load_encoder("torchvision:V9")
