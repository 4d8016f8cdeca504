"""The container is told by content alone."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.errors import ContainerNotAllowed
from videoveil.media import sniff as module
from videoveil.media.sniff import HEAD, sniff

from .make import encode

MADE = {
    "a.mp4": ("libx264", None, module.MOV),
    "a.mov": ("libx264", None, module.MOV),
    "a.3gp": ("h263", None, module.MOV),
    "a.mkv": ("libx264", None, module.MATROSKA),
    "a.webm": ("libvpx", None, module.MATROSKA),
    "a.avi": ("mpeg4", None, module.AVI),
    "a.flv": ("flv", None, module.FLV),
    "a.ogv": ("libvpx", "ogg", module.OGG),
    "a.gif": ("gif", None, module.GIF),
    "a.wmv": ("wmv2", "asf", module.ASF),
    "a.mpg": ("mpeg2video", "mpeg", module.MPEG_PS),
    "a.ts": ("libx264", None, module.MPEG_TS),
}


@pytest.mark.parametrize("name", MADE)
def test_every_container_that_is_read_is_recognised(name: str, tmp_path: Path) -> None:
    codec, muxer, expected = MADE[name]
    size = (176, 144) if codec == "h263" else (96, 64)
    pixels = "gray" if codec == "gif" else "yuv420p"
    data = encode(tmp_path / name, codec, container=muxer, count=6, size=size, pix_fmt=pixels).read_bytes()
    assert sniff(data[:HEAD], name) == expected


def test_the_demuxers_that_open_other_files_are_never_named() -> None:
    containers = [value for value in vars(module).values() if isinstance(value, module.Container)]
    assert len(containers) == 9
    dangerous = {"hls", "dash", "concat", "image2", "sdp", "rtsp", "lavfi", "imf", "ffmetadata", "applehttp"}
    assert not dangerous & {container.demuxer for container in containers}


@given(st.text(alphabet=st.characters(min_codepoint=9, max_codepoint=0x2FF), max_size=3000))
def test_text_is_never_a_container(text: str) -> None:
    head = text.encode()[:HEAD]
    if head.startswith((b"GIF8", b"FLV\x01", b"OggS\x00")) or set(head[::188]) == {0x47}:
        return  # these are signatures, whatever follows
    with pytest.raises(ContainerNotAllowed):
        sniff(head, "a.mp4")


@given(st.binary(max_size=HEAD))
def test_any_bytes_give_a_container_or_the_one_error(head: bytes) -> None:
    with contextlib.suppress(ContainerNotAllowed):
        assert isinstance(sniff(head, "a"), module.Container)
