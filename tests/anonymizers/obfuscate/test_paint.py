"""Known boxes, painted over as frames are decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.obfuscate import BoxPainter, Obfuscator
from videoveil.data.records import Item


def painter(method: str = "blacken", what: str = "test") -> BoxPainter:
    def boxes(item: Item) -> list[np.ndarray]:
        shift = float(len(item.id))
        return [np.array([[shift + t, 2, shift + t + 4, 8, 1.0]], np.float32) for t in range(5)]

    return BoxPainter(Obfuscator(method, None), boxes, what)


def test_every_frame_is_covered_by_its_own_boxes_in_any_order() -> None:
    paint, item = painter(), Item("ab", Path("ab.mp4"), "train")
    images = np.full((5, 12, 16, 3), 200, np.uint8)
    whole = paint(item, range(5), images)
    for t in range(5):
        assert (whole[t, 2:8, 2 + t : 6 + t] == 0).all()
        outside = np.ones((12, 16), bool)
        outside[2:8, 2 + t : 6 + t] = False
        assert (whole[t][outside] == 200).all()
    assert np.array_equal(paint(item, [3, 0], images[[3, 0]]), whole[[3, 0]])


def test_a_frame_without_known_boxes_is_withheld() -> None:
    paint, item = painter(), Item("ab", Path("ab.mp4"), "train")
    with pytest.raises(Withheld, match="frame 7"):
        paint(item, [7], np.zeros((1, 12, 16, 3), np.uint8))


def test_what_is_painted_is_named_by_method_and_boxes() -> None:
    assert painter().content_hash() == painter().content_hash()
    assert len({painter(m, w).content_hash() for m in ("blacken", "weak-blur") for w in ("a", "b")}) == 4
