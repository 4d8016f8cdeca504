"""Which frames make a clip: every sampling rule of the papers, as a pure function of frame counts.

Nothing here decodes. A rule takes the number of frames of a video (`total`), the clip length (`frames`, the papers' T),
the distance between neighbouring frames (`stride`) and, when it is random, a `numpy.random.Generator`; it returns
`Clip`s whose indices are in presentation order, the order in which a network sees the frames. A reader decodes forward
through `sorted(set(indices))` and arranges the frames afterwards, so a clip may repeat or mirror frames.

Rules that refuse short videos return None (one clip) or leave the clip out (several); all others pad by repeating the
last frame of the video. Recipes name rules by text: see `parse_sampler` and `parse_pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, overload

import numpy as np

from videoveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class Clip:
    """Frame numbers (0-based) of one clip in presentation order."""

    indices: tuple[int, ...]

    @property
    def start(self) -> int:
        """The first frame; what a feature store keeps as the clip's position."""
        return self.indices[0]

    @property
    def stop(self) -> int:
        """One past the highest frame: a reader needs to decode no further."""
        return max(self.indices) + 1

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, slots=True)
class Triplet:
    """Three clips of one video: `positive` has the anchor's timestamps and only its augmentation differs."""

    anchor: Clip
    positive: Clip
    negative: Clip


@dataclass(frozen=True, slots=True)
class RegularClips(Sequence[Clip]):
    """Clips at regular starts, padded at the end, made when asked for: its size does not grow with the video."""

    total: int
    frames: int
    stride: int
    starts: range

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, place: int) -> Clip: ...
    @overload
    def __getitem__(self, place: slice) -> RegularClips: ...
    def __getitem__(self, place: int | slice) -> Clip | RegularClips:
        if isinstance(place, slice):
            return replace(self, starts=self.starts[place])
        return padded_clip(self.starts[place], self.total, self.frames, self.stride)


def _check(total: int, frames: int, stride: int = 1) -> None:
    if total < 1:
        raise UsageError(f"cannot sample a video of {total} frames: at least 1 is needed")
    if frames < 1 or stride < 1:
        raise UsageError(f"clips of {frames} frames with stride {stride}: both must be at least 1")


def _check_count(count: int, what: str) -> None:
    if count < 1:
        raise UsageError(f"{what} must be at least 1, got {count}")


def _span(frames: int, stride: int) -> int:
    """Source frames from the first to the last of a clip, both included."""
    return (frames - 1) * stride + 1


def _at(start: int, frames: int, stride: int) -> list[int]:
    return [start + stride * k for k in range(frames)]


# --- what happens at the end of a video ----------------------------------------------------------------------


def padded_clip(start: int, total: int, frames: int, stride: int = 1) -> Clip:
    """The clip at `start`; frames beyond the end become the last frame of the video (SPLAVU, TeD-SPAD extraction)."""
    _check(total, frames, stride)
    return Clip(tuple(min(i, total - 1) for i in _at(start, frames, stride)))


def mirrored_clip(start: int, total: int, frames: int, stride: int = 1) -> Clip | None:
    """The clip at `start` under SPAct's rule for short videos (released loader); None means: drop the sample.

    If the last wanted frame lies beyond the end it becomes the last frame of the video; other frames beyond the end are
    not decoded. When more than half of the clip decodes (9 to 15 of 16), it is completed by walking back from the frame
    before the last one; with fewer the walk would run off the front, and the sample is dropped.
    """
    _check(total, frames, stride)
    wanted = _at(start, frames, stride)
    wanted[-1] = min(wanted[-1], total - 1)
    decoded = sorted({i for i in wanted if i < total})
    missing = frames - len(decoded)
    if 2 * len(decoded) <= frames:
        return None
    return Clip(tuple(decoded + decoded[-2::-1][:missing])) if missing else Clip(tuple(decoded))


# --- one random clip -----------------------------------------------------------------------------------------


def random_clip(total: int, frames: int, stride: int, generator: np.random.Generator) -> Clip:
    """A start uniform over all places where the clip fits (SPLAVU, raw-video training); short videos are padded."""
    _check(total, frames, stride)
    last = max(0, total - _span(frames, stride))
    return padded_clip(int(generator.integers(last + 1)), total, frames, stride)


