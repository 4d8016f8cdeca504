"""What obfuscation did to a video, and what it cannot have done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LIMIT = "Only what the detector found is covered. People it never saw are not covered, nor can they be counted here."
FACES_ONLY = "Only faces are covered: body, clothes, hair and gait stay visible."
SECOND = "What was not covered, and whom the detector never saw, is as the second layer leaves it: see that one's card."
ON_LOST = {
    "blacken": "the whole frame was blackened",
    "expected": "the place where the lost person was expected was covered too",
    "unfollowed": "people were not followed, so it is not known whether one was lost",
}


@dataclass(frozen=True)
class ObfuscationReport:
    """Counts of one video. `lost` are spans [first, stop) of frames in which a followed person was not found."""

    method: str
    detector: str
    covers: str
    on_lost: str
    """Key of `ON_LOST`."""
    frames: int = 0
    frames_with_people: int = 0
    """Frames with at least one box from the detector."""
    boxes: int = 0
    lost: tuple[tuple[int, int], ...] = ()
    given_up: tuple[int, ...] = ()
    """Frames from which on a lost person was no longer waited for: from there on they may be seen."""
    second: str = ""
    """Hash of the anonymizer that the whole picture went through afterwards."""

    @property
    def lost_frames(self) -> tuple[int, ...]:
        """Numbers of the frames in which a followed person was lost."""
        return tuple(index for first, stop in self.lost for index in range(first, stop))

    @property
    def limits(self) -> tuple[str, ...]:
        if self.second:
            return (SECOND,)
        return (LIMIT, FACES_ONLY) if self.covers == "faces" else (LIMIT,)

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "detector": self.detector,
            "covers": self.covers,
            "frames": self.frames,
            "frames_with_people": self.frames_with_people,
            "boxes": self.boxes,
            "lost": [list(span) for span in self.lost],
            "lost_frames": sum(stop - first for first, stop in self.lost),
            "given_up": list(self.given_up),
            "on_lost": ON_LOST[self.on_lost],
            "limits": list(self.limits),
            **({"second": self.second} if self.second else {}),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.method} of {self.covers} found by {self.detector}: {self.boxes} boxes "
            f"in {self.frames_with_people} of {self.frames} frames."
        ]
        count = sum(stop - first for first, stop in self.lost)
        if self.on_lost == "unfollowed":
            lines.append(f"Losses unknown: {ON_LOST[self.on_lost]}.")
        elif count:
            shown = ", ".join(f"{a}" if b == a + 1 else f"{a}–{b - 1}" for a, b in self.lost)
            lines.append(
                f"A followed person was lost in {count} frames ({shown}); there {ON_LOST[self.on_lost]}."
            )
        else:
            lines.append("No followed person was lost.")
        if self.given_up:
            shown = ", ".join(map(str, self.given_up))
            lines.append(
                f"A lost person was not found again and no longer waited for from frames {shown} on."
            )
        return "\n".join([*lines, *self.limits])


@dataclass
class Tally:
    """Counts while a video runs; spans, so that its size does not grow with a long loss."""

    frames: int = 0
    frames_with_people: int = 0
    boxes: int = 0
    lost: list[list[int]] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)

    def add(self, boxes: int, lost: bool, given_up: int) -> None:
        if lost:
            if self.lost and self.lost[-1][1] == self.frames:
                self.lost[-1][1] += 1
            else:
                self.lost.append([self.frames, self.frames + 1])
        if given_up:
            self.given_up.append(self.frames)
        self.frames += 1
        self.frames_with_people += bool(boxes)
        self.boxes += boxes

    def report(self, method: str, detector: str, covers: str, on_lost: str) -> ObfuscationReport:
        return ObfuscationReport(
            method,
            detector,
            covers,
            on_lost,
            self.frames,
            self.frames_with_people,
            self.boxes,
            tuple((first, stop) for first, stop in self.lost),
            tuple(self.given_up),
        )
