"""What a network makes of a smaller picture: the same pictures in any form, and no way round the checks."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
import torch
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline import films
from videoveil import files
from videoveil.anonymizers.keys import NoiseKey
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.pixel import NoiseFloor, PixelAnonymizer, UNet, pixel
from videoveil.media.pixels import UPRIGHT, Orientation, RgbConverter
from videoveil.media.reader import Decoded, open_video
from videoveil.media.writer import Coding
from videoveil.pipeline.anonymize import Part, anonymize_file
from videoveil.pipeline.checks import BLOCK, NOT_CHANGED, ROUNDING, FrameChecks
from videoveil.pipeline.engines import Workshop
from videoveil.pipeline.errors import FramesFailed
from videoveil.pipeline.lanes import Scaled, Whole, lane, luma
from videoveil.pipeline.options import Options

SIZE = (112, 160)
INNER = (56, 80)


@pytest.fixture(scope="module")
def network() -> PixelAnonymizer:
    return pixel(UNet(width=4))


@pytest.fixture(scope="module")
def scaled(network: PixelAnonymizer) -> Scaled:
    return scaled_lane(network, SIZE)


def scaled_lane(network: PixelAnonymizer, size: tuple[int, int]) -> Scaled:
    options = Options(engine="torch", inner=max(INNER))
    made = lane(Workshop().worker(network, size, 4, options), FrameChecks(network), size)
    assert isinstance(made, Scaled)
    return made


def scene(number: int = 3) -> np.ndarray:
    return films.scene(number, SIZE[1], SIZE[0])


def stored(
    image: np.ndarray, form: str = "yuv420p", matrix: Colorspace | None = Colorspace.ITU709
) -> av.VideoFrame:
    """A picture as a decoder would give it; matrix None: it does not say."""
    full = form in ("yuvj420p", "gray", "rgb24", "gbrp", "rgba")
    frame = VideoReformatter().reformat(
        av.VideoFrame.from_ndarray(image, format="rgb24"),
        format=form,
        dst_colorspace=matrix,
        src_color_range=ColorRange.JPEG,
        dst_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
    )
    if matrix is None:
        frame.colorspace = 2
    return frame


def decoded(frame: av.VideoFrame, turn: Orientation = UPRIGHT) -> Decoded:
    return Decoded(0, Fraction(0), frame, turn)


def apart(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return np.abs(one.astype(int) - two)


# --- what goes in -------------------------------------------------------------------------------------------

FORMS = ["yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuv420p10le", "nv12", "gray", "rgb24", "gbrp", "rgba"]


@pytest.mark.parametrize("matrix", [None, Colorspace.ITU709, Colorspace.ITU601, Colorspace.BT2020])
@pytest.mark.parametrize("form", FORMS)
def test_a_picture_in_any_form_is_seen_as_its_rgb_would_be(
    form: str, matrix: Colorspace | None, scaled: Scaled
) -> None:
    frame = stored(scene(), form, matrix)
    rgb = RgbConverter()(frame, UPRIGHT)
    seen = scaled.take(decoded(frame))
    assert seen.small.shape == (*INNER, 3)
    assert apart(seen.small, cv2.resize(rgb, INNER[::-1], interpolation=cv2.INTER_AREA)).mean() < 0.6
    as_coded = luma(Coding(SIZE[1], SIZE[0]).of_image(rgb))
    assert seen.luma.shape == SIZE
    assert apart(seen.luma, as_coded).mean() < ROUNDING / 4


@pytest.mark.parametrize("turn", [Orientation(True, True, False), Orientation(False, True, True)])
def test_a_turned_picture_is_seen_upright(turn: Orientation, network: PixelAnonymizer) -> None:
    frame = stored(scene())
    rgb = RgbConverter()(frame, turn)
    seen = scaled_lane(network, rgb.shape[:2]).take(decoded(frame, turn))
    small = cv2.resize(rgb, seen.small.shape[1::-1], interpolation=cv2.INTER_AREA)
    assert apart(seen.small, small).max() <= 1
    assert seen.luma.shape == rgb.shape[:2]


def test_only_a_network_with_a_smaller_picture_takes_this_way(network: PixelAnonymizer) -> None:
    for anonymizer, inner in ((network, 0), (network, 4000), (open_anonymizer("blur"), 80)):
        worker = Workshop().worker(anonymizer, SIZE, 4, Options(engine="torch", inner=inner))
        assert isinstance(lane(worker, FrameChecks(anonymizer), SIZE), Whole)


# --- what may leave -----------------------------------------------------------------------------------------


def test_what_the_network_made_is_enlarged_and_passes(scaled: Scaled) -> None:
    seen = scaled.take(decoded(stored(scene())))
    made = scaled.anonymize([seen], None)[0]
    checked = scaled.check(seen, made)
    assert (checked.reason, checked.failed) == ("", False)
    large = cv2.resize(made, SIZE[::-1], interpolation=cv2.INTER_LINEAR)
    assert apart(RgbConverter()(checked.image, UPRIGHT), large).mean() < 1.5


def black(frame: av.VideoFrame) -> bool:
    return not RgbConverter()(frame, UPRIGHT).any()


def test_a_network_that_gives_back_what_it_saw_is_found_though_enlarging_changes_every_pixel(
    scaled: Scaled,
) -> None:
    seen = scaled.take(decoded(stored(scene())))
    checked = scaled.check(seen, seen.small.copy())
    assert (checked.reason, checked.failed) == (NOT_CHANGED, True)
    assert black(checked.image)
    large = cv2.resize(seen.small, SIZE[::-1], interpolation=cv2.INTER_LINEAR)
    assert (
        not FrameChecks(scaled.worker.source).frame(scene(), large).failed
    )  # the large picture alone would not tell


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2), st.integers(0, 4), st.integers(0, 99), st.floats(0, 0.2))
def test_one_block_that_the_network_left_is_enough_even_under_faint_noise(
    row: int, column: int, seed: int, noise: float
) -> None:
    anonymizer = pixel(UNet(width=4))
    way = scaled_lane(anonymizer, SIZE)
    dice = np.random.default_rng(seed)
    raw = dice.integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    seen = way.take(decoded(stored(raw, "yuv444p")))
    made = way.anonymize([seen], None)[0]
    place = np.s_[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]
    left = seen.small[place]
    made[place] = np.where(dice.random(left.shape) < noise, left ^ 1, left)
    assert way.check(seen, made).reason == NOT_CHANGED


def raw_planes(way: Scaled, frame: av.VideoFrame, image: np.ndarray) -> av.VideoFrame:
    return frame


def raw_rgb(way: Scaled, frame: av.VideoFrame, image: np.ndarray) -> av.VideoFrame:
    return Coding(SIZE[1], SIZE[0]).of_image(RgbConverter()(frame, UPRIGHT))


def half_raw(way: Scaled, frame: av.VideoFrame, image: np.ndarray) -> av.VideoFrame:
    good = RgbConverter()(Coding(SIZE[1], SIZE[0]).of_image(image), UPRIGHT)
    good[: SIZE[0] // 2] = RgbConverter()(frame, UPRIGHT)[: SIZE[0] // 2]
    return Coding(SIZE[1], SIZE[0]).of_image(good)


def noisy_raw(way: Scaled, frame: av.VideoFrame, image: np.ndarray) -> av.VideoFrame:
    raw = RgbConverter()(frame, UPRIGHT)
    flips = np.random.default_rng(0).random(raw.shape[:2]) < 0.2
    return Coding(SIZE[1], SIZE[0]).of_image(np.where(flips[..., None], raw ^ 1, raw))


@pytest.mark.parametrize("matrix", [Colorspace.ITU709, Colorspace.ITU601, None])
@pytest.mark.parametrize("leak", [raw_planes, raw_rgb, half_raw, noisy_raw])
def test_a_raw_picture_that_gets_in_behind_the_network_is_found(
    leak: Callable[..., av.VideoFrame],
    matrix: Colorspace | None,
    network: PixelAnonymizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if leak is raw_planes and matrix != Colorspace.ITU709:
        pytest.skip("planes with another matrix are refused by the writer")
    way, frame = scaled_lane(network, SIZE), stored(scene(), "yuv420p", matrix)
    seen = way.take(decoded(frame))
    made = way.anonymize([seen], None)[0]
    right = way._made.of_image
    monkeypatch.setattr(
        way._made, "of_image", lambda image: leak(way, frame, image) if image is made else right(image)
    )
    checked = way.check(seen, made)
    assert (checked.reason, checked.failed) == (NOT_CHANGED, True)
    assert black(checked.image)


@pytest.mark.parametrize(
    "made", [None, "text", np.zeros((*INNER, 3), np.float32), np.zeros((*SIZE, 3), np.uint8)]
)
def test_what_is_no_picture_of_the_network_becomes_black(made: Any, scaled: Scaled) -> None:
    checked = scaled.check(scaled.take(decoded(stored(scene()))), made)
    assert checked.failed
    assert black(checked.image)
    assert (checked.image.height, checked.image.width) == SIZE


def test_a_check_that_breaks_is_a_check_that_was_not_passed(
    network: PixelAnonymizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = scaled_lane(network, SIZE)
    seen = way.take(decoded(stored(scene())))
    made = way.anonymize([seen], None)[0]
    monkeypatch.setattr(way.checks, "luma", lambda raw, made: 1 / 0)
    checked = way.check(seen, made)
    assert checked.failed
    assert "ZeroDivisionError" in checked.reason
    assert black(checked.image)


# --- whole files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(96, 64), (95, 63)])
def test_a_file_comes_out_as_the_network_made_it(
    size: tuple[int, int], network: PixelAnonymizer, tmp_path: Path
) -> None:
    images = films.scenes(12, 96, 64)
    images = [np.ascontiguousarray(image[: size[1], : size[0]]) for image in images]
    raw = tmp_path / "raw.mkv"
    odd = size != (96, 64)
    films.coded(raw, images, container="matroska", codec="ffv1" if odd else "libx264", crf=4)
    options = Options(engine="torch", inner=48, crf=1)
    report = anonymize_file(raw, tmp_path / "out.mp4", network, options)
    assert report.frames == 12
    assert (report.width, report.height) == size
    worker = Workshop().worker(network, size[::-1], 4, options)
    with open_video(raw) as before, open_video(tmp_path / "out.mp4") as after:
        for one, two in zip(before.frames(), after.frames(), strict=True):
            assert one.time == two.time
            assert apart(worker([one.image])[0], two.image).mean() < 2.5


def test_another_size_of_the_result_is_made_from_the_small_picture(
    network: PixelAnonymizer, tmp_path: Path
) -> None:
    films.coded(tmp_path / "raw.mp4", films.scenes(5))
    options = Options(engine="torch", inner=32, size=(50, 80))
    report = anonymize_file(tmp_path / "raw.mp4", tmp_path / "out.mp4", network, options)
    assert (report.height, report.width) == (50, 80)
    assert report.failed_frames == 0


def test_frames_that_fail_are_black_in_a_partial_result_and_nothing_is_released_else(
    network: PixelAnonymizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    films.coded(tmp_path / "raw.mp4", films.scenes(6))
    right, seen = Scaled.anonymize, []

    def falls(way: Scaled, taken: Any, content: str | None) -> list[Any]:
        seen.append(taken)
        if len(seen) == 3:
            raise MemoryError
        if len(seen) == 5:
            return [one.small for one in taken]
        return right(way, taken, content)

    monkeypatch.setattr(Scaled, "anonymize", falls)
    for keep in (False, True):
        seen.clear()
        options = Options(engine="torch", inner=32, keep_partial=keep, batch=1)
        with pytest.raises(FramesFailed):
            anonymize_file(tmp_path / "raw.mp4", tmp_path / "out.mp4", network, options)
        assert not (tmp_path / "out.mp4").exists()
    with open_video(tmp_path / "out.partial.mp4") as video:
        levels = [frame.image.max() for frame in video.frames()]
    assert [level < 8 for level in levels] == [False, False, True, False, True, False]


@pytest.mark.parametrize("engine", ["torch", "openvino"])
def test_the_bytes_do_not_depend_on_how_many_threads_compute(engine: Any, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    network = pixel(UNet(width=4), NoiseFloor(0.05), key=NoiseKey(b"2" * 32))
    films.coded(tmp_path / "raw.mp4", films.scenes(30))
    hands, before = set(), torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            options = Options(engine=engine, inner=64)
            report = anonymize_file(tmp_path / "raw.mp4", tmp_path / f"out{threads}.mp4", network, options)
            hands.add(report.engine["hands"])
    finally:
        torch.set_num_threads(before)
    assert hands == {1, 3}
    assert len({files.file_hash(path) for path in tmp_path.glob("out*.mp4")}) == 1


def test_a_part_of_a_video_is_seen_as_in_the_whole(scaled: Scaled, tmp_path: Path) -> None:
    films.coded(tmp_path / "raw.mp4", films.scenes(30, SIZE[1], SIZE[0]), keys=8)
    with open_video(tmp_path / "raw.mp4") as video:
        whole = [scaled.take(one) for one in video.decoded()]
        part = Part(11, 23)
        for number, one in enumerate(video.decoded(part.first, part.stop), start=part.first):
            seen = scaled.take(one)
            assert one.index == number
            assert np.array_equal(seen.small, whole[number].small)
            assert np.array_equal(seen.luma, whole[number].luma)
