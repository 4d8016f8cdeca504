"""What computes: an anonymizer as a function from pictures to pictures, by the fastest means there is.

A learned pixel anonymizer runs in an engine (`anonymizers.pixel.engine`) made for one size of pictures: plain torch,
compiled, or OpenVINO. With "auto" those that can be had are timed on a few pictures and the fastest is taken; compiling
takes half a minute, so only long inputs are offered it. Everything else runs as it is: whole-picture obfuscations in
batches, obfuscations that follow people as one stream.

A worker is told of as many pictures as `batch` at once and gives one for each, in order. It raises on any failure; then
nothing of that batch is used. As many threads as it has `hands` may call it at the same time, each after a call of its
`begin`: on a CPU every one then computes frames of its own, on its share of the cores.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.latent import LatentAnonymizer, require_exportable
from videoveil.anonymizers.named import Untouched
from videoveil.anonymizers.obfuscate import Layered, Obfuscator
from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer
from videoveil.anonymizers.pixel.engine import Engine, engine
from videoveil.devices import choose
from videoveil.errors import UsageError
from videoveil.pipeline.errors import WeightsChanged, told
from videoveil.pipeline.hands import affordable_hands, hands_within, own_threads, share
from videoveil.pipeline.inner import inner_size, reason, trained_size
from videoveil.pipeline.options import Options

SHORT = 2**24  # pixels of all frames together: below, measuring costs more than it can save
LONG = 5000  # frames from which on compiling pays off
TRIAL = 1.0  # seconds, at most, that one candidate is timed
SAME = 3  # grey levels that a known answer may be off: some devices add up in any order
KNOWN = "a known answer"  # the name of a video that is none
PIXELS = 2**21  # of a batch for anonymizers without an engine
IN_FLOATS = 4 * 12  # bytes for a pixel on its way through their stages: four pictures in floats
FEW = 2**16  # pixels of a network's batch on a CPU: more at once is no faster there


class Worker(Protocol):
    """Pictures in, as many pictures out."""

    batch: int
    hands: int

    def begin(self) -> None:
        """Called first by each of several threads that are going to call this."""
        ...

    def __call__(self, images: Sequence[np.ndarray], content: str | None = None) -> list[Any]:
        """(H, W, 3) uint8 RGB each → the same. content: names the video, for noise of one draw per video."""
        ...

    def answer(self, every: bool = True) -> None:
        """Raise `WeightsChanged` unless it still gives the answer it gave at first.

        every: as many threads as it has hands are started to ask it at the same time, so that each of its copies is
        asked; else the calling thread asks it once, which takes no memory that the thread has not taken before.
        """
        ...

    def facts(self) -> dict[str, Any]:
        """For the report."""
        ...


@dataclass(frozen=True)
class Key:
    """What an engine was chosen for."""

    anonymizer: str
    size: tuple[int, int]
    engine: str
    device: str
    batch: int
    inner: tuple[int, int]
    hands: int


@dataclass
class Workshop:
    """Keeps engines, so that the files of a folder do not each measure and build their own."""

    made: dict[Key, NetworkWorker] = field(default_factory=dict)
    most: int = 4

    def worker(
        self,
        anonymizer: Any,
        size: tuple[int, int],
        frames: int | None,
        options: Options,
        *,
        hands: int = 1,
    ) -> Worker:
        """For one video with pictures of `size` (height, width) and about so many frames.

        hands: threads that can call it together, at most; the worker says how many should.
        """
        if isinstance(anonymizer, Obfuscator):
            return StreamWorker(anonymizer)
        if isinstance(anonymizer, Layered):
            then = self.worker(anonymizer.then, size, frames, options)
            return LayeredWorker(StreamWorker(anonymizer.cover), then)
        if not isinstance(anonymizer, PixelAnonymizer) or not anonymizer.networks:
            return PlainWorker(anonymizer, size, options, hands)
        wanted, inner = options.engine, inner_size(size, options.inner, trained_size(anonymizer))
        if wanted == "auto" and _short(frames, inner):
            wanted = "torch"
        named = wanted, options.device, options.batch, inner
        key = Key(anonymizer.content_hash(), size, *named, hands)
        known = self.made.get(key)
        if known is None or known.source is not anonymizer:
            known = _network_worker(anonymizer, size, frames, options, hands)
            if len(self.made) >= self.most:
                self.made.pop(next(iter(self.made)))
            self.made[key] = known
        return known


def require_usable(anonymizer: Any) -> None:
    """Raise unless its pictures may leave the process."""
    if isinstance(anonymizer, Untouched):
        raise UsageError(
            "anonymizer 'identity' changes nothing; it is for audits. Choose another, such as 'blur'"
        )
    if isinstance(anonymizer, LatentAnonymizer):
        raise UsageError(
            "this anonymizer works on features: use `veil extract` and `veil anonymize-features`"
        )
    require_exportable(anonymizer)


# --- workers ------------------------------------------------------------------------------------------------


class StreamWorker:
    """An obfuscator that follows people: one stream, frame after frame."""

    batch = hands = 1

    def __init__(self, obfuscator: Obfuscator):
        self.obfuscator = obfuscator
        self._given: deque[np.ndarray] = deque()
        self._stream = obfuscator.frames(self._next())
        self._sound = True

    def begin(self) -> None:
        """Nothing to prepare."""

    def _next(self) -> Iterator[np.ndarray]:
        while True:
            yield self._given.popleft()

    def __call__(self, images: Sequence[np.ndarray], content: str | None = None) -> list[Any]:
        if not self._sound:
            raise Withheld("an earlier frame failed, so that people are no longer followed")
        self._sound = False  # until all of these are through
        self._given.extend(images)
        made = [next(self._stream) for _ in images]
        self._sound = True
        return made

    def answer(self, every: bool = True) -> None:
        """It has no weights of its own; the hash tells of the detector's."""

    def facts(self) -> dict[str, Any]:
        return {"name": "stream", "batch": self.batch}


