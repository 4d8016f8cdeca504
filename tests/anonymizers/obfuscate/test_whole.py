"""Anonymizers of the whole picture keep the contract of all anonymizers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from videoveil.anonymizers import NotExportable, ShapeMismatch, Withheld, require_exportable
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.obfuscate.blur import WEAK
from videoveil.anonymizers.obfuscate.whole import Downsampler, WholeBlur
from videoveil.anonymizers.pixel.frames import to_frames

ALL = [Downsampler(2), Downsampler(4, mode="bilinear"), Downsampler(3), WholeBlur(), WholeBlur(WEAK)]


def pictures(*shape: int, seed: int = 0) -> list[Tensor]:
    x = torch.rand(*shape, generator=torch.Generator().manual_seed(seed))
    return [x, (x * 255).to(torch.uint8), x.half()]


@pytest.mark.parametrize("anonymizer", ALL)
def test_shape_and_type_stay_and_the_picture_changes(anonymizer: Classical) -> None:
    for shape in ((2, 3, 17, 23), (1, 3, 4, 16, 12), (1, 3, 1, 1), (2, 3, 5, 3)):
        for x in pictures(*shape):
            before = x.clone()
            out = anonymizer(x)
            assert (out.shape, out.dtype) == (x.shape, x.dtype)
            assert torch.equal(x, before)
            if min(shape[-2:]) > 4:
                assert (out.float() - x.float()).abs().mean() > 0.02 * float(x.float().max())


@pytest.mark.parametrize("anonymizer", ALL)
def test_a_frame_alone_is_bit_for_bit_the_frame_in_a_batch_and_in_a_clip(anonymizer: Classical) -> None:
    for clips in pictures(2, 3, 5, 19, 22):
        out = anonymizer(clips)
        frames = anonymizer(to_frames(clips))
        for n in range(2):
            for t in range(5):
                alone = anonymizer(clips[n, :, t][None])[0]
                assert torch.equal(alone, out[n, :, t])
                assert torch.equal(alone, frames[5 * n + t])


@pytest.mark.parametrize("anonymizer", ALL)
def test_the_batched_way_is_the_checked_way(anonymizer: Classical) -> None:
    for x in pictures(2, 3, 4, 19, 22):
        torch.testing.assert_close(
            anonymizer.transform(x), anonymizer(x), atol=1 if x.dtype == torch.uint8 else 1e-6, rtol=0
        )


def test_content_names_change_nothing_and_no_gradient_is_kept() -> None:
    x = torch.rand(2, 3, 8, 8, requires_grad=True)
    for anonymizer in ALL:
        out = anonymizer(x, content=["a", "b"])
        assert torch.equal(out, anonymizer(x))
        assert not out.requires_grad
        assert anonymizer.transform(x).requires_grad


@pytest.mark.parametrize("anonymizer", [Downsampler(2), WholeBlur()])
def test_what_is_not_a_picture_is_refused_and_nothing_comes_out(anonymizer: Classical) -> None:
    good = torch.rand(1, 3, 8, 8)
    for bad in (good[0], torch.rand(1, 4, 8, 8), good.int()):
        with pytest.raises(ShapeMismatch):
            anonymizer(bad)
    for bad in (good * 2, good - 0.5):
        with pytest.raises(Withheld, match="anonymize before normalising"):
            anonymizer(bad)
    for value in (float("nan"), float("inf")):
        broken = good.clone()
        broken[0, 0, 3, 3] = value
        with pytest.raises(Withheld, match="before anonymization"):
            anonymizer(broken)


def test_no_frames_in_no_frames_out() -> None:
    assert WholeBlur()(torch.zeros(0, 3, 8, 8)).shape == (0, 3, 8, 8)
    assert Downsampler(2)(torch.zeros(2, 3, 0, 8, 8, dtype=torch.uint8)).shape == (2, 3, 0, 8, 8)


class Breaks(Classical):
    kind = "breaks"

    def __init__(self, error: Exception | None):
        super().__init__()
        self.error = error

    def transform_frames(self, frames: Tensor) -> Tensor:
        if self.error is not None:
            raise self.error
        return frames * float("nan")


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), MemoryError(), ValueError("x"), None])
def test_on_any_failure_the_output_is_withheld(error: Exception | None) -> None:
    with pytest.raises(Withheld, match="nothing is given out"):
        Breaks(error)(torch.rand(1, 3, 4, 4))


def test_small_pictures_are_for_networks_and_not_for_export() -> None:
    small = Downsampler(4, restore=False)
    assert small(torch.rand(1, 3, 112, 112)).shape == (1, 3, 28, 28)
    assert small.transform(torch.rand(2, 3, 4, 56, 56)).shape == (2, 3, 4, 14, 14)
    assert not small.exportable
    with pytest.raises(NotExportable, match="restore=False"):
        require_exportable(small)
    for anonymizer in ALL:
        require_exportable(anonymizer)


def test_other_settings_have_another_hash() -> None:
    kinds = [*ALL, Downsampler(2, mode="bilinear"), Downsampler(2, restore=False)]
    assert len({anonymizer.content_hash() for anonymizer in kinds}) == len(kinds)
    assert Downsampler(2).content_hash() == Downsampler(2.0).content_hash()
