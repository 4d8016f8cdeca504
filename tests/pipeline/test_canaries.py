"""Canaries survive what keeps a raw frame raw, and nothing else."""

from __future__ import annotations

import functools
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from videoveil.anonymizers.obfuscate import STRONG, WEAK, Downsampler, WholeBlur
from videoveil.anonymizers.pixel import config
from videoveil.anonymizers.pixel.anonymizer import pixel
from videoveil.data.theatre import cast, playwright, stage
from videoveil.errors import MissingFile, UsageError
from videoveil.media.reader import open_video
from videoveil.media.writer import VideoWriter
from videoveil.pipeline.canaries import NUMBERS, find, find_all, in_bytes, mark, read

SECRET = 4711
SIZES = ((64, 48), (80, 60), (112, 112), (160, 120))


@functools.cache
def scene(width: int, height: int, frame: int = 0) -> np.ndarray:
    play = playwright.trimmed(
        "canary",
        width,
        action="walk",
        person=cast.identity(0, 3),
        width=width,
        height=height,
        frames=12,
    )
    return stage.Stage(play).frame(frame)


def film(path: Path, images: list[np.ndarray], *, crf: int = 30, turn: int = 0) -> Path:
    with av.open(str(path), "w", format="mp4") as output:
        options = {"crf": str(crf), "preset": "veryfast", "threads": "1"}
        stream = output.add_stream("libx264", rate=25, options=options)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for image in images:
            output.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        output.mux(stream.encode(None))
    if turn:
        _rotate_track(path, turn)
    return path


def _rotate_track(path: Path, turn: int) -> None:
    """Write a rotation into the matrix of the track header."""
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 4
    assert data[place] == 0, "version 0 expected"
    place += 40
    one = 1 << 16
    cos, sin = {90: (0, one), 180: (-one, 0), 270: (0, -one)}[turn]
    for row, value in enumerate((cos, sin, 0, -sin, cos, 0, 0, 0, 1 << 30)):
        data[place + 4 * row : place + 4 * row + 4] = value.to_bytes(4, "big", signed=True)
    path.write_bytes(bytes(data))


@given(
    number=st.integers(0, NUMBERS - 1),
    secret=st.integers(0, 2**63),
    size=st.sampled_from(SIZES),
    frame=st.integers(0, 11),
)
@settings(max_examples=40, deadline=None)
def test_what_was_marked_is_read_and_only_with_the_secret(
    number: int, secret: int, size: tuple[int, int], frame: int
) -> None:
    marked = mark(scene(*size, frame), number, secret)
    assert read(marked, secret) == number
    assert read(marked, secret + 1) is None
    assert read(scene(*size, frame), secret) is None


