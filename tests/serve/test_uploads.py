"""Uploads that are no videos: each one is refused with a 4xx, leaves nothing and harms nobody."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serve.running import ANNA, Server, noise
from videoveil.errors import ContainerNotAllowed
from videoveil.media.sniff import sniff

OCTETS = {"Content-Type": "application/octet-stream"}
TRAVERSALS = [
    "../../../../etc/passwd",
    "..\\..\\windows\\system32",
    "/etc/cron.d/x",
    "a/../../b.mp4",
    "....//....//x",
    "%2e%2e%2fx",
    "x\0.mp4",
    "CON",
    "~root/.ssh/authorized_keys",
    "$(touch x).mp4",
    "`id`.mp4",
    "; rm -rf .mp4",
    "<script>alert(1)</script>.mp4",
    "file:///etc/passwd",
    "concat:a|b",
    "x" * 3000,
]


def archives() -> dict[str, bytes]:
    packed, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../evil.mp4", b"x" * 5000)
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../evil"), io.BytesIO())
    return {
        "zip": packed.getvalue(),
        "tar": tarred.getvalue(),
        "gzip": gzip.compress(b"x" * 5000),
        "xz": b"\xfd7zXZ\0" + noise(1, 200),
        "7z": b"7z\xbc\xaf\x27\x1c" + noise(2, 200),
        "rar": b"Rar!\x1a\x07\x00" + noise(3, 200),
    }


def texts() -> dict[str, bytes]:
    lines = {
        "empty": "",
        "newline": "\n",
        "m3u8": "#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
        "m3u8 with mark": "\ufeff#EXTM3U\nhttp://127.0.0.1/\n",
        "concat": "ffconcat version 1.0\nfile /etc/passwd\n",
        "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5000 RTP/AVP 96\n",
        "dash": "<MPD><BaseURL>file:///etc/passwd</BaseURL></MPD>",
        "xml": '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
        "html": "<!DOCTYPE html><script>alert(1)</script>",
        "svg": '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
        "shell": "#!/bin/sh\nrm -rf /\n",
        "python": "import os\nos.system('id')\n",
        "php": "<?php system($_GET['c']); ?>",
        "json": '{"model": "blur"}',
        "csv": "a,b\n=cmd|' /C calc'!A0,1\n",
        "subtitles": "1\n00:00:00,000 --> 00:00:02,000\nhello\n",
        "ass": "[Script Info]\nTitle: x\n",
        "lua": "os.execute('id')",
        "long line": "a" * 9000,
        "image sequence": "frame%03d.png",
    }
    return {f"text {name}": text.encode() for name, text in lines.items()}


def pictures_and_sounds() -> dict[str, bytes]:
    return {
        "png": b"\x89PNG\r\n\x1a\n" + noise(4, 300),
        "jpeg": b"\xff\xd8\xff\xe0" + noise(5, 300),
        "webp": b"RIFF\x00\x10\x00\x00WEBPVP8 " + noise(6, 300),
        "wav": b"RIFF\x00\x10\x00\x00WAVEfmt " + noise(7, 300),
        "mp3": b"ID3\x04\x00" + noise(8, 300),
        "flac": b"fLaC" + noise(9, 300),
        "pdf": b"%PDF-1.7\n" + noise(10, 300),
        "elf": b"\x7fELF\x02\x01\x01" + noise(11, 300),
        "exe": b"MZ\x90\x00" + noise(12, 300),
        "heic": b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00" + noise(13, 300),
        "sqlite": b"SQLite format 3\0" + noise(14, 300),
        "pickle": b"\x80\x04\x95" + noise(15, 300),
    }


def headers_only() -> dict[str, bytes]:
    """Right beginnings of containers with nothing right behind them."""
    starts = {
        "mov": b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2",
        "moov": b"\x00\x00\x00\x08moov",
        "mdat": b"\x00\x00\x00\x08mdat",
        "huge box": b"\x00\x00\x00\x01mdat\x7f\xff\xff\xff\xff\xff\xff\xff",
        "endless box": b"\x00\x00\x00\x00ftyp",
        "matroska": b"\x1aE\xdf\xa3",
        "avi": b"RIFF\xff\xff\xff\xffAVI LIST",
        "flv": b"FLV\x01\x05\x00\x00\x00\x09",
        "ogg": b"OggS\x00\x02",
        "gif": b"GIF89a\xff\xff\xff\xff",
        "asf": bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"),
        "ps": b"\x00\x00\x01\xba",
        "ts": (b"\x47" + bytes(187)) * 6,
    }
    found = {}
    for number, (name, start) in enumerate(starts.items()):
        found[f"{name}, then nothing"] = start
        found[f"{name}, then zeros"] = start + bytes(5000)
        found[f"{name}, then noise"] = start + noise(20 + number, 5000)
        found[f"{name}, then text"] = start + b"file:///etc/passwd\n" * 300
    return found


def cut(walk: bytes) -> dict[str, bytes]:
    """A real video that breaks off; the writer puts the index first, so the end of the pictures is what is missing."""
    places = [*range(1, 40), *range(40, len(walk) - 600, max(1, len(walk) // 90))]
    return {f"cut at {place}": walk[:place] for place in places}


def turned(walk: bytes) -> dict[str, bytes]:
    """A real video whose structure is overwritten."""
    found = {"backwards": walk[::-1], "shifted": walk[3:], "in text": walk.hex().encode()}
    for name in (b"moov", b"trak", b"stsd", b"avcC", b"stbl", b"mdia"):
        found[f"without {name.decode()}"] = walk.replace(name, b"XXXX")
    return found


def test_more_than_two_hundred_malformed_uploads_are_refused(server: Server, walk: Path) -> None:
    film = walk.read_bytes()
    table = {**archives(), **texts(), **pictures_and_sounds(), **headers_only(), **cut(film), **turned(film)}
    before = sorted(path.name for path in (server.data / "jobs").iterdir())
    wrong = {}
    kinds = ["video/mp4", "application/octet-stream", "application/x-www-form-urlencoded"]
    for number, (name, body) in enumerate(table.items()):
        kind = kinds[number % 3]  # what a client says about its file changes nothing
        answer = server.ask("POST", "/api/jobs?model=blur", body, headers={"Content-Type": kind})
        if not (400 <= answer.status < 500 and answer.json["detail"]):
            wrong[name] = (answer.status, answer.body[:200])
    assert wrong == {}
    assert len(table) >= 200
    assert sorted(path.name for path in (server.data / "jobs").iterdir()) == before
    assert not list((server.data / "trash").iterdir())
    assert server.ended(server.accepted(walk))["state"] == "done", "the service is as well as before"


def form(boundary: str, *parts: tuple[str, bytes], end: str = "--") -> bytes:
    made = b"".join(
        f"--{boundary}\r\n{head}\r\n\r\n".encode("utf-8", "surrogateescape") + body + b"\r\n"
        for head, body in parts
    )
    return made + f"--{boundary}{end}\r\n".encode()


def part(name: str, filename: str | None = None) -> str:
    given = "" if filename is None else f'; filename="{filename}"'
    return f'Content-Disposition: form-data; name="{name}"{given}'


def send_form(server: Server, body: bytes, boundary: str = "bound") -> int:
    kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return server.ask("POST", "/api/jobs", body, headers=kind).status


def test_a_form_is_taken_in_any_order(server: Server, walk: Path) -> None:
    film = walk.read_bytes()
    video, model = (part("video", "a.mp4"), film), (part("model"), b"black")
    assert send_form(server, form("bound", video, model)) == 201
    assert send_form(server, form("bound", model, video, (part("audio"), b"false"))) == 201


def test_damaged_forms_are_refused(server: Server, walk: Path) -> None:
    film = walk.read_bytes()
    video, model = (part("video", "a.mp4"), film), (part("model"), b"blur")
    good = form("bound", video, model)
    bad = {
        "no part": form("bound"),
        "no video": form("bound", model),
        "two videos": form("bound", video, video, model),
        "two models": form("bound", video, model, model),
        "no model": form("bound", video),
        "unknown model": form("bound", video, (part("model"), b"nothing")),
        "another part": form("bound", video, model, (part("path"), b"/etc")),
        "a part without a name": form("bound", video, model, ("X: y", b"")),
        "a long model": form("bound", video, (part("model"), b"b" * 5000)),
        "a long header": form("bound", ("X: " + "y" * 9000, film), model),
        "many parts": form("bound", *[(part("model"), b"")] * 20),
        "bad audio": form("bound", video, model, (part("audio"), b"maybe")),
        "empty video": form("bound", (part("video", "a.mp4"), b""), model),
        "text video": form("bound", (part("video", "a.mp4"), b"#EXTM3U\n"), model),
        "no end": good[:-10],
        "half": good[: len(good) // 2],
        "empty": b"",
        "only the separator": b"--bound",
        "line ends missing": good.replace(b"\r\n", b"\n"),
        "noise": noise(40, 3000),
        "noise in the head": good[:20] + noise(41, 20) + good[40:],
    }
    status = {name: send_form(server, body) for name, body in bad.items()}
    assert {name: found for name, found in status.items() if not 400 <= found < 500} == {}
    wrong = [send_form(server, good, other) for other in ("other", "x" * 200, '""', "", "böund")]
    assert all(400 <= found < 500 for found in wrong), wrong


@pytest.mark.parametrize("name", TRAVERSALS)
def test_the_name_of_a_file_is_never_used(server: Server, walk: Path, name: str) -> None:
    if len(name) < 1000:
        body = form("bound", (part("video", name), walk.read_bytes()), (part("model"), b"black"))
        assert send_form(server, body) in (201, 400)  # 400: not even a possible header
    body = form("bound", (part("video", name), b"not a video"), (part("model"), b"black"))
    assert send_form(server, body) in (400, 415)
    known = {"jobs", "trash", "lock", "job.json", "upload", "video.mp4", "report.json"}
    for path in server.data.rglob("*"):
        ours = path.name in known or path.name.startswith(".veil-tmp-") or len(path.name) == 32
        assert ours, path
    assert name[:40] not in server.log.read_text()


@pytest.mark.parametrize("length", ["99999999999999999999", "-1", "1e3", "0x10", "12 13", ""])
def test_wrong_lengths_are_refused(server: Server, length: str) -> None:
    headers = {"Content-Length": length, "Connection": "close", **OCTETS}
    assert 400 <= server.ask("POST", "/api/jobs?model=blur", b"", ANNA, headers).status < 500


@given(st.binary(max_size=6000))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_that_are_no_video_are_accepted(server: Server, body: bytes) -> None:
    answer = server.ask("POST", "/api/jobs?model=blur", body, headers=OCTETS)
    assert 400 <= answer.status < 500
    try:
        sniff(body, "x")
    except ContainerNotAllowed:
        assert answer.status == (415 if body else 400)
