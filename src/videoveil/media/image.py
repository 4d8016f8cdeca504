"""Still pictures from files that nobody vouches for: upright 8-bit RGB, or one error per cause."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from videoveil.errors import ContainerNotAllowed, CorruptVideo, FrameTooLarge
from videoveil.media.limits import Limits
from videoveil.media.source import LocalFile

FORMATS = (
    "JPEG",
    "PNG",
    "WEBP",
    "BMP",
    "GIF",
    "TIFF",
    "PPM",
)  # decoded in this process, none runs another program
LIMITS = Limits(bytes=256 * 2**20, pixels=2**26)


def read_image(path: str | Path, limits: Limits = LIMITS) -> np.ndarray:
    """An image file as (H, W, 3) uint8 RGB; rotation from its metadata applied, grey, CMYK and alpha reduced.

    Only regular files of the formats above; the size is checked before a pixel is decoded.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    file = LocalFile(path, limits)
    try:
        data = io.BytesIO(file.read_at(0, file.size))
    finally:
        file.close()
    try:
        with Image.open(data, formats=FORMATS) as image:
            width, height = image.size
            if width * height > limits.pixels:
                raise FrameTooLarge(path, f"is {width}×{height}, above the limit of {limits.pixels} pixels")
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except UnidentifiedImageError:
        raise ContainerNotAllowed(path, f"is none of {', '.join(FORMATS)}") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CorruptVideo(path, f"not a whole image ({error})") from error
