"""Still pictures: any image file as upright 8-bit RGB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from videoveil.errors import CorruptVideo


def read_image(path: str | Path) -> np.ndarray:
    """An image file as (H, W, 3) uint8 RGB; rotation from its metadata applied, grey, CMYK and alpha reduced."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CorruptVideo(path, f"not a readable image ({error})") from error
