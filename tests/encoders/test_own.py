"""Any network as an encoder: its shapes are found, its identity is its weights, a file of one's own has a name."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.media.make import encode
from videoveil.data.registry import open_source
from videoveil.encoders import create, own_encoder
from videoveil.encoders.base import Encoder
from videoveil.errors import StoreError, UsageError
from videoveil.features.extract import extract
from videoveil.features.store import FeatureStore
from videoveil.tasks.predict import encoder_of

FILE = """
import torch
from videoveil.encoders import own_encoder

torch.manual_seed(0)
network = torch.nn.Conv3d(3, 5, 4, stride=4)
encoder = own_encoder(network, "mine", frames=8, size=16)

def other():
    return own_encoder(network, "mine", frames=4, size=16)

nothing = 3
"""


class Net(nn.Module):
    """Clips → whatever shape is asked for, from the mean colour of every frame."""

    def __init__(self, shape: str):
        super().__init__()
        self.shape = shape
        self.mix = nn.Linear(3, 6)

    def forward(self, x: Tensor) -> Any:
        if self.shape == "pictures":  # (N, 3, H, W) → (N, 6)
            assert x.dim() == 4
            return self.mix(x.mean((2, 3)))
        if self.shape == "maps of pictures":
            assert x.dim() == 4
            return self.mix(x.movedim(1, -1)).movedim(-1, 1)
        if self.shape == "time first":
            assert x.shape[2] == 3
            x = x.transpose(1, 2)
        tokens = self.mix(x.mean((3, 4)).transpose(1, 2))  # (N, T, 6)
        if self.shape == "tokens":
            return tokens
        if self.shape == "map":
            return self.mix(x.movedim(1, -1)).movedim(-1, 1)  # (N, 6, T, H, W)
        if self.shape == "one row":
            return tokens.mean((0, 1))[None]
        return {"list": [tokens], "scalar": tokens.sum()}.get(self.shape, tokens.mean(1))


@pytest.mark.parametrize(
    ("shape", "options", "steps"),
    [
        ("vector", {}, 1),
        ("time first", {"time_first": True}, 1),
        ("tokens", {}, 4),
        ("map", {}, 4),
        ("pictures", {"images": True}, 4),
        ("maps of pictures", {"images": True}, 4),
    ],
)
def test_width_and_steps_are_found_and_all_shapes_mean_the_same(
    shape: str, options: dict[str, Any], steps: int
) -> None:
    network = Net(shape)
    encoder = own_encoder(network, "mine", frames=4, size=8, mean=(0.5,) * 3, std=(0.25,) * 3, **options)
    assert (encoder.width, encoder.tokens) == (6, steps)
    clips = torch.rand(3, 3, 4, 8, 8)
    colours = ((clips - 0.5) / 0.25).mean((2, 3, 4))
    assert torch.allclose(encoder(clips), network.mix(colours), atol=1e-5)
    tokens = encoder.temporal_tokens(clips)
    assert tokens.shape == (3, steps, 6)
    assert torch.allclose(tokens.mean(1), encoder(clips), atol=1e-6)


def test_it_is_in_eval_mode_and_takes_exactly_what_it_was_made_for() -> None:
    encoder = own_encoder(nn.Sequential(nn.Dropout3d(0.9), Net("vector")), "mine", frames=4, size=8)
    clips = torch.rand(2, 3, 4, 8, 8)
    assert torch.equal(encoder(clips), encoder(clips))
    with pytest.raises(UsageError, match="exactly 4 frames"):
        encoder(torch.rand(2, 3, 5, 8, 8))
    with pytest.raises(UsageError, match="no classification layer"):
        encoder.head_parameters()


def test_its_hash_is_that_of_name_input_and_weights() -> None:
    def made(name: str = "mine", seed: int = 0, **options: Any) -> str:
        torch.manual_seed(seed)
        return own_encoder(Net("vector"), name, **({"frames": 4, "size": 8} | options)).content_hash()

    assert made() == made()
    assert len({made(), made("other"), made(seed=1), made(frames=8), made(stride=2), made(resize=12)}) == 6


def test_it_travels_to_other_processes() -> None:
    encoder = own_encoder(Net("tokens"), "mine", frames=4, size=8)
    again: Encoder = pickle.loads(pickle.dumps(encoder))
    assert again.content_hash() == encoder.content_hash()


@pytest.mark.parametrize(
    ("network", "options", "words"),
    [
        (len, {}, "must be a torch.nn.Module"),
        (Net("vector"), {"frames": 0}, "frames=0"),
        (Net("vector"), {"resize": 4}, "smaller than the crop"),
        (Net("vector"), {"images": True, "time_first": True}, "choose images or time_first"),
        (Net("list"), {}, "gave list"),
        (Net("scalar"), {}, r"gave \(\)"),
        (nn.Conv3d(3, 4, 9), {}, "failed on a clip of 4 frames of 8×8"),
        (Net("pictures"), {}, "failed on a clip"),
    ],
)
def test_what_cannot_be_an_encoder_is_said(network: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        own_encoder(network, "mine", **({"frames": 4, "size": 8} | options))


def test_a_network_that_joins_its_rows_is_refused_when_it_is_used() -> None:
    encoder = own_encoder(Net("one row"), "mine", frames=4, size=8)  # with one clip it cannot be known
    with pytest.raises(UsageError, match="for 3 inputs"):
        encoder(torch.rand(3, 3, 4, 8, 8))


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(FILE)
    return str(tmp_path / "mine.py")


def test_a_file_is_an_encoder_by_name(source: str) -> None:
    encoder = create(source)
    assert (encoder.name, encoder.width, encoder.tokens) == ("mine.py", 5, 2)
    assert create(f"{source}:other").name == "mine.py:other"
    assert create(f"{source}:other").input.frames == 4
    with pytest.raises(UsageError, match="own_encoder"):
        create(f"{source}:nothing")
    with pytest.raises(UsageError, match="leave --weights"):
        create(source, weights="some.safetensors")


def test_a_store_remembers_the_file_and_a_changed_one_is_refused(source: str, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    encode(tmp_path / "videos" / "a.mp4", count=20, size=(32, 24), rate=Fraction(10))
    videos = open_source(str(tmp_path / "videos"))
    report = extract(videos, tmp_path / "store", create(source))
    assert (report.extracted, report.clips) == (1, 2)
    store = FeatureStore.open(tmp_path / "store")
    assert store.read(store.items()[0]).clip.shape == (2, 5)
    facts = {**store.encoder, "name": source}  # as from the folder in which the file lies
    assert encoder_of(facts, None).content_hash() == store.encoder["hash"]

    Path(source).write_text(FILE + "# changed\n")
    with pytest.raises(StoreError, match="made with"):
        extract(videos, tmp_path / "store", create(source))
    with pytest.raises(UsageError, match="not the one that was used then"):
        encoder_of(facts, None)
