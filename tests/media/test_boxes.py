"""mp4 headers are held to the limits before libav sees them."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.errors import ContainerNotAllowed, CorruptVideo, TooManyFrames
from videoveil.media.boxes import check_mov
from videoveil.media.limits import DEFAULT, Limits
from videoveil.media.source import LocalFile

from .make import FRAMES, add_sound, encode


def check(path: Path, limits: Limits = DEFAULT) -> bool:
    file = LocalFile(path, limits)
    try:
        return check_mov(file, limits)
    finally:
        file.close()


def test_sound_files_pass_and_fragments_are_told(tmp_path: Path) -> None:
    assert not check(encode(tmp_path / "a.mp4"))
    assert not check(add_sound(tmp_path / "b.mov", "pcm_s16le"))
    fragmented = {"movflags": "frag_keyframe+empty_moov"}
    assert check(encode(tmp_path / "c.mp4", container_options=fragmented))


def test_the_samples_of_all_fragments_count_together(tmp_path: Path) -> None:
    fragmented = {"movflags": "frag_keyframe+empty_moov"}
    encode(tmp_path / "a.mp4", options={"g": "4"}, container_options=fragmented)
    check(tmp_path / "a.mp4", Limits(frames=FRAMES))
    with pytest.raises(TooManyFrames):
        check(tmp_path / "a.mp4", Limits(frames=FRAMES - 1))


def test_samples_times_edits_are_held_to_the_limit(tmp_path: Path) -> None:
    data = encode(tmp_path / "a.mp4", options={"bf": "2"}).read_bytes()
    at = data.find(b"elst") + 8
    (tmp_path / "b.mp4").write_bytes(data[:at] + struct.pack(">I", 500_000) + data[at + 4 :])
    with pytest.raises(TooManyFrames, match=str(500_000 * FRAMES)):
        check(tmp_path / "b.mp4")


def test_uncompressed_sound_may_have_as_many_samples_as_it_likes(tmp_path: Path) -> None:
    """Its samples are counted one by one in the header and indexed by chunk."""
    check(add_sound(tmp_path / "a.mov", "pcm_s16le"), Limits(frames=100))


def test_data_in_another_file_is_named(tmp_path: Path) -> None:
    data = encode(tmp_path / "a.mp4").read_bytes()
    at = data.find(b"url ")
    assert data[at + 4 : at + 8] == b"\x00\x00\x00\x01"
    (tmp_path / "b.mp4").write_bytes(data[: at + 7] + b"\x00" + data[at + 8 :])
    with pytest.raises(ContainerNotAllowed, match="another file"):
        check(tmp_path / "b.mp4")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_gives_media_errors_only(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.getbasetemp()
    source = base / "boxes.mp4"
    if not source.exists():
        encode(source, container_options={"movflags": "faststart"})
    content = bytearray(source.read_bytes()[:2500])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (base / "broken.mp4").write_bytes(content)
    with contextlib.suppress(CorruptVideo, ContainerNotAllowed, TooManyFrames):
        check(base / "broken.mp4")


def test_a_fragment_before_the_header_does_not_hide_what_the_header_claims(tmp_path: Path) -> None:
    data = encode(tmp_path / "a.mp4").read_bytes()
    at = data.find(b"stsz") + 12
    liar = data[:at] + struct.pack(">I", 2**31 - 1) + data[at + 4 :]
    run = struct.pack(">I4sII", 16, b"trun", 0, 1)
    part = struct.pack(">I4s", 8 + len(run), b"traf") + run
    (tmp_path / "b.mp4").write_bytes(
        liar[:32] + struct.pack(">I4s", 8 + len(part), b"moof") + part + liar[32:]
    )
    with pytest.raises(TooManyFrames):
        check(tmp_path / "b.mp4")


def test_pictures_that_the_tables_do_not_place_are_missed(tmp_path: Path) -> None:
    data = encode(tmp_path / "a.mp4").read_bytes()
    at = data.find(b"stsc") + 16
    assert struct.unpack(">I", data[at : at + 4]) == (FRAMES,)
    (tmp_path / "b.mp4").write_bytes(data[:at] + struct.pack(">I", FRAMES - 1) + data[at + 4 :])
    with pytest.raises(CorruptVideo, match=f"lists {FRAMES} pictures and says of only {FRAMES - 1}"):
        check(tmp_path / "b.mp4")


@pytest.mark.parametrize("kind", [b"moof", b"traf", b"trun"])
def test_a_damaged_fragment_is_missed(kind: bytes, tmp_path: Path) -> None:
    fragmented = {"movflags": "frag_keyframe+empty_moov"}
    data = encode(tmp_path / "a.mp4", options={"g": "8"}, container_options=fragmented).read_bytes()
    place = data.find(kind, data.find(kind) + 4)  # in the second fragment
    (tmp_path / "b.mp4").write_bytes(data[:place] + b"xxxx" + data[place + 4 :])
    with pytest.raises(CorruptVideo, match="fragment"):
        check(tmp_path / "b.mp4")
