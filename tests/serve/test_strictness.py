"""Limits that hold per token and per address; every test asks from an address of its own."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.running import ANNA, BERT, Server

EXTRA = tuple(f"token-{number:016}" for number in range(5))


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
    with Server(tmp_path_factory.mktemp("strict") / "data", settings, (ANNA, BERT, *EXTRA)) as running:
        yield running


def test_guessing_tokens_is_slow(strict: Server, walk: Path) -> None:
    asked = [strict.ask("GET", "/api/jobs", token=f"guess-{n:016}", address="127.1.0.1") for n in range(5)]
    assert [answer.status for answer in asked] == [401, 401, 401, 429, 429]
    right = strict.ask("POST", "/api/jobs?model=blur", walk.read_bytes(), EXTRA[0], address="127.1.0.1")
    assert right.status == 429, "not even a right token gets through any more"
    assert strict.ask("GET", "/api/models", token=EXTRA[0], address="127.1.0.2").status == 200


def test_too_many_requests_of_a_token_are_told_when_to_come_back(strict: Server) -> None:
    asked = [strict.ask("GET", "/api/models", token=EXTRA[1], address=f"127.2.0.{n + 1}") for n in range(10)]
    assert [answer.status for answer in asked] == [200] * 8 + [429] * 2
    assert int(asked[-1].headers["retry-after"]) >= 1


def test_too_many_requests_of_an_address_are_refused_whoever_asks(strict: Server) -> None:
    tokens = (ANNA, BERT)
    asked = [strict.ask("GET", "/api/models", token=tokens[n % 2], address="127.3.0.1") for n in range(10)]
    assert [answer.status for answer in asked] == [200] * 8 + [429] * 2


def test_no_more_uploads_are_taken_than_are_allowed_per_minute(strict: Server, walk: Path) -> None:
    path, body = "/api/jobs?model=black", walk.read_bytes()
    asked = [strict.ask("POST", path, body, EXTRA[2], address=f"127.4.0.{n + 1}") for n in range(3)]
    assert [answer.status for answer in asked] == [201, 201, 429]


def test_an_upload_that_is_too_large_is_refused_however_it_declares_itself(
    strict: Server, walk: Path
) -> None:
    body = walk.read_bytes() + bytes(2_000_000)
    path, address = "/api/jobs?model=black", "127.5.0.1"
    assert strict.ask("POST", path, body, EXTRA[3], address=address).status == 413
    pieces = [body[place : place + 50_000] for place in range(0, len(body), 50_000)]  # chunked: no length
    assert strict.ask("POST", path, iter(pieces), EXTRA[3], address=address).status == 413
    assert EXTRA[3] not in strict.log.read_text()
    left = [path for path in strict.files() if path.stat().st_size > 1_000_000]
    assert left == []


def test_one_token_has_only_so_many_progress_streams_and_gets_them_back(
    strict: Server, long_walk: Path
) -> None:
    token = EXTRA[4]
    body = long_walk.read_bytes()
    job = strict.ask("POST", "/api/jobs?model=blur", body, token, address="127.6.0.1").json["id"]
    asking = (
        f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    peers = [
        socket.create_connection(("127.0.0.1", strict.port), source_address=("127.6.0.2", 0)) for _ in "ab"
    ]
    for peer in peers:
        peer.sendall(asking.encode())
        assert peer.recv(4096).startswith(b"HTTP/1.1 200")
    third = strict.ask("GET", f"/api/jobs/{job}/events", token=token, address="127.6.0.3")
    assert third.status == 429
    for peer in peers:
        peer.close()
    time.sleep(2)
    last = strict.ask("GET", f"/api/jobs/{job}/events", token=token, address="127.6.0.3")
    assert last.status == 200
