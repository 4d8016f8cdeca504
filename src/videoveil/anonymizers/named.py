"""Every anonymizer by what a user types.

open_anonymizer("downsample:4")            the whole picture
open_anonymizer("blur-faces")              what a detector finds
open_anonymizer("blacken-faces+veil-pixel") what a detector finds, then the whole picture
open_anonymizer("veil-pixel")              what comes with the package (`videoveil.shipped`)
open_anonymizer("runs/spact")              a folder that `veil train` wrote, or a hub id ORG/NAME
open_anonymizer("mosaic.py")               a Python file of one's own (`anonymizers.own`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from videoveil import own_file, shipped
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.obfuscate.blur import STRONG, WEAK
from videoveil.anonymizers.obfuscate.whole import Downsampler, WholeBlur
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.anonymizers.keys import NoiseKey
    from videoveil.anonymizers.obfuscate import Obfuscator
    from videoveil.anonymizers.obfuscate.detectors import Detector

MARGIN = 0.1  # how much boxes of a detector grow on each side: detectors cut hair and hands off


class Untouched(Classical):
    """Changes nothing: an audit that lets this pass is worth nothing."""

    kind = "identity"

    def transform_frames(self, frames: Tensor) -> Tensor:
        return frames.clone()

    def settings(self) -> Mapping[str, Any]:
        return {}


class BlackFrames(Classical):
    """Leaves nothing: perfectly private and of no use."""

    kind = "black"

    def transform_frames(self, frames: Tensor) -> Tensor:
        return torch.zeros_like(frames)

    def settings(self) -> Mapping[str, Any]:
        return {}


WHOLE: dict[str, Callable[[], Classical]] = {
    "identity": Untouched,
    "black": BlackFrames,
    "blur": lambda: WholeBlur(STRONG),
    "weak-blur": lambda: WholeBlur(WEAK),
}
FOUND = {  # name → (method, what the detector must find)
    f"{name}-{covers}": (method, covers)
    for name, method in (("blacken", "blacken"), ("blur", "strong-blur"), ("weak-blur", "weak-blur"))
    for covers in ("people", "faces")
}
NAMES = (*WHOLE, "downsample:FACTOR", *FOUND, "FOUND+OTHER", "FILE.py")
DETECTORS = ("hog", "centerface", "centerface:FILE", "yolo:FILE", "yunet:FILE")


def open_anonymizer(
    source: str,
    *,
    key: NoiseKey | None = None,
    detector: Detector | None = None,
    fail_closed: bool = False,
) -> Any:
    """An obfuscation by name, or whatever anonymizer a run folder or the hub has.

    key: the secret of anonymizers that add noise. detector and fail_closed: of those that cover what is found; people
    are followed from frame to frame, and with `fail_closed` a frame in which one is lost becomes black, and so do all
    after it until that person is found again, or has walked out.
    """
    cover, plus, then = source.partition("+")
    if cover in FOUND and plus:
        from videoveil.anonymizers.obfuscate import Layered

        return Layered(_obfuscator(cover, detector, fail_closed), open_anonymizer(then, key=key))
    if source in FOUND:
        return _obfuscator(source, detector, fail_closed)
    if detector is not None or fail_closed:
        raise UsageError(
            f"anonymizer {source!r} asks no detector; a detector and fail_closed belong to {', '.join(FOUND)}"
        )
    word, _, value = source.partition(":")
    if word == "downsample" and value:
        try:
            return Downsampler(float(value))
        except ValueError:
            raise UsageError(
                f"anonymizer {source!r}: the factor must be a number, as in downsample:4"
            ) from None
    if source in WHOLE:
        return WHOLE[source]()
    if own_file.is_own(source):
        from videoveil.anonymizers.own import open_own

        return open_own(source)
    from videoveil.anonymizers.publish import load

    if source in shipped.names():
        return load(shipped.folder(source), key=key)
    if not source or (not Path(source).is_dir() and "/" not in source):
        known = (*shipped.names(), *NAMES)
        raise UsageError(f"anonymizer {source!r}: neither {', '.join(known)} nor a folder or hub id")
    return load(source, key=key)


def open_detector(text: str) -> Detector:
    """A detector by name; those that need a file take it after a colon: `yolo:yolov5x.onnx`."""
    from videoveil.anonymizers.obfuscate import CenterFace, Hog, YoloOnnx, YuNet

    word, _, file = text.partition(":")
    if word == "hog" and not file:
        return Hog()
    if word == "centerface":
        return CenterFace(file or None)
    if word in ("yolo", "yunet") and file:
        return YoloOnnx(file) if word == "yolo" else YuNet(file)
    raise UsageError(f"detector {text!r}: must be one of {', '.join(DETECTORS)}")


def _obfuscator(source: str, detector: Detector | None, fail_closed: bool) -> Obfuscator:
    from videoveil.anonymizers.obfuscate import Obfuscator, Tracking

    method, covers = FOUND[source]
    if detector is None:
        detector = open_detector("hog" if covers == "people" else "centerface")
    if detector.covers != covers:
        raise UsageError(
            f"anonymizer {source!r} covers {covers}, the detector {detector.name} finds {detector.covers}"
        )
    tracker = None if fail_closed else Tracking()  # whoever fails closed gives nobody up
    return Obfuscator(method, detector, margin=MARGIN, fail_closed=fail_closed, tracker=tracker)
