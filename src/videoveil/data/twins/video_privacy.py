"""What the VPUCF and VPHMDB twins share: five video-level attributes from the play, and their pickle."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np

from videoveil.data.theatre.play import Play, attribute_spans
from videoveil.data.video_privacy import ATTRIBUTES


def video_labels(play: Play) -> dict[str, int]:
    """Present anywhere in the video, 0/1, in the files' column order."""
    spans = attribute_spans(play)
    return {name: int(any(any(span.values[name]) for span in spans)) for name in ATTRIBUTES}


def label_pickle(labels: Mapping[str, Mapping[str, int]]) -> bytes:
    """`"<Class>/<stem>.mp4"` → int64 array of shape (1, 5)."""
    arrays = {name: np.array([list(values.values())], dtype=np.int64) for name, values in labels.items()}
    return pickle.dumps(arrays, protocol=4)
