"""How videos are taken through an anonymizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from videoveil.errors import UsageError
from videoveil.media.limits import DEFAULT, Limits

EngineName = Literal["auto", "torch", "compile", "openvino"]
TRAINED, ASKED, ALL = "the size it was trained at", "asked for", "every pixel"  # what a network looks at
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")


@dataclass(frozen=True)
class Options:
    """Everything beside the anonymizer that decides what a result is, and how fast it is made."""

    size: tuple[int, int] | None = None
    """Height and width of the result; None: those of the input."""
    inner: int | None = None
    """Longest side of what a learned network looks at; its picture is enlarged again. 0: every pixel. None: the size
    that the network was trained at, and every pixel where that is not known (`inner.inner_size`)."""
    engine: EngineName = "auto"
    """Runs learned networks; "auto" measures what there is."""
    device: str = "auto"
    batch: int = 0
    """Frames that go through the anonymizer together; 0: chosen. It does not change a frame's result."""
    audio: bool = False
    """Keep the sound, as it is: voices are not anonymized."""
    crf: int = 20
    """x264's quality: lower is better and larger."""
    preset: str = "veryfast"
    threads: int = 0
    """Of the encoder; 0: its usual four, whatever the machine has, since the bytes depend on it."""
    keep_partial: bool = False
    """Keep a result that failed, its failed frames black, with `.partial` in its name."""
    least_change: float = 0.25
    """Grey levels (of 255) by which every detailed part of a picture must differ from the input, on average."""
    empty_frames: Literal["black", "keep"] = "black"
    """Frames in which a detector found nothing to cover: black, since it may have failed; or as they are."""
    queue: int = 8
    """Frames that wait between two stages, at most."""
    expect: str | None = None
    """The content hash that the anonymizer must have."""
    limits: Limits = DEFAULT

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 2):
            raise UsageError(f"size={self.size!r}: must be (height, width), both at least 2")
        if self.engine not in get_args(EngineName):
            raise UsageError(f"engine={self.engine!r}: must be one of {', '.join(get_args(EngineName))}")
        if self.preset not in PRESETS:
            raise UsageError(f"preset={self.preset!r}: must be one of {', '.join(PRESETS)}")
        if self.empty_frames not in ("black", "keep"):
            raise UsageError(f"empty_frames={self.empty_frames!r}: must be 'black' or 'keep'")
        for name, value, least, most in (
            ("batch", self.batch, 0, 4096),
            ("inner", self.inner or 0, 0, 2**14),
            ("crf", self.crf, 0, 51),
            ("threads", self.threads, 0, 64),
            ("queue", self.queue, 1, 1024),
            ("least_change", self.least_change, 0.01, 255),
        ):
            if not least <= value <= most:
                raise UsageError(f"{name}={value!r}: must be between {least} and {most}")

    def decisive(self, trained: int = 0) -> dict[str, Any]:
        """What a result depends on, JSON-able: two runs that agree in this give the same frames.

        trained: the size that the anonymizer was trained at (`inner.trained_size`), which its hash does not tell.
        """
        unset = f"trained at {trained}" if trained else 0
        return {
            "size": None if self.size is None else list(self.size),
            "inner": unset if self.inner is None else self.inner,
            "audio": self.audio,
            "crf": self.crf,
            "preset": self.preset,
            "threads": self.threads,
            "least_change": self.least_change,
            "empty_frames": self.empty_frames,
        }


DEFAULTS = Options()
