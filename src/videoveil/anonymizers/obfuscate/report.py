"""What obfuscation did to a video, and what it cannot have done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from videoveil.anonymizers.obfuscate.tracking import Followed

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
    left: int = 0
    """Followed people who were not found any more at an edge, and taken to have gone over it."""
    hidden_frames: int = 0
    """Frames in which a followed person was not found and taken to be behind others, and so not lost."""
    fleeting_frames: int = 0
    """Frames in which somebody was not found who had been found too seldom before to be followed."""
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
            "left": self.left,
            "hidden_frames": self.hidden_frames,
            "fleeting_frames": self.fleeting_frames,
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
        return "\n".join([*lines, *self._uncounted(), *self.limits])

    def _uncounted(self) -> list[str]:
        """Where somebody who had been found was not found, and is not among the lost."""
        counts = (
            ("People who were followed to an edge and taken to have gone over it", self.left),
            (
                "Frames in which a followed person was not found and taken to be behind others",
                self.hidden_frames,
            ),
            (
                "Frames in which somebody was not found who had been found too seldom before to be followed",
                self.fleeting_frames,
            ),
        )
        return [
            f"{what}: {count}. Where they were still there, they are not covered."
            for what, count in counts
            if count
        ]


@dataclass
class Tally:
    """Counts while a video runs; spans, so that its size does not grow with a long loss."""

    frames: int = 0
    frames_with_people: int = 0
    boxes: int = 0
    lost: list[list[int]] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)
    left: int = 0
    hidden_frames: int = 0
    fleeting_frames: int = 0

    def add(self, boxes: int, followed: Followed | None = None) -> None:
        """The next frame, with so many boxes; nobody is followed where it is None."""
        if followed is not None:
            self._follow(followed)
        self.frames += 1
        self.frames_with_people += bool(boxes)
        self.boxes += boxes

    def _follow(self, followed: Followed) -> None:
        if len(followed.lost):
            if self.lost and self.lost[-1][1] == self.frames:
                self.lost[-1][1] += 1
            else:
                self.lost.append([self.frames, self.frames + 1])
        if followed.given_up:
            self.given_up.append(self.frames)
        self.left += followed.left
        self.hidden_frames += bool(followed.hidden)
        self.fleeting_frames += bool(followed.fleeting)

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
            self.left,
            self.hidden_frames,
            self.fleeting_frames,
        )
