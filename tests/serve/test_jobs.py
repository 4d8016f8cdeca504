"""The life of jobs without a server around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from videoveil.serve.jobs import Jobs, QueueFull, on_disk
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


def test_a_step_on_disk_is_finished_even_if_nobody_waits(tmp_path: Path) -> None:
    async def play(jobs: Jobs) -> None:
        begun, go = asyncio.Event(), asyncio.Event()
        loop, path = asyncio.get_running_loop(), tmp_path / "written"

        def step() -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)
            path.write_bytes(b"whole")

        task = asyncio.create_task(on_disk(step))
        await begun.wait()
        task.cancel()
        loop.call_later(0.05, go.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert path.read_bytes() == b"whole", "who cancels goes on only when the step is done"

    scene(tmp_path, play)


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
