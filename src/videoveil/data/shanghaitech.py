"""ShanghaiTech Campus, weakly supervised split: 238 training videos, 199 test videos.

    ROOT/SH_Train.txt, ROOT/SH_Test.txt       one video name per line, e.g. 01_0014
    ROOT/test_frame_mask/<name>.npy           one 0/1 per frame, for every abnormal video (107)
    ROOT/videos/<name>.avi                    (or training/videos/, testing/videos/, ROOT itself)

A name with four digits after the underscore is abnormal, with three normal. The original release has its test videos
as folders of pictures: join each into a video with its name first (25 frames per second).
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np

from videoveil.data.reading import Complaints, MediaFinder, assemble, numbered_lines, read_text
from videoveil.data.records import Dataset, FrameSpan, Item

OFFICIAL = {"": {"train": 238, "test": 199}}
_NAME = re.compile(r"\d{2}_(\d{3,4})")


def mask_spans(mask: np.ndarray) -> tuple[FrameSpan, ...]:
    """Runs of ones."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (mask != 0).astype(np.int8), [0]))))
    return tuple(FrameSpan(int(first), int(stop)) for first, stop in edges.reshape(-1, 2))


def parse_list(text: str, path: Path, complaints: Complaints) -> list[tuple[str, bool]]:
    """(name, abnormal) per line."""
    found = []
    for line, row in numbered_lines(text):
        match = _NAME.fullmatch(row)
        if match is None:
            complaints.add(path, line, f"expected a name such as 01_0014 or 01_002, found {row!r}")
        else:
            found.append((row, len(match.group(1)) == 4))
    return found


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    items = []
    for split in ("train", "test"):
        path = root / f"SH_{split.title()}.txt"
        for name, abnormal in parse_list(read_text(path), path, complaints):
            mask = _mask(root / "test_frame_mask" / f"{name}.npy", complaints) if abnormal else None
            extra = {} if mask is None else {"mask_frames": str(len(mask))}
            spans = () if mask is None else mask_spans(mask)
            if abnormal and mask is not None and not spans:
                complaints.add(path, None, f"{name}: abnormal, but no frame of its mask is 1")
            items.append(
                Item(name, Path(f"{name}.avi"), split, anomaly=abnormal, anomaly_spans=spans, extra=extra)
            )
    complaints.settle("shanghaitech")
    folders = (root / name for name in ("videos", "training/videos", "testing/videos"))
    finder = None if annotations_only else MediaFinder(*folders, root)
    return assemble("shanghaitech", root, items, finder=finder, skip_bad=skip_bad)


def _mask(path: Path, complaints: Complaints) -> np.ndarray | None:
    try:
        mask = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        complaints.add(path, None, "missing; every abnormal video needs its mask")
        return None
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        complaints.add(path, None, f"not a readable array ({error})")
        return None
    if not isinstance(mask, np.ndarray) or mask.ndim != 1 or not np.isin(mask, (0, 1)).all():
        what = f"shape {mask.shape}" if isinstance(mask, np.ndarray) else "an archive"
        complaints.add(path, None, f"expected a row of 0 and 1, found {what}")
        return None
    return mask
