"""Is a video really an anonymized version of another? An independent check, for the output of any tool.

    result = verify("out.mp4", "in.mp4")
    result.exit_code        # 0 passed, 1 cannot tell, 2 failed
    result.findings         # what was looked at, with words

Every picture of the output is held against the input's picture of the same number and its neighbours, block by block.
A block is taken for raw when its fine detail is the input's: the correlation of what a small blur would take away, and
how much of it is left. Most blocks of a raw picture keep both through H.264 up to about crf 30; blurred, coarsened and
redrawn ones do not. Colours and brightness play no part in it, so a raw picture in other colours is still raw.

Not looked for: raw pictures that are shrunk, mirrored or set into a corner of another, messages hidden in the pictures
themselves, and whether a part that was left uncovered should have been covered.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from videoveil.errors import MediaError, UsageError
from videoveil.pipeline import canaries
from videoveil.pipeline.verify_reader import Reader, Shown, look_at_boxes

Verdict = Literal["pass", "cannot tell", "fail"]
EXIT: dict[Verdict, int] = {"pass": 0, "cannot tell": 1, "fail": 2}

BLOCK = 16  # pixels
SAME_DETAIL = 0.6  # correlation of fine detail from which on a block is the other one
KEPT_DETAIL = 0.4  # share of it that must be left
DETAILED = 2.0  # grey levels: detail of a block that shows something
FLAT = 0.75  # the same of a whole picture
RAW = 0.3  # share of the blocks that show something; raw pictures at crf 30 have 0.55 and more, coarsened ones 0.15
COVERED = 20.0  # grey levels: mean change of a block that was covered
BLACK = 20  # grey level that no pixel of a black picture is above, after coding
FEW = 0.005  # share of pictures that may be missing or added before it is a failure
CONTAINERS = (
    "major_brand",
    "minor_version",
    "compatible_brands",
    "encoder",
    "handler_name",
    "vendor_id",
    "language",
)
COUNTS = ("duration", "statistics_tags", "bps", "number_of_frames", "number_of_bytes")
HARMLESS = frozenset((*CONTAINERS, *COUNTS))  # tags that containers need
PLAIN = {
    "handler_name": ("VideoHandler", "SoundHandler", ""),
    "language": ("und",),
}  # values that say nothing
NAMED = 8  # pictures that a finding lists


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    verdict: Verdict
    text: str


@dataclass
class Verification:
    """What was found."""

    output: str
    against: str
    findings: list[Finding] = field(default_factory=list)
    frames: int = 0
    black: int = 0
    flat: int = 0
    """Pictures whose input shows nothing that could be changed."""
    covered: int = 0
    """Pictures that are the input's but for some covered parts."""
    raw: list[int] = field(default_factory=list)
    """Pictures that are raw; the first thousand."""
    shifted: list[tuple[int, int]] = field(default_factory=list)
    """(picture, number of the input's picture that it is), where the two differ."""
    canaries: list[int] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return max(
            (finding.verdict for finding in self.findings), key=lambda v: EXIT[v], default="cannot tell"
        )

    @property
    def exit_code(self) -> int:
        return EXIT[self.verdict]

    def add(self, check: str, verdict: Verdict, text: str) -> None:
        self.findings.append(Finding(check, verdict, text))

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict, "exit_code": self.exit_code}

    def __str__(self) -> str:
        lines = [f"{finding.verdict:>11}  {finding.check}: {finding.text}" for finding in self.findings]
        return "\n".join([*lines, f"{self.output}: {self.verdict}"])


@dataclass(frozen=True)
class Expected:
    """What the output may have and how closely it is looked at."""

    audio: bool = False
    """Sound is wanted; otherwise there must be none."""
    parts: bool = False
    """Only parts of the pictures are meant to be covered: the rest may be raw."""
    neighbours: int = 2
    """Pictures before and after that each one is compared with."""
    canary: int | None = None
    """The secret of the canaries in the input, where it has some."""

    def __post_init__(self) -> None:
        if not 0 <= self.neighbours <= 50:
            raise UsageError(f"neighbours={self.neighbours}: must be between 0 and 50")


