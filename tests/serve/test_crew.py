"""What is said between the server and its workers; real workers are in `test_restart`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from videoveil.serve.crew import Crew


def test_a_cancel_is_not_lost_when_it_meets_a_word_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        crew, orders = Crew(), list[dict[str, Any]]()

        def send(order: dict[str, Any]) -> None:
            orders.append(order)
            if order["do"] == "kill":
                crew._heard[order["task"]].put_nowait({"exit": -9})

        monkeypatch.setattr(crew, "_send", send)
        crew._ready.set()

        async def listen() -> None:
            async for _ in crew.work({"do": "anonymize"}, stall=600, seconds=600):
                pass

        task = asyncio.create_task(listen())
        while not orders:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        crew._heard[orders[0]["task"]].put_nowait({"progress": {}})
        await asyncio.sleep(0)  # it has been heard, and nobody has looked at it yet
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=300)
        assert done, "still at work"
        assert task.cancelled()
        assert [order["do"] for order in orders] == ["anonymize", "kill"]

    asyncio.run(play())
