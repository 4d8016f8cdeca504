from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.pipeline import films
from tests.pipeline.faults import FAILS_AT, Faulty
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.obfuscate import Fixed, Layered, Obfuscator
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.errors import CorruptVideo, UsageError
from videoveil.pipeline.checks import NOTHING_FOUND
from videoveil.pipeline.errors import FramesFailed, WeightsChanged
from videoveil.pipeline.options import Options
from videoveil.pipeline.pictures import anonymize_picture


@pytest.fixture
def face(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    Image.fromarray(films.scene(0)).save(tmp_path / "raw" / "face.png")
    return tmp_path / "raw" / "face.png"


def picture(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


def late(flaw: str) -> Faulty:
    """One whose flaw shows at the next frame."""
    made = Faulty(flaw)
    made.seen = FAILS_AT
    return made


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".JPEG"])
def test_a_picture_comes_out_anonymized_at_its_size(suffix: str, face: Path, tmp_path: Path) -> None:
    for name, anonymizer in (("blur", open_anonymizer("blur")), ("net", pixel(UNet(width=4)))):
        report = anonymize_picture(face, tmp_path / f"{name}{suffix}", anonymizer)
        made = picture(tmp_path / f"{name}{suffix}")
        assert made.shape == films.scene(0).shape
        assert np.abs(made.astype(int) - films.scene(0)).mean() > 1
        assert report.frames == 1
        assert report.anonymizer == anonymizer.content_hash()


def test_a_photograph_is_looked_at_in_the_size_of_training_by_default(face: Path, tmp_path: Path) -> None:
    network = pixel(UNet(width=4), size=24)
    report = anonymize_picture(face, tmp_path / "a.png", network)
    assert report.engine["pictures"] == [24, 36]
    assert not report.notes
    report = anonymize_picture(face, tmp_path / "b.png", network, Options(inner=0))
    assert report.engine["pictures"] == [64, 96]
    assert "--inner 36" in report.notes[0]
    one, two = (picture(tmp_path / name) for name in ("a.png", "b.png"))
    assert one.shape == two.shape == films.scene(0).shape
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    "flaw", ["exception", "raw frame", "half a raw frame", "wrong shape", "floats", "nothing"]
)
def test_a_picture_that_failed_does_not_come_out(flaw: str, face: Path, tmp_path: Path) -> None:
    with pytest.raises(FramesFailed, match="nothing is released"):
        anonymize_picture(face, tmp_path / "out.png", late(flaw))
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_weights_that_changed_release_nothing(face: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsChanged):
        anonymize_picture(face, tmp_path / "out.png", late("changed weights"))
    assert not (tmp_path / "out.png").exists()


def test_a_picture_in_which_nobody_is_found_is_black_and_says_so(face: Path, tmp_path: Path) -> None:
    nobody = Obfuscator("blacken", Fixed(np.zeros((0, 5), np.float32)))
    report = anonymize_picture(face, tmp_path / "out.png", nobody)
    assert report.black[0].reason == NOTHING_FOUND
    assert not picture(tmp_path / "out.png").any()


def test_two_layers_cover_a_face_that_is_found_and_draw_one_that_is_not(face: Path, tmp_path: Path) -> None:
    def made(boxes: np.ndarray) -> Layered:
        return Layered(Obfuscator("blacken", Fixed(boxes)), open_anonymizer("veil-pixel"))

    height, width = picture(face).shape[:2]
    whole = np.array([[0, 0, width, height, 1]], np.float32)
    report = anonymize_picture(face, tmp_path / "found.png", made(whole))
    assert report.detector is not None
    assert report.detector["boxes"] == 1
    anonymize_picture(face, tmp_path / "missed.png", made(whole[:0]))
    anonymize_picture(face, tmp_path / "drawn.png", open_anonymizer("veil-pixel"))
    assert np.array_equal(picture(tmp_path / "missed.png"), picture(tmp_path / "drawn.png"))
    assert picture(tmp_path / "found.png").std() < picture(tmp_path / "drawn.png").std() / 4


def test_names_and_files_that_are_no_pictures_are_refused(face: Path, tmp_path: Path) -> None:
    blur = open_anonymizer("blur")
    for target in (tmp_path / "out.mp4", face):
        with pytest.raises(UsageError):
            anonymize_picture(face, target, blur)
    face.write_bytes(face.read_bytes()[:200])
    with pytest.raises(CorruptVideo):
        anonymize_picture(face, tmp_path / "out.png", blur)
    assert not (tmp_path / "out.png").exists()
