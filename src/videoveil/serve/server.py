"""Listening: uvicorn, with bounds on what a connection may cost before it has asked for anything."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections import Counter
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from videoveil.serve.app import create_app
from videoveil.serve.processes import no_core
from videoveil.serve.settings import Settings, is_loopback

log = logging.getLogger("videoveil.serve")
KEEP_ALIVE = 10  # seconds
HEADER_BYTES = 16 * 1024
LOOK = 1.0  # seconds between two looks at a connection


class BoundedProtocol(H11Protocol):
    """HTTP that waits for the head of a request only so long, and for the end of a closed connection too.

    A client that sends a header every few seconds, or trickles a body nobody wants, or never takes its answer, costs a
    connection for `header_seconds` and no longer. One address has only so many connections.
    """

    def __init__(self, *arguments: Any, settings: Settings, by_address: Counter[str], **named: Any):
        super().__init__(*arguments, **named)
        self._settings, self._by_address = settings, by_address
        self._idle_since: float | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._by_address[self._address] += 1
        self._idle_since = self.loop.time()
        self._watch = self.loop.call_later(LOOK, self._look)
        many = self._by_address[self._address] > self._settings.connections_per_address
        if many and self._address not in self._settings.proxies:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._by_address[self._address] -= 1
        if self._by_address[self._address] <= 0:
            del self._by_address[self._address]
        super().connection_lost(exc)

    def _look(self) -> None:
        """Between requests, and after the end, a connection has only so long."""
        now = self.loop.time()
        busy = self.cycle is not None and not self.cycle.response_complete and not self.transport.is_closing()
        if busy:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > self._settings.header_seconds:
            self.transport.abort()
            return
        self._watch = self.loop.call_later(LOOK, self._look)


def make_server(settings: Settings) -> uvicorn.Server:
    """A server that is not started yet."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        http=partial(BoundedProtocol, settings=settings, by_address=Counter()),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        loop="asyncio",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies) or None,
        limit_concurrency=settings.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=HEADER_BYTES,
        backlog=256,
    )
    return uvicorn.Server(config)


def run(settings: Settings) -> None:
    """Serve until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn.access").disabled = True
    no_core()
    os.umask(0o077)
    where = f"[{settings.host}]" if ":" in settings.host else settings.host
    log.info("page and service at http://%s:%d", where, settings.port)
    if not is_loopback(settings.host):
        log.warning("the traffic is not encrypted; put a proxy with TLS in front")
    for number in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # after an orderly stop the server sends itself the signal again
        signal.signal(number, lambda *_: sys.exit(0))
    make_server(settings).run()
