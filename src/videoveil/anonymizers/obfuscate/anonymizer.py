"""Obfuscation of people: find them in every frame, cover what was found, and say what that is worth.

    obfuscator = Obfuscator("blacken", YoloOnnx("yolov5x.onnx"), fail_closed=True)
    for image in obfuscator.frames(frame.image for frame in video.frames()):
        write(image)
    print(obfuscator.report())

Three ways in, one way of painting:
    `frames`    a video as a stream, people followed from frame to frame: the way for files and live pictures
    `painter`   a video whose boxes are known already (from a cache, or the truth), any frame in any order
    `forward`   tensors of frames or clips, as networks take them; every clip is a short stream of its own

The papers find the boxes at the resolution of the source and obfuscate there, before any crop or resize.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from videoveil.anonymizers.errors import ShapeMismatch, Withheld
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.obfuscate.blacken import Blacken
from videoveil.anonymizers.obfuscate.blur import STRONG, WEAK
from videoveil.anonymizers.obfuscate.boxes import Boxes, Rectangle, checked, checked_frame, rectangles
from videoveil.anonymizers.obfuscate.detectors import Detector
from videoveil.anonymizers.obfuscate.report import ObfuscationReport, Tally
from videoveil.anonymizers.obfuscate.tracking import Tracker, Tracking, fill_gaps
from videoveil.errors import UsageError, VeilError


class Method(Protocol):
    """A way of covering rectangles of a frame; a frozen dataclass, whose fields are its settings."""

    @property
    def kind(self) -> str: ...

    def cover(self, frame: Tensor, rectangles: Sequence[Rectangle]) -> Tensor:
        """(3, H, W), uint8 or float in [0, 1] → a new tensor of the same type; outside, every bit is as before."""
        ...


METHODS: dict[str, Method] = {"blacken": Blacken(), "strong-blur": STRONG, "weak-blur": WEAK}


@dataclass(frozen=True)
class FramePlan:
    """What is to be done to one frame: cover these, or the whole of it."""

    covered: Boxes
    black: bool = False


class Obfuscator(Classical):
    """Covers people by a `method` ("blacken", "strong-blur", "weak-blur", or a `Method`) where a `detector` finds them.

    margin: how much every box grows on each side, as a share of its size.
    tracker: follow people; where one is lost, the place where they are expected is covered too, and the report tells.
    fail_closed: blacken the whole frame in which a followed person is lost (people are then followed in any case).
        Without a `tracker` of one's own frames stay black until that person is found again, for the rest of the video
        if need be; being behind others excuses nobody, and who walks out is lost until expected outside the picture.
    detector: may be None where every video's boxes are given.
    """

    kind: ClassVar[str] = "obfuscate"

    def __init__(
        self,
        method: str | Method,
        detector: Detector | None,
        *,
        margin: float = 0.0,
        fail_closed: bool = False,
        tracker: Tracking | None = None,
    ):
        super().__init__()
        if isinstance(method, str):
            if method not in METHODS:
                raise UsageError(f"method {method!r}: choose one of {', '.join(METHODS)}")
            method = METHODS[method]
        if not 0 <= margin < float("inf"):
            raise UsageError(f"margin={margin} must be at least 0")
        self.method, self.detector, self.margin = method, detector, margin
        self.fail_closed = fail_closed
        self.tracker = tracker or (Tracking(max_age=None, excused=False) if fail_closed else None)
        self._tally = Tally()

    # --- streams ----------------------------------------------------------------------------------------------

    def frames(
        self, images: Iterable[np.ndarray], *, boxes: Iterable[np.ndarray] | None = None
    ) -> Iterator[np.ndarray]:
        """Frames of one video in order, each uint8 (H, W, 3) RGB → the same, one at a time.

        boxes: those of every frame, where they are known; the detector is not asked then. Whatever fails, no frame
        comes out any more.
        """
        self._tally = Tally()
        return self._stream(images, boxes, self._tally)

    def _stream(
        self, images: Iterable[np.ndarray], boxes: Iterable[np.ndarray] | None, tally: Tally
    ) -> Iterator[np.ndarray]:
        known = None if boxes is None else iter(boxes)
        planner = _Planner(self, tally)
        for index, image in enumerate(images):
            yield self._one(planner, image, known, index)
        if known is not None and next(known, None) is not None:
            raise Withheld(
                f"there are boxes for more frames than the {tally.frames} of the video: they are of another video"
            )

    def _one(
        self, planner: _Planner, image: np.ndarray, known: Iterator[np.ndarray] | None, index: int
    ) -> np.ndarray:
        height, width = checked_frame(image)
        try:
            if known is None:
                found = self._detect(image)
            elif (given := next(known, None)) is not None:
                found = checked(given, f"frame {index}")
            else:
                raise Withheld(
                    f"frame {index} has no boxes, not even an empty list; they are of another video"
                )
            return self._paint_image(image, planner.plan(found, height, width))
        except VeilError:
            raise
        except Exception as error:
            raise Withheld(f"frame {index}: obfuscation failed, nothing is given out: {error}") from error

    def painter(
        self, boxes: Sequence[np.ndarray], height: int, width: int, *, longest_gap: int = 0
    ) -> Painter:
        """Any frame of a video whose boxes are known, one array (n, 5) per frame.

        longest_gap: gaps of up to so many frames are filled by straight lines between the boxes before and after.
        """
        known = [checked(part, f"frame {index}") for index, part in enumerate(boxes)]
        if longest_gap:
            known = fill_gaps(known, height, width, longest=longest_gap, settings=self.tracker)
        tally = Tally()
        planner = _Planner(self, tally)
        plans = [planner.plan(part, height, width) for part in known]
        return Painter(self, plans, (height, width), self._report(tally))

    # --- tensors ----------------------------------------------------------------------------------------------

    def transform_frames(self, frames: Tensor) -> Tensor:
        """(N, 3, H, W) → every frame by itself; nobody is followed."""
        return self._tensors(frames, Tally())

    def transform(self, x: Tensor) -> Tensor:
        return self._tensors(x, Tally())

    def _checked_way(self, x: Tensor) -> Tensor:
        if self.fail_closed and x.dim() == 4:
            raise ShapeMismatch(
                "fail_closed follows people from frame to frame: give clips (N, 3, T, H, W), or use frames()"
            )
        self._tally = Tally()
        return self._tensors(x, self._tally)

    def _tensors(self, x: Tensor, tally: Tally) -> Tensor:
        """Frames one by one; clips each as a stream of its own, so that neither depends on the others."""
        if x.dim() == 4:
            alone = _Planner(self, tally, follow=False)
            return torch.stack([self._through(frame, alone) for frame in x])
        clips = []
        for clip in x:
            planner = _Planner(self, tally)
            clips.append(torch.stack([self._through(frame, planner) for frame in clip.unbind(1)], 1))
        return torch.stack(clips)

    def _through(self, frame: Tensor, planner: _Planner) -> Tensor:
        plan = planner.plan(self._detect(_as_image(frame)), *frame.shape[-2:])
        return self._paint(frame, plan)

    # --- painting ---------------------------------------------------------------------------------------------

    def _detect(self, image: np.ndarray) -> Boxes:
        if self.detector is None:
            raise UsageError("this obfuscator has no detector: give one, or the boxes of every frame")
        return checked(self.detector.boxes(image), self.detector.name)

    def _paint(self, frame: Tensor, plan: FramePlan) -> Tensor:
        """(3, H, W) → a new tensor."""
        if plan.black:
            return torch.zeros_like(frame)
        height, width = frame.shape[-2:]
        return self.method.cover(frame, rectangles(plan.covered, height, width, self.margin))

    def _paint_image(self, image: np.ndarray, plan: FramePlan) -> np.ndarray:
        planes = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
        return self._paint(planes, plan).permute(1, 2, 0).contiguous().numpy()

    # --- facts ------------------------------------------------------------------------------------------------

    def report(self) -> ObfuscationReport:
        """What happened in the last `frames` (so far) or `forward`; there, frames are counted clip after clip."""
        return self._report(self._tally)

    def _report(self, tally: Tally) -> ObfuscationReport:
        detector = (
            ("given boxes", "people") if self.detector is None else (self.detector.name, self.detector.covers)
        )
        on_lost = "blacken" if self.fail_closed else "expected" if self.tracker else "unfollowed"
        return tally.report(self.method.kind, *detector, on_lost)

    def settings(self) -> Mapping[str, Any]:
        method: Any = self.method
        return {
            "method": {"kind": self.method.kind, **asdict(method)},
            "detector": None if self.detector is None else self.detector.identity(),
            "margin": float(self.margin),
            "fail_closed": self.fail_closed,
            "tracker": None if self.tracker is None else _following(self.tracker),
        }


class _Planner:
    """From boxes to plans, frame after frame of one stream."""

    def __init__(self, obfuscator: Obfuscator, tally: Tally, *, follow: bool = True):
        self._closed, self._tally = obfuscator.fail_closed, tally
        self._tracker = Tracker(obfuscator.tracker) if obfuscator.tracker and follow else None

    def plan(self, boxes: Boxes, height: int, width: int) -> FramePlan:
        if self._tracker is None:
            self._tally.add(len(boxes))
            return FramePlan(boxes)
        followed = self._tracker.step(boxes, height, width)
        self._tally.add(len(boxes), followed)
        return FramePlan(
            np.concatenate([boxes, followed.lost]), black=self._closed and len(followed.lost) > 0
        )


class Painter:
    """Frames of one video in any order. The plans of all frames are made beforehand, so order changes nothing."""

    def __init__(
        self,
        obfuscator: Obfuscator,
        plans: Sequence[FramePlan],
        size: tuple[int, int],
        report: ObfuscationReport,
    ):
        self._obfuscator, self._plans, self._size, self.report = obfuscator, plans, size, report

    def __len__(self) -> int:
        return len(self._plans)

    def frame(self, index: int, image: np.ndarray) -> np.ndarray:
        """Frame `index`, uint8 (H, W, 3) RGB → the same, covered."""
        if not 0 <= index < len(self._plans):
            raise Withheld(f"frame {index}: there are boxes for frames 0 to {len(self._plans) - 1} only")
        if checked_frame(image) != self._size:
            height, width = self._size
            raise Withheld(
                f"frame {index} is {image.shape[1]}×{image.shape[0]}, its boxes are for {width}×{height}"
            )
        return self._obfuscator._paint_image(image, self._plans[index])

    def clip(self, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        """(T, H, W, 3), the frames with these numbers → the same, covered."""
        if len(indices) != len(images):
            raise ShapeMismatch(f"{len(indices)} frame numbers for {len(images)} frames")
        covered = [self.frame(int(index), image) for index, image in zip(indices, images)]
        return np.stack(covered) if covered else images.copy()


def _following(tracker: Tracking) -> dict[str, Any]:
    """The settings of a tracker as the output depends on them; what came later is left out where it changes nothing."""
    known = asdict(tracker)
    return {name: value for name, value in known.items() if name != "excused" or not value}


def _as_image(frame: Tensor) -> np.ndarray:
    """(3, H, W), uint8 or float in [0, 1] → uint8 (H, W, 3), as a detector takes it."""
    if frame.dtype != torch.uint8:
        frame = (frame.detach().float() * 255).round().clamp(0, 255).to(torch.uint8)
    return np.ascontiguousarray(frame.permute(1, 2, 0).cpu().numpy())
