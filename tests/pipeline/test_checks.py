from __future__ import annotations

import threading

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline import films
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.obfuscate import Fixed, Layered, Obfuscator
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.errors import UsageError
from videoveil.pipeline.checks import (
    BLOCK,
    NOT_CHANGED,
    NOTHING_FOUND,
    FrameChecks,
    covers_parts,
    follows_people,
    found,
    unchanged_detail,
)
from videoveil.pipeline.errors import WeightsChanged


@pytest.fixture
def raw() -> np.ndarray:
    return films.scene(3, 160, 112)


def through(name: str, image: np.ndarray) -> np.ndarray:
    made = open_anonymizer(name)(torch.from_numpy(image.copy()).permute(2, 0, 1)[None])
    return np.ascontiguousarray(made[0].permute(1, 2, 0).numpy())


def checks(name: str = "blur") -> FrameChecks:
    return FrameChecks(open_anonymizer(name))


@pytest.mark.parametrize(
    "name", ["black", "blur", "weak-blur", "downsample:2", "downsample:4", "downsample:16"]
)
@pytest.mark.parametrize("frame", [0, 11, 25])
def test_what_an_anonymizer_makes_of_a_scene_passes(name: str, frame: int) -> None:
    image = films.scene(frame, 160, 112)
    made = through(name, image)
    checked = checks(name).frame(image, made)
    assert checked.image is made
    assert (checked.reason, checked.failed) == ("", False)


def test_a_raw_frame_becomes_black(raw: np.ndarray) -> None:
    checked = checks().frame(raw, raw.copy())
    assert checked.failed
    assert checked.reason == NOT_CHANGED
    assert not checked.image.any()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 6), st.integers(0, 9), st.integers(0, 255))
def test_one_raw_block_with_detail_is_enough(row: int, column: int, seed: int) -> None:
    raw = np.random.default_rng(seed).integers(0, 256, (112, 160, 3), dtype=np.uint8)
    made = through("downsample:8", raw)
    top, left = row * BLOCK, column * BLOCK
    made[top : top + BLOCK, left : left + BLOCK] = raw[top : top + BLOCK, left : left + BLOCK]
    assert checks().frame(raw, made).reason == NOT_CHANGED
    assert unchanged_detail(raw, made, 0.25).sum() == 1


@pytest.mark.parametrize("level", [0, 128, 255])
def test_flat_and_evenly_shaded_pictures_may_stay_as_they_are(level: int) -> None:
    flat = np.full((48, 64, 3), level, np.uint8)
    assert not checks().frame(flat, flat.copy()).failed
    shaded = np.repeat(np.tile(np.arange(64, dtype=np.uint8) * 3, (48, 1))[..., None], 3, 2)
    assert not checks().frame(shaded, shaded.copy()).failed


def test_black_film_through_black_passes() -> None:
    dark = np.zeros((48, 64, 3), np.uint8)
    assert checks("black").frame(dark, dark.copy()).reason == ""


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (None, "NoneType"),
        ("text", "str"),
        (np.zeros((48, 64, 3), np.float32), "float32"),
        (np.full((48, 64, 3), np.nan, np.float32), "NaN"),
        (np.zeros((48, 63, 3), np.uint8), "shape"),
        (np.zeros((3, 48, 64), np.uint8), "shape"),
    ],
)
def test_what_is_not_a_picture_becomes_black(made: object, word: str) -> None:
    raw = films.scene(0, 64, 48)
    checked = checks().frame(raw, made)
    assert checked.failed
    assert word in checked.reason
    assert checked.image.shape == raw.shape
    assert not checked.image.any()


def test_a_frame_in_which_nothing_was_found_is_black_but_no_failure(raw: np.ndarray) -> None:
    nobody = Obfuscator("blacken", Fixed(np.zeros((0, 5), np.float32)))
    checked = FrameChecks(nobody).frame(raw, raw.copy())
    assert (checked.reason, checked.failed) == (NOTHING_FOUND, False)
    assert not checked.image.any()
    kept = FrameChecks(nobody, empty="keep").frame(raw, raw.copy())
    assert kept.reason == ""
    assert np.array_equal(kept.image, raw)


