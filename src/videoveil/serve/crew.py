"""The server's end of the foreman: hand out tasks, hear of them, start another foreman when one is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

from videoveil.serve.processes import private_environment

log = logging.getLogger("videoveil.serve")
READY = 120.0  # seconds in which a foreman has imported everything, even on a busy machine
AGAIN = 1.0  # seconds before a foreman that died is replaced
Message = dict[str, Any]


class Lost(Exception):
    """The foreman is gone, and the worker with it."""


class Crew:
    """Start it, then `async for message in crew.work(order)`; the last message has `exit`."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._heard: dict[int, asyncio.Queue[Message | None]] = {}
        self._ready = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._next = 0

    @property
    def ready(self) -> bool:
        return self._ready.is_set()

    @property
    def foreman(self) -> int | None:
        """Its process number, for those who want to see what happens when it dies."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """End the foreman; workers that are still busy are killed."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._process is not None and self._process.returncode is None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            try:
                await asyncio.wait_for(self._process.wait(), 5)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self._abandon()

    async def work(self, order: Message, *, stall: float, seconds: float) -> AsyncGenerator[Message, None]:
        """What the worker says, until it ends. Left early, too slow or too quiet, it is killed.

        Raises `Lost` when the foreman dies or does not come up, and TimeoutError after `seconds`, or after `stall`
        without a word.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            async with asyncio.timeout(min(seconds, READY)):  # `wait_for` can swallow a cancel
                await self._ready.wait()
        except TimeoutError:
            raise Lost from None
        self._next += 1
        task, heard = self._next, asyncio.Queue[Message | None]()
        self._heard[task] = heard
        ended = False
        try:
            self._send({**order, "task": task})
            while not ended:
                async with asyncio.timeout(min(stall, end - loop.time())):
                    message = await heard.get()
                if message is None:
                    raise Lost
                ended = "exit" in message
                yield message
        finally:
            if not ended:
                await self._kill(task, heard)
            self._heard.pop(task, None)

    async def _kill(self, task: int, heard: asyncio.Queue[Message | None]) -> None:
        """Kill a worker and wait until it is gone: what it held is free then."""
        with contextlib.suppress(Lost, TimeoutError):
            self._send({"do": "kill", "task": task})
            async with asyncio.timeout(10):
                while (message := await heard.get()) is not None and "exit" not in message:
                    pass

    def _send(self, order: Message) -> None:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None or not self.ready:
            raise Lost
        process.stdin.write(json.dumps(order).encode() + b"\n")

    async def _keep(self) -> None:
        while True:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "videoveil.serve.foreman",
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=private_environment(),
                start_new_session=True,
            )
            assert process.stdout is not None
            async for line in process.stdout:
                self._hear(json.loads(line))
            code = await process.wait()
            log.error("the foreman ended with code %s; starting another", code)
            self._abandon()
            await asyncio.sleep(AGAIN)

    def _hear(self, message: Message) -> None:
        if "ready" in message:
            self._ready.set()
        elif (heard := self._heard.get(message.get("task", 0))) is not None:
            heard.put_nowait(message)

    def _abandon(self) -> None:
        self._ready.clear()
        for heard in self._heard.values():
            heard.put_nowait(None)
