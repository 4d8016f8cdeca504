"""One video as MGFN sees it, and the checks that every one of them passes before anything is trained or scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from videoveil.errors import BadItems

NORMAL = "Normal"


@dataclass(frozen=True, slots=True)
class AnomalyVideo:
    """Snippet features of one video with its weak label and, for testing, the truth of its frames."""

    id: str
    features: np.ndarray  # (T, C) or (T, n crops, C), float
    label: int  # 0 normal, 1 anomalous
    frames_per_snippet: int  # source frames that one row of features stands for: clip length times stride
    class_name: str = NORMAL  # several joined by "-" (XD-Violence: B1-B2) count for each of them
    truth: np.ndarray | None = None  # (T · frames_per_snippet,) of 0 and 1
    problems: tuple[str, ...] = ()  # what was wrong with it where it came from

    @property
    def snippets(self) -> int:
        return int(self.features.shape[0])

    @property
    def crops(self) -> int:
        return int(self.features.shape[1]) if self.features.ndim == 3 else 1

    @property
    def frames(self) -> int:
        """Frames that have a score."""
        return self.snippets * self.frames_per_snippet

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.class_name.split("-"))

    def by_crop(self) -> np.ndarray:
        """(T, n, C) float32; n = 1 where the file has no crop axis."""
        plain = self.features if self.features.ndim == 3 else self.features[:, None]
        return np.ascontiguousarray(plain, dtype=np.float32)


def feature_problems(video: AnomalyVideo) -> list[str]:
    """What keeps the features of one video from being used at all."""
    features = video.features
    if features.ndim not in (2, 3):
        return [f"features of shape {features.shape}, expected (T, C) or (T, crops, C)"]
    if not np.issubdtype(features.dtype, np.floating):
        return [f"features of type {features.dtype}, expected float32"]
    if 0 in features.shape:
        return [f"features are empty, shape {features.shape}"]
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(features.astype(np.float32, copy=False))
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        return [f"{int(bad.sum())} values are NaN, infinite or beyond float32, the first in snippet {row}"]
    return []


def label_problems(video: AnomalyVideo) -> list[str]:
    """What is wrong with the label and the time scale."""
    found = []
    if video.label not in (0, 1):
        found.append(f"label {video.label!r}, expected 0 or 1")
    if video.frames_per_snippet < 1:
        found.append(f"frames_per_snippet {video.frames_per_snippet}, must be at least 1")
    return found


def truth_problems(video: AnomalyVideo, *, length: bool = True) -> list[str]:
    """What is wrong with the frame-level truth, if there is one; `length=False` lets its length differ."""
    truth = video.truth
    if truth is None:
        return []
    if truth.ndim != 1 or not np.isin(truth, (0, 1)).all():
        return ["the truth must be one row of 0 and 1"]
    if length and len(truth) != video.frames:
        return [
            f"the truth has {len(truth)} frames, the features stand for {video.snippets} snippets × "
            f"{video.frames_per_snippet} frames = {video.frames}"
        ]
    if bool(truth.any()) != bool(video.label):
        word = "anomalous" if video.label else "normal"
        return [f"labelled {word}, but {int(truth.sum())} frames are marked anomalous"]
    return []


@dataclass
class Inspector:
    """Collects every offender over a pass through the videos, then raises them all at once."""

    width: int | None = None  # the width that is expected; None: the one most videos have
    same_crops: bool = False
    need_truth: bool = False
    any_length: bool = False  # of the truth
    _offenders: list[str] = field(default_factory=list)
    _seen: Counter[str] = field(default_factory=Counter)
    _shapes: list[tuple[str, int, int]] = field(default_factory=list)  # id, width, crops

    def admit(self, video: AnomalyVideo) -> bool:
        """Look at one video; whether its features can be used as they are."""
        found = label_problems(video)
        # a source that could not read a video says why; its empty features would only repeat that
        unusable = list(video.problems) or feature_problems(video)
        if not unusable:
            self._shapes.append((video.id, video.features.shape[-1], video.crops))
            if not found:
                found += truth_problems(video, length=not self.any_length)
        if self.need_truth and video.truth is None and not video.problems:
            found.append("no frame-level truth")
        self._seen[video.id] += 1
        if self._seen[video.id] == 2:
            found.append("this id appears more than once")
        self._offenders += [f"{video.id}: {problem}" for problem in unusable + found]
        fits = self.width is None or video.features.shape[-1] == self.width
        return not unusable and fits

    def settle(self, what: str, extra: Sequence[str] = ()) -> None:
        """Raise `BadItems` with every offender there was."""
        offenders = self._offenders + self._misfits() + list(extra)
        if offenders:
            raise BadItems(f"{what}: {len(offenders)} problem(s) with the videos", offenders)

    def _misfits(self) -> list[str]:
        if not self._shapes:
            return []
        width = self.width or Counter(w for _, w, _ in self._shapes).most_common(1)[0][0]
        source = "the model expects" if self.width else "the others have"
        found = [f"{i}: {w} channels wide, {source} {width}" for i, w, _ in self._shapes if w != width]
        if self.same_crops:
            crops = Counter(n for *_, n in self._shapes).most_common(1)[0][0]
            found += [f"{i}: {n} crop(s), the others have {crops}" for i, _, n in self._shapes if n != crops]
        return found


def class_balance_problems(labels: Sequence[int]) -> list[str]:
    """Training compares classes with each other and videos of a class among themselves."""
    count = Counter(labels)
    names = {0: "normal", 1: "anomalous"}
    return [
        f"{count[label]} {name} video(s), at least 2 are needed"
        for label, name in names.items()
        if count[label] < 2
    ]
