"""What stands before every request: which names and pages it may come from, how it is answered, how long that takes."""

from __future__ import annotations

import asyncio
import json
import logging
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from videoveil.serve.metrics import Counted
from videoveil.serve.settings import Settings, is_loopback

log = logging.getLogger("videoveil.serve")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
SAFE = ("GET", "HEAD", "OPTIONS")
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1", "[::1]")


class NotTaken(Exception):
    """A client does not take the next piece of what it asked for."""


class Guard:
    """Pure ASGI, so that streams pass through it piece by piece."""

    def __init__(self, app: ASGIApp, settings: Settings, counted: Counted):
        self.app, self.settings, self.counted = app, settings, counted
        self._names = None if _any_name(settings) else {*LOCAL_NAMES, settings.host, *settings.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.app(scope, receive, send)
            return
        answer = self._answer(send)
        if problem := self._problem(scope["method"], Headers(scope=scope)):
            await _refuse(answer, *problem)
            return
        try:
            await self.app(scope, receive, answer)
        except NotTaken:  # returning before the end of the answer closes the connection
            log.info("a client did not take its answer")

    def _problem(self, method: str, headers: Headers) -> tuple[int, str] | None:
        """A name that is not ours lets another site's page act as ours (DNS rebinding); so would a foreign page."""
        host = headers.get("host", "")
        if self._names is not None and _name(host) not in self._names:
            return 421, "this service is not known by that name; start it with --allow-host NAME"
        if method in SAFE:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "requests from pages of other sites are refused"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "requests from pages of other sites are refused"
        return None

    def _answer(self, send: Send) -> Send:
        """Adds headers, counts, and gives up on a client that does not take what it asked for."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.counted.answers[str(message["status"])] += 1
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            try:
                async with asyncio.timeout(self.settings.send_seconds):
                    await send(message)
            except TimeoutError:
                raise NotTaken from None

        return answer


def _any_name(settings: Settings) -> bool:
    """With tokens a foreign page can do nothing, as it has none; then names are checked only if some were given."""
    return bool(settings.tokens) and not settings.hosts and not is_loopback(settings.host)


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if ":" in host else host


async def _refuse(send: Send, status: int, words: str) -> None:
    body = json.dumps({"detail": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
