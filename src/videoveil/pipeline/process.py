"""What a process owes that holds raw frames in its memory."""

from __future__ import annotations

import resource


def no_memory_dumps() -> None:
    """From now on a crash of this process, or of one it starts, leaves no core file: raw frames would be in it.

    Programs that collect core dumps for the kernel are told of the limit and keep to it.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
