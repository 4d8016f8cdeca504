"""Extraction: decode workers → batches → encoder → writer, with bounded queues, one owner per file.

A resumed extraction must give the same bytes, so what a clip is encoded with must not depend on chance. Batches
therefore stay inside one video. On an accelerator, where small batches waste it, they may hold clips of several videos
and always have the same shape, after it was checked bit by bit that a row of the encoder's output depends neither on
the other rows nor on its place.

What the encoder computes in is part of the recipe (`precision`), so that features of two arithmetics never lie in one
store either. Compiling changes roundings only, as another device does, and is noted in every file.

With a pixel anonymizer clips go through it before they reach the encoder. The store then names both, so that features
of raw and of anonymized pictures, or of two anonymizers, never lie in one store.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import videoveil
from videoveil import devices, files
from videoveil.anonymizers.latent import require_exportable
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, CorruptVideo, StoreError, UsageError, VeilError
from videoveil.features.batches import Encoded, Flow, Forward
from videoveil.features.clips import Outline, Sample, open_clips
from videoveil.features.pixels import FrameAnonymizer, PixelVeil, combined
from videoveil.features.store import CROPS, FeatureRecipe, FeatureStore, Precision, VideoFeatures

if TYPE_CHECKING:
    from videoveil.encoders.base import Encoder

TED_SPAD_STRIDE = 2  # source frames from one to the next, whatever the encoder is used to
STALL_SECONDS = 0.5  # without a new clip before a half-full batch is encoded
RETRY_SECONDS = 0.2  # how often an item that another process owns is looked at again


@dataclass(frozen=True, slots=True)
class ExtractReport:
    """What an extraction did and what held it back."""

    store: str
    dataset: str
    items: int
    extracted: int  # by this process, this time
    present: int  # found done
    clips: int  # encoded by this process, static ones included
    skipped: tuple[str, ...]
    seconds: float
    stage_seconds: dict[str, float]  # busy time of decode (all workers), encode, write
    bottleneck: str
    batches_cross_videos: bool

    @property
    def clips_per_second(self) -> float:
        return self.clips / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {
            "clips_per_second": self.clips_per_second
        }


def recipe_for(
    encoder: Encoder,
    *,
    clips: str = "all",
    static: int = 0,
    tokens: bool = False,
    precision: Precision = "fp32",
) -> FeatureRecipe:
    """The recipe an encoder asks for; with clips "ted-spad" that paper's stride and crop in place of the encoder's."""
    spec = encoder.input
    stride, crop = (TED_SPAD_STRIDE, CROPS[1]) if clips == "ted-spad" else (spec.stride, CROPS[0])
    return FeatureRecipe(spec.frames, stride, spec.resize, spec.size, clips, static, tokens, precision, crop)


def extract(
    dataset: Dataset,
    root: str | Path,
    encoder: Encoder,
    recipe: FeatureRecipe | None = None,
    *,
    batch: int = 8,
    workers: int = 1,
    device: str = "auto",
    skip_bad: bool = False,
    progress: Callable[[int, int, int], None] | None = None,
    anonymizer: FrameAnonymizer | None = None,
    eight_bit: bool = False,
    compiled: bool = False,
) -> ExtractReport:
    """Fill a store with the features of a dataset; what is there already is not done again.

    `progress(done, total, clips)` is called after every item. A broken item never stops the others; at the end all of
    them are raised as one `BadItems`, or with `skip_bad` left out and listed in `STORE/skipped/DATASET.txt`.
    `anonymizer`: what the encoder sees goes through it first (TeD-SPAD: f_A, then f_T); one whose output must not leave
    the process is refused. `eight_bit`: as bytes, the way a stored video would come out of it. `compiled`: the encoder
    by torch.compile, which takes a minute and pays for long extractions; batches then all have the same shape.
    """
    if batch < 1 or workers < 1:
        raise UsageError(f"batch={batch}, workers={workers}: both must be at least 1")
    if len({item.id for item in dataset}) != len(dataset):
        raise UsageError(f"dataset {dataset.name}: item ids are not unique")
    recipe = recipe or recipe_for(encoder)
    veil = _veil(anonymizer, eight_bit)
    store = FeatureStore.create(root, identity_of(encoder, veil), recipe)
    store.check_index(dataset)
    forward = Forward(
        encoder,
        devices.choose(device),
        precision=recipe.precision,
        tokens=recipe.tokens,
        compiled=compiled,
        veil=veil,
    )
    return _Extraction(dataset, store, forward, batch, workers, skip_bad, progress, compiled).run()


def identity_of(encoder: Encoder, veil: PixelVeil | None = None) -> dict[str, Any]:
    """What a store says its features were made with."""
    own = {
        "name": encoder.name,
        "hash": encoder.content_hash(),
        "width": encoder.width,
        "options": encoder.recreation(),
    }
    return own if veil is None else combined(own, veil)


def _veil(anonymizer: FrameAnonymizer | None, eight_bit: bool) -> PixelVeil | None:
    if anonymizer is None:
        if eight_bit:
            raise UsageError("eight_bit rounds what an anonymizer gives, and there is none")
        return None
    require_exportable(anonymizer)
    return PixelVeil(anonymizer, eight_bit)


@dataclass
class _Job:
    """One item on its way through the stages; it owns its key until it is written or has failed."""

    item: Item
    key: str
    content: str
    outline: Outline | None = None
    clips: dict[int, np.ndarray] = field(default_factory=dict)
    tokens: dict[int, np.ndarray] = field(default_factory=dict)
    static: dict[int, np.ndarray] = field(default_factory=dict)
    error: Exception | None = None
    decoded: bool = False  # the file was read as far as it had to be, or failed
    passed: bool = False  # handed to the writer

    def ready(self) -> bool:
        """Decoded without error and every row encoded, or failed: nothing more will come."""
        plan = self.outline
        if not self.decoded or self.error is not None or plan is None:
            return self.decoded
        return len(self.clips) == len(plan.starts) and len(self.static) == len(plan.static_frames)

    def take(self, sample: Sample, pooled: np.ndarray, tokens: np.ndarray | None) -> None:
        """Keep what the encoder said of one clip."""
        (self.clips if sample.kind == "clip" else self.static)[sample.place] = pooled.copy()
        if tokens is not None and sample.kind == "clip":
            self.tokens[sample.place] = tokens.copy()

    def features(self, recipe: FeatureRecipe) -> VideoFeatures:
        """Everything in its place."""
        plan = self.outline
        if plan is None:
            raise StoreError(f"{self.item.id}: finished without an outline")
        clip = np.stack([self.clips[i] for i in range(len(plan.starts))])
        tokens = np.stack([self.tokens[i] for i in range(len(plan.starts))]) if recipe.tokens else None
        static, static_frames = None, None
        if recipe.static and self.item.kind == "image":  # a still picture is its own static clip
            static, static_frames = clip, np.zeros(1, dtype=np.int64)
        elif recipe.static:
            static = np.stack([self.static[i] for i in range(len(plan.static_frames))])
            static_frames = np.array(plan.static_frames, dtype=np.int64)
        return VideoFeatures(
            clip=clip,
            starts=np.array(plan.starts, dtype=np.int64),
            pts=plan.pts,
            time_base=plan.time_base,
            frames=plan.frames,
            rate=plan.rate,
            tokens=tokens,
            static=static,
            static_frames=static_frames,
        )


class _Extraction:
    def __init__(
        self,
        dataset: Dataset,
        store: FeatureStore,
        forward: Forward,
        batch: int,
        workers: int,
        skip_bad: bool,
        progress: Callable[[int, int, int], None] | None,
        compiled: bool,
    ):
        self.dataset, self.store, self.recipe = dataset, store, store.recipe
        self.forward, self.compiled = forward, compiled
        self.flow = Flow(forward, batch, (3, self.recipe.frames, self.recipe.size, self.recipe.size))
        self.flying: deque[list[tuple[_Job, Sample]]] = deque()  # batches whose features were not collected
        self.batch, self.workers, self.skip_bad, self.progress = batch, workers, skip_bad, progress
        self.todo: deque[Item] = deque(dataset.items)
        self.samples: queue.Queue[tuple[_Job, Sample | None] | None] = queue.Queue(maxsize=2 * batch)
        self.finished: queue.Queue[_Job | None] = queue.Queue(maxsize=4)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.crash: BaseException | None = None
        self.claims: dict[str, contextlib.ExitStack] = {}  # by key, of the jobs on their way
        self.contents: dict[str, str] = {}
        self.stamps: dict[str, tuple[int, ...]] = {}
        self.keys: dict[str, str] = {}
        self.bad: dict[str, str] = {}
        self.extracted = self.present = self.encoded = 0
        self.busy = {"decode": 0.0, "encode": 0.0, "write": 0.0}
        self.cross = False

    # --- the run -------------------------------------------------------------------------------------------

    def run(self) -> ExtractReport:
        began = time.perf_counter()
        self.store.tidy()
        decoders = [
            threading.Thread(target=self._guard(self._decode), daemon=True) for _ in range(self.workers)
        ]
        writer = threading.Thread(target=self._guard(self._write), daemon=True)
        for thread in (*decoders, writer):
            thread.start()
        try:
            self._encode()
        except BaseException as error:
            self.crash = self.crash or error
        if self.crash is not None:
            self.stop.set()
        self._put(self.finished, None)
        for thread in (*decoders, writer):
            thread.join()
        for claim in self.claims.values():  # left only after a crash
            claim.close()
        if self.crash is not None:
            raise self.crash
        return self._finish(time.perf_counter() - began)

    def _finish(self, seconds: float) -> ExtractReport:
        skipped = tuple(f"{id_}: {reason}" for id_, reason in sorted(self.bad.items()))
        if skipped and not self.skip_bad:
            raise BadItems(
                f"{self.dataset.name}: {len(skipped)} of {len(self.dataset)} items cannot be used; the others are "
                "stored. Mend them and run again, or leave them out with --skip-bad:",
                skipped,
            )
        kept = self.dataset.where(lambda item: item.id not in self.bad)
        skipped = (*self.dataset.skipped, *skipped)
        listing = self.store.root / "skipped" / f"{self.dataset.name}.txt"
        if skipped:
            files.write_text(listing, "\n".join(skipped) + "\n")
        else:
            listing.unlink(missing_ok=True)  # of an earlier run, before the items were mended
        self.store.write_index(replace(kept, skipped=skipped), self.keys)
        self.store.tidy()
        shares = {name: busy / (self.workers if name == "decode" else 1) for name, busy in self.busy.items()}
        return ExtractReport(
            store=str(self.store.root),
            dataset=self.dataset.name,
            items=len(kept),
            extracted=self.extracted,
            present=self.present,
            clips=self.encoded,
            skipped=skipped,
            seconds=seconds,
            stage_seconds={name: round(busy, 3) for name, busy in self.busy.items()},
            bottleneck=max(shares, key=lambda name: shares[name]) if self.encoded else "nothing to do",
            batches_cross_videos=self.cross,
        )

    def _guard(self, stage: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                stage()
            except BaseException as error:  # handed to the main thread, which raises it
                self.crash = self.crash or error
                self.stop.set()

        return guarded

    def _put(self, target: queue.Queue[Any], value: Any) -> float:
        """Put with a look at the stop flag; returns the seconds spent waiting for room."""
        began = time.perf_counter()
        while not self.stop.is_set():
            with contextlib.suppress(queue.Full):
                target.put(value, timeout=0.1)
                return time.perf_counter() - began
        return time.perf_counter() - began

    def _get(self, source: queue.Queue[Any], patience: float | None = None) -> Any:
        """Get with a look at the stop flag (None then); queue.Empty after `patience` seconds without anything."""
        deadline = None if patience is None else time.perf_counter() + patience
        while not self.stop.is_set():
            with contextlib.suppress(queue.Empty):
                return source.get(timeout=0.1)
            if deadline is not None and time.perf_counter() > deadline:
                raise queue.Empty
        return None

    # --- decode --------------------------------------------------------------------------------------------

    def _decode(self) -> None:
        while not self.stop.is_set():
            with self.lock:
                item = self.todo.popleft() if self.todo else None
            if item is None:
                break
            self._decode_item(item)
        self._put(self.samples, None)

    def _decode_item(self, item: Item) -> None:
        began, waited = time.perf_counter(), 0.0
        try:
            self.stamps.setdefault(item.id, _stamp(item))
            content = self.contents.get(item.id) or _content(item)
        except OSError as error:
            self._settle(item, error=f"cannot be read ({error.strerror or error})")
            return
        self.contents[item.id] = content  # hashed once, however often somebody else's claim is met
        key = self.store.key(content)
        with self.lock:
            self.keys[item.id] = key
        if self.store.has(key):
            self._settle(item, present=True)
            return
        claim = contextlib.ExitStack()
        owned = claim.enter_context(self.store.claim(key))
        if not owned or self.store.has(key):
            claim.close()
            with self.lock:
                self.todo.append(item)  # someone else is at it: look again later, and take over if they die
            if not owned:
                self.stop.wait(RETRY_SECONDS)
            return
        self.claims[key] = claim
        job = _Job(item, key, content)
        try:
            before = _stamp(item)
            job.outline, samples = open_clips(item, self.recipe)
            with contextlib.closing(samples):
                for sample in samples:
                    if self.stop.is_set():
                        return
                    waited += self._put(self.samples, (job, sample))
            if _stamp(item) != before or before != self.stamps[item.id]:
                raise CorruptVideo(item.path, "was changed while it was being read")
        except (VeilError, OSError) as error:
            job.error = error
        waited += self._put(self.samples, (job, None))
        with self.lock:
            self.busy["decode"] += time.perf_counter() - began - waited

    def _settle(self, item: Item, *, error: str | None = None, present: bool = False) -> None:
        with self.lock:
            if error is not None:
                self.bad[item.id] = error
            else:
                self.present += present
                self.extracted += not present
            done = len(self.bad) + self.present + self.extracted
        if self.progress is not None:
            self.progress(done, len(self.dataset), self.encoded)

    # --- encode --------------------------------------------------------------------------------------------

    def _encode(self) -> None:
        """Gather clips into batches: of one video each, or (see `_may_cross`) of whatever comes."""
        waiting: dict[int, list[tuple[_Job, Sample]]] = {}  # by job, or all under 0
        open_workers, checked = self.workers, False
        while open_workers:
            # when nothing comes for a while, somebody may be waiting for what a half-full batch would finish
            patience = STALL_SECONDS if self.flying or (self.cross and waiting) else None
            try:
                entry = self._get(self.samples, patience)
            except queue.Empty:
                if self.cross and waiting:
                    self._flush(waiting.pop(0))
                self._collect(0)
                continue
            if entry is None:
                if self.stop.is_set():
                    return
                open_workers -= 1
                continue
            job, sample = entry
            if not checked:
                self.cross, checked = self._may_cross(), True
            group = 0 if self.cross else id(job)
            if sample is None:
                job.decoded = True
                if not self.cross and group in waiting:
                    self._flush(waiting.pop(group))
                self._hand_over(job)
                continue
            waiting.setdefault(group, []).append((job, sample))
            if len(waiting[group]) == self.batch:
                self._flush(waiting.pop(group))
        for rest in waiting.values():
            self._flush(rest)
        self._collect(0)

    def _may_cross(self) -> bool:
        """Batches over several videos pay on an accelerator only, and are sound only if rows do not mix."""
        return self.forward.device.type != "cpu" and rows_are_independent(self._features, self._noise())

    def _noise(self) -> Tensor:
        """A batch of noise in the shape of every batch to come."""
        shape = (self.batch, 3, self.recipe.frames, self.recipe.size, self.recipe.size)
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def _features(self, pictures: Tensor) -> Encoded:
        pooled, tokens = self.forward(pictures)
        return pooled.cpu(), None if tokens is None else tokens.cpu()

    def _flush(self, waiting: list[tuple[_Job, Sample]]) -> None:
        """Send a batch on its way, and take in what has come back."""
        self._collect(self.flow.depth - 1)
        began = time.perf_counter()
        rows = [sample.pictures for _, sample in waiting]
        self.flow.submit(rows, [job.content for job, _ in waiting], full=self.cross or self.compiled)
        self.busy["encode"] += time.perf_counter() - began
        self.flying.append(waiting)
        if self.flow.depth == 1:
            self._collect(0)

    def _collect(self, leave: int) -> None:
        """Take features in until no more than `leave` batches are on their way."""
        while len(self.flying) > leave:
            began = time.perf_counter()
            pooled, tokens = self.flow.collect()
            self.busy["encode"] += time.perf_counter() - began
            self._take(self.flying.popleft(), pooled, tokens)

    def _take(self, waiting: list[tuple[_Job, Sample]], pooled: Tensor, tokens: Tensor | None) -> None:
        self.encoded += len(waiting)
        touched: dict[int, _Job] = {}
        for row, (job, sample) in enumerate(waiting):
            job.take(sample, pooled[row].numpy(), None if tokens is None else tokens[row].numpy())
            touched[id(job)] = job
        for job in touched.values():
            self._hand_over(job)

    def _hand_over(self, job: _Job) -> None:
        """Pass a job on, once, when nothing more will come for it."""
        if job.ready() and not job.passed:
            job.passed = True
            self._put(self.finished, job)

    # --- write ---------------------------------------------------------------------------------------------

    def _write(self) -> None:
        while True:
            job = self._get(self.finished)
            if job is None:
                return
            began = time.perf_counter()
            error: str | None = None
            with self.claims.pop(job.key):
                if job.error is not None:
                    error = str(getattr(job.error, "reason", job.error))
                else:
                    try:
                        self.store.write(job.key, job.features(self.recipe), self._provenance(job))
                    except StoreError as refused:  # the item's own fault: NaN from its frames
                        error = str(refused)
            self.busy["write"] += time.perf_counter() - began
            self._settle(job.item, error=error)

    def _provenance(self, job: _Job) -> dict[str, str]:
        return {
            "content": job.content,
            "software": f"videoveil {videoveil.__version__}, torch {torch.__version__}"
            + (", compiled" if self.compiled else ""),
        }


def features_of(
    item: Item,
    encoder: Encoder,
    recipe: FeatureRecipe,
    *,
    batch: int = 8,
    device: str = "auto",
    anonymizer: FrameAnonymizer | None = None,
    eight_bit: bool = False,
) -> VideoFeatures:
    """The features of one item, as an extraction would store them, without a store. Clips are encoded as they come."""
    chosen, veil = devices.choose(device), _veil(anonymizer, eight_bit)
    forward = Forward(encoder, chosen, precision=recipe.precision, tokens=recipe.tokens, veil=veil)
    flow = Flow(forward, batch, (3, recipe.frames, recipe.size, recipe.size))
    job = _Job(item, "", "" if veil is None else _content(item))
    job.outline, samples = open_clips(item, recipe)
    waiting: list[Sample] = []

    def flush() -> None:
        flow.submit([sample.pictures for sample in waiting], [job.content] * len(waiting), full=False)
        pooled, tokens = flow.collect()
        for row, sample in enumerate(waiting):
            job.take(sample, pooled[row].numpy(), None if tokens is None else tokens[row].numpy())
        waiting.clear()

    with contextlib.closing(samples):
        for sample in samples:
            waiting.append(sample)
            if len(waiting) == batch:
                flush()
    if waiting:
        flush()
    return job.features(recipe)


def _stamp(item: Item) -> tuple[int, ...]:
    """Which file this is and when it was last written."""
    facts = item.path.stat()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _content(item: Item) -> str:
    """What the features are made from: the bytes of the file, and the part of it that is meant."""
    part = "" if item.clip is None else f" [{item.clip[0]}, {item.clip[1]})"
    return f"{item.kind} sha256:{files.file_hash(item.path)}{part}"


def rows_are_independent(features: Callable[[Tensor], tuple[Tensor, Tensor | None]], batch: Tensor) -> bool:
    """Whether the same row gives the same bits at another place, among other rows and beside its double."""
    if len(batch) == 1:
        return True
    moved = torch.arange(len(batch)).roll(1)
    moved[0] = moved[1]  # the first row twice, as padding does; every other row one place further
    once, again = features(batch), features(batch[moved])
    return all(torch.equal(a[moved], b) for a, b in zip(once, again) if a is not None and b is not None)
