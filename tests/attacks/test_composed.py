"""Two steps as one."""

from __future__ import annotations

import torch

from tests.attacks.pictures import Changed
from videoveil.attacks.composed import Composed, through
from videoveil.data.records import Dataset
from videoveil.features.pixels import PixelVeil
from videoveil.tasks.base import Clips


def test_the_second_step_sees_what_the_first_published() -> None:
    x = torch.rand(2, 3, 4, 8, 8)
    both = Composed(Changed("scale", 0.5), Changed("upside down"))
    assert torch.allclose(PixelVeil(both)(x), 0.5 * x.flip(-2))
    bytes_only = Composed(Changed("scale", 0.5), Changed("scale"), eight_bit=True)
    assert torch.allclose(PixelVeil(bytes_only)(x), (0.5 * x * 255).round() / 255)


def test_numbers_outside_a_picture_are_cut_before_the_second_step() -> None:
    x = torch.full((1, 3, 1, 4, 4), 0.8)
    assert torch.allclose(Composed(Changed("scale", 3.0), Changed("scale", 0.5)).transform(x), x * 0 + 0.5)


def test_either_step_and_the_rounding_change_the_hash() -> None:
    one, two = Changed("scale", 0.5), Changed("upside down")
    made = {
        Composed(one, two).content_hash(),
        Composed(two, one).content_hash(),
        Composed(one, two, True).content_hash(),
        Composed(one, one).content_hash(),
    }
    assert len(made) == 4


def test_a_source_keeps_its_anonymizer_in_front(tmp_path: object) -> None:
    empty = Dataset("none", tmp_path, ())  # type: ignore[arg-type]
    one, two = Changed("scale", 0.5), Changed("upside down")
    assert through(Clips(empty), two).anonymizer is two
    found = through(Clips(empty, anonymizer=one, eight_bit=True), two)
    assert isinstance(found.anonymizer, Composed)
    assert (found.anonymizer.first, found.anonymizer.second, found.anonymizer.eight_bit) == (one, two, True)
    assert not found.eight_bit
