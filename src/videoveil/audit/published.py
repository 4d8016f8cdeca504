"""What leaves an anonymizer, as files: every video once, in whole frames, the way `veil anonymize` takes it.

    dataset = publish(raw, open_anonymizer("downsample:8"), Path("out/published"))

Attackers must see what would be published. On the small crops that networks are trained on, an anonymizer can hide more
than it does in whole pictures: a blur counts pixels, a detector needs the frame. So frames keep their size, a learned
network looks at the size it was trained at, people are followed from frame to frame, and a video has one draw of noise.
Frames are coded finer than they usually are, since somebody may publish them so. What an anonymizer leaves as it was is
not held back as `veil anonymize` would: an audit is there to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videoveil import files
from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.named import Untouched
from videoveil.data.records import Dataset, Item

if TYPE_CHECKING:
    from videoveil.media.reader import Frame
    from videoveil.pipeline.engines import Worker
    from videoveil.training.clip_batches import FramePainter

CRF = 8  # x264's quality; `veil anonymize` has 20
FORM = f"whole frames at their own size, 8 bits, H.264 with crf {CRF}"  # a part of the identity of results
Tell = Callable[[int, int], None]


def publish(
    dataset: Dataset,
    anonymizer: Any,
    folder: Path,
    *,
    paint: FramePainter | None = None,
    keep_empty: bool = False,
    device: str = "auto",
    tell: Tell | None = None,
) -> Dataset:
    """The dataset with anonymized files in the place of its own; what is in `folder` already is not made again.

    anonymizer: None where `paint` does it all. One that changes nothing leaves the files that there are. keep_empty:
    publish frames as they are in which a detector found nobody, which else are black.
    """
    if paint is None and (anonymizer is None or isinstance(anonymizer, Untouched)):
        return dataset
    from videoveil.pipeline.engines import Workshop

    maker = _Maker(anonymizer, paint, Workshop(), device, keep_empty)
    folder.mkdir(parents=True, exist_ok=True)
    # items may be parts of one file; of painters only the item says what is to be covered
    keys = [item.id if paint is not None else str(item.path) for item in dataset.items]
    targets = [
        folder / f"{files.value_hash(key)[:24]}{_suffix(item)}" for key, item in zip(keys, dataset.items)
    ]
    for number, (item, target) in enumerate(zip(dataset.items, targets)):
        if not target.is_file():
            (maker.picture if item.kind == "image" else maker.video)(item, target)
        if tell is not None:
            tell(number + 1, len(targets))
    items = tuple(replace(item, path=target) for item, target in zip(dataset.items, targets))
    return replace(dataset, root=folder, items=items)


def _suffix(item: Item) -> str:
    return ".png" if item.kind == "image" else ".mp4"


class _Maker:
    """Takes one file after the other through an anonymizer."""

    def __init__(self, anonymizer: Any, paint: FramePainter | None, shop: Any, device: str, keep_empty: bool):
        from videoveil.pipeline.checks import covers_parts
        from videoveil.pipeline.options import Options

        self.anonymizer, self.paint, self.shop = anonymizer, paint, shop
        # one engine, whatever is fastest today: the last bits of what is found depend on it
        self.options = Options(engine="torch", device=device)
        self.black_if_unchanged = covers_parts(anonymizer) and not keep_empty

    def video(self, item: Item, target: Path) -> None:
        from videoveil.media.reader import open_video
        from videoveil.media.writer import VideoWriter

        with open_video(item.path) as video:
            info = video.info
            worker = self._worker((info.height, info.width), info.frames)
            content = self._content(item)
            with VideoWriter(
                target,
                width=info.width,
                height=info.height,
                time_base=info.time_base,
                rate=info.rate,
                sample_aspect=info.sample_aspect.limit_denominator(10_000),
                crf=CRF,
            ) as writer:
                for frames in _batches(video.frames(), 1 if worker is None else worker.batch):
                    indices = [frame.index for frame in frames]
                    made = self._through(item, indices, [frame.image for frame in frames], worker, content)
                    for frame, image in zip(frames, made):
                        writer.write(image, frame.time)

    def picture(self, item: Item, target: Path) -> None:
        from PIL import Image

        from videoveil.media.image import read_image

        image = read_image(item.path).copy()
        worker = self._worker(image.shape[:2], 1)
        (made,) = self._through(item, [0], [image], worker, self._content(item))
        with files.atomic_path(target) as temporary:
            Image.fromarray(made).save(temporary, format="PNG")

    def _worker(self, size: tuple[int, ...], frames: int | None) -> Worker | None:
        if self.anonymizer is None:
            return None
        made: Worker = self.shop.worker(self.anonymizer, (size[0], size[1]), frames, self.options)
        return made

    def _content(self, item: Item) -> str | None:
        return files.file_hash(item.path) if getattr(self.anonymizer, "wants_content", False) else None

    def _through(
        self,
        item: Item,
        indices: Sequence[int],
        images: Sequence[np.ndarray],
        worker: Worker | None,
        content: str | None,
    ) -> list[np.ndarray]:
        """(H, W, 3) uint8 each → the same."""
        from videoveil.pipeline.checks import not_a_picture

        if self.paint is not None:
            images = list(self.paint(item, indices, np.stack(images)))
        if worker is None:
            return list(images)
        made = worker(images, content)
        for index, raw, one in zip(indices, images, made, strict=True):
            if problem := not_a_picture(one, raw.shape):
                raise Withheld(f"{item.path}: frame {index} {problem}")
        # as `veil anonymize` does without `--keep-empty` where nothing was found to cover
        return [
            np.zeros_like(raw) if self.black_if_unchanged and np.array_equal(raw, one) else one
            for raw, one in zip(images, made)
        ]


def _batches(frames: Iterator[Frame], size: int) -> Iterator[list[Frame]]:
    while batch := list(islice(frames, size)):
        yield batch
