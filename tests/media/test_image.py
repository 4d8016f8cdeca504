"""Image files: any mode comes out as upright RGB, and every bad one has its own error."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from videoveil.errors import ContainerNotAllowed, CorruptVideo, EmptyFile, FrameTooLarge, MissingFile
from videoveil.media.image import read_image
from videoveil.media.limits import Limits


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1", "CMYK"])
def test_every_mode_becomes_rgb(mode: str, tmp_path: Path) -> None:
    path = tmp_path / ("x.jpg" if mode == "CMYK" else "x.png")
    Image.new(mode, (30, 20)).save(path)
    image = read_image(path)
    assert image.shape == (20, 30, 3)
    assert image.dtype == np.uint8


def test_rotation_in_the_metadata_is_applied(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 20))
    exif = image.getexif()
    exif[0x0112] = 6  # turned by 90°
    image.save(tmp_path / "x.jpg", exif=exif)
    assert read_image(tmp_path / "x.jpg").shape == (40, 20, 3)


def test_every_cause_has_its_own_error_and_nothing_hangs(tmp_path: Path) -> None:
    whole = tmp_path / "whole.png"
    Image.effect_noise((64, 64), 50).save(whole)
    cut = tmp_path / "cut.png"
    cut.write_bytes(whole.read_bytes()[:2000])
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("hello")
    (tmp_path / "program.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")
    os.mkfifo(tmp_path / "pipe.jpg")
    causes = {
        "nothing.jpg": MissingFile,
        "pipe.jpg": MissingFile,
        "empty.jpg": EmptyFile,
        "text.jpg": ContainerNotAllowed,
        "program.jpg": ContainerNotAllowed,  # PostScript would be run, not decoded
        "cut.png": CorruptVideo,
    }
    for name, cause in causes.items():
        with pytest.raises(cause, match=name):
            read_image(tmp_path / name)


def test_size_is_checked_before_decoding(tmp_path: Path) -> None:
    Image.new("1", (3000, 3000)).save(tmp_path / "wide.png")
    with pytest.raises(FrameTooLarge, match="3000×3000"):
        read_image(tmp_path / "wide.png", Limits(pixels=1_000_000))
