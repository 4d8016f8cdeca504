"""Boxes kept on disk, so that a video is searched once: one file per video and detector.

A file belongs to the content of a video (its hash, not its name) and to a detector's identity. It is used only if it is
whole and says both; whatever else is found there is warned about and computed again. The checksum inside finds
damage, not malice: who may write into the folder decides what is covered.
"""

from __future__ import annotations

import hashlib
import json
import struct
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from videoveil import files
from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.obfuscate.boxes import Boxes, checked, checked_frame
from videoveil.anonymizers.obfuscate.detectors import Detector

FORMAT = "videoveil boxes 1"


@dataclass(frozen=True)
class VideoBoxes:
    """The boxes of every frame of a video, in pixels of pictures of this size."""

    height: int
    width: int
    frames: tuple[Boxes, ...]

    def __len__(self) -> int:
        return len(self.frames)


class BoxCache:
    """A folder of boxes."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, video: str, detector: Detector) -> Path:
        """Where the boxes of the video with this content hash lie."""
        return self.folder / f"{detector.name}-{detector.identity()[:16]}" / f"{video}.safetensors"

    def load(self, video: str, detector: Detector) -> VideoBoxes | None:
        """What is known about the video with this content hash; None, with a warning if a file is unusable."""
        path = self.path(video, detector)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return _parse(data, _claims(video, detector))
        except (ValueError, KeyError, TypeError, SafetensorError, Withheld) as error:
            warnings.warn(f"{path}: unusable boxes, they are computed again ({error})", stacklevel=2)
            return None

    def store(self, video: str, detector: Detector, boxes: VideoBoxes) -> None:
        files.write_bytes(self.path(video, detector), _serialise(boxes, _claims(video, detector)))

    def of(self, path: str | Path, detector: Detector) -> VideoBoxes:
        """The boxes of a video file, from the cache or else by decoding the video and asking the detector."""
        video = files.file_hash(path)
        known = self.load(video, detector)
        if known is None:
            known = search(path, detector)
            self.store(video, detector, known)
        return known


def search(path: str | Path, detector: Detector) -> VideoBoxes:
    """Ask the detector about every frame of a video file."""
    from videoveil.media.reader import open_video

    with open_video(path) as video:
        return search_frames((frame.image for frame in video.frames()), detector)


def search_frames(images: Iterable[np.ndarray], detector: Detector) -> VideoBoxes:
    """Ask the detector about every frame, uint8 (H, W, 3) RGB, all of one size."""
    found: list[Boxes] = []
    size: tuple[int, int] | None = None
    for index, image in enumerate(images):
        if size is not None and checked_frame(image) != size:
            raise Withheld(
                f"frame {index} is {image.shape[1]}×{image.shape[0]}, the ones before {size[1]}×{size[0]}"
            )
        size = checked_frame(image)
        found.append(checked(detector.boxes(image), detector.name))
    if size is None:
        raise Withheld("a video without frames has no boxes")
    return VideoBoxes(*size, tuple(found))


def _claims(video: str, detector: Detector) -> dict[str, str]:
    return {"format": FORMAT, "video": video, "detector": detector.identity()}


def _serialise(boxes: VideoBoxes, claims: dict[str, str]) -> bytes:
    counts = np.array([len(part) for part in boxes.frames], np.int64)
    rows = np.concatenate([np.zeros((0, 5), np.float32), *boxes.frames])
    note = {**claims, "height": str(boxes.height), "width": str(boxes.width)}
    note["checksum"] = _checksum(note, counts, rows)
    return save({"counts": counts, "boxes": rows}, metadata=note)


def _parse(data: bytes, claims: dict[str, str]) -> VideoBoxes:
    note, tensors = _note(data), load(data)
    for name, value in claims.items():
        if note.get(name) != value:
            raise ValueError(f"{name} is {note.get(name)!r}, not {value!r}")
    counts, rows = tensors["counts"], tensors["boxes"]
    if counts.dtype != np.int64 or counts.ndim != 1 or rows.dtype != np.float32 or rows.shape[1:] != (5,):
        raise ValueError(f"counts {counts.dtype} {counts.shape}, boxes {rows.dtype} {rows.shape}")
    if note["checksum"] != _checksum({k: v for k, v in note.items() if k != "checksum"}, counts, rows):
        raise ValueError("the checksum is wrong")
    if (counts < 0).any() or counts.sum() != len(rows):
        raise ValueError(f"{counts.sum()} boxes counted, {len(rows)} there")
    parts = np.split(checked(rows, "cache"), np.cumsum(counts)[:-1]) if len(counts) else []
    return VideoBoxes(int(note["height"]), int(note["width"]), tuple(np.array(part) for part in parts))


def _note(data: bytes) -> dict[str, str]:
    """The texts in a safetensors header: its length in 8 bytes, then JSON."""
    if len(data) < 8:
        raise ValueError("the file breaks off")
    (length,) = struct.unpack("<Q", data[:8])
    if length > len(data) - 8:
        raise ValueError("the header breaks off")
    header = json.loads(data[8 : 8 + length])
    return dict(header.get("__metadata__", {}))


def _checksum(note: dict[str, str], *arrays: Sequence[int] | np.ndarray) -> str:
    digest = hashlib.sha256(files.value_hash(note).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
