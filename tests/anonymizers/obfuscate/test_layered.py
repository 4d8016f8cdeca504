"""Two layers: what is found is covered, and the whole picture goes through a second anonymizer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from videoveil.anonymizers import LatentAnonymizer
from videoveil.anonymizers.config import Quantise
from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.latent import latent
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.obfuscate import Fixed, Layered, Obfuscator
from videoveil.anonymizers.pixel import NoiseFloor, Outline, UNet, pixel
from videoveil.errors import UsageError

BOX = np.array([[4, 4, 20, 20, 1]], np.float32)
NOBODY = BOX[:0]


def clips(seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (2, 3, 4, 32, 40), dtype=np.uint8))


def layered(boxes: np.ndarray = BOX) -> Layered:
    return Layered(Obfuscator("blacken", Fixed(boxes)), pixel(Outline(16)))


def test_of_what_is_found_nothing_reaches_the_second_layer() -> None:
    one, other = clips(0), clips(0)
    other[..., 4:20, 4:20] = clips(1)[..., 4:20, 4:20]  # another person at the same place
    assert not torch.equal(one, other)
    assert torch.equal(layered()(one), layered()(other))
    assert not torch.equal(pixel(Outline(16))(one), pixel(Outline(16))(other))


def test_what_is_not_found_still_goes_through_the_second_layer() -> None:
    assert torch.equal(layered(NOBODY)(clips()), pixel(Outline(16))(clips()))


def test_it_is_one_after_the_other() -> None:
    made = layered()
    assert torch.equal(made(clips()), made.then(made.cover(clips())))
    floats = clips().float() / 255
    assert torch.allclose(made.transform(floats), made(floats), atol=1e-6)
    frames = clips()[:, :, 0]
    assert made(frames).shape == frames.shape


def test_the_report_tells_of_the_detector() -> None:
    made = layered()
    made(clips())
    told = made.report()
    assert told.to_json()["boxes"] == 8
    assert told.to_json()["second"] == made.then.content_hash()
    assert "second layer" in str(told)
    assert "stay visible" not in str(told)
    assert "second" not in made.cover.report().to_json()


def test_its_hash_is_that_of_both_layers() -> None:
    hashes = {
        layered().content_hash(),
        layered(NOBODY).content_hash(),
        Layered(Obfuscator("strong-blur", Fixed(BOX)), pixel(Outline(16))).content_hash(),
        Layered(Obfuscator("blacken", Fixed(BOX)), pixel(Outline(24))).content_hash(),
    }
    assert len(hashes) == 4
    assert layered().content_hash() in hashes


def test_whatever_keeps_the_second_layer_from_publishing_keeps_both() -> None:
    then = pixel(UNet(width=4))
    made = Layered(Obfuscator("blacken", Fixed(BOX)), then)
    assert made.exportable
    then.train()
    assert not made.exportable


def test_a_second_layer_that_fails_gives_nothing_out() -> None:
    then = pixel(UNet(width=4))
    with torch.no_grad():
        next(iter(then.parameters())).fill_(float("nan"))
    with pytest.raises(Withheld):
        Layered(Obfuscator("blacken", Fixed(BOX)), then)(clips())


@pytest.mark.parametrize(
    "then",
    [Obfuscator("blacken", Fixed(BOX)), layered(), latent(8, Quantise(2)), pixel(NoiseFloor(sigma=0.2))],
)
def test_a_second_layer_must_change_whole_pictures_without_noise(then: object) -> None:
    assert isinstance(then, Obfuscator | Layered | LatentAnonymizer) or getattr(then, "wants_noise", False)
    with pytest.raises(UsageError, match="second layer"):
        Layered(Obfuscator("blacken", Fixed(BOX)), then)


def test_it_has_a_name() -> None:
    made = open_anonymizer("blacken-people+veil-pixel", detector=Fixed(BOX), fail_closed=True)
    assert isinstance(made, Layered)
    assert made.cover.fail_closed
    assert made.then.content_hash() == open_anonymizer("veil-pixel").content_hash()
    assert isinstance(open_anonymizer("blur-people+downsample:4", detector=Fixed(BOX)), Layered)


@pytest.mark.parametrize(
    "name", ["blacken-people+", "blacken-people+nothing", "veil-pixel+blacken-people", "+blur"]
)
def test_half_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        open_anonymizer(name)