@given(seed=st.integers(0, 2**32 - 1), secret=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_noise_has_no_canary(seed: int, secret: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (64, 80, 3), np.uint8)
    assert read(image, secret) is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", [20, 30])
def test_survives_two_generations_of_h264(tmp_path: Path, size: tuple[int, int], first: int) -> None:
    numbers = [0, 255, 256, 41234, NUMBERS - 1, 77]
    marked = [mark(scene(*size, i), number, SECRET) for i, number in enumerate(numbers)]
    once = film(tmp_path / "in.mp4", marked, crf=first)
    with open_video(once) as video:
        decoded = [frame.image for frame in video.frames()]
    again = film(tmp_path / "out.mp4", decoded, crf=30)
    assert find(again, SECRET) == sorted(numbers)
    assert find(again, SECRET + 1) == []


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_rotation_is_undone_by_the_reader_and_by_find(tmp_path: Path, turn: int) -> None:
    shown = [mark(scene(64, 48, i), i + 5, SECRET) for i in range(3)]
    stored = [np.ascontiguousarray(np.rot90(image, turn // 90)) for image in shown]
    path = film(tmp_path / "turned.mp4", stored, turn=turn)
    with open_video(path) as video:
        assert video.info.rotation == turn
        assert [read(frame.image, SECRET) for frame in video.frames()] == [5, 6, 7]
    assert find(path, SECRET) == [5, 6, 7]


@functools.cache
def anonymizers() -> dict[str, torch.nn.Module]:
    return {
        "blur": WholeBlur(STRONG),
        "weak blur": WholeBlur(WEAK),
        **{f"downsample {f}": Downsampler(f) for f in (2, 4, 5, 8)},
        "outline": pixel(config.Outline()),
        "levels of a small picture": pixel(config.LowResolution(12), config.Levels(2)),
        **{f"unet {seed}": pixel(config.UNet(width=4), seed=seed) for seed in range(3)},
        "unet, clamped": pixel(config.UNet(width=4, out="none"), seed=1),
        "unet++": pixel(config.UNetPP()),
    }


@pytest.mark.parametrize("name", list(anonymizers()))
@pytest.mark.parametrize("size", [(64, 48), (112, 112)])
def test_every_anonymizer_destroys_it(name: str, size: tuple[int, int]) -> None:
    marked = np.stack([mark(scene(*size, i), 300 * i + 1, SECRET) for i in range(3)])
    with torch.no_grad():
        out = anonymizers()[name](torch.from_numpy(marked).permute(0, 3, 1, 2))
    pictures = out.permute(0, 2, 3, 1).contiguous().numpy()
    assert [read(image, SECRET) for image in pictures] == [None] * 3


def test_black_has_none() -> None:
    assert read(np.zeros((48, 64, 3), np.uint8), SECRET) is None


LAYOUTS = {
    "rgb": lambda a: a.tobytes(),
    "bgr": lambda a: a[:, :, ::-1].tobytes(),
    "planar": lambda a: np.ascontiguousarray(a.transpose(2, 0, 1)).tobytes(),
    "rgba": lambda a: np.dstack([a, np.full(a.shape[:2], 255, np.uint8)]).tobytes(),
    "luma": lambda a: av.VideoFrame.from_ndarray(a, format="rgb24").to_ndarray(format="yuv420p").tobytes(),
    "packed": lambda a: av.VideoFrame.from_ndarray(a, format="rgb24").to_ndarray(format="yuyv422").tobytes(),
    "floats": lambda a: (a.transpose(2, 0, 1).astype(np.float32) / 255).tobytes(),
    "half floats": lambda a: (a.astype(np.float16) / 255).tobytes(),
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("before", [0, 1, 1023])
def test_a_raw_frame_is_found_among_the_bytes_of_any_file(tmp_path: Path, layout: str, before: int) -> None:
    rng = np.random.default_rng(before)
    frame = LAYOUTS[layout](mark(scene(80, 60), 1234, SECRET))
    path = tmp_path / "some.log"
    path.write_bytes(rng.bytes(before) + frame + rng.bytes(50_000))
    assert find(path, SECRET) == [1234]
    assert in_bytes(path, SECRET + 1) == []


def test_a_decoded_frame_in_a_temporary_file_is_found(tmp_path: Path) -> None:
    """The bytes that would leak have been through a codec already."""
    path = film(tmp_path / "in.mp4", [mark(scene(64, 48, i), 900 + i, SECRET) for i in range(4)], crf=20)
    with open_video(path) as video:
        (tmp_path / "spill").write_bytes(b"".join(frame.image.tobytes() for frame in video.frames()))
    assert find(tmp_path / "spill", SECRET) == [900, 901, 902, 903]


def test_a_file_larger_than_a_piece_is_searched_across_the_seams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoveil.pipeline.canaries.PIECE", 10_000)
    frame = mark(scene(64, 48), 77, SECRET).tobytes()
    (tmp_path / "long").write_bytes(bytes(6_000) + frame + bytes(30_000))
    assert find(tmp_path / "long", SECRET) == [77]


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
def test_pictures_are_searched(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"preview.{kind}"
    Image.fromarray(mark(scene(112, 112), 5, SECRET)).save(path, quality=80)
    assert find(path, SECRET) == [5]


def test_random_bytes_text_and_empty_files_have_none(tmp_path: Path) -> None:
    (tmp_path / "random").write_bytes(np.random.default_rng(3).bytes(1_000_000))
    (tmp_path / "text").write_text("frame 12 failed\n" * 1000)
    (tmp_path / "empty").touch()
    assert find_all(tmp_path, SECRET) == {}


def test_what_a_killed_writer_leaves_is_decoded_with_a_borrowed_header(tmp_path: Path) -> None:
    """An mp4 without its index: no player opens it, and still raw frames can be in it."""
    images = [mark(scene(64, 48, i % 12), i, SECRET) for i in range(40)]

    def write(path: Path, images: list[np.ndarray]) -> None:
        with VideoWriter(path, width=64, height=48, time_base=Fraction(1, 25), threads=1) as writer:
            for number, image in enumerate(images):
                writer.write(image, Fraction(number, 25))

    write(tmp_path / "whole.mp4", images)
    write(tmp_path / "good.mp4", [np.zeros_like(images[0])] * 3)
    whole = (tmp_path / "whole.mp4").read_bytes()
    start = whole.index(b"mdat") - 4
    orphan = tmp_path / "orphan.mp4"
    orphan.write_bytes(whole[:32] + whole[start : start + (len(whole) - start) // 2])
    assert find(orphan, SECRET) == []
    numbers = find(orphan, SECRET, like=tmp_path / "good.mp4")
    assert len(numbers) > 5
    assert numbers == list(range(len(numbers)))
    other = film(
        tmp_path / "other.mp4", [np.zeros_like(images[0])] * 3, crf=30
    )  # by another writer, of the same size
    assert find(orphan, SECRET, like=other) == numbers


def test_find_all_names_the_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "spill").write_bytes(mark(scene(64, 48), 9, SECRET).tobytes())
    (tmp_path / "clean").write_bytes(bytes(5000))
    assert find_all(tmp_path, SECRET) == {str(tmp_path / "a" / "spill"): [9]}


def test_wrong_pictures_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="float32"):
        mark(np.zeros((4, 4, 3), np.float32), 0, SECRET)
    with pytest.raises(UsageError, match="-1"):
        mark(np.zeros((4, 4, 3), np.uint8), -1, SECRET)
    with pytest.raises(MissingFile, match=r"nothing\.mp4"):
        find(tmp_path / "nothing.mp4", SECRET)


@given(width=st.integers(1, 70), height=st.integers(1, 50))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_size_can_be_marked_and_read_without_error(width: int, height: int) -> None:
    image = np.full((height, width, 3), 128, np.uint8)
    marked = mark(image, 3, SECRET)
    assert marked.shape == image.shape
    expected = (3,) if width >= 64 and height >= 48 else (None, 3)
    assert read(marked, SECRET) in expected
