"""Ports that stay free until somebody who was told of them listens."""

from __future__ import annotations

import contextlib
import random
import socket

HIGHEST = 32_000  # the system gives out ports above, to whoever asks for any: also to a client that waits for a server


def free_port() -> int:
    while True:
        port = random.SystemRandom().randrange(15_000, HIGHEST)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