def random_clip_spact(total: int, frames: int, stride: int, generator: np.random.Generator) -> Clip | None:
    """SPAct training: left = N − T·stride, start uniform in {0, …, left − 1}, or 0 when left ≤ 0.

    None: drop the sample. (The start `left` would fit as well; the rule never draws it.)
    """
    _check(total, frames, stride)
    left = total - frames * stride
    start = int(generator.integers(left)) if left > 0 else 0
    return mirrored_clip(start, total, frames, stride)


def random_clip_ted_spad(total: int, frames: int, stride: int, generator: np.random.Generator) -> Clip | None:
    """TeD-SPAD training: SPAct's rule, but while left ≤ 0 the stride is halved (down to 1) and the clip drawn anew."""
    _check(total, frames, stride)
    while stride > 1 and total - frames * stride <= 0:
        stride //= 2
    return random_clip_spact(total, frames, stride, generator)


# --- k clips spread over a video -----------------------------------------------------------------------------


def equidistant(total: int, count: int, frames: int, stride: int = 1) -> tuple[Clip, ...]:
    """SPLAVU action recognition: `count` (5) clips at round(k·(N − span)/(count − 1)); a single clip is the middle one.

    For stride 1 the span is T, i.e. the starts are round(k·(N − 16)/4). Halves round to even. Always `count` clips:
    short videos repeat them, padded.
    """
    _check(total, frames, stride)
    _check_count(count, "the number of equidistant clips")
    room = max(0, total - _span(frames, stride))
    places = [Fraction(room, 2)] if count == 1 else [Fraction(k * room, count - 1) for k in range(count)]
    return tuple(padded_clip(round(place), total, frames, stride) for place in places)


def equidistant_spact(total: int, count: int, frames: int, stride: int, margin: int = 10) -> tuple[Clip, ...]:
    """SPAct and TeD-SPAD testing: start_m = int(linspace(0, N − T·stride − 10, count)[m]), and start_m = m if negative.

    `int` cuts towards zero. Clips that SPAct's rule for short videos drops are left out, so fewer than `count`, or no
    clip at all, may remain. The papers use 10 clips, the released code 5.
    """
    _check(total, frames, stride)
    _check_count(count, "the number of equidistant clips")
    room = total - frames * stride - margin
    clips = []
    for m in range(count):
        start = int(Fraction(m * room, max(1, count - 1)))
        clip = mirrored_clip(start if start >= 0 else m, total, frames, stride)
        if clip is not None:
            clips.append(clip)
    return tuple(clips)


def cached_equidistant(cached: int, count: int = 5) -> tuple[int, ...]:
    """SPLAVU action recognition on cached features: which of `cached` clips are scored, round(linspace(0, n − 1, 5)).

    Positions repeat when fewer than `count` clips are cached.
    """
    return tuple(round(place) for place in _cached_places(cached, count))


def cached_equidistant_released(cached: int, count: int = 5) -> tuple[int, ...]:
    """The same choice as SPLAVU's released code makes it: int(linspace(0, n − 1, 5)), cut instead of rounded."""
    return tuple(int(place) for place in _cached_places(cached, count))


def _cached_places(cached: int, count: int) -> list[Fraction]:
    _check_count(cached, "the number of cached clips")
    _check_count(count, "the number of equidistant clips")
    return [Fraction(k * (cached - 1), max(1, count - 1)) for k in range(count)]


# --- the whole video -----------------------------------------------------------------------------------------


def non_overlapping(total: int, frames: int, stride: int = 1) -> RegularClips:
    """SPLAVU precomputed features: consecutive clips, the last partial one dropped.

    Only a video shorter than one clip gives a partial clip, padded; so there is always at least one clip.
    """
    return windows(total, frames, step=frames * stride, stride=stride)


def non_overlapping_ted_spad(total: int, frames: int = 16, stride: int = 2) -> RegularClips:
    """TeD-SPAD feature extraction: clip i starts at i·T·stride (one feature per 32 frames), the last clip is padded.

    Videos shorter than T·stride are taken with stride 1; those shorter than T repeat their last frame.
    """
    _check(total, frames, stride)
    if total < frames * stride:
        stride = 1
    return RegularClips(total, frames, stride, range(0, total, frames * stride))


def windows(total: int, frames: int, step: int, stride: int = 1) -> RegularClips:
    """Dense windows for temporal action detection: window i covers frames [i·step, i·step + T), THUMOS14 with step 4.

    Only windows that fit whole are taken; a video shorter than one window gives one, padded.
    """
    _check(total, frames, stride)
    _check_count(step, "the step between windows")
    last = max(0, total - _span(frames, stride))
    return RegularClips(total, frames, stride, range(0, last + 1, step))


