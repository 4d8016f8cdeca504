"""Folders and the hub: the same files, the same refusals as for latent anonymizers, and cards that say what is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
import torch
import yaml
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from videoveil.anonymizers import (
    LatentAnonymizer,
    Measurement,
    ModelCard,
    NotExportable,
    PixelAnonymizer,
    Rank,
    latent,
    pixel,
    publish,
)
from videoveil.anonymizers.card import render
from videoveil.anonymizers.pixel import Grey, Levels, LowResolution, NoiseFloor, Outline, UNet, UNetPP
from videoveil.errors import CheckpointError

from ..hub_server import Hub, serving
from .pipelines import ALL, KEY, frames, names, settled

FILES = ["README.md", "config.json", "model.safetensors"]


@pytest.mark.parametrize("name", ALL)
def test_what_is_saved_comes_back(name: str, tmp_path: Path) -> None:
    anonymizer, x = settled(ALL[name], size=112), frames(2)
    anonymizer.save_pretrained(tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == FILES
    for load in (PixelAnonymizer.from_pretrained, publish.load):
        twin = load(tmp_path / "new", key=KEY)
        assert isinstance(twin, PixelAnonymizer)
        assert not twin.training
        assert twin.config == anonymizer.config
        assert twin.content_hash() == anonymizer.content_hash()
        assert torch.equal(twin(x, content=names(2)), anonymizer(x, content=names(2)))


def test_the_key_is_in_no_file(tmp_path: Path) -> None:
    pixel(UNet(4), NoiseFloor(0.1), key=KEY).save_pretrained(tmp_path)
    for path in tmp_path.iterdir():
        assert KEY._secret not in path.read_bytes()
        assert KEY._secret.hex().encode() not in path.read_bytes()
    assert PixelAnonymizer.from_pretrained(tmp_path).key is None


def test_a_latent_anonymizer_is_not_taken_for_a_pixel_one_nor_the_other_way_round(tmp_path: Path) -> None:
    latent(8, Rank(3)).save_pretrained(tmp_path / "latent")
    pixel(Grey()).save_pretrained(tmp_path / "pixel")
    with pytest.raises(CheckpointError, match=r"videoveil-latent-anonymizer-1.*expected.*pixel"):
        PixelAnonymizer.from_pretrained(tmp_path / "latent")
    with pytest.raises(CheckpointError, match=r"videoveil-pixel-anonymizer-1.*expected.*latent"):
        LatentAnonymizer.from_pretrained(tmp_path / "pixel")
    assert isinstance(publish.load(tmp_path / "latent"), LatentAnonymizer)


def test_a_half_written_or_changed_folder_is_refused(tmp_path: Path) -> None:
    pixel(UNet(4), Levels(2)).save_pretrained(tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in FILES}
    config = json.loads(whole["config.json"])

    def changed(**fields: object) -> bytes:
        return json.dumps({**config, "config": {**config["config"], **fields}}).encode()

    def stages(**fields: object) -> bytes:
        first, second = config["config"]["stages"]
        return changed(stages=[first, {**second, **fields}])

    for name, content, message in (
        ("config.json", None, r"no config\.json"),
        ("model.safetensors", None, r"model\.safetensors"),
        ("model.safetensors", whole["model.safetensors"][:-5], "safetensors"),
        ("config.json", b"{", "not JSON"),
        ("config.json", b"{}", "format None"),
        ("config.json", changed(speed=1), "damaged.*unknown settings speed"),
        ("config.json", stages(depth=1), "damaged.*unknown settings depth"),
        ("config.json", stages(levels=1), "damaged.*levels=1"),
        ("config.json", stages(levels=256), "do not belong together"),  # less is thrown away
        ("config.json", changed(stages=[{"kind": "grey"}]), "not the weights of its"),
        ("config.json", changed(legacy_reshape=True), "do not belong together"),
    ):
        for file, original in whole.items():
            (tmp_path / file).write_bytes(original)
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            PixelAnonymizer.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_bytes(whole["config.json"])
    tensors = load_file(tmp_path / "model.safetensors")
    first = next(name for name, tensor in tensors.items() if tensor.is_floating_point())
    save_file({**tensors, first: tensors[first] + 1e-3}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="do not belong together"):
        PixelAnonymizer.from_pretrained(tmp_path)


# --- the card ------------------------------------------------------------------------------------------------


def test_the_card_says_which_stages_throw_information_away() -> None:
    measured = Measurement("gender, best of 4 attackers", "attack", "AP", 0.61, raw=0.9, chance=0.5)
    card = ModelCard("our films, split 1", (measured,), "A note.", "mit")
    anonymizer = pixel(UNet(4), Grey(), LowResolution(28), Levels(2), size=112, card=card)
    text = render(anonymizer)
    for part in (
        "# A pixel video anonymizer",
        "1. **unet** (width=4, out='sigmoid', bias=True, up='bilinear'): can be undone in principle",
        "2. **grey** (): throws information away",
        "3. **low-resolution** (size=28",
        "4. **levels** (levels=2, soft=0.0): throws information away",
        "112 pixels",
        "at most 784 bits",
        "our films, split 1",
        "| attack | gender, best of 4 attackers | AP | 0.61 | 0.9 | 0.5 |",
        "Frames from it are not anonymous data",
        anonymizer.content_hash(),
        "A note.",
    ):
        assert part in text
    assert yaml.safe_load(text.split("---")[1])["license"] == "mit"
    assert "NoiseKey" not in text
    assert "Every stage can be undone" not in text


def test_a_card_of_networks_alone_says_that_they_can_be_undone() -> None:
    text = render(pixel(UNet(4), UNetPP()))
    assert "Every stage can be undone in principle" in text
    assert "Treat its frames as if they were raw" in text
    assert "trained on: not recorded" in text


def test_a_card_speaks_of_the_size_of_its_training_only_where_there_was_one() -> None:
    size, above = "Short side of the frames it was trained on", "of the size that they were measured at"
    for stages, trained, says in (
        ((UNet(4), Outline()), 64, (f"{size}: 64 pixels", True)),
        ((UNet(4), Outline()), 0, (f"{size}: not recorded", False)),
        ((Outline(),), 0, ("", False)),
    ):
        text = render(pixel(*stages, size=trained))
        assert says[0] in text
        assert (size in text) == bool(says[0])
        assert (above in text) == says[1]


def test_a_card_states_a_bound_in_bits_where_the_size_of_frames_does_not_move_it() -> None:
    bound = "However large frames are"
    text = render(pixel(Outline()))
    assert f"{bound}, a square one out of it tells at most 4,096 bits" in text
    assert "one of 16:9 at most 7,296" in text
    assert bound in render(pixel(UNet(4), Outline(), size=64))
    assert bound not in render(pixel(Grey()))
    assert bound not in render(pixel(LowResolution(factor=2), Levels(2)))


def test_a_card_with_noise_names_the_key_and_the_names_of_videos() -> None:
    text = render(pixel(NoiseFloor(0.1, per="video"), key=KEY))
    assert "NoiseKey.load" in text
    assert "content=names_of_videos" in text
    assert KEY._secret.decode() not in text
    assert "for comparison only" in render(pixel(Grey(), legacy_reshape=True))


# --- the hub -------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The real client, talking to a hub of our own."""
    with serving() as server:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, server.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
        for name in ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"):
            monkeypatch.setattr(
                constants, name, 300
            )  # the server is a thread that may have to wait for its turn
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        huggingface_hub.close_session()
        yield server
        huggingface_hub.close_session()


def test_what_is_published_is_the_saved_folder_and_comes_back(hub: Hub, tmp_path: Path) -> None:
    anonymizer, x = settled((UNet(4), Grey(), Levels(4))), frames(2)
    anonymizer.push_to_hub("veil/pixels", token="not a real token")
    assert [commit["summary"] for commit in hub.commits] == [
        f"Pixel anonymizer {anonymizer.content_hash()[:12]}"
    ]
    anonymizer.save_pretrained(tmp_path / "saved")
    assert hub.files == {f"veil/pixels/{name}": (tmp_path / "saved" / name).read_bytes() for name in FILES}
    assert torch.equal(PixelAnonymizer.from_pretrained("veil/pixels")(x), anonymizer(x))


def test_what_must_not_export_is_not_published(hub: Hub) -> None:
    with pytest.raises(NotExportable, match=r"veil/pixels: cannot be published.*legacy_reshape"):
        pixel(UNet(4), legacy_reshape=True).push_to_hub("veil/pixels", token="x")
    assert not hub.created
