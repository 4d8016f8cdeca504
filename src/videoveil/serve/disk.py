"""Steps on the disk, beside everything else that a server does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def on_disk(step: Callable[..., Result], *arguments: Any) -> Result:
    """A step on the disk in a thread. Once begun it is finished, even if nobody waits for it any more: a journal that
    is written after its job was deleted would bring the job back."""
    task = asyncio.ensure_future(asyncio.to_thread(step, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
