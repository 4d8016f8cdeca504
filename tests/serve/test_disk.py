"""Steps on the disk, beside everything else that a server does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from videoveil.serve.disk import on_disk


def test_a_step_on_disk_is_finished_even_if_nobody_waits(tmp_path: Path) -> None:
    async def play() -> None:
        begun, go = asyncio.Event(), asyncio.Event()
        loop, path = asyncio.get_running_loop(), tmp_path / "written"

        def step() -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(300)
            path.write_bytes(b"whole")

        task = asyncio.create_task(on_disk(step))
        await begun.wait()
        task.cancel()
        loop.call_later(0.05, go.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert path.read_bytes() == b"whole", "who cancels goes on only when the step is done"

    asyncio.run(play())
