"""Classical obfuscation: blur or blacken people where boxes say they are, and read what the report admits.

python examples/obfuscate.py FOLDER

The people are actors of the theatre, whose boxes are known for every frame: the best that any detector could do. For
your own videos give `Obfuscator` a detector (`YoloOnnx("yolov5x.onnx")`, `Hog()`, `CenterFace()`) in place of boxes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from videoveil.anonymizers.obfuscate import METHODS, Obfuscator
from videoveil.data import registry, twins
from videoveil.data.twins.people import lead_boxes
from videoveil.media.reader import Frame, VideoInfo, open_video
from videoveil.media.writer import VideoWriter
from videoveil.report.strips import progression

MARGIN = 0.05  # of a box, on each side: compression carries colours a little beyond it
BLIND = range(12, 15)  # frames in which the last example's detector finds nobody


def read(path: Path) -> tuple[VideoInfo, list[Frame]]:
    with open_video(path) as video:
        return video.info, list(video.frames())


def write(path: Path, facts: VideoInfo, frames: list[Frame], images: list[np.ndarray]) -> None:
    """The same times; a file appears only when all frames are in it."""
    size = {"width": facts.width, "height": facts.height}
    with VideoWriter(path, **size, time_base=facts.time_base, rate=facts.rate) as writer:
        for frame, image in zip(frames, images, strict=True):
            writer.write(image, frame.time)


def main(folder: Path) -> None:
    twins.make("vphmdb", folder / "twin", size="tiny", processes=2)
    item = registry.load("vphmdb", folder / "twin").split("test")[0]
    boxes = lead_boxes("vphmdb", folder / "twin")(item)
    facts, frames = read(item.path)
    raw = [frame.image for frame in frames]
    shown = {}
    for method in METHODS:
        obfuscator = Obfuscator(method, None, margin=MARGIN)
        shown[method] = list(obfuscator.frames(iter(raw), boxes=iter(boxes)))
        write(folder / f"{method}.mp4", facts, frames, shown[method])
        print(f"{method}.mp4: {obfuscator.report()}\n")

    # a detector that loses somebody for three frames: people are followed, and what is not sure is black
    missing = [boxes[0][:0] if number in BLIND else found for number, found in enumerate(boxes)]
    closed = Obfuscator("strong-blur", None, margin=MARGIN, fail_closed=True)
    shown["fail closed"] = list(closed.frames(iter(raw), boxes=iter(missing)))
    write(folder / "fail-closed.mp4", facts, frames, shown["fail closed"])
    print(f"fail-closed.mp4: {closed.report()}\n")
    rows = {name: np.stack(images) for name, images in shown.items()}
    progression(np.stack(raw), rows).write(folder / "obfuscated.png")
    print(f"raw and obfuscated, every second frame: {folder / 'obfuscated.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "obfuscated"))
