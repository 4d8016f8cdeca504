"""Clients that take their time: what they hold is given back after a bounded while."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.running import ANNA, LATE, Answer, Server

SECONDS = 1.5  # the bounds of this server


class Hasty(Server):
    """So hasty that a slow moment of this client costs its connection, or its upload: then it asks again."""

    def ask(self, *given: Any, **named: Any) -> Answer:
        end = time.monotonic() + LATE
        while True:
            try:
                answer = super().ask(*given, **named)
            except (OSError, http.client.HTTPException):
                assert self.process is not None
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
            else:
                if answer.status != 408 or time.monotonic() > end:
                    return answer
            time.sleep(0.05)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {
        "header_seconds": SECONDS,
        "grace": SECONDS,
        "least_rate": 10_000,
        "send_seconds": SECONDS,
        "upload_seconds": 20,
        "connections_per_address": 20,
        "uploads": 3,
        "uploads_per_token": 3,
    }
    with Hasty(tmp_path_factory.mktemp("hasty") / "data", settings) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Nobody is cut for being slow."""
    with Server(tmp_path_factory.mktemp("patient") / "data", {"connections_per_address": 20}) as running:
        yield running


def connect(server: Server, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), LATE, source_address=(address, 0))


def is_let_go(peer: socket.socket, trickle: bytes = b"") -> bool:
    """Whether the server closes the connection, while a byte is sent now and then."""
    began = time.monotonic()
    peer.settimeout(0.3)
    while time.monotonic() - began < LATE / 2:  # before a server with the bounds of the others would
        try:
            if trickle:
                peer.send(trickle)
            if not peer.recv(4096):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


HEAD = f"POST /api/jobs?model=blur HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANNA}\r\n".encode()


def test_a_connection_that_asks_nothing_is_closed(hasty: Server) -> None:
    with connect(hasty) as peer:
        assert is_let_go(peer)


def test_a_head_that_never_ends_is_cut_off(hasty: Server) -> None:
    with connect(hasty) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        assert is_let_go(peer, b"X-A: b\r\n")


def test_a_body_that_trickles_is_refused_and_leaves_nothing(hasty: Server, walk: Path) -> None:
    with connect(hasty) as peer:
        peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + walk.read_bytes()[:5000])
        began, got = time.monotonic(), b""
        peer.settimeout(0.3)
        while b"\r\n\r\n" not in got and time.monotonic() - began < LATE / 2:
            try:
                peer.send(b"x")
                got += peer.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                break
        assert got.startswith(b"HTTP/1.1 408"), "an upload that had begun, and has its folder"
    hasty.until(lambda: not list((hasty.data / "jobs").iterdir()), LATE, "the upload is deleted")


def test_slow_uploads_do_not_keep_others_out_for_long(hasty: Server, walk: Path) -> None:
    peers = list[socket.socket]()

    def kept_out() -> bool:
        """They have their places for so short a time that a slow moment misses it; then others come."""
        leave()
        peers.extend(connect(hasty) for _ in range(3))
        for peer in peers:
            peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if b"\nveil_uploads 3\n" in hasty.ask("GET", "/metrics").body:
                return hasty.upload(walk.read_bytes()).status == 503
        return False

    def leave() -> None:
        while peers:
            peers.pop().close()

    hasty.until(kept_out, LATE, "all places are taken")
    hasty.until(lambda: hasty.upload(walk.read_bytes()).status == 201, LATE, "there is place again")
    leave()


def test_a_client_that_disappears_leaves_nothing(patient: Server, walk: Path) -> None:
    jobs = patient.data / "jobs"
    with connect(patient) as peer:
        peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + walk.read_bytes()[:5000])
        patient.until(lambda: len(list(jobs.iterdir())) == 1, LATE, "it begins")
    patient.until(lambda: not list(jobs.iterdir()), LATE, "it is deleted")


def test_one_address_has_only_so_many_connections(patient: Server) -> None:
    peers = [connect(patient, "127.9.0.1") for _ in range(30)]
    cut = set[socket.socket]()

    def ten_are_cut() -> bool:
        cut.update(peer for peer in peers if peer not in cut and is_cut(peer))
        return len(cut) >= 10

    patient.until(ten_are_cut, LATE, "those above the number are let go")
    time.sleep(0.2)
    ten_are_cut()
    assert len(cut) == 10
    assert patient.ask("GET", "/health").status == 200, "other addresses are served"
    for peer in peers:
        peer.close()


def is_cut(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return not peer.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_client_that_does_not_take_its_answer_is_dropped(hasty: Server, long_walk: Path) -> None:
    job = hasty.accepted(long_walk)
    assert hasty.ended(job)["state"] == "done"
    asking = f"GET /api/jobs/{job}/video HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANNA}\r\n\r\n"
    size = len(hasty.ask("GET", f"/api/jobs/{job}/video").body)
    times = (16 << 20) // size  # so many answers do not fit into any buffer

    def unread() -> socket.socket | None:
        peer = socket.socket()
        peer.settimeout(LATE)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        try:
            peer.connect(("127.0.0.1", hasty.port))
            peer.sendall(asking.encode() * times)
        except OSError:  # this client was too slow
            peer.close()
            return None
        return peer

    with hasty.until(unread, LATE, "all is asked for") as peer:
        said = "a client did not take its answer"
        hasty.until(lambda: said in hasty.log.read_text(), LATE, "it is not waited for any longer")
        got = 0
        try:
            while piece := peer.recv(1 << 16):
                got += len(piece)
        except ConnectionError:
            pass
    assert got < size * times, "the rest was never sent"
    assert hasty.ask("GET", "/health").status == 200
