"""Reads videos in a process of its own: one JSON line in, one JSON line out. Run by the test of malformed files."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from videoveil.errors import VeilError
from videoveil.media.limits import Limits
from videoveil.media.reader import open_video


def corner(image: np.ndarray) -> str:
    """Which corner is bright."""
    height, width, _ = image.shape
    quarters = {
        "upper left": image[: height // 2, : width // 2],
        "upper right": image[: height // 2, width // 2 :],
        "lower left": image[height // 2 :, : width // 2],
        "lower right": image[height // 2 :, width // 2 :],
    }
    return max(quarters, key=lambda name: float(quarters[name].sum()))


def read(source: str) -> dict[str, object]:
    """Everything a user can ask of a video; the random access must agree with the run from start to end."""
    with open_video(source, limits=Limits(stall=60)) as video:
        levels, times, first, kept = [], [], None, {}
        for frame in video.frames():
            first = frame if first is None else first
            levels.append(float(frame.image.mean()))
            times.append(str(frame.time))
            if frame.index in (0, 3, 11, 12, 23):
                kept[frame.index] = frame.image
        indexed = [str(int(pts) * video.info.time_base) for pts in video.index()]
        wanted = [*reversed(kept), *kept]
        again = video.read(wanted)
        same = all((again[place] == kept[number]).all() for place, number in enumerate(wanted))
        assert first is not None
        return {
            "levels": levels,
            "times": times,
            "indexed": indexed,
            "count": video.count(),
            "declared": video.info.frames,
            "same": same,
            "size": [video.info.width, video.info.height],
            "rotation": video.info.rotation,
            "corner": corner(first.image),
        }


def main() -> None:
    for line in sys.stdin:
        source = json.loads(line)
        started = time.process_time()  # what others take of the processor does not count
        try:
            result = read(source)
        except VeilError as error:
            result = {"error": type(error).__name__, "message": str(error)}
        except Exception as error:  # reported, and fails the test
            result = {"error": f"{type(error).__module__}.{type(error).__qualname__}", "message": repr(error)}
        result["seconds"] = time.process_time() - started
        # not getrusage: its peak is inherited from the (large) process that started this one
        status = Path("/proc/self/status").read_text()
        result["peak_kib"] = int(status.split("VmHWM:")[1].split()[0])
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
