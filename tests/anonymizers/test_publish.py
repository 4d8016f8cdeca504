"""Folders and the hub: everything comes back, the key is nowhere, and damage is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from videoveil.anonymizers import (
    Attention,
    EncoderReference,
    LatentAnonymizer,
    LatentConfig,
    Measurement,
    ModelCard,
    NotExportable,
    Rank,
    latent,
    pixel,
)
from videoveil.anonymizers.pixel import UNet
from videoveil.errors import CheckpointError, UsageError

from .hub_server import COMMIT, Hub, serving
from .pipelines import ALL, KEY, WHOLE, WIDTH, features, fitted

FILES = ["README.md", "config.json", "model.safetensors"]


@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_what_is_saved_comes_back(name: str, tmp_path: Path) -> None:
    anonymizer, x = fitted(ALL[name]), features(20)
    assert anonymizer.save_pretrained(tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == FILES
    twin = LatentAnonymizer.from_pretrained(tmp_path / "new" / "folder", key=KEY)
    assert not twin.training
    assert twin.config == anonymizer.config
    assert twin.content_hash() == anonymizer.content_hash()
    assert torch.equal(twin(x, static=x), anonymizer(x, static=x))


def test_the_key_is_in_no_file(tmp_path: Path) -> None:
    fitted(WHOLE["all"]).save_pretrained(tmp_path)
    secret = KEY._secret
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert secret not in content
        assert secret.hex().encode() not in content
    assert LatentAnonymizer.from_pretrained(tmp_path).key is None


def test_equal_anonymizers_give_equal_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        fitted(WHOLE["all"]).save_pretrained(tmp_path / folder)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_encoder_and_card_come_back(tmp_path: Path) -> None:
    measured = Measurement("gender, mlp2", "attack", "AP", 0.61, raw=0.8, chance=0.5)
    card = ModelCard("twin of HMDB51, split 1", (measured,), "A note.", "mit")
    config = LatentConfig(WIDTH, (Rank(3),), "temporal", EncoderReference("tiny", "ab" * 32))
    LatentAnonymizer(config, card=card).eval().save_pretrained(tmp_path)
    twin = LatentAnonymizer.from_pretrained(tmp_path)
    assert (twin.config, twin.card) == (config, card)


def test_a_half_written_or_changed_folder_is_refused(tmp_path: Path) -> None:
    anonymizer = latent(WIDTH, Attention(init="default"))
    anonymizer.save_pretrained(tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in FILES}

    def broken(name: str, content: bytes | None) -> None:
        for file, original in whole.items():
            (tmp_path / file).write_bytes(original)
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_bytes(content)

    config, other = json.loads(whole["config.json"]), LatentConfig(WIDTH, (Rank(3),)).to_json()
    for name, content, message in (
        ("config.json", None, r"no config\.json"),
        ("model.safetensors", None, r"model\.safetensors"),
        ("model.safetensors", whole["model.safetensors"][:-5], "safetensors"),
        ("config.json", b"{", "not JSON"),
        ("config.json", b"{}", "format None"),
        ("config.json", json.dumps({**config, "card": {"x": 1}}).encode(), "damaged"),
        ("config.json", json.dumps({**config, "config": other}).encode(), "not the weights of its"),
    ):
        broken(name, content)
        with pytest.raises(CheckpointError, match=message):
            LatentAnonymizer.from_pretrained(tmp_path)
    broken("config.json", whole["config.json"])
    tensors = load_file(tmp_path / "model.safetensors")
    first = next(iter(tensors))
    save_file({**tensors, first: tensors[first] + 1e-3}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="do not belong together"):
        LatentAnonymizer.from_pretrained(tmp_path)


def test_neither_folder_nor_name() -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        LatentAnonymizer.from_pretrained("nowhere to be found")


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


@torch.no_grad()
def test_what_is_published_is_the_saved_folder_and_comes_back(hub: Hub, tmp_path: Path) -> None:
    anonymizer, x = fitted(WHOLE["all"]), features(8)
    address = anonymizer.push_to_hub("veil/small", token="not a real token")
    assert address == f"{hub.address}/veil/small/commit/{COMMIT}"
    assert hub.tokens == {"Bearer not a real token"}
    assert [(made["name"], made["organization"]) for made in hub.created] == [("small", "veil")]
    assert "private" in json.dumps(hub.created[0])
    assert [commit["summary"] for commit in hub.commits] == [
        f"Latent anonymizer {anonymizer.content_hash()[:12]}"
    ]
    anonymizer.save_pretrained(tmp_path / "saved")
    expected = {f"veil/small/{name}": (tmp_path / "saved" / name).read_bytes() for name in FILES}
    assert hub.files == expected
    for source in ("veil/small", "hub:veil/small"):
        twin = LatentAnonymizer.from_pretrained(source, key=KEY)
        assert torch.equal(twin(x, static=x), anonymizer(x, static=x))


@pytest.mark.parametrize("kind", ["latent", "pixel"])
def test_what_was_published_in_private_is_fetched_with_a_token_and_by_revision(hub: Hub, kind: str) -> None:
    anonymizer = latent(WIDTH, Rank(3)) if kind == "latent" else pixel(UNet(width=4))
    anonymizer.push_to_hub("veil/private", private=True, token="not a real token")
    hub.secret, whole = "not a real token", type(anonymizer)
    with pytest.raises(CheckpointError, match=r"hub:veil/private: could not be fetched[\s\S]*the token"):
        whole.from_pretrained("veil/private")
    assert hub.asked == []
    hub.revisions.add("v1")
    twin = whole.from_pretrained("veil/private", token="not a real token", revision="v1")
    assert twin.content_hash() == anonymizer.content_hash()
    assert hub.asked[0] == "v1"
    assert set(hub.asked) == {"v1", COMMIT}  # the weights are of the commit that the configuration is of
    with pytest.raises(CheckpointError, match=r"veil/private at v2: could not be fetched"):
        whole.from_pretrained("veil/private", token="not a real token", revision="v2")


def test_a_folder_has_no_revision(tmp_path: Path) -> None:
    latent(WIDTH, Rank(3)).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"is a folder, which has no revision='v1'"):
        LatentAnonymizer.from_pretrained(tmp_path, revision="v1")


def test_what_must_not_export_is_not_published(hub: Hub) -> None:
    with pytest.raises(NotExportable, match=r"veil/small: cannot be published.*across the batch"):
        latent(WIDTH, Attention(cross_sample=True)).push_to_hub("veil/small", token="x")
    assert not hub.created
    anonymizer = fitted(WHOLE["all"])
    anonymizer.key = None  # publishing needs none
    anonymizer.push_to_hub("veil/small", token="x")
    assert hub.files


def test_a_hub_that_refuses_is_named_with_the_way_out(hub: Hub) -> None:
    hub.refuse = True
    with pytest.raises(
        CheckpointError, match=r"hub:veil/small: could not be published[\s\S]*save_pretrained"
    ):
        latent(WIDTH, Rank(3)).push_to_hub("veil/small", token="x")
    assert not hub.files
    with pytest.raises(CheckpointError, match=r"veil/absent"):
        LatentAnonymizer.from_pretrained("veil/absent")