def verify(output: str | Path, against: str | Path, expected: Expected | None = None) -> Verification:
    """Hold `output` against the video it was made of. Needs the memory of a few pictures, whatever their number.

    An output that is not there or is no video at all raises `MediaError`; an input that is unreadable is a finding.
    """
    expected = expected or Expected()
    result = Verification(str(output), str(against))
    if Path(against).exists() and Path(output).exists() and Path(output).samefile(against):
        raise UsageError(f"{output}: is the input itself")
    with Reader(output) as made:
        try:
            source: Reader | None = Reader(against)
        except MediaError as error:
            result.add("input", "cannot tell", f"is unreadable, pictures were not compared: {error.reason}")
            source = None
        try:
            _streams(result, made, source, expected)
            _tags(result, made)
            _pictures(result, made, source, expected)
            _rest(result, made, expected)
        finally:
            if source is not None:
                source.container.close()
    return result


# --- beside the pictures --------------------------------------------------------------------------------------


def _streams(result: Verification, made: Reader, source: Reader | None, expected: Expected) -> None:
    kinds = made.streams()
    bad = [kind for kind in kinds if kind not in ("video", "audio")]
    if kinds.count("video") > 1:
        bad.append(f"{kinds.count('video')} video streams")
    if bad:
        result.add("streams", "fail", f"has what no anonymized video needs: {', '.join(bad)}")
    else:
        result.add("streams", "pass", "one video stream and nothing but sound beside it")
    sound = kinds.count("audio")
    wanted = expected.audio and (source is None or "audio" in source.streams())
    if sound and not expected.audio:
        result.add(
            "audio", "fail", f"{sound} audio streams; voices tell who speaks, and no sound was expected"
        )
    elif wanted and not sound:
        result.add("audio", "cannot tell" if source is None else "fail", "sound was expected, there is none")
    else:
        result.add("audio", "pass", f"{sound} streams, as expected" if sound else "none, as expected")


def _tags(result: Verification, made: Reader) -> None:
    told = [f"{name}={value[:60]!r}" for name, value in made.tags().items() if telling(name, value)]
    if told:
        result.add("metadata", "fail", f"tags that can tell of people, places or times: {', '.join(told)}")
    else:
        result.add("metadata", "pass", "no tags but those of the container itself")
    if count := made.chapters():
        result.add("chapters", "fail", f"{count} chapters")


def telling(name: str, value: str) -> bool:
    """Whether a tag says more than that its container is one."""
    key = name.rpartition(": ")[2].lower().removeprefix("_").removesuffix("-eng")
    if key not in HARMLESS:
        return True
    return key in PLAIN and value not in PLAIN[key]


def _rest(result: Verification, made: Reader, expected: Expected) -> None:
    """What is known only after the whole file was read."""
    notes = sorted(made.notes - {"x264's settings"})
    if notes:
        result.add("messages", "fail", f"between the coded pictures there is {', '.join(notes)}")
    else:
        result.add("messages", "pass", "no user data between the coded pictures")
    boxes = look_at_boxes(made.path)
    if boxes.hidden:
        result.add("boxes", "fail", f"hidden data: {', '.join(boxes.hidden[:NAMED])}")
    elif boxes.known and boxes.media > made.packet_bytes:
        extra = boxes.media - made.packet_bytes
        result.add("boxes", "cannot tell", f"{extra} bytes among the pictures belong to no stream")
    if expected.canary is not None:
        found = set(result.canaries) | set(canaries.in_bytes(made.path, expected.canary))
        result.canaries = sorted(found)
        if found:
            result.add("canaries", "fail", f"of raw pictures {_listed(result.canaries)}")
        else:
            result.add("canaries", "pass", "none came through")


