"""Limits that hold per token and per address; every test asks from an address of its own."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serve.running import LATE, MODELS, Answer, Server

ROUNDS = 20


def token(name: str, number: int = 0) -> str:
    """Every round of every test has its own: what was asked with one leaves less for later."""
    return f"token-{name}-{number:016}"


NAMES = ("guess", "many", "one", "other", "upload", "large", "stream")
TOKENS = tuple(token(name, number) for name in NAMES for number in range(ROUNDS))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {
        "failures_per_minute": 3,
        "requests_per_minute": 8,
        "uploads_per_minute": 2,
        "queue": 100,
        "upload_bytes": 1_500_000,
        "uploads": 2,
        "uploads_per_token": 1,
        "streams_per_token": 2,
    }
    folder = tmp_path_factory.mktemp("strict")
    with Server(folder / "data", settings, TOKENS, models=MODELS, faults=True) as running:
        yield running


def in_time(scene: Callable[[int], list[Answer]], per_minute: int) -> list[Answer]:
    """A scene that was over before its time gave a request more; where it was not, others play it again."""
    for number in range(ROUNDS):
        began = time.monotonic()
        answers = scene(number)
        if time.monotonic() - began < 60 / per_minute:
            return answers
    raise AssertionError("every round took too long")


def test_guessing_tokens_is_slow(strict: Server, walk: Path) -> None:
    def scene(number: int) -> list[Answer]:
        address, body = f"127.1.0.{number + 1}", walk.read_bytes()
        wrong = [strict.ask("GET", "/api/jobs", token=f"guess-{n:016}", address=address) for n in range(5)]
        right = strict.ask("POST", "/api/jobs?model=blur", body, token("guess", number), address=address)
        return [*wrong, right]

    *wrong, right = in_time(scene, 3)
    assert [answer.status for answer in wrong] == [401, 401, 401, 429, 429]
    assert right.status == 429, "not even a right token gets through any more"
    other = strict.ask("GET", "/api/models", token=token("guess", 0), address="127.1.1.1")
    assert other.status == 200


def test_too_many_requests_of_a_token_are_told_when_to_come_back(strict: Server) -> None:
    def scene(number: int) -> list[Answer]:
        addresses = [f"127.2.{number}.{n + 1}" for n in range(10)]
        return [strict.ask("GET", "/api/models", token=token("many", number), address=a) for a in addresses]

    asked = in_time(scene, 8)
    assert [answer.status for answer in asked] == [200] * 8 + [429] * 2
    assert int(asked[-1].headers["retry-after"]) >= 1


def test_too_many_requests_of_an_address_are_refused_whoever_asks(strict: Server) -> None:
    def scene(number: int) -> list[Answer]:
        tokens = [token(("one", "other")[n % 2], number) for n in range(10)]
        return [strict.ask("GET", "/api/models", token=t, address=f"127.3.0.{number + 1}") for t in tokens]

    assert [answer.status for answer in in_time(scene, 8)] == [200] * 8 + [429] * 2


def test_no_more_uploads_are_taken_than_are_allowed_per_minute(strict: Server, walk: Path) -> None:
    def scene(number: int) -> list[Answer]:
        path, body, who = "/api/jobs?model=black", walk.read_bytes(), token("upload", number)
        return [strict.ask("POST", path, body, who, address=f"127.4.{number}.{n + 1}") for n in range(3)]

    assert [answer.status for answer in in_time(scene, 2)] == [201, 201, 429]


def test_an_upload_that_is_too_large_is_refused_however_it_declares_itself(
    strict: Server, walk: Path
) -> None:
    body = walk.read_bytes() + bytes(2_000_000)
    path, address = "/api/jobs?model=black", "127.5.0.1"
    assert strict.ask("POST", path, body, token("large"), address=address).status == 413
    pieces = [body[place : place + 50_000] for place in range(0, len(body), 50_000)]  # chunked: no length
    assert strict.ask("POST", path, iter(pieces), token("large"), address=address).status == 413
    assert token("large") not in strict.log.read_text()
    assert max(map(size, strict.files())) <= 1_000_000


def size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # of a job that is just being done
        return path.stat().st_size
    return 0


def test_one_token_has_only_so_many_progress_streams_and_gets_them_back(
    strict: Server, long_walk: Path
) -> None:
    who, body = token("stream"), long_walk.read_bytes()
    with strict.held(), contextlib.ExitStack() as stack:
        job = strict.ask("POST", "/api/jobs?model=held", body, who, address="127.6.0.1").json["id"]
        asking = (
            f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {who}\r\n\r\n"
        )

        def stream(address: str) -> tuple[socket.socket, bytes]:
            """A progress stream and how it begins."""
            peer = socket.create_connection(("127.0.0.1", strict.port), LATE, source_address=(address, 0))
            stack.enter_context(peer).sendall(asking.encode())
            return peer, peer.recv(4096)

        peers = [stream("127.6.0.2") for _ in "ab"]
        assert [head[:12] for _, head in peers] == [b"HTTP/1.1 200"] * 2
        third = strict.ask("GET", f"/api/jobs/{job}/events", token=who, address="127.6.0.3")
        assert (third.status, third.json["detail"]) == (429, "too many progress streams")
        for peer, _ in peers:
            peer.close()
        end = time.monotonic() + LATE
        while not stream("127.6.0.4")[1].startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < end, "the places are not given back"
            time.sleep(60 / 8 + 1)  # so that it is not the number of requests that is refused
