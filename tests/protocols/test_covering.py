"""People covered in whole frames: each where it was found there, and looked for once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.protocols.conftest import Twin
from tests.tasks.make_store import grey_dataset
from videoveil.anonymizers.obfuscate import Obfuscator
from videoveil.anonymizers.obfuscate.boxes import Boxes
from videoveil.data.records import Dataset, Item
from videoveil.protocols.covering import PHOTOGRAPH, PeoplePainter
from videoveil.protocols.subjects import COVERED, baseline, raw
from videoveil.protocols.workshop import Workshop
from videoveil.training.clip_batches import Frames


class LeftHalf:
    """Somebody fills the left half of every picture; remembers how large those were."""

    name, covers = "left-half", "people"

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def boxes(self, frame: np.ndarray) -> Boxes:
        height, width = frame.shape[:2]
        self.asked.append((height, width))
        return np.array([[0, 0, width / 2, height, 1]], np.float32)

    def identity(self) -> str:
        return "left half"


@pytest.fixture(scope="module")
def greys(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return grey_dataset(tmp_path_factory.mktemp("greys"))


def photograph(path: Path, height: int, width: int) -> Item:
    noise = np.random.default_rng(0).integers(40, 256, (height, width, 3), np.uint8)
    Image.fromarray(cv2.GaussianBlur(noise, (0, 0), 3)).save(path)
    return Item(path.stem, path, "train", kind="image")


@pytest.mark.parametrize("method", COVERED.values())
def test_frames_of_a_video_are_covered_at_their_own_size_and_searched_once(
    greys: Dataset, tmp_path: Path, method: str
) -> None:
    """The slow, obvious twin: look at one frame, cover what is found in it."""
    item, detector = greys.items[0], LeftHalf()
    plain, painted = Frames(), Frames(paint=PeoplePainter(method, detector, tmp_path))
    shown = painted.read(item, [3, 1]).numpy()
    for frame, covered in zip(plain.read(item, [3, 1]).numpy(), shown):
        boxes = LeftHalf().boxes(frame)
        expected = Obfuscator(method, None).painter([boxes], *frame.shape[:2]).frame(0, frame)
        assert np.array_equal(covered, expected)
    assert set(detector.asked) == {plain.read(item, [0]).shape[1:3]}
    assert len(detector.asked) == plain.count(item)
    again = LeftHalf()
    other = Frames(paint=PeoplePainter(method, again, tmp_path))  # another evaluation, the same folder
    assert np.array_equal(other.read(item, [3, 1]).numpy(), shown)
    assert again.asked == []


@pytest.mark.parametrize(("height", "width"), [(768, 1024), (300, 200)])
def test_photographs_are_looked_at_and_covered_with_a_short_side_of_512(
    tmp_path: Path, height: int, width: int
) -> None:
    item, detector = photograph(tmp_path / "a.png", height, width), LeftHalf()
    frames = Frames(paint=PeoplePainter("blacken", detector, tmp_path / "boxes"))
    (shown,) = frames.read(item, [0]).numpy()
    (plain,) = Frames().read(item, [0]).numpy()
    assert shown.shape == plain.shape
    assert [min(size) for size in detector.asked] == [PHOTOGRAPH]
    edge = max(2, width // 50)
    assert (shown[:, : width // 2 - edge] == 0).all()
    assert np.abs(shown[:, width // 2 + edge :].astype(int) - plain[:, width // 2 + edge :]).max() < 16
    frames.read(item, [0])
    Frames(paint=PeoplePainter("strong-blur", detector, tmp_path / "boxes")).read(item, [0])
    assert len(detector.asked) == 1


def test_a_kernel_is_as_large_against_a_photograph_whatever_its_size(tmp_path: Path) -> None:
    """One picture, at 512 and at four times as many pixels: blurred it is the same picture."""
    small = photograph(tmp_path / "small.png", 512, 512)
    (picture,) = Frames().read(small, [0]).numpy()
    Image.fromarray(cv2.resize(picture, (1024, 1024), interpolation=cv2.INTER_NEAREST)).save(
        tmp_path / "large.png"
    )
    large = replace(small, id="large", path=tmp_path / "large.png")
    frames = Frames(paint=PeoplePainter("strong-blur", LeftHalf()))
    one, other = (frames.read(item, [0])[0].numpy() for item in (small, large))
    back = cv2.resize(other, (512, 512), interpolation=cv2.INTER_AREA)
    assert np.abs(one[:, :240].astype(int) - back[:, :240]).max() <= 3


def test_what_covers_people_is_told_apart(tmp_path: Path) -> None:
    made = {PeoplePainter(method, LeftHalf(), tmp_path).content_hash() for method in COVERED.values()}
    assert len(made) == 3
    assert PeoplePainter("blacken", LeftHalf()).content_hash() in made


def test_clips_of_a_covered_row_are_painted_and_raw_ones_are_not(
    shop: Workshop, twin: Twin, tmp_path: Path
) -> None:
    subject = baseline("Blackening", LeftHalf(), tmp_path)
    clips = shop.clips("hmdb51", subject, "test")
    assert clips.paint is subject.paint
    assert clips.anonymizer is None
    assert shop.clips("hmdb51", raw(), "test").paint is None
    half = shop.clips("hmdb51", baseline("Down-2x"), "test")
    assert half.paint is None
    assert half.anonymizer is not None
    frames = Frames(paint=clips.paint).read(clips.items()[0], [0])
    assert int(frames[0, :, : frames.shape[2] // 2].max()) == 0
    assert int(frames[0, :, frames.shape[2] // 2 :].max()) > 0
