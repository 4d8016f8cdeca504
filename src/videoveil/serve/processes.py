"""What every process that touches raw video does first: die with its parent, dump no core, be the first to go."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4


def die_with_parent(parent: int) -> None:
    """Get killed by the kernel when the process that started this one ends, however it ends (Linux)."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot be tied to the parent process")
    if os.getppid() != parent:  # it ended between the fork and the call
        os._exit(1)


def no_core() -> None:
    """A core file would be a raw frame on the disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def bound_memory(limit: int) -> None:
    """At most so many more bytes of address space than now; 0: no limit."""
    if not limit:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    most = pages * resource.getpagesize() + limit
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def go_first() -> None:
    """When the machine is out of memory, a worker is killed rather than the server."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("900")


def silence(*descriptors: int) -> None:
    """Send what libraries print into nothing: no one vouches for what is in it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)
    os.close(nothing)


def private_environment() -> dict[str, str]:
    """The environment of workers: without the secrets of the service."""
    return {name: value for name, value in os.environ.items() if not name.startswith("VEIL_TOKEN")}