def test_a_frame_with_a_covered_box_passes(raw: np.ndarray) -> None:
    covers = Obfuscator("blacken", Fixed(np.array([[10, 10, 60, 90, 1]], np.float32)))
    made = next(covers.frames([raw]))
    assert FrameChecks(covers).frame(raw, made).reason == ""


def test_another_hash_than_expected_is_refused() -> None:
    blur = open_anonymizer("blur")
    assert FrameChecks(blur, expect=blur.content_hash()[:12]).hash == blur.content_hash()
    for wrong in ("0" * 64, blur.content_hash()[:4], ""):
        with pytest.raises(UsageError, match="expected"):
            FrameChecks(blur, expect=wrong)


def test_weights_that_change_are_noticed_when_it_is_time() -> None:
    network = pixel(UNet(width=4))
    patient, keen = FrameChecks(network, seconds=1e6), FrameChecks(network, seconds=0)
    keen.weights()
    with torch.no_grad():
        next(network.parameters())[0, 0, 0, 0] += 1e-3
    patient.weights()  # not yet
    for look in (lambda: patient.weights(now=True), keen.weights):
        with pytest.raises(WeightsChanged, match="nothing it made is released"):
            look()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 6), st.integers(0, 9), st.integers(0, 255), st.floats(0, 0.3))
def test_one_raw_block_of_coded_luma_is_enough_even_under_faint_noise(
    row: int, column: int, seed: int, noise: float
) -> None:
    dice = np.random.default_rng(seed)
    raw = dice.integers(16, 236, (112, 160), dtype=np.uint8)
    made = cv2.blur(raw, (31, 31))
    look = checks()
    assert look.luma(raw, made) == ""
    place = np.s_[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]
    made[place] = np.where(dice.random((BLOCK, BLOCK)) < noise, raw[place] ^ 1, raw[place])
    assert look.luma(raw, made) == NOT_CHANGED


@pytest.mark.parametrize("made", [None, np.zeros((112, 159), np.uint8), np.zeros((112, 160), np.int8)])
def test_what_is_no_luma_of_that_picture_does_not_pass(made: object) -> None:
    assert checks().luma(np.zeros((112, 160), np.uint8), made)  # type: ignore[arg-type]


def test_of_several_threads_one_looks_at_the_weights_and_the_others_go_on() -> None:
    looking, go_on = threading.Event(), threading.Event()

    asked: list[bool] = []

    def answer(every: bool) -> None:
        asked.append(every)
        looking.set()
        go_on.wait(300)

    keen = FrameChecks(open_anonymizer("blur"), seconds=0, answer=answer)
    first = threading.Thread(target=keen.weights)
    first.start()
    assert looking.wait(300)
    keen.weights()  # comes back though the first is still at it
    assert first.is_alive()
    go_on.set()
    keen.weights(now=True)  # waits its turn and looks itself
    first.join()
    assert asked == [False, True], (
        "every copy is asked before a release, and none but its own by a busy thread"
    )


def test_block_sums_are_right_at_any_size() -> None:
    for height, width in ((1, 1), (16, 16), (17, 33), (50, 31)):
        raw = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
        slow = np.zeros((-(-height // BLOCK), -(-width // BLOCK)), bool)
        made = raw.copy()
        made[: height // 2] ^= 1
        for row in range(slow.shape[0]):
            for column in range(slow.shape[1]):
                place = np.s_[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]
                slow[row, column] = np.abs(raw[place].astype(int) - made[place]).mean() < 0.25
        found = unchanged_detail(raw, made, 0.25)
        assert found.shape == slow.shape
        assert not (found & ~slow).any()
        if min(height, width) > 1:
            assert np.array_equal(found, slow)


def test_who_changes_the_whole_picture_behind_a_detector_follows_people_and_leaves_nothing_alone() -> None:
    cover = Obfuscator("blacken", Fixed(np.array([[10, 10, 60, 90, 1]], np.float32)))
    both, blur = Layered(cover, open_anonymizer("blur")), open_anonymizer("blur")
    assert [covers_parts(one) for one in (cover, both, blur)] == [True, False, False]
    assert [follows_people(one) for one in (cover, both, blur)] == [True, True, False]
    assert (found(both) or {})["method"] == (found(cover) or {})["method"] == "blacken"
    assert found(blur) is None