class LayeredWorker:
    """An obfuscator that follows people, and behind it whoever changes whole pictures: one stream."""

    hands = 1

    def __init__(self, cover: StreamWorker, then: Worker):
        self.cover, self.then, self.batch = cover, then, then.batch

    def begin(self) -> None:
        self.then.begin()

    def __call__(self, images: Sequence[np.ndarray], content: str | None = None) -> list[Any]:
        return self.then(self.cover(images, content), content)

    def answer(self, every: bool = True) -> None:
        self.then.answer(every)

    def facts(self) -> dict[str, Any]:
        return {**self.then.facts(), "behind": self.cover.facts()["name"], "hands": self.hands}


class PlainWorker:
    """An anonymizer as it is, in batches.

    Stages of a pixel anonymizer keep nothing from one frame to the next, so several hands can be at them. Of others
    nobody knows, one's own above all.
    """

    def __init__(self, anonymizer: Any, size: tuple[int, int], options: Options, hands: int = 1):
        self.device = choose(options.device)
        self.anonymizer = anonymizer.to(self.device) if hasattr(anonymizer, "to") else anonymizer
        self.batch = options.batch or max(1, min(16, PIXELS // (size[0] * size[1])))
        stateless = isinstance(anonymizer, PixelAnonymizer) and self.device.type == "cpu"
        self.hands = hands_within(self.batch * size[0] * size[1] * IN_FLOATS, hands) if stateless else 1
        self._share = share(self.hands)

    def begin(self) -> None:
        own_threads(self._share)

    def __call__(self, images: Sequence[np.ndarray], content: str | None = None) -> list[Any]:
        named = _named(self.anonymizer, content, len(images))
        return to_images(self.anonymizer(to_tensor(images, self.device), **named), len(images))

    def answer(self, every: bool = True) -> None:
        """The hash is that of the very object that works."""

    def facts(self) -> dict[str, Any]:
        return {"name": "plain", "device": str(self.device), "batch": self.batch, "hands": self.hands}


class NetworkWorker:
    """A learned anonymizer in an engine, which has its own copy of the weights: a known answer tells if it changed.

    The engine may be made for smaller pictures than come in, which are then made smaller for it and its own larger
    again. Where it needs larger ones than come in (a network halves a picture four times), they get a rim, which is
    cut off again.
    """

    def __init__(self, source: PixelAnonymizer, made: Engine, size: tuple[int, int], facts: dict[str, Any]):
        self.source, self.engine, self.size = source, made, size
        self.batch, self.hands, self._share = made.batch, made.hands, share(made.hands)
        self.scaled = made.size[0] < size[0] or made.size[1] < size[1]
        self._facts = facts
        self._question = np.random.default_rng(0).integers(0, 256, (*made.size, 3), dtype=np.uint8)
        self._answer = np.asarray(self.inner([self._question], KNOWN)[0])

    def begin(self) -> None:
        own_threads(self._share)

    def __call__(self, images: Sequence[np.ndarray], content: str | None = None) -> list[Any]:
        if self.scaled:
            small = [self.smaller(image) for image in images]
            return [self.larger(picture) for picture in self.inner(small, content)]
        frames = to_tensor(images, self.engine.device)
        more = [need - have for need, have in zip(self.engine.size, self.size)]
        if any(more):
            frames = F.pad(frames.float(), (0, more[1], 0, more[0]), mode="replicate").to(torch.uint8)
        made = self.engine(frames, **_named(self.source, content, len(images)))
        return to_images(made[..., : self.size[0], : self.size[1]], len(images))

    def smaller(self, image: np.ndarray) -> np.ndarray:
        """(H, W, 3) uint8 as the engine looks at it."""
        return cv2.resize(image, self.engine.size[::-1], interpolation=cv2.INTER_AREA)

    def larger(self, picture: np.ndarray) -> np.ndarray:
        """What the engine gave, at the size of the result."""
        return cv2.resize(picture, self.size[::-1], interpolation=cv2.INTER_LINEAR)

    def inner(self, images: Sequence[np.ndarray], content: str | None = None) -> list[Any]:
        """As a call, for pictures that have the engine's size already; what comes out has it too."""
        named = _named(self.source, content, len(images))
        return to_images(self.engine(to_tensor(images, self.engine.device), **named), len(images))

    def answer(self, every: bool = True) -> None:
        if not every:
            self._ask()
            return
        with ThreadPoolExecutor(self.hands, initializer=self.begin) as pool:
            for one in [pool.submit(self._ask) for _ in range(self.hands)]:
                one.result()

    def _ask(self) -> None:
        found = np.asarray(self.inner([self._question], KNOWN)[0])
        if found.shape != self._answer.shape or np.abs(found.astype(int) - self._answer).max() > SAME:
            raise WeightsChanged(
                "the engine no longer gives the answer it gave at first: its weights changed or the machine "
                "computes wrongly; nothing it made is released"
            )

    def facts(self) -> dict[str, Any]:
        return self._facts


def _named(anonymizer: Any, content: str | None, count: int) -> dict[str, Any]:
    """Names of the video of every row, for those that ask for them."""
    return {"content": [content] * count} if content and getattr(anonymizer, "wants_content", False) else {}


# --- choosing -----------------------------------------------------------------------------------------------


def _network_worker(
    anonymizer: PixelAnonymizer, size: tuple[int, int], frames: int | None, options: Options, hands: int
) -> NetworkWorker:
    trained = trained_size(anonymizer)
    inner = inner_size(size, options.inner, trained)
    device = choose(options.device)
    names, why = _candidates(device, frames, inner, options)
    trials: dict[str, float | str] = {}
    best: tuple[float, str, Engine] | None = None
    for name in names:
        try:
            made = _engine(name, anonymizer, inner, device, options.batch, hands)
            fps = _speed(made) if len(names) > 1 else _warm(made)
        except Exception as error:  # one that does not run here is not chosen; the last one left must run
            if len(names) == 1 or (name == names[-1] and best is None):
                raise
            trials[name] = told(error)
            continue
        trials[name] = round(fps, 2)
        if best is None or fps > best[0]:
            best = fps, name, made
    assert best is not None
    chosen = best[2]
    facts = {
        "name": best[1],
        "why": why,
        "precision": chosen.precision,
        "device": str(chosen.device),
        "batch": chosen.batch,
        "hands": chosen.hands,
        "pictures": list(inner),
        "scale": reason(size, options.inner, trained),
    }
    if len(names) > 1:
        facts["measured_fps"] = trials
    return NetworkWorker(anonymizer, chosen, size, facts)


def _short(frames: int | None, inner: tuple[int, int]) -> bool:
    """Whether there is too little to do for measuring engines. Of a stream nobody knows; it is taken for long."""
    return frames is not None and frames * inner[0] * inner[1] < SHORT


def _candidates(
    device: torch.device, frames: int | None, inner: tuple[int, int], options: Options
) -> tuple[list[str], str]:
    """Which engines to try, and why those."""
    if options.engine != "auto":
        return [options.engine], "asked for"
    if _short(frames, inner):
        return ["torch"], f"{frames} frames are too few to measure"
    names = ["torch"]
    if device.type == "cpu" and importlib.util.find_spec("openvino"):
        names.append("openvino")
    if frames is not None and frames >= LONG:
        names.append("compile")
    if len(names) == 1:
        return names, "the only one here"
    return names, "the fastest of those measured"


def _engine(
    name: str,
    anonymizer: PixelAnonymizer,
    size: tuple[int, int],
    device: torch.device,
    batch: int,
    hands: int,
) -> Engine:
    backend: Any = "openvino" if name == "openvino" else "torch"
    if device.type != "cpu" or name == "compile":
        hands = 1
    if device.type == "cpu" and not batch:
        # whatever the number of cores, since a network's last bits depend on it
        batch = max(1, FEW // (size[0] * size[1]))
    with warnings.catch_warnings():  # of the tracer, about sizes, which are fixed here
        warnings.simplefilter("ignore")
        return engine(
            anonymizer,
            size,
            device,
            compile=name == "compile",
            backend=backend,
            batch=batch or None,
            hands=affordable_hands(anonymizer, size, batch, hands),
        )


def _warm(made: Engine) -> float:
    """The first batch, which costs more than all later ones."""
    began = time.perf_counter()
    _once(made)
    return made.batch / (time.perf_counter() - began)


def _speed(made: Engine) -> float:
    """Frames per second, after a first batch; in threads of their own, as a pipeline runs it.

    In a main thread OpenMP's threads wait for each other busily, on a machine with other work at half the speed.
    """
    with ThreadPoolExecutor(made.hands, initializer=own_threads, initargs=(share(made.hands),)) as pool:
        return sum(pool.map(_rounds, [made] * made.hands))


def _rounds(made: Engine) -> float:
    _once(made)
    rounds, began = 0, time.perf_counter()
    while rounds < 8 and (rounds == 0 or time.perf_counter() - began < TRIAL):
        _once(made)
        rounds += 1
    return rounds * made.batch / (time.perf_counter() - began)


def _once(made: Engine) -> None:
    probe = torch.zeros(made.batch, 3, *made.size, dtype=torch.uint8, device=made.device)
    made(probe, **_named(made.anonymizer, KNOWN, made.batch))
    _wait(made)


def _wait(made: Engine) -> None:
    if made.device.type == "cuda":
        torch.cuda.synchronize(made.device)


# --- pictures and tensors -----------------------------------------------------------------------------------


def to_tensor(images: Sequence[np.ndarray], device: torch.device) -> Tensor:
    """n × (H, W, 3) uint8 → (n, 3, H, W) uint8 on the device; by way of pinned memory to a GPU."""
    if device.type == "cuda":
        stacked = torch.from_numpy(np.stack(images)).pin_memory()
        return stacked.to(device, non_blocking=True).permute(0, 3, 1, 2).contiguous()
    planes = np.empty((len(images), 3, *images[0].shape[:2]), np.uint8)
    for row, image in zip(planes, images, strict=True):
        if image.dtype != np.uint8 or image.shape != (*planes.shape[2:], 3):
            raise UsageError(f"a picture is {image.dtype} {image.shape}, not uint8 {(*planes.shape[2:], 3)}")
        cv2.split(image, list(row))
    return torch.from_numpy(planes)


def to_images(made: Any, count: int) -> list[Any]:
    """(n, 3, H, W) → n pictures (H, W, 3). What is no such tensor is handed on as it is: the checks refuse it."""
    if not isinstance(made, Tensor) or made.dim() != 4 or len(made) != count:
        return [f"{type(made).__name__} {tuple(getattr(made, 'shape', ()))}"] * count
    if made.device.type == "cpu" and made.dtype == torch.uint8 and made.shape[1] == 3:
        return [cv2.merge(list(planes)) for planes in made.detach().contiguous().numpy()]
    return list(made.detach().permute(0, 2, 3, 1).contiguous().cpu().numpy())
