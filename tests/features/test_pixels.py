"""Clips through a pixel anonymizer: eval mode, float, checked, and noise that depends on what it should."""

from __future__ import annotations

import pytest
import torch

from tests.attacks.pictures import Changed
from videoveil.anonymizers import NoiseKey
from videoveil.anonymizers.errors import ShapeMismatch, Withheld
from videoveil.anonymizers.pixel import Grey, LowResolution, NoiseFloor, UNet, pixel
from videoveil.features import pixels
from videoveil.features.pixels import PixelVeil


def clips(count: int = 3) -> torch.Tensor:
    return torch.rand(count, 3, 2, 16, 16, generator=torch.Generator().manual_seed(count))


def test_a_real_network_gives_its_own_eval_output_and_goes_on_training() -> None:
    network = pixel(UNet(width=4), Grey()).train()
    x = clips().requires_grad_()
    found = PixelVeil(network)(x)
    assert not found.requires_grad
    assert network.training
    network.eval()
    with torch.no_grad():
        assert torch.allclose(found, network.transform(x), atol=1e-6)


def test_the_output_is_float32_even_inside_autocast() -> None:
    network = pixel(UNet(width=4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = PixelVeil(network)(clips())
    assert found.dtype == torch.float32
    assert torch.equal(found, PixelVeil(network)(clips()))


def test_eight_bits_are_whole_steps_of_a_stored_picture() -> None:
    found = PixelVeil(Changed("dim", 0.313), eight_bit=True)(clips())
    assert torch.allclose((255 * found).round(), 255 * found, atol=1e-4)
    assert float((found - 0.313 * clips()).abs().max()) <= 0.5 / 255 + 1e-6
    assert PixelVeil(Changed("dim"), True).facts() != PixelVeil(Changed("dim"), False).facts()


def test_pictures_stay_pictures() -> None:
    assert float(PixelVeil(Changed("dim", 7.0))(clips()).max()) == 1.0
    with pytest.raises(Withheld, match="NaN or infinite"):
        PixelVeil(Changed("broken"))(clips())
    with pytest.raises(ShapeMismatch, match=r"made \(3, 3, 2, 8, 8\) of clips"):
        PixelVeil(Changed("smaller"))(clips())


def test_many_clips_are_sent_in_parts_and_come_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PixelVeil(Changed("average"))(clips(7))
    monkeypatch.setitem(pixels.PIXELS, "cpu", 2 * 2 * 16 * 16)
    cut = Changed("average")
    assert torch.equal(PixelVeil(cut)(clips(7)), whole)
    assert [shape[0] for shape in cut.shapes] == [2, 2, 2, 1]


def test_noise_comes_from_the_seed_or_from_the_callers_state() -> None:
    veil = PixelVeil(Changed("noise", 0.1))
    before = torch.get_rng_state()
    one, two, other = veil(clips(), seed=3), veil(clips(), seed=3), veil(clips(), seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert not torch.equal(veil(clips()), veil(clips()))


def test_what_is_stored_takes_the_checked_path_with_keyed_noise() -> None:
    noisy = pixel(NoiseFloor(0.2, per="video"), key=NoiseKey(b"k" * 32))
    veil, x = PixelVeil(noisy), (255 * clips(2)).to(torch.uint8)
    both = veil.export(x, ["a", "b"])
    assert torch.equal(both[:1], veil.export(x[:1], ["a"]))  # whatever else is in the batch
    assert not torch.equal(both[:1], veil.export(x[:1], ["c"]))
    assert torch.equal(
        PixelVeil(noisy, True).export(x, ["a", "b"]), noisy(x, content=["a", "b"]).float() / 255
    )
    low = pixel(LowResolution(4))
    assert torch.equal(PixelVeil(low).export(x, ["", ""]), low(x.float() / 255))