# --- several clips of one video at once ----------------------------------------------------------------------


def triplet(
    total: int,
    frames: int,
    stride: int,
    generator: np.random.Generator,
    distance: int | None = None,
) -> Triplet | None:
    """TeD-SPAD's temporal triplet (utility loss L_D): anchor and positive at t, negative at t' of the same video.

    `distance=None`: t and t' are both drawn by the training rule, with |t' − t| ≥ 1 (the released code allows t' = t,
    which makes the negative a second positive). A fixed `distance` d (8 or 32 in the paper's ablation) puts d raw
    frames from the anchor's last frame to the negative's first one and needs N ≥ 2·T·stride + d.
    If the video is too short for that, the stride is halved, down to 1; if still too short: None, drop the sample.
    """
    _check(total, frames, stride)
    if distance is not None:
        _check_count(distance, "the distance from anchor to negative")
    while True:
        starts = _triplet_starts(total, frames, stride, generator, distance)
        if starts is not None:
            anchor, negative = (Clip(tuple(_at(start, frames, stride))) for start in starts)
            return Triplet(anchor=anchor, positive=anchor, negative=negative)
        if stride == 1:
            return None
        stride //= 2


def _triplet_starts(
    total: int, frames: int, stride: int, generator: np.random.Generator, distance: int | None
) -> tuple[int, int] | None:
    """Starts of anchor and negative, or None when the video has no room for both at this stride."""
    if distance is None:
        left = total - frames * stride
        if left < 2:  # a single start: no negative that differs from the anchor
            return None
        start = int(generator.integers(left))
        other = int(generator.integers(left - 1))  # uniform over the remaining starts, without rejection
        return start, other + (other >= start)
    room = total - 2 * frames * stride - distance
    if room < 0:
        return None
    start = int(generator.integers(room + 1))
    return start, start + stride * (frames - 1) + distance


def lltc_clips(
    total: int, frames: int, generator: np.random.Generator, count: int = 4
) -> tuple[Clip, ...] | None:
    """TCLR's local-local contrast (TeD-SPAD ablation): four consecutive clips of stride 1 at s, s + T, s + 2T, s + 3T.

    s is uniform over all places where the four fit. With T = 16 more than 56 frames are needed: from 57 to 63 the last
    clip has at least 9 frames and is completed by SPAct's mirror; shorter videos give None, drop the sample.
    """
    _check(total, frames)
    _check_count(count, "the number of consecutive clips")
    room = max(0, total - count * frames)
    start = int(generator.integers(room + 1))
    clips = [mirrored_clip(start + k * frames, total, frames) for k in range(count)]
    whole = tuple(clip for clip in clips if clip is not None)
    return whole if len(whole) == count else None


# --- frames of a clip ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairRule:
    """Two frame positions of a clip: SPAct's temporal sampler S_F, whose two frames are a positive pair of L_B."""

    kind: Literal["random", "gap", "ends"]
    gap: int = 0

    def __str__(self) -> str:
        return f"gap:{self.gap}" if self.kind == "gap" else self.kind

    def __call__(self, frames: int, generator: np.random.Generator) -> tuple[int, int]:
        """Positions (first, second) with first < second; a clip of one frame can only give (0, 0)."""
        _check_count(frames, "the number of frames in a clip")
        if frames == 1:
            return 0, 0
        if self.kind == "ends":
            return 0, frames - 1
        if self.kind == "random":
            first, second = sorted(int(i) for i in generator.choice(frames, size=2, replace=False))
            return first, second
        if self.gap >= frames:
            raise UsageError(f"pair rule {self}: a clip of {frames} frames has gaps of at most {frames - 1}")
        first = int(generator.integers(frames - self.gap))
        return first, first + self.gap

    def of(self, clip: Clip, generator: np.random.Generator) -> tuple[int, int]:
        """Frame numbers of the two in a clip.

        Two that `random` draws are distinct as pictures: frames that padding or mirroring repeats count once, and only
        a clip of a single picture gives it twice.
        """
        frames = sorted(set(clip.indices)) if self.kind == "random" else clip.indices
        first, second = self(len(frames), generator)
        return frames[first], frames[second]


def parse_pair(text: str) -> PairRule:
    """`random` (two distinct frames, uniformly), `gap:G` (G frames apart; the penalty paper uses 4) or `ends`."""
    if text == "random":
        return PairRule("random")
    if text == "ends":
        return PairRule("ends")
    name, _, argument = text.partition(":")
    if name == "gap" and _is_count(argument):
        return PairRule("gap", int(argument))
    raise UsageError(f"unknown pair rule {text!r}; valid: random, gap:G with G ≥ 1, ends")