# --- pictures -------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Seen:
    """A picture, ready to be compared."""

    number: int
    time: Fraction
    image: np.ndarray
    cache: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=dict)

    def at(self, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Its brightness, its fine detail, and how much of that is in each block, at that (height, width)."""
        if size not in self.cache:
            grey = luma(self.image, size)
            fine = detail(grey)
            self.cache[size] = (grey, fine, _block_sums(fine * fine))
        return self.cache[size]


def _pictures(result: Verification, made: Reader, source: Reader | None, expected: Expected) -> None:
    pairs = _Pairs(result, made, source, expected)
    try:
        pairs.run()
    except _InputBroke as broke:
        result.add("input", "cannot tell", f"breaks off, the rest was not compared: {broke}")
        pairs.broken = True
        return
    except MediaError as error:
        result.add("decoding", "fail", f"the output does not decode: {error.reason}")
        pairs.broken = True
    finally:
        pairs.conclude()


class _InputBroke(Exception):
    """The input, not the output, cannot be read on."""


class _Pairs:
    """Both videos side by side, a few pictures of the input at a time."""

    def __init__(self, result: Verification, made: Reader, source: Reader | None, expected: Expected):
        self.result, self.made, self.source, self.expected = result, made, source, expected
        self.broken = False
        self.inputs = 0
        self.exact = source is not None and made.time_base == source.time_base
        self.late: list[int] = []
        self.first: tuple[Fraction, Fraction] | None = None

    def run(self) -> None:
        window: deque[_Seen] = deque(maxlen=2 * self.expected.neighbours + 1)
        inputs = self._inputs()
        for number, shown in enumerate(self.made.pictures()):
            while not window or window[-1].number < number + self.expected.neighbours:
                seen = next(inputs, None)
                if seen is None:
                    break
                window.append(seen)
            self.result.frames += 1
            self._one(number, shown, window)
        for _ in inputs:  # counted to the end
            pass

    def _inputs(self) -> Iterator[_Seen]:
        if self.source is None:
            return
        pictures = self.source.pictures()
        for number in itertools.count():
            try:
                shown = next(pictures, None)
            except MediaError as error:
                raise _InputBroke(error.reason) from error
            if shown is None:
                return
            self.inputs += 1
            yield _Seen(number, shown.time, shown.image)

    def _one(self, number: int, shown: Shown, window: deque[_Seen]) -> None:
        if self.expected.canary is not None:
            found = canaries.read(shown.image, self.expected.canary)
            if found is not None and len(self.result.canaries) < 1000:
                self.result.canaries.append(found)
        own = next((seen for seen in window if seen.number == number), None)
        if own is not None:
            self._time(number, shown, own)
        if int(shown.image.max()) <= BLACK:
            self.result.black += 1
            return
        if not window:
            return
        made = _Seen(number, shown.time, shown.image)
        shares = [raw_share(made, seen) for seen in window]
        best = max(range(len(window)), key=lambda place: (shares[place], window[place] is own))
        if own is not None and shares[window.index(own)] > shares[best] - 0.1:  # nearly still pictures
            best = window.index(own)
        if shares[best] >= RAW:
            self._raw(made, window[best])
        elif own is not None and _shows_nothing(own):
            self.result.flat += 1

    def _raw(self, made: _Seen, seen: _Seen) -> None:
        size = _common(made.image, seen.image)
        if changed_most(made.at(size)[0], seen.at(size)[0]) >= COVERED:
            self.result.covered += 1
        elif len(self.result.raw) < 1000:
            self.result.raw.append(made.number)
            if seen.number != made.number:
                self.result.shifted.append((made.number, seen.number))

    def _time(self, number: int, shown: Shown, own: _Seen) -> None:
        if self.first is None:
            self.first = (shown.time, own.time)
        apart = (shown.time - self.first[0]) - (own.time - self.first[1])
        assert self.source is not None
        # a container that counts time in other units can only come as close as these
        allowed = Fraction(0) if self.exact else (self.made.time_base + self.source.time_base) / 2
        if abs(apart) > allowed and len(self.late) < 1000:
            self.late.append(number)

    # --- conclusions ------------------------------------------------------------------------------------------

    def conclude(self) -> None:
        if self.source is None:
            return
        if not self.broken:
            self._conclude_count()
        self._conclude_times()
        self._conclude_change()

    def _conclude_count(self) -> None:
        made, wanted = self.result.frames, self.inputs
        if made == wanted:
            self.result.add("frames", "pass", f"{made}, as many as the input")
        else:
            few = abs(made - wanted) <= max(1, FEW * wanted)
            self.result.add("frames", "cannot tell" if few else "fail", f"{made}, the input has {wanted}")

    def _conclude_times(self) -> None:
        if self.first is None:
            self.result.add("times", "cannot tell", "no picture could be compared")
            return
        shift = self.first[0] - self.first[1]
        if self.late:
            verdict: Verdict = "fail" if self.result.frames == self.inputs else "cannot tell"
            self.result.add("times", verdict, f"pictures {_listed(self.late)} are at other times")
        elif shift == 0:
            self.result.add("times", "pass", "those of the input")
        elif self.first[1] < 0 or self.made.format != (self.source and self.source.format):
            self.result.add(
                "times", "pass", f"those of the input, all moved by {float(shift):.6g} s for the container"
            )
        else:
            self.result.add("times", "cannot tell", f"all moved by {float(shift):.6g} s without need")

    def _conclude_change(self) -> None:
        result = self.result
        counted = f"{result.frames} compared, {result.black} black, {result.flat} with nothing to change"
        if result.raw:
            where = f"pictures {_listed(result.raw)} are raw"
            if result.shifted:
                moved = ", ".join(f"{a} is the input's {b}" for a, b in result.shifted[:NAMED])
                where += f" ({moved})"
            result.add("change", "fail", f"{where}; {counted}")
        elif result.covered and not self.expected.parts:
            result.add(
                "change",
                "cannot tell",
                f"{result.covered} pictures are raw but for covered parts; whether everybody is covered cannot be "
                f"seen here (say that parts are meant); {counted}",
            )
        elif result.frames:
            covered = f", {result.covered} covered in part" if result.covered else ""
            result.add("change", "pass", f"no picture is raw; {counted}{covered}")


def luma(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(H, W, 3) uint8 → float32 brightness at (height, width)."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    if grey.shape != size:
        grey = cv2.resize(grey, size[::-1], interpolation=cv2.INTER_AREA)
    return grey.astype(np.float32)


def detail(grey: np.ndarray) -> np.ndarray:
    """What a small blur takes away."""
    return grey - cv2.blur(grey, (3, 3))


def raw_share(made: _Seen, raw: _Seen) -> float:
    """Share of the blocks that show something whose fine detail is the same in both pictures."""
    size = _common(made.image, raw.image)
    (_, one, own), (_, two, other) = made.at(size), raw.at(size)
    shows = other >= DETAILED**2 * _block_areas(size)
    if shows.sum() < 2:  # so little that only the whole can tell
        both = np.atleast_2d((one * two).sum())
        own, other = np.atleast_2d(own.sum()), np.atleast_2d(other.sum())
        shows = other >= FLAT**2 * size[0] * size[1]
    elif float((shows & (own >= KEPT_DETAIL**2 * other)).sum()) < RAW * float(shows.sum()):
        return 0.0  # too little detail is left to be that of the other, whatever it is
    else:
        both = _block_sums(one * two)
    same = (both >= SAME_DETAIL * np.sqrt(own * other)) & (both >= KEPT_DETAIL * other) & shows
    return float(same.sum() / max(1, shows.sum()))


@functools.lru_cache(maxsize=8)
def _block_areas(size: tuple[int, int]) -> np.ndarray:
    return _block_sums(np.ones(size, np.float32))


def _block_sums(image: np.ndarray) -> np.ndarray:
    """(H, W) → (⌈H/16⌉, ⌈W/16⌉); blocks at the edges hold what is left."""
    rows = np.add.reduceat(image, np.arange(0, image.shape[0], BLOCK), axis=0)
    return np.add.reduceat(rows, np.arange(0, image.shape[1], BLOCK), axis=1)


def _shows_nothing(seen: _Seen) -> bool:
    fine = seen.at(seen.image.shape[:2])[1]  # type: ignore[arg-type]
    return float(np.square(fine).mean()) < FLAT**2


def _common(made: np.ndarray, raw: np.ndarray) -> tuple[int, int]:
    """The smaller height and the smaller width: detail can be taken away, not added."""
    return min(made.shape[0], raw.shape[0]), min(made.shape[1], raw.shape[1])


def changed_most(made: np.ndarray, raw: np.ndarray) -> float:
    """Mean change of the block that changed most, beside what is a change of brightness or contrast of the whole.

    made, raw: (H, W) float32 brightness.
    """
    area = _block_areas((raw.shape[0], raw.shape[1]))
    new, old = _block_sums(made) / area, _block_sums(raw) / area
    slope, offset = _line(old.ravel(), new.ravel())
    return float(np.abs(new - slope * old - offset).max())


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """A straight line through most of the points: the middle of all slopes between them, few outliers or not."""
    gaps = x[:, None] - x[None]
    far = np.abs(gaps) > 8
    slope = float(np.median((y[:, None] - y[None])[far] / gaps[far])) if far.any() else 1.0
    return slope, float(np.median(y - slope * x))


def _listed(numbers: list[int]) -> str:
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return ", ".join(str(number) for number in numbers[:NAMED]) + more
