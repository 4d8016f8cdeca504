"""The life of jobs without a server around it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from videoveil.serve.jobs import Jobs, QueueFull
from videoveil.serve.settings import Model, Settings
from videoveil.serve.store import REPORT, UPLOAD, VIDEO, Job, Store


def scene(tmp_path: Path, play: Callable[[Jobs], Coroutine[Any, Any, None]], **changes: Any) -> None:
    settings = Settings(tmp_path, (Model("blur", "blur"),), **changes)

    async def run() -> None:
        store = Store(tmp_path)
        try:
            await play(Jobs(settings, store))
        finally:
            store.close()

    asyncio.run(run())


def uploaded(jobs: Jobs, owner: str = "anna", **changes: Any) -> Job:
    job = replace(jobs.store.create(owner, "blur"), **changes)
    jobs.store.path(job.id, UPLOAD).write_bytes(b"raw")
    return job


def test_a_job_that_never_gets_its_turn_fails_and_loses_its_upload(tmp_path: Path) -> None:
    async def play(jobs: Jobs) -> None:
        live = await jobs.accept(uploaded(jobs))
        await jobs.sweep(live.job.created + 99)
        assert live.job.state == "queued"
        await jobs.sweep(live.job.created + 101)
        assert live.job.state == "failed"
        assert "its turn" in live.job.reason
        assert not jobs.store.path(live.job.id, UPLOAD).exists()
        assert live.job.ended is not None
        await jobs.sweep(live.job.ended + 101)
        assert jobs.get(live.job.id) is None
        assert not jobs.store.folder(live.job.id).exists()

    scene(tmp_path, play, keep=100)


def test_only_a_worker_that_said_so_and_left_both_files_was_a_success(tmp_path: Path) -> None:
    async def play(jobs: Jobs) -> None:
        for code, done, names, state in (
            (0, True, (VIDEO, REPORT), "done"),
            (0, True, (VIDEO,), "failed"),
            (0, True, (REPORT,), "failed"),
            (0, False, (VIDEO, REPORT), "failed"),
            (3, True, (VIDEO, REPORT), "failed"),
            (-9, True, (VIDEO, REPORT), "failed"),
        ):
            job = uploaded(jobs, state="running")
            for name in names:
                jobs.store.path(job.id, name).write_bytes(b"x")
            end = jobs._judge(job, code, done, None)
            assert end.state == state
            assert bool(end.reason) == (state == "failed")
            left = {path.name for path in jobs.store.folder(job.id).iterdir()}
            assert left == ({"job.json", *names} if state == "done" else {"job.json"})

    scene(tmp_path, play)


def test_room_in_the_line_is_kept_while_an_upload_lasts(tmp_path: Path) -> None:
    async def play(jobs: Jobs) -> None:
        with jobs.admit("anna"), jobs.admit("bert"):
            with pytest.raises(QueueFull), jobs.admit("anna"):
                pass
            with pytest.raises(QueueFull), jobs.admit("carl"):
                pass
        await jobs.accept(uploaded(jobs))
        with pytest.raises(QueueFull), jobs.admit("anna"):
            pass
        with jobs.admit("bert"):
            pass

    scene(tmp_path, play, queue=2, queue_per_token=1)


def test_a_journal_that_cannot_be_written_still_costs_the_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(jobs: Jobs) -> None:
        job = uploaded(jobs, state="running")
        broken = [OSError(28, "No space left on device")]

        def save(one: Job) -> None:
            if broken:
                raise broken.pop()
            Store.save(jobs.store, one)

        monkeypatch.setattr(jobs.store, "save", save)
        assert jobs._end(replace(job, state="failed", reason="why")).state == "failed"
        assert not jobs.store.path(job.id, UPLOAD).exists()
        assert [one.state for one in jobs.store.load()] == ["failed"]

    scene(tmp_path, play)


async def nothing() -> None:
    """There is no foreman to start or to stop."""


def held_up(
    patch: pytest.MonkeyPatch, store: Store, step: str, when: Callable[..., bool] = lambda *_: True
) -> asyncio.Event:
    """A step of the store takes its time, as a large upload does to be deleted; set when it has begun."""
    loop, begun, real = asyncio.get_running_loop(), asyncio.Event(), getattr(store, step)

    def slowly(*arguments: Any) -> None:
        if when(*arguments):
            loop.call_soon_threadsafe(begun.set)
            time.sleep(0.1)
        real(*arguments)

    patch.setattr(store, step, slowly)
    return begun


def test_a_stop_while_the_end_of_a_job_is_written_down_leaves_it_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(jobs: Jobs) -> None:
        async def work(*_: object, **__: object) -> AsyncIterator[dict[str, Any]]:
            for name in (VIDEO, REPORT):
                jobs.store.path(job.id, name).write_bytes(b"veiled")
            yield {"done": {"frames": 1}}
            yield {"exit": 0}

        monkeypatch.setattr(jobs.crew, "work", work)
        monkeypatch.setattr(jobs.crew, "start", nothing)
        monkeypatch.setattr(jobs.crew, "stop", nothing)
        ending = held_up(monkeypatch, jobs.store, "clean")
        await jobs.start()
        job = uploaded(jobs)
        await jobs.accept(job)
        await ending.wait()
        await jobs.stop()
        assert jobs.store.read(job.id).state == "done"
        assert jobs.store.path(job.id, VIDEO).read_bytes() == b"veiled"
        assert not jobs.store.path(job.id, UPLOAD).exists()

    scene(tmp_path, play)


def test_a_stop_while_the_beginning_of_a_job_is_written_down_costs_no_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(jobs: Jobs) -> None:
        monkeypatch.setattr(jobs.crew, "start", nothing)
        monkeypatch.setattr(jobs.crew, "stop", nothing)
        beginning = held_up(monkeypatch, jobs.store, "save", lambda job: job.state == "running")
        await jobs.start()
        job = uploaded(jobs)
        await jobs.accept(job)
        await beginning.wait()
        await jobs.stop()
        found = jobs.store.read(job.id)
        assert (found.state, found.tries) == ("queued", 0)
        assert jobs.store.path(job.id, UPLOAD).exists()

    scene(tmp_path, play)


def test_what_cannot_be_deleted_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(jobs: Jobs) -> None:
        stuck, other = [await jobs.accept(uploaded(jobs, created=0.0)) for _ in range(2)]
        remove = jobs.store.remove

        def fails(job: str) -> None:
            if job == stuck.job.id:
                raise OSError(30, "Read-only file system")
            remove(job)

        for live in (stuck, other):
            live.job = replace(live.job, state="done", ended=0.0)
        monkeypatch.setattr(jobs.store, "remove", fails)
        await jobs.sweep(1e6)
        assert not jobs.store.folder(other.job.id).exists()
        assert jobs.store.folder(stuck.job.id).exists()
        monkeypatch.setattr(jobs.store, "remove", remove)
        await jobs.sweep(1e6)
        assert not jobs.store.folder(stuck.job.id).exists()

    scene(tmp_path, play)


def test_a_job_that_has_just_been_taken_from_the_line_is_not_given_up(tmp_path: Path) -> None:
    async def play(jobs: Jobs) -> None:
        live = await jobs.accept(uploaded(jobs, created=0.0))
        live.worker = asyncio.create_task(nothing())
        await jobs.sweep(1e6)
        assert jobs.store.path(live.job.id, UPLOAD).exists()
        assert jobs.store.read(live.job.id).state == "queued"

    scene(tmp_path, play)


def test_a_disk_that_takes_no_journal_ends_the_job_and_not_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(jobs: Jobs) -> None:
        save = jobs.store.save

        def full(job: Job) -> None:
            if job.state == "running":
                raise OSError(28, "No space left on device")
            save(job)

        monkeypatch.setattr(jobs.crew, "start", nothing)
        monkeypatch.setattr(jobs.crew, "stop", nothing)
        monkeypatch.setattr(jobs.store, "save", full)
        await jobs.start()
        live = await jobs.accept(uploaded(jobs))
        async with asyncio.timeout(300):
            async for _ in jobs.changes(live, 0.1):
                pass
        await jobs.stop()
        assert jobs.store.read(live.job.id).state == "failed"
        assert not jobs.store.path(live.job.id, UPLOAD).exists()
        assert jobs.seconds == 0.0, "nobody worked on it"

    scene(tmp_path, play)


def test_that_a_job_is_deleted_is_told_when_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(jobs: Jobs) -> None:
        live = await jobs.accept(uploaded(jobs))
        removing = held_up(monkeypatch, jobs.store, "remove")

        async def listen() -> bool:
            async for _ in jobs.changes(live, 0.001):  # looks far more often than it takes to delete it
                pass
            return jobs.store.folder(live.job.id).exists()

        listening = asyncio.create_task(listen())
        deleting = asyncio.create_task(jobs.delete(live))
        await removing.wait()
        assert jobs.get(live.job.id) is None, "nobody sees it any more"
        assert not await listening
        await deleting

    scene(tmp_path, play)


def test_a_job_that_its_owner_deletes_while_others_are_swept_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(jobs: Jobs) -> None:
        first, second = [await jobs.accept(uploaded(jobs, created=0.0)) for _ in range(2)]
        first.job = replace(first.job, state="done", ended=0.0)
        removing = held_up(monkeypatch, jobs.store, "remove", lambda job: job == first.job.id)
        sweep = asyncio.create_task(jobs.sweep(1e6))
        await removing.wait()
        await jobs.delete(second)
        await sweep
        assert not jobs.store.folder(second.job.id).exists()
        # and one that is being given up at that moment
        third = await jobs.accept(uploaded(jobs, created=0.0))
        ending = held_up(monkeypatch, jobs.store, "save")
        sweep = asyncio.create_task(jobs.sweep(1e6))
        await ending.wait()
        await jobs.delete(third)
        await sweep
        assert not jobs.store.folder(third.job.id).exists()

    scene(tmp_path, play)