def static_pair(clip: Clip, generator: np.random.Generator) -> tuple[int, int]:
    """SPLAVU static clips: two distinct frames of a clip, each to be tiled to a clip of its own."""
    return PairRule("random").of(clip, generator)


def static_positions(frames: int, count: int) -> tuple[int, ...]:
    """SPLAVU cached static clips: `count` (K) positions in a clip of T frames, round((i + 0.5)·T/K) for i < K.

    Halves round down: K = T then gives every frame once, where rounding to even would skip frames and leave the clip.
    K > T repeats frames.
    """
    _check_count(frames, "the number of frames")
    _check_count(count, "the number of static frames")
    # ceil(x − 1/2) is rounding with halves down; x − 1/2 = ((2i + 1)·T − K) / 2K
    places = [-((count - (2 * i + 1) * frames) // (2 * count)) for i in range(count)]
    return tuple(min(max(place, 0), frames - 1) for place in places)


def static_pool(total: int, count: int = 10) -> tuple[int, ...]:
    """SPLAVU's pool of static clips per video (released code: 10): `static_positions` over the whole video."""
    return static_positions(total, count)


# --- rules by name -------------------------------------------------------------------------------------------

_Run = Callable[[int, int, int, int, np.random.Generator], Sequence[Clip]]


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a name runs: called with (total, frames, stride, argument, generator)."""

    run: _Run
    argument: str | None = None  # what the number after the colon means; None: the name takes no number
    random: bool = False


def _kept(clip: Clip | None) -> Sequence[Clip]:
    return () if clip is None else (clip,)


_RULES: dict[str, _Rule] = {
    "random": _Rule(lambda n, t, s, _, g: (random_clip(n, t, s, g),), random=True),
    "random-spact": _Rule(lambda n, t, s, _, g: _kept(random_clip_spact(n, t, s, g)), random=True),
    "random-ted-spad": _Rule(lambda n, t, s, _, g: _kept(random_clip_ted_spad(n, t, s, g)), random=True),
    "equidistant": _Rule(lambda n, t, s, k, _: equidistant(n, k, t, s), argument="K"),
    "equidistant-spact": _Rule(lambda n, t, s, k, _: equidistant_spact(n, k, t, s), argument="K"),
    "all": _Rule(lambda n, t, s, _, __: non_overlapping(n, t, s)),
    "all-ted-spad": _Rule(lambda n, t, s, _, __: non_overlapping_ted_spad(n, t, s)),
    "windows": _Rule(lambda n, t, s, step, _: windows(n, t, step, s), argument="STEP"),
}


@dataclass(frozen=True, slots=True)
class Sampler:
    """A named rule with its numbers filled in: `sampler(total, generator)` → clips; no clips means: drop the video."""

    name: str
    frames: int
    stride: int
    argument: int | None = None

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    @property
    def random(self) -> bool:
        return _RULES[self.name].random

    def __call__(self, total: int, generator: np.random.Generator | None = None) -> Sequence[Clip]:
        if generator is None:
            if self.random:
                raise UsageError(f"sampler {self} is random: pass a numpy Generator")
            generator = np.random.default_rng(0)  # never asked by the rules that are not random
        return _RULES[self.name].run(total, self.frames, self.stride, self.argument or 0, generator)


def sampler_names() -> tuple[str, ...]:
    """Every text that `parse_sampler` takes, with capital letters where a number goes."""
    return tuple(f"{name}:{rule.argument}" if rule.argument else name for name, rule in _RULES.items())


def parse_sampler(text: str, frames: int = 16, stride: int = 1) -> Sampler:
    """The sampler called `text`: `all`, `random`, `equidistant:10`, `windows:4`, … (see `sampler_names`)."""
    _check(1, frames, stride)
    name, colon, argument = text.partition(":")
    rule = _RULES.get(name)
    if rule is None or bool(colon) != (rule.argument is not None) or (colon and not _is_count(argument)):
        raise UsageError(
            f"unknown sampler {text!r}; valid: {', '.join(sampler_names())} (numbers are at least 1)"
        )
    return Sampler(name, frames, stride, int(argument) if colon else None)


def _is_count(text: str) -> bool:
    """Plain digits, at least 1: `int` alone would also take `+4`, ` 4 ` and `4_0`."""
    return text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= 1
