"""Clients that take their time: what they hold is given back after a bounded while."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.running import ANNA, Server

SECONDS = 1.5  # the bounds of this server
LATE = 12.0  # what a busy machine may add


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
    with Server(tmp_path_factory.mktemp("hasty") / "data", settings) as running:
        yield running


def connect(server: Server, address: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), 30, source_address=(address, 0))
    made.settimeout(30)
    return made


def open_for(peer: socket.socket, trickle: bytes = b"") -> float:
    """Seconds until the server lets go, while a byte is sent now and then."""
    began = time.monotonic()
    peer.settimeout(0.3)
    while time.monotonic() - began < SECONDS + LATE + 5:
        try:
            if trickle:
                peer.send(trickle)
            if not peer.recv(4096):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began


HEAD = f"POST /api/jobs?model=blur HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANNA}\r\n".encode()


def test_a_connection_that_asks_nothing_is_closed(hasty: Server) -> None:
    with connect(hasty) as peer:
        assert open_for(peer) < SECONDS + LATE


def test_a_head_that_never_ends_is_cut_off(hasty: Server) -> None:
    with connect(hasty) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        assert open_for(peer, b"X-A: b\r\n") < SECONDS + LATE


def test_a_body_that_trickles_is_refused_and_leaves_nothing(hasty: Server, walk: Path) -> None:
    with connect(hasty) as peer:
        peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + walk.read_bytes()[:5000])
        hasty.until(lambda: len(list((hasty.data / "jobs").iterdir())) == 1, 10, "the upload begins")
        began, got = time.monotonic(), b""
        peer.settimeout(0.3)
        while b"\r\n\r\n" not in got and time.monotonic() - began < SECONDS + LATE:
            try:
                peer.send(b"x")
                got += peer.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                break
        assert got.startswith(b"HTTP/1.1 408")
    hasty.until(lambda: not list((hasty.data / "jobs").iterdir()), 5, "the upload is deleted")


def test_slow_uploads_do_not_keep_others_out_for_long(hasty: Server, walk: Path) -> None:
    peers = [connect(hasty) for _ in range(3)]
    for peer in peers:
        peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
    hasty.until(
        lambda: b"\nveil_uploads 3\n" in hasty.ask("GET", "/metrics").body, 10, "all places are taken"
    )
    assert hasty.upload(walk.read_bytes()).status == 503
    hasty.until(lambda: hasty.upload(walk.read_bytes()).status == 201, SECONDS + LATE, "there is place again")
    for peer in peers:
        peer.close()


def test_a_client_that_disappears_leaves_nothing(hasty: Server, walk: Path) -> None:
    before = {path.name for path in (hasty.data / "jobs").iterdir()}
    with connect(hasty) as peer:
        peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + walk.read_bytes()[:5000])
        hasty.until(lambda: len(list((hasty.data / "jobs").iterdir())) > len(before), 10, "it begins")
    hasty.until(lambda: {path.name for path in (hasty.data / "jobs").iterdir()} == before, 5, "it is deleted")


def test_one_address_has_only_so_many_connections(tmp_path: Path) -> None:
    patient = {"connections_per_address": 20, "header_seconds": 600.0}  # nobody is cut for being idle
    with Server(tmp_path / "data", patient) as server:
        peers = [connect(server, "127.9.0.1") for _ in range(30)]
        cut = set[socket.socket]()

        def ten_are_cut() -> bool:
            cut.update(peer for peer in peers if peer not in cut and is_cut(peer))
            return len(cut) >= 10

        server.until(ten_are_cut, 30, "those above the number are let go")
        time.sleep(0.2)
        ten_are_cut()
        assert len(cut) == 10
        assert server.ask("GET", "/health").status == 200, "other addresses are served"
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
    job = hasty.accepted(long_walk, "black")
    assert hasty.ended(job)["state"] == "done"
    asking = f"GET /api/jobs/{job}/video HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANNA}\r\n\r\n"
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        peer.connect(("127.0.0.1", hasty.port))
        for _ in range(400):  # so many answers do not fit into any buffer
            peer.sendall(asking.encode())
        time.sleep(2 * SECONDS + 2)
        peer.settimeout(20)
        got = 0
        with pytest.raises(OSError):
            while True:
                piece = peer.recv(1 << 16)
                got += len(piece)
                if not piece:
                    raise ConnectionResetError
    assert hasty.ask("GET", "/health").status == 200
