"""The life of jobs: accepted, waiting, worked on, ended, deleted; and what a restart makes of each.

    uploading ──→ queued ──→ running ──→ done
        │            ↑          │  └───→ failed      (the upload is deleted in both cases)
        ↓            └──────────┘
      deleted     the server or the worker was stopped: again, up to `tries` times

The journal is written before anything is told to a client, so what a client was told survives a kill.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from videoveil.serve.crew import Crew, Lost
from videoveil.serve.disk import on_disk
from videoveil.serve.limits import Places
from videoveil.serve.line import Line
from videoveil.serve.settings import Settings
from videoveil.serve.store import ANOMALY, JOURNAL, LOCK, REPORT, UPLOAD, VIDEO, Job, Store

log = logging.getLogger("videoveil.serve")
TO_DO = (JOURNAL, LOCK, UPLOAD)  # what a job has before it is worked on; the lock may be held a moment longer


class QueueFull(Exception):
    """No more jobs are taken now, of this owner or of anybody."""


@dataclass
class Live:
    """A job of this server: its journal, and what is not worth one."""

    job: Job
    stage: str = ""
    progress: dict[str, Any] | None = None
    version: int = 0
    worker: asyncio.Task[None] | None = None
    deleted: bool = False
    """Nobody is to see it any more."""
    gone: bool = False
    """All of it is deleted."""


class Jobs:
    """All jobs of one server."""

    def __init__(self, settings: Settings, store: Store):
        self.settings, self.store = settings, store
        self.crew = Crew()
        self.ended: Counter[str] = Counter()
        self.seconds = 0.0
        self.frames = 0
        self._live: dict[str, Live] = {}
        self._line = Line()
        self._admitted = Places(settings.queue, settings.queue_per_token)  # uploads that will want to wait
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._running = 0

    # --- start and stop ---

    async def start(self) -> None:
        await on_disk(self._recover)
        await self.crew.start()
        self._tasks = [asyncio.create_task(self._serve_line()) for _ in range(self.settings.jobs)]
        self._tasks.append(asyncio.create_task(self._sweep_for_ever()))

    async def stop(self) -> None:
        """Stop work at once; whoever was being worked on is queued again and loses no try."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.crew.stop()

    def _recover(self) -> None:
        """Read the journals of the server before."""
        self.store.empty_trash()
        found = sorted(self.store.load(), key=lambda job: job.created)
        for job in found:
            if job.state == "uploading":
                self.store.remove(job.id)
                continue
            if job.has_ended:
                self.store.drop_upload(job.id)
            elif job.state == "running":
                self.store.clean(job.id, TO_DO)
                job = self._interrupted(job, "the server was stopped")
            self._live[job.id] = Live(job)
            if job.state == "queued":
                self._line.add(job.owner, job.id)
        if found:
            log.info("%d jobs found, %d of them to do", len(found), len(self._line))

    def _interrupted(self, job: Job, why: str) -> Job:
        """Back into the line, or failed when that has happened too often."""
        if job.tries >= self.settings.tries or not self.store.path(job.id, UPLOAD).exists():
            reason = f"{why} while this was being worked on, {job.tries} times; it is not tried again"
            return self._end(replace(job, state="failed", reason=reason))
        job = replace(job, state="queued", began=None)
        self.store.save(job)
        return job

    def _end(self, job: Job) -> Job:
        """Write down the end, then delete the raw video and what else must not stay."""
        job = replace(job, ended=time.time())
        keep = (JOURNAL,) if job.state == "failed" else (JOURNAL, VIDEO, REPORT, ANOMALY)
        try:
            self.store.save(job)
        except OSError:  # a full disk has room again without the upload
            self._clean_and_save(job, keep)
        else:
            self.store.clean(job.id, keep)
        log.info("job %s %s%s", job.id, job.state, f": {job.reason}" if job.reason else "")
        return job

    def _clean_and_save(self, job: Job, keep: tuple[str, ...]) -> None:
        """The other way round. A disk that takes nothing at all leaves the end in memory, and the next start to redo
        the job or, as its upload is gone, to call it failed."""
        try:
            self.store.clean(job.id, keep)
            self.store.save(job)
        except OSError as error:
            log.error("job %s: its journal cannot be written: %s", job.id, error.strerror)

    # --- what is there ---

    def get(self, job: str) -> Live | None:
        live = self._live.get(job)
        return None if live is None or live.deleted else live

    def of(self, owner: str) -> Iterator[Live]:
        return (live for live in self._live.values() if live.job.owner == owner and not live.deleted)

    def states(self) -> Counter[str]:
        return Counter(live.job.state for live in self._live.values() if not live.deleted)

    def place(self, live: Live) -> int | None:
        """How many jobs are begun before this one, at most; None when it does not wait."""
        if live.job.state != "queued":
            return None
        return sum(
            other.job.state == "queued" and other.job.created < live.job.created
            for other in self._live.values()
        )

    async def changes(self, live: Live, every: float) -> AsyncIterator[bool]:
        """True now and after each change, False when nothing happened for `every` seconds; ends with the job."""
        seen = -1
        while True:
            fresh = live.version != seen
            seen, last = live.version, live.gone or live.job.has_ended
            yield fresh
            if last:  # as of what was just told: it may have ended since
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every), self._changed:
                    await self._changed.wait_for(lambda: live.version != seen)  # noqa: B023

    async def _tell(self, live: Live, job: Job | None = None) -> None:
        live.job, live.version = job or live.job, live.version + 1
        async with self._changed:
            self._changed.notify_all()

    # --- accepting ---

    @contextlib.contextmanager
    def admit(self, owner: str) -> Iterator[None]:
        """Room in the line for an upload, kept while it lasts; raises `QueueFull`."""
        waiting, own = len(self._line) + self._admitted.taken, self._line.of(owner) + self._admitted.of(owner)
        if waiting >= self.settings.queue or own >= self.settings.queue_per_token:
            raise QueueFull
        with self._admitted.take(owner):
            yield

    async def accept(self, job: Job) -> Live:
        """From here on the job is not lost."""
        job = replace(job, state="queued")
        await on_disk(self.store.save, job)
        live = self._live[job.id] = Live(job)
        self._line.add(job.owner, job.id)
        log.info("job %s accepted: %d bytes for %s", job.id, job.bytes, job.model)
        return live

    async def probe(self, job: Job) -> dict[str, Any]:
        """Whether the upload is a video: {"done": …} or {"error": {"kind", "reason", "theirs"}}."""
        order = {"do": "probe", "folder": str(self.store.folder(job.id)), "memory": self.settings.memory}
        seconds = self.settings.probe_seconds
        broke = {
            "kind": "CorruptVideo",
            "reason": "the video could not be read: its reader broke",
            "theirs": True,
        }
        said: dict[str, Any] = {"error": broke}
        try:
            async with contextlib.aclosing(self.crew.work(order, stall=seconds, seconds=seconds)) as messages:
                async for message in messages:
                    said = message if "done" in message or "error" in message else said
        except TimeoutError:
            reason = f"the video was not read in {seconds:g} s"
            return {"error": {"kind": "DecodeTimeout", "reason": reason, "theirs": True}}
        return said

    async def delete(self, live: Live) -> None:
        """Whatever its state: stop work on it, then delete all of it."""
        live.deleted = True
        self._line.drop(live.job.owner, live.job.id)
        if live.worker is not None:
            live.worker.cancel()
            await asyncio.wait([live.worker])
        await on_disk(self.store.remove, live.job.id)
        self._live.pop(live.job.id, None)
        live.gone = True
        await self._tell(live)
        log.info("job %s deleted", live.job.id)

    # --- working ---

    async def _serve_line(self) -> None:
        while True:
            live = self._live.get(await self._line.next())
            if live is None or live.deleted:
                continue
            live.worker = asyncio.create_task(self._work(live))
            try:
                await asyncio.shield(asyncio.wait([live.worker]))
            except asyncio.CancelledError:  # the server stops
                live.worker.cancel()
                await asyncio.wait([live.worker])
                await self._requeue(live)
                raise
            finally:
                live.worker = None

    async def _requeue(self, live: Live) -> None:
        """What the journal says counts: a beginning or an end may have been written that nobody heard of."""
        if live.deleted:
            return
        with contextlib.suppress(OSError, ValueError):  # without a journal memory must do
            live.job = await on_disk(self.store.read, live.job.id)
        if live.job.state == "running":
            await on_disk(self.store.clean, live.job.id, TO_DO)
            live.job = replace(live.job, state="queued", began=None, tries=live.job.tries - 1)
            await on_disk(self.store.save, live.job)

    async def _work(self, live: Live) -> None:
        """One job, from the line to its end. Whatever goes wrong is the end of this job only."""
        job = replace(live.job, state="running", tries=live.job.tries + 1, began=time.time())
        self._running += 1
        try:
            await on_disk(self.store.save, job)
            live.stage, live.progress = "starting", None
            await self._tell(live, job)
            job = await self._worked(live)
        except asyncio.CancelledError:
            raise
        except Lost:
            job = await on_disk(self._after_loss, live.job)
        except TimeoutError:
            reason = "it took too long, or nothing was heard of it for too long"
            job = await on_disk(self._end, replace(live.job, state="failed", reason=reason))
        except Exception as error:
            log.error("job %s: %s in the server", live.job.id, type(error).__name__)
            reason = f"the server could not work on it ({type(error).__name__})"
            job = await on_disk(self._end, replace(live.job, state="failed", reason=reason))
        finally:
            self._running -= 1
        self._count(job)
        await self._tell(live, job)

    def _count(self, job: Job) -> None:
        if job.has_ended:
            self.ended[job.state] += 1
            if job.began is not None:
                self.seconds += (job.ended or job.began) - job.began
        else:
            self._line.add(job.owner, job.id, first=True)

    def _after_loss(self, job: Job) -> Job:
        self.store.clean(job.id, TO_DO)
        return self._interrupted(job, "the process that does the work was stopped")

    async def _worked(self, live: Live) -> Job:
        """Let a worker do it and hear what it says."""
        error: dict[str, Any] | None = None
        code, done = 0, False
        settings = self.settings
        async with contextlib.aclosing(
            self.crew.work(self._order(live.job), stall=settings.stall_seconds, seconds=settings.job_seconds)
        ) as messages:
            async for message in messages:
                error = message.get("error", error)
                done = done or "done" in message
                code = message.get("exit", 0)
                live.stage = message.get("stage", live.stage)
                if "progress" in message:
                    live.progress = message["progress"]
                if "done" in message:
                    self.frames += int(message["done"]["frames"])
                await self._tell(live)
        return await on_disk(self._judge, live.job, code, done, error)

    def _judge(self, job: Job, code: int, done: bool, error: dict[str, Any] | None) -> Job:
        """What the end of a worker means. Only one that said so, left both files and ended well was a success."""
        whole = all(self.store.path(job.id, name).is_file() for name in (VIDEO, REPORT))
        if code == 0 and done and whole:
            return self._end(replace(job, state="done"))
        if error is not None:
            reason = str(error["reason"])
        elif code < 0:
            reason = f"the process that worked on it was ended by signal {-code} (out of memory, or killed)"
        else:
            reason = f"the process that worked on it ended with code {code} and no result"
        return self._end(replace(job, state="failed", reason=reason))

    def _order(self, job: Job) -> dict[str, Any]:
        settings, model = self.settings, self.settings.model(job.model)
        if model is None:
            raise LookupError(job.model)
        return {
            "do": "anonymize",
            "folder": str(self.store.folder(job.id)),
            "source": model.source,
            "key": _text(model.key),
            "audio": job.audio,
            "engine": settings.engine,
            "device": settings.device,
            "threads": settings.threads,
            "memory": settings.memory,
            "anomaly": _text(settings.anomaly),
        }

    # --- deleting ---

    async def _sweep_for_ever(self) -> None:
        while True:
            await self.sweep(time.time())
            await asyncio.sleep(self.settings.sweep)

    async def sweep(self, now: float) -> None:
        """Delete what was kept long enough; give up what waited too long."""
        for live in list(self._live.values()):
            try:
                await self._sweep_one(live, now)
            except OSError as error:  # the others must not stay for it; it is tried again next time
                log.error("job %s cannot be deleted: %s", live.job.id, error.strerror)

    async def _sweep_one(self, live: Live, now: float) -> None:
        job, keep = live.job, self.settings.keep
        if self._live.get(job.id) is not live:
            return  # its owner has deleted it meanwhile
        if live.deleted or (job.has_ended and now - (job.ended or job.created) > keep):
            await self.delete(live)
        elif job.state == "queued" and live.worker is None and now - job.created > keep:
            self._line.drop(job.owner, job.id)
            task = asyncio.create_task(self._give_up(live))
            live.worker = task  # whoever deletes the job waits for it
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:  # the server stops; it has begun to write, and is waited for
                await asyncio.wait([task])
                raise
            finally:
                live.worker = None
            if not task.cancelled():
                task.result()

    async def _give_up(self, live: Live) -> None:
        reason = f"it did not get its turn within {self.settings.keep / 3600:g} hours"
        job = await on_disk(self._end, replace(live.job, state="failed", reason=reason))
        self._count(job)
        await self._tell(live, job)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
