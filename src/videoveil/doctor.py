"""`veil doctor`: what is installed, which devices and codecs there are, and what really works, by trying it."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "torchvision",
    "numpy",
    "safetensors",
    "av",
    "opencv-python-headless",
    "transformers",
    "lightning",
)
EXTRAS = {
    "ray": "ray",
    "serve": "fastapi",
    "openvino": "openvino",
    "detect": "onnxruntime",
    "dev": "pytest",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried."""

    name: str
    works: bool
    detail: str


def diagnose() -> dict[str, Any]:
    """Versions, devices and the outcome of every check, as plain values."""
    checks = [_try(name, check) for name, check in _CHECKS.items()]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "extras": {extra: _version(package) for extra, package in EXTRAS.items()},
        "checks": [asdict(check) for check in checks],
        "works": all(check.works for check in checks),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _try(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except Exception as error:  # a doctor reports every ailment instead of dying of the first
        return Check(name, False, f"{type(error).__name__}: {error}")


def _devices() -> str:
    import torch

    found = [f"cpu ({torch.get_num_threads()} threads)"]
    found += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    return ", ".join(found)


def _torchvision() -> str:
    from videoveil import _torchvision as shim

    patched = (
        "" if shim._LIBRARY is None else " (built for another torch; its compiled operators are not needed)"
    )
    return f"{shim.torchvision.__version__}{patched}"


def _codecs() -> str:
    import av.codec

    names = ("h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg")
    return "decodes " + ", ".join(name for name in names if name in av.codec.codecs_available)


def _video_round_trip() -> str:
    import numpy as np

    from videoveil.media.reader import open_video
    from videoveil.media.writer import VideoWriter

    rate = Fraction(25)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "check.mp4"
        with VideoWriter(path, width=64, height=48, time_base=1 / rate, rate=rate) as writer:
            for i in range(10):
                writer.write(np.full((48, 64, 3), 20 * i, dtype=np.uint8), i / rate)
        with open_video(path) as video:
            times = [frame.time for frame in video.frames()]
    if times != [i / rate for i in range(10)]:
        raise RuntimeError(f"10 frames written, {len(times)} read back with times {times[:3]}…")
    return "H.264 in mp4 written and read back, times exact"


def _encoder() -> str:
    import torch

    from videoveil.encoders.registry import create

    encoder = create("tiny")
    spec = encoder.input
    with torch.inference_mode():
        out = encoder(torch.rand(1, 3, spec.frames, spec.size, spec.size))
    if out.shape != (1, encoder.width) or not torch.isfinite(out).all():
        raise RuntimeError(f"tiny gave {tuple(out.shape)}")
    return f"tiny: one clip of {spec.frames}×{spec.size}² gives {encoder.width} features"


def _theatre() -> str:
    from videoveil.data.theatre import playwright, stage
    from videoveil.data.theatre.cast import identity

    play = playwright.trimmed("doctor", action="walk", person=identity(0, 0), frames=4)
    shape = stage.clip(play).shape
    return f"renders {shape[0]} frames of {shape[2]}×{shape[1]}"


_CHECKS: dict[str, Callable[[], str]] = {
    "devices": _devices,
    "torchvision": _torchvision,
    "codecs": _codecs,
    "video": _video_round_trip,
    "encoder": _encoder,
    "theatre": _theatre,
}
