"""Following people from frame to frame, to notice when one of them is no longer found.

Boxes of a frame are joined to the people of the frames before by overlap (IoU) with where each is expected at constant
velocity. A person who was found often enough, is not on the way out of the picture, is not found now, and is not
expected behind somebody who is found, is *lost*: probably still there and not covered. What to do about it is the
caller's business, and so is whether the way out and the place behind somebody excuse anybody (`Tracking.excused`).

The tracker sees boxes only. It cannot notice somebody who was never found, and where two people pass each other it may
take one for the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from videoveil.anonymizers.obfuscate.boxes import Boxes, iou, nobody
from videoveil.errors import UsageError


@dataclass(frozen=True)
class Tracking:
    """How people are followed. Times are in frames, so a stream of another rate wants other numbers."""

    iou: float = 0.3
    """Overlap from which a box belongs to a person."""
    min_hits: int = 3
    """Boxes after which somebody counts as a person; fewer may be a mistake of the detector."""
    sure: float = 0.0
    """Score from which a box counts as such; a lower one still keeps a person found. A detector with a low threshold
    and this at a high one loses people least often."""
    hidden: float = 0.7
    """Share of the expected place that boxes of others must cover for a person to be hidden there and not lost."""
    max_age: int | None = 30
    """Frames for which a lost person is waited for; None: until found again, where expected or where last seen."""
    exit_frames: int = 12
    """A person at an edge who would be outside within this time may leave without being lost."""
    edge: float = 0.02
    """What counts as at an edge, as a share of the picture."""
    smoothing: float = 0.5
    """Weight of the newest step in the velocity."""
    excused: bool = True
    """Whether somebody who is leaving or hidden is not lost. False: hidden or not, whoever is not found is lost, and
    whoever is leaving is until expected outside the picture."""

    def __post_init__(self) -> None:
        if not 0 < self.iou < 1 or not 0 < self.smoothing <= 1 or not 0 <= self.edge < 0.5:
            raise UsageError(
                f"tracking: iou={self.iou} must be in (0, 1), smoothing={self.smoothing} in (0, 1], "
                f"edge={self.edge} in [0, 0.5)"
            )
        if not -math.inf < self.sure < math.inf or not 0 < self.hidden <= 1:
            raise UsageError(f"tracking: sure={self.sure} must be a number, hidden={self.hidden} in (0, 1]")
        if self.min_hits < 1 or self.exit_frames < 0 or (self.max_age is not None and self.max_age < 1):
            raise UsageError(
                f"tracking: min_hits={self.min_hits} and max_age={self.max_age} must be at least 1, "
                f"exit_frames={self.exit_frames} at least 0"
            )


@dataclass(frozen=True)
class Followed:
    """One frame as the tracker sees it."""

    ids: tuple[int, ...]
    """Who each box of the frame is."""
    lost: Boxes
    """(k, 5) where the lost people are expected; the score is that of their last box."""
    given_up: int
    """How many lost people are no longer waited for from this frame on."""
    left: int
    """How many people are taken to have left over an edge, and no longer waited for, from this frame on."""
    hidden: int
    """How many people are not found and not lost, because they are expected behind others."""
    fleeting: int
    """How many are not found who were found too seldom before to count as people."""


@dataclass
class _Person:
    number: int
    box: np.ndarray  # (5,) last box, or where it is expected by now
    seen: np.ndarray  # (4,) corners when last found
    found: int  # boxes in all
    hits: int  # of them, those that are sure
    velocity: np.ndarray = field(default_factory=lambda: np.zeros(4))  # of the four edges, pixels per frame
    missed: int = 0  # frames since the last box
    lost: bool = False  # in the frame before

    def expected(self) -> np.ndarray:
        corners = self.box[:4] + self.velocity
        low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
        return np.concatenate([low, high, self.box[4:]])


class Tracker:
    """The people of one stream; give it every frame, in order."""

    def __init__(self, settings: Tracking | None = None):
        self.settings = settings or Tracking()
        self._people: list[_Person] = []
        self._next = 0

    def step(self, boxes: Boxes, height: int, width: int) -> Followed:
        """Take in the boxes of the next frame, (n, 5) in pixels of a picture of this size."""
        ahead = [person.expected() for person in self._people]
        owner = self._join(boxes, ahead)
        ids, given_up, left, fleeting = [], 0, 0, 0
        staying: list[_Person] = []
        for place, person in enumerate(self._people):
            if place in owner:
                self._found(person, boxes[owner[place]].astype(np.float64))
                staying.append(person)
                continue
            fleeting += int(not self._known(person))
            if self._left(person, ahead[place], height, width):
                left += int(self._known(person))
            elif self._waited_for(person, ahead[place]):
                staying.append(person)
            else:
                given_up += int(self._is_lost(person, boxes))
        mine = {box: self._people[place].number for place, box in owner.items()}
        for index in range(len(boxes)):
            if index not in mine:
                staying.append(self._newcomer(boxes[index].astype(np.float64)))
                mine[index] = staying[-1].number
            ids.append(mine[index])
        self._people = staying
        for person in staying:
            person.lost = person.missed > 0 and self._is_lost(person, boxes)
        lost = [person.box for person in staying if person.lost]
        hidden = sum(person.missed > 0 and self._known(person) and not person.lost for person in staying)
        where = np.stack(lost).astype(np.float32) if lost else nobody()
        return Followed(tuple(ids), where, given_up, left, hidden, fleeting)

    def _join(self, boxes: Boxes, ahead: list[np.ndarray]) -> dict[int, int]:
        """{person: box}, the largest overlaps first; ties by place, so the result is always the same."""
        owner: dict[int, int] = {}
        if not ahead or not len(boxes):
            return owner
        self._join_nearest(owner, iou(np.stack(ahead), boxes))
        if self.settings.max_age is None:
            # constant velocity leads far away in the end; who stopped on the way is where they were seen
            waiting = np.array([[person.lost] for person in self._people])
            before = np.stack([np.append(person.seen, 0) for person in self._people])
            self._join_nearest(owner, iou(before, boxes) * waiting)
        return owner

    def _join_nearest(self, owner: dict[int, int], overlap: np.ndarray) -> None:
        """Give people (rows) who have no box yet those boxes (columns) that nobody has."""
        taken = set(owner.values())
        for flat in np.argsort(-overlap, axis=None, kind="stable").tolist():
            person, box = divmod(flat, overlap.shape[1])
            if overlap[person, box] < self.settings.iou:
                break
            if person not in owner and box not in taken:
                owner[person] = box
                taken.add(box)

    def _newcomer(self, box: np.ndarray) -> _Person:
        self._next += 1
        return _Person(
            self._next - 1, box, seen=box[:4].copy(), found=1, hits=int(box[4] >= self.settings.sure)
        )

    def _found(self, person: _Person, box: np.ndarray) -> None:
        step = (box[:4] - person.seen) / (person.missed + 1)
        share = self.settings.smoothing if person.found > 1 else 1.0
        person.velocity = person.velocity + share * (step - person.velocity)
        person.box, person.seen = box, box[:4].copy()
        person.hits += int(box[4] >= self.settings.sure)
        person.found, person.missed = person.found + 1, 0

    def _known(self, person: _Person) -> bool:
        """Whether it is a person for sure, and no mistake of the detector."""
        return person.hits >= self.settings.min_hits

    def _is_lost(self, person: _Person, boxes: Boxes) -> bool:
        """Whether somebody without a box is a person for sure, and not behind the boxes of others."""
        if not self._known(person):
            return False
        if not self.settings.excused or (person.lost and self.settings.max_age is None):
            return True  # of the lost the expected place is a guess: that it is behind somebody tells nothing
        return covered_share(person.box, boxes) < self.settings.hidden

    def _left(self, person: _Person, expected: np.ndarray, height: int, width: int) -> bool:
        """Whether the person, who was not found, counts as gone over an edge."""
        if not self._leaving(person, height, width):
            return False
        x0, y0, x1, y1 = expected[:4]
        outside = bool(x1 <= 0 or y1 <= 0 or x0 >= width or y0 >= height)
        # sides that were last seen closing in on each other lead nowhere, so it does not take longer than it may
        return self.settings.excused or outside or person.missed >= self.settings.exit_frames

    def _waited_for(self, person: _Person, expected: np.ndarray) -> bool:
        """Whether the person, who was not found, is still expected, and where."""
        person.missed += 1
        person.box = expected
        patience = self.settings.max_age if self._known(person) else self.settings.min_hits
        return patience is None or person.missed <= patience

    def _leaving(self, person: _Person, height: int, width: int) -> bool:
        """Touches an edge and goes over it, fast enough to be outside soon.

        Touching is not enough: whoever is cut off by the lower edge may stand there for the whole video.
        """
        x0, y0, x1, y1 = person.seen
        vx0, vy0, vx1, vy1 = person.velocity
        near_x, near_y = self.settings.edge * width, self.settings.edge * height
        ways = (  # distance of the near side from the edge, way of the far side to it, its speed towards it
            (x0, near_x, x1, -vx1),
            (y0, near_y, y1, -vy1),
            (width - x1, near_x, width - x0, vx0),
            (height - y1, near_y, height - y0, vy0),
        )
        return any(gap <= near and way <= speed * self.settings.exit_frames for gap, near, way, speed in ways)


def covered_share(box: np.ndarray, boxes: Boxes, points: int = 24) -> float:
    """Which part of a box lies in other boxes, told by a grid of points×points points in it."""
    steps = (np.arange(points) + 0.5) / points
    x = (box[0] + steps * (box[2] - box[0]))[None, :, None]
    y = (box[1] + steps * (box[3] - box[1]))[:, None, None]
    inside = (boxes[:, 0] <= x) & (x < boxes[:, 2]) & (boxes[:, 1] <= y) & (y < boxes[:, 3])
    return float(inside.any(2).mean())


def fill_gaps(
    frames: Sequence[Boxes], height: int, width: int, *, longest: int = 12, settings: Tracking | None = None
) -> list[Boxes]:
    """Boxes of a whole video, with straight lines drawn through gaps of up to `longest` frames.

    Needs to know what comes after the gap, so it is for files, not for live streams. A filled box has the lower score
    of the two ends. Nothing is filled before the first or after the last box of a person.
    """
    tracker = Tracker(settings)
    out = [[boxes] for boxes in frames]
    last: dict[int, tuple[int, np.ndarray]] = {}
    for index, boxes in enumerate(frames):
        for box, number in zip(boxes, tracker.step(boxes, height, width).ids):
            if number in last and 1 < index - last[number][0] <= longest + 1:
                first, start = last[number]
                for between in range(first + 1, index):
                    out[between].append(_between(start, box, (between - first) / (index - first))[None])
            last[number] = (index, box)
    return [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in out]


def _between(start: np.ndarray, end: np.ndarray, share: float) -> np.ndarray:
    box = (1 - share) * start.astype(np.float64) + share * end.astype(np.float64)
    box[4] = min(start[4], end[4])
    return box.astype(np.float32)
