"""Which packets become pictures."""

from __future__ import annotations

from pathlib import Path

import av

from videoveil.media.packets import Expectation, is_hidden
from videoveil.media.reader import open_video

from .make import FRAMES, encode, with_hidden_pictures

HEAD = b"\x00\x00"


def test_empty_discarded_and_leading_packets_are_not_expected() -> None:
    expectation = Expectation("h264", joins=True)
    assert not expectation.shown(0, 100, False, False, HEAD), "before the first key frame"
    assert expectation.shown(10, 100, True, False, HEAD)
    assert not expectation.shown(8, 50, False, False, HEAD), "shown before the first key frame"
    assert expectation.before_start(8)
    assert not expectation.before_start(10)
    assert expectation.shown(11, 50, False, False, HEAD)
    assert not expectation.shown(12, 0, False, False, HEAD), "empty"
    assert not expectation.shown(13, 50, False, True, HEAD), "marked to be discarded"
    assert (expectation.expected, expectation.stored, expectation.first_key) == (2, 5, 10)
    assert expectation.doubtful


def test_a_file_that_does_not_begin_with_a_key_frame_owes_all_its_pictures() -> None:
    expectation = Expectation("h264")
    assert all(expectation.shown(pts, 100, False, False, HEAD) for pts in range(4))
    assert not expectation.before_start(0)
    assert not expectation.doubtful


def test_a_plain_stream_is_not_doubtful_and_an_unknown_codec_is() -> None:
    expectation = Expectation("h264")
    for pts in range(5):
        assert expectation.shown(pts, 100, pts == 0, False, HEAD)
    assert not expectation.doubtful
    assert Expectation("theora").doubtful


def test_an_mpeg4_packet_too_small_for_a_picture_makes_the_count_doubtful() -> None:
    expectation = Expectation("mpeg4")
    expectation.shown(0, 500, True, False, HEAD)
    assert not expectation.doubtful
    expectation.shown(1, 7, False, False, HEAD)
    assert expectation.doubtful


def test_hidden_pictures_are_those_that_the_decoder_does_not_give(tmp_path: Path) -> None:
    path = with_hidden_pictures(
        encode(tmp_path / "a.webm", "libvpx", options={"deadline": "realtime"}), tmp_path / "b.webm"
    )
    hidden = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for packet in container.demux(stream):
            if packet.size:
                view = memoryview(packet)
                hidden.append(is_hidden("vp8", bytes((view[0], view[-1]))))
                assert hidden[-1] == (len(packet.decode()) == 0)
    assert (sum(hidden), len(hidden)) == (FRAMES // 4, FRAMES + FRAMES // 4)


def test_hidden_pictures_are_not_frames(tmp_path: Path) -> None:
    path = with_hidden_pictures(
        encode(tmp_path / "a.webm", "libvpx", options={"deadline": "realtime"}), tmp_path / "b.webm"
    )
    with open_video(path) as video:
        frames = list(video.frames())
        assert len(frames) == video.count() == video.info.frames == FRAMES
        assert (video.read([20])[0] == frames[20].image).all()


def test_hidden_bits_of_every_profile() -> None:
    assert is_hidden("vp8", b"\x00\x00")
    assert not is_hidden("vp8", b"\x10\x00")
    for profile, lead in ((0, 0b1000_0000), (1, 0b1010_0000), (2, 0b1001_0000)):
        assert is_hidden("vp9", bytes((lead, 0))), profile
        assert not is_hidden("vp9", bytes((lead | 0b0010, 0))), "shown"
        assert not is_hidden("vp9", bytes((lead | 0b1000, 0))), "an earlier one is shown again"
    assert is_hidden("vp9", bytes((0b1011_0000, 0)))
    assert not is_hidden("vp9", bytes((0b1011_0001, 0)))
    assert not is_hidden("vp9", bytes((0b1000_0000, 0xC1))), "several pictures in one packet"
    assert not is_hidden("h264", b"\x00\x00")
