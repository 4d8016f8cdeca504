"""Who is next. Owners take turns, so that one who brings a hundred videos does not keep the others waiting."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque


class Line:
    """Jobs that wait, first come first served within an owner."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[str]] = OrderedDict()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def of(self, owner: str) -> int:
        return len(self._waiting.get(owner, ()))

    def add(self, owner: str, job: str, *, first: bool = False) -> None:
        queue = self._waiting.setdefault(owner, deque())
        (queue.appendleft if first else queue.append)(job)
        self._some.set()

    def drop(self, owner: str, job: str) -> None:
        """Take a job out; it need not be there."""
        queue = self._waiting.get(owner, deque())
        if job in queue:
            queue.remove(job)
        if not queue:
            self._waiting.pop(owner, None)

    async def next(self) -> str:
        while not self._waiting:
            self._some.clear()
            await self._some.wait()
        owner, queue = self._waiting.popitem(last=False)
        job = queue.popleft()
        if queue:
            self._waiting[owner] = queue  # behind the others
        return job
