"""People covered where the papers cover them: in whole frames, before anything is cut or made smaller.

Photographs are looked at and covered with a short side of 512, so that a kernel of so many pixels is as large against
the picture as theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from videoveil import files

if TYPE_CHECKING:
    from videoveil.anonymizers.obfuscate.cache import VideoBoxes
    from videoveil.anonymizers.obfuscate.detectors import Detector
    from videoveil.data.records import Item

PHOTOGRAPH = 512  # short side


class PeoplePainter:
    """For `Clips(paint=…)`: every file is searched once, and where its people are is kept in `folder`, where given."""

    def __init__(self, method: str, detector: Detector, folder: Path | None = None):
        from videoveil.anonymizers.obfuscate import BoxPainter, Obfuscator
        from videoveil.anonymizers.obfuscate.cache import BoxCache

        self.detector = detector
        self._cover = Obfuscator(method, None)
        self._video = BoxPainter(self._cover, lambda item: self._search(item).frames, detector.identity())
        self._cache = None if folder is None else BoxCache(folder)
        self._photographs: dict[str, VideoBoxes] = {}
        self._lock = threading.Lock()  # one search at a time: a detector need not be made for threads

    def __call__(self, item: Item, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        """uint8 (n, H, W, 3), the frames of the item with these numbers → the same, covered."""
        if item.kind == "video":
            return self._video(item, indices, images)
        return np.stack([self._photograph(item, image) for image in images])

    def content_hash(self) -> str:
        return files.value_hash([self._video.content_hash(), PHOTOGRAPH])

    def _photograph(self, item: Item, image: np.ndarray) -> np.ndarray:
        import cv2

        height, width = image.shape[:2]
        scale = PHOTOGRAPH / min(height, width)
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        scaled = cv2.resize(image, (round(width * scale), round(height * scale)), interpolation=how)
        boxes = self._search(item, scaled)
        covered = self._cover.painter(boxes.frames, boxes.height, boxes.width).frame(0, scaled)
        how = cv2.INTER_LINEAR if scale < 1 else cv2.INTER_AREA
        return np.asarray(cv2.resize(covered, (width, height), interpolation=how))

    def _search(self, item: Item, scaled: np.ndarray | None = None) -> VideoBoxes:
        """Where people are in every frame of a video, or in a photograph as it was scaled."""
        from videoveil.anonymizers.obfuscate.cache import search, search_frames

        with self._lock:
            if scaled is None:
                return (
                    search(item.path, self.detector)
                    if self._cache is None
                    else self._cache.of(item.path, self.detector)
                )
            if item.id not in self._photographs:
                name = f"{files.file_hash(item.path)}-{PHOTOGRAPH}"
                known = None if self._cache is None else self._cache.load(name, self.detector)
                if known is None:
                    known = search_frames([scaled], self.detector)
                    if self._cache is not None:
                        self._cache.store(name, self.detector, known)
                self._photographs[item.id] = known
            return self._photographs[item.id]
