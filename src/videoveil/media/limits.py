"""How much one media file may ask for before it is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields

from videoveil.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Ceilings for one file; the defaults let ordinary recordings pass and stop bombs.

    Everything a file *declares* is held against these before a picture is decoded, and what really comes out of the
    decoder is held against them again. Live streams are held only to the per-frame ceilings and to `stall`: they may
    run for ever.
    """

    bytes: int = 64 * 2**30
    """Size of the file."""
    duration: int = 24 * 3600
    """Seconds from the first to the last frame."""
    frames: int = 10_000_000
    """Number of frames, and of samples that a container's tables may describe."""
    pixels: int = 2**24
    """Width times height. 4K and 5K pass; 8K (7680 × 4320) must be allowed, as a decoder may keep 16 pictures of it."""
    frame_bytes: int = 512 * 2**20
    """Memory of one decoded picture together with its RGB copy."""
    stall: float = 30.0
    """Seconds in which neither a packet nor a frame came out."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise UsageError(f"limit {field.name}={value!r}: must be above zero")


DEFAULT = Limits()
