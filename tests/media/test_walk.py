"""Stored pictures are counted from headers, and cuts and damage are found."""

from __future__ import annotations

import contextlib
from pathlib import Path

import av
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.errors import CorruptVideo, DecodeTimeout
from videoveil.media.limits import DEFAULT
from videoveil.media.sniff import HEAD, sniff
from videoveil.media.source import LocalFile, Watch
from videoveil.media.walk import check_transport, stored_pictures

from .make import FRAMES, add_sound, encode

COUNTED = {
    "a.mkv": ("libx264", None, {}),
    "live.mkv": ("libx264", "matroska", {"live": "1"}),
    "a.webm": ("libvpx", None, {}),
    "a.avi": ("mpeg4", None, {}),
    "a.flv": ("libx264", None, {}),
    "old.flv": ("flv", None, {}),
    "a.ogv": ("libvpx", "ogg", {}),
    "a.gif": ("gif", None, {}),
}


def walk(path: Path, *, stall: float = 30.0) -> tuple[int, ...] | None:
    file = LocalFile(path, DEFAULT)
    try:
        return stored_pictures(file, sniff(file.read_at(0, HEAD), path), Watch(str(path), stall))
    finally:
        file.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("walk")
    for name, (codec, muxer, options) in COUNTED.items():
        pixels = "gray" if codec == "gif" else "yuv420p"
        encode(folder / name, codec, container=muxer, container_options=options, pix_fmt=pixels)
    add_sound(folder / "sound.mkv", "aac")
    add_sound(folder / "sound.avi", "pcm_s16le")
    add_sound(folder / "sound.flv", "aac")
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize("name", COUNTED)
def test_every_stored_picture_is_counted(name: str, made: dict[str, Path]) -> None:
    assert walk(made[name]) == (FRAMES,)


@pytest.mark.parametrize("name", ["sound.mkv", "sound.avi", "sound.flv"])
def test_sound_is_not_counted(name: str, made: dict[str, Path]) -> None:
    assert walk(made[name]) == (25,)


@pytest.mark.parametrize("name", COUNTED)
def test_a_cut_anywhere_is_found_or_leaves_fewer_pictures(
    name: str, made: dict[str, Path], tmp_path: Path
) -> None:
    """Fewer: a live recording has no length, so a cut between two blocks is a shorter recording."""
    data = made[name].read_bytes()
    end = data.rfind(b"idx1") if name == "a.avi" else len(data)
    for position in range(20, end, max(1, end // 150)):
        (tmp_path / "cut").write_bytes(data[:position])
        try:
            pictures = walk(tmp_path / "cut")
        except CorruptVideo:
            continue
        assert name == "live.mkv"
        assert pictures is None or sum(pictures) < FRAMES


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_never_gives_any_other_error(
    data: st.DataObject, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from(sorted(COUNTED)))
    content = bytearray(made[name].read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(16, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    with contextlib.suppress(CorruptVideo):
        walk(path)


def test_a_walk_over_absurdly_many_blocks_is_stopped(tmp_path: Path) -> None:
    header = b"\x1aE\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff"
    (tmp_path / "a.mkv").write_bytes(header + b"\xec\x80" * 2_000_000)
    with pytest.raises(DecodeTimeout):
        walk(tmp_path / "a.mkv", stall=0.05)


@pytest.mark.parametrize("name", [b"\x1fC\xb6\x75", b"\xa3"])
def test_an_element_whose_name_was_damaged_is_not_passed_over(
    name: bytes, made: dict[str, Path], tmp_path: Path
) -> None:
    data = made["a.mkv"].read_bytes()
    at = data.find(b"\x1fC\xb6\x75")
    at = at if len(name) == 4 else data.find(name, at)
    (tmp_path / "a.mkv").write_bytes(
        data[: at + len(name) - 1] + bytes((name[-1] ^ 1,)) + data[at + len(name) :]
    )
    with pytest.raises(CorruptVideo, match="unknown element"):
        walk(tmp_path / "a.mkv")


def test_a_transport_stream_is_checked_packet_by_packet(tmp_path: Path) -> None:
    data = encode(tmp_path / "a.ts").read_bytes()
    with av.open(str(tmp_path / "a.ts")) as container:
        stream = container.streams.video[0]
        pid, starts = stream.id, [packet.pos for packet in container.demux(stream) if packet.size]

    def check(content: bytes) -> None:
        (tmp_path / "b.ts").write_bytes(content)
        file = LocalFile(tmp_path / "b.ts", DEFAULT)
        try:
            check_transport(file, pid, Watch("b.ts", 30))
        finally:
            file.close()

    check(data)
    start = starts[5]
    prefix = data.find(b"\x00\x00\x01\xe0", start)
    with pytest.raises(CorruptVideo, match="a picture should start here"):
        check(data[: prefix + 2] + b"\x02" + data[prefix + 3 :])
    with pytest.raises(CorruptVideo, match="no packet starts here"):
        check(data[:start] + data[start + 10 :])
    with pytest.raises(CorruptVideo, match="breaks off"):
        check(data[:-20])
