"""Promises that every encoder keeps, for every line of the registry."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from videoveil.encoders import Encoder, checkpoints, create, describe, info, names, registry
from videoveil.encoders.fitting import on_meta
from videoveil.errors import CheckpointError, UsageError

from .helpers import close, moving, parameters, small


@dataclass(frozen=True)
class Seen:
    """An encoder with a moving clip, another one and the static twin of the first, and their features."""

    encoder: Encoder
    clips: Tensor  # (3, 3, T, H, W)
    vectors: Tensor
    tokens: Tensor


@pytest.fixture(scope="module", params=names())
def seen(request: pytest.FixtureRequest) -> Seen:
    encoder = small(request.param)
    clips = moving(encoder, count=2)
    clips = torch.cat((clips, clips[:1, :, :1].expand_as(clips[:1])))
    with torch.inference_mode():
        features = encoder.vector_and_tokens(clips)
    return Seen(encoder, clips, *features)


def test_features_have_the_declared_shape_and_are_finite(seen: Seen) -> None:
    encoder = seen.encoder
    assert seen.vectors.shape == (3, encoder.width)
    assert seen.tokens.shape == (3, encoder.tokens, encoder.width)
    assert seen.vectors.isfinite().all()
    assert seen.tokens.isfinite().all()
    assert seen.vectors.abs().max() > 0
    assert not encoder.training


def test_the_vector_is_the_mean_of_the_tokens_exactly_where_the_encoder_says_so(seen: Seen) -> None:
    assert close(seen.vectors, seen.tokens.mean(1)) == seen.encoder.mean_pooled


def test_a_static_clip_differs_from_the_moving_one(seen: Seen) -> None:
    assert seen.encoder.input.frames > 1
    assert not close(seen.vectors[0], seen.vectors[2], 1e-4)


def test_a_clip_has_the_same_features_alone_and_in_a_batch_and_gradients_reach_its_pixels(seen: Seen) -> None:
    alone = seen.clips[1:2].clone().requires_grad_()
    vector = seen.encoder(alone)
    vector.square().sum().backward()
    seen.encoder.zero_grad(set_to_none=True)
    assert close(seen.vectors[1:2], vector.detach())
    assert alone.grad is not None
    assert alone.grad.isfinite().all()
    assert alone.grad.abs().sum() > 0


def test_features_are_repeatable_bit_for_bit(seen: Seen) -> None:
    with torch.inference_mode():
        vector = seen.encoder(seen.clips[:1])
        again, tokens = seen.encoder.vector_and_tokens(seen.clips[:1])
    assert torch.equal(vector, again)
    assert close(seen.tokens[:1], tokens)


def test_the_hash_follows_the_weights_and_not_the_classification_layer(seen: Seen) -> None:
    encoder = seen.encoder
    before = encoder.content_hash()
    assert len(before) == 64
    name, parameter = next(
        (k, p) for k, p in encoder.network.named_parameters() if not encoder.is_head(k) and p.dim() > 1
    )
    original = parameter.detach().clone()
    with torch.no_grad():
        parameter[(0,) * parameter.dim()] += 1
        assert encoder.content_hash() != before, name
        parameter.copy_(original)
        for key, value in encoder.network.named_parameters():
            if encoder.is_head(key):
                value += 1
    assert encoder.content_hash() == before


@pytest.mark.parametrize("name", names())
def test_the_published_size_gives_the_described_width_and_tokens(name: str) -> None:
    encoder = on_meta(name, registry.MODELS[name], {}).to("meta").eval()
    spec = encoder.input
    clips = torch.empty(1, 3, spec.frames, spec.size, spec.size, device="meta")
    tokens = encoder.temporal_tokens(clips)
    described = info(name)
    assert tokens.shape == (1, described.tokens, described.width)
    assert (described.frames, described.size, described.kind) == (spec.frames, spec.size, encoder.kind)


PUBLISHED = {
    "i3d.inception": 12_697_264,
    "i3d.resnet50": 28_043_472,
    "i3d.resnet50-nl": 35_401_936,
    "c3d": 79_991_015,
    "r3d.18": 33_371_472,
    "r3d.18-spact": 33_371_472,
    "r2plus1d.18": 31_505_325,
    "s3d": 8_320_048,
    "mvit.v2-s": 34_537_744,
    "swin3d.t": 28_158_070,
    "swin3d.s": 49_816_678,
    "swin3d.b": 88_048_984,
    "resnet.18": 11_689_512,
    "resnet.34": 21_797_672,
    "resnet.50": 25_557_032,
    "resnet.101": 44_549_160,
    "resnet.152": 60_192_808,
    "mobilenet.v1-1.0": 4_231_976,
    "videomae.b": 86_534_800,
    "videomaev2.g": 1_012_611_142,
}


def test_described_parameter_counts_are_the_published_ones() -> None:
    counted = {line.name: line.parameters for line in describe()}
    assert set(counted) == set(names())
    assert {name: counted[name] for name in PUBLISHED} == PUBLISHED
    assert counted["tiny"] <= 2_000_000


def test_the_readme_counts_all_of_them() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert f"| {len(names())} encoders with parameters" in readme


def test_names_can_be_written_without_separators_and_stay_unique() -> None:
    assert registry.resolve("r3d18") == registry.resolve("R3D_18") == "r3d.18"
    assert registry.resolve("i3d-resnet50") == "i3d.resnet50"
    assert len(registry._spellings()) == len(names())
    with pytest.raises(UsageError, match=r"no encoder 'r4d'.*r3d\.18"):
        create("r4d")


def test_random_weights_come_from_the_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = create("mobilenet.v1-0.25", seed=1).content_hash()
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(6)
    assert create("mobilenet.v1-0.25", seed=1).content_hash() == first
    assert create("mobilenet.v1-0.25", seed=2).content_hash() != first


def test_the_hash_tells_norms_sizes_and_pools_apart() -> None:
    def hashed(**options: object) -> str:
        return small("videomae.s", **options).content_hash()

    different = [hashed(), hashed(norm="minus1_1"), hashed(stride=2), hashed(resize=40)]
    assert len(set(different)) == len(different)
    assert hashed(norm="native") == hashed()


@torch.inference_mode()
def test_norms_are_what_they_are_called() -> None:
    clips = moving(small("mobilenet.v1-0.25"))
    native = small("mobilenet.v1-0.25")
    assert native.input.mean == (0.485, 0.456, 0.406)
    assert torch.equal(native(clips), small("mobilenet.v1-0.25", norm="imagenet")(clips))
    shifted = small("mobilenet.v1-0.25", norm="zero_one")(2 * clips - 1)
    assert torch.equal(small("mobilenet.v1-0.25", norm="minus1_1")(clips), shifted)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tiny", {"depth": 3}, r"no option depth; there are classes, frames"),
        ("tiny", {"pool": "cls"}, r"no pool 'cls'; there are mean"),
        ("tiny", {"norm": "caffe"}, r"no norm 'caffe'; there are native, minus1_1"),
        ("tiny", {"frames": 0}, r"frames must be a whole number of at least 1, not 0"),
        ("tiny", {"classes": -1}, r"classes must be .* not -1"),
        ("tiny", {"resize": 100}, r"resize=100 is smaller than the crop size=112"),
        ("c3d", {"frames": 8}, r"frames is fixed at 16, 8 is not possible"),
        ("i3d.resnet50", {"frames": 4}, r"needs at least 8 frames, not 4"),
        ("videomae.s", {"size": 100}, r"size=100 is no multiple of the patch, 16"),
        ("videomae.s", {"frames": 7}, r"frames=7 is no multiple of the tubelet, 2"),
        ("vjepa2.l", {"heads": 7}, r"width=1024 is no multiple of heads=7"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(name: str, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        create(name, weights="random", **options)


def test_the_crop_margin_scales_with_the_crop() -> None:
    assert create("tiny", weights="random", size=224).input.resize == 256


def test_encoders_survive_copying_and_pickling_to_workers() -> None:
    encoder = small("mobilenet.v1-0.25")
    for twin in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert twin.content_hash() == encoder.content_hash()


def test_an_embedded_file_is_the_default_and_random_can_be_insisted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = create("tiny", weights="random", seed=9)
    checkpoints.save(trained, tmp_path / "tiny.safetensors")
    monkeypatch.setattr(registry, "EMBEDDED", tmp_path)
    assert create("tiny").content_hash() == trained.content_hash()
    assert create("tiny", weights="own").content_hash() == trained.content_hash()
    with pytest.raises(UsageError, match=r"r3d\.18: comes without weights of its own"):
        create("r3d.18", weights="own")
    assert create("tiny", weights="random", seed=3).content_hash() != trained.content_hash()
    assert parameters(create("tiny", classes=4)) - parameters(create("tiny")) == 4 * 257


def test_a_foreign_file_given_directly_names_the_command_that_brings_it_in(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({}, path)
    with pytest.raises(CheckpointError, match=r"veil convert .*weights\.pth --to r3d\.18"):
        create("r3d18", weights=path)
    with pytest.raises(CheckpointError, match="no such file or folder"):
        create("r3d18", weights=tmp_path / "absent.safetensors")


def test_torchvision_weights_load_from_its_own_cache_head_included(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from videoveil._torchvision import torchvision

    state = create("resnet.18", seed=4).network.state_dict()
    url = torchvision.models.ResNet18_Weights.IMAGENET1K_V1.url
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    torch.save(state, tmp_path / "checkpoints" / url.rpartition("/")[2])
    encoder = create("resnet.18", weights="torchvision:IMAGENET1K_V1")
    assert encoder.classes == 1000
    assert torch.equal(encoder.head_parameters()[0], state["fc.weight"])
    with pytest.raises(UsageError, match=r"no weights 'V9'; there are IMAGENET1K_V1"):
        create("resnet.18", weights="torchvision:V9")
    with pytest.raises(UsageError, match="torchvision has no weights"):
        create("c3d", weights="torchvision:KINETICS400_V1")
