"""The obfuscation example: people are covered where the boxes are, times are kept, and losses are told."""

from __future__ import annotations

import contextlib
import io
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.examples.scripts import lines, load
from videoveil.data import registry
from videoveil.data.twins.people import lead_boxes
from videoveil.media.reader import open_video

Seen = tuple[np.ndarray, list[Fraction]]


def seen(path: Path) -> Seen:
    with open_video(path) as video:
        frames = list(video.frames())
    return np.stack([frame.image for frame in frames]).astype(int), [frame.time for frame in frames]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the example, and what it said."""
    folder, said = tmp_path_factory.mktemp("obfuscate"), io.StringIO()
    with contextlib.redirect_stdout(said):
        load("obfuscate").main(folder)
    return folder, said.getvalue()


@pytest.fixture(scope="module")
def made(told: tuple[Path, str]) -> Path:
    return told[0]


def test_the_example_is_short_enough_to_be_read() -> None:
    assert lines("obfuscate") < 80


def test_what_is_in_the_boxes_is_covered_and_the_rest_is_not(made: Path) -> None:
    item = registry.load("vphmdb", made / "twin").split("test")[0]
    boxes = lead_boxes("vphmdb", made / "twin")(item)
    raw, times = seen(item.path)
    for method in ("blacken", "strong-blur", "weak-blur"):
        shown, kept = seen(made / f"{method}.mp4")
        assert kept == times
        for image, before, found in zip(shown, raw, boxes, strict=True):
            inside = np.zeros(image.shape[:2], bool)
            near = inside.copy()
            for x0, y0, x1, y1, _ in found.astype(int):
                inside[y0 + 3 : y1 - 3, x0 + 3 : x1 - 3] = True  # chroma of the file bleeds over edges
                near[max(0, y0 - 12) : y1 + 12, max(0, x0 - 12) : x1 + 12] = True
            assert inside.any()
            assert np.abs(image - before)[~near].mean() < 6
            if method == "blacken":
                assert image[inside].mean() < 12
            else:
                detail = [
                    np.abs(np.diff(one.mean(2), axis=1))[inside[:, 1:]].mean() for one in (image, before)
                ]
                assert detail[0] < 0.6 * detail[1]


def test_frames_in_which_somebody_is_lost_are_black(made: Path) -> None:
    shown, _ = seen(made / "fail-closed.mp4")
    blind = load("obfuscate").BLIND
    dark = [number for number, image in enumerate(shown) if image.max() < 20]
    assert dark == list(blind)


def test_the_report_says_what_was_done_and_what_cannot_be_known(told: tuple[Path, str]) -> None:
    folder, said = told
    assert "blacken.mp4: blacken of people found by given boxes: " in said
    assert "A followed person was lost in 3 frames (12–14); there the whole frame was blackened." in said
    assert said.count("People it never saw are not covered") == 4
    assert (folder / "obfuscated.png").read_bytes().startswith(b"\x89PNG")
