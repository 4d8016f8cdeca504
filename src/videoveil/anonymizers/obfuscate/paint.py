"""Boxes that are known for every item of a dataset, painted over as its frames are decoded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from videoveil import files
from videoveil.anonymizers.obfuscate.anonymizer import Obfuscator, Painter
from videoveil.data.records import Item


class BoxPainter:
    """`Clips(dataset, paint=BoxPainter(obfuscator, boxes, "detector and data"))`.

    boxes: an item → one array (n, 5) per frame, from a detector's cache or from the theatre. `what` names where they
    come from; with the obfuscator's settings it decides what is painted.
    """

    def __init__(self, obfuscator: Obfuscator, boxes: Callable[[Item], Sequence[np.ndarray]], what: str):
        self.obfuscator, self.boxes, self.what = obfuscator, boxes, what
        self._painters: dict[str, Painter] = {}
        self._lock = threading.Lock()

    def __call__(self, item: Item, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        """uint8 (n, H, W, 3), the frames of the item with these numbers → the same, covered."""
        with self._lock:
            painter = self._painters.get(item.id)
        if painter is None:
            painter = self.obfuscator.painter(self.boxes(item), images.shape[1], images.shape[2])
            with self._lock:
                self._painters[item.id] = painter
        return painter.clip(indices, images)

    def content_hash(self) -> str:
        return files.value_hash([self.obfuscator.content_hash(), self.what])
