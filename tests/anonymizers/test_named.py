from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from videoveil.anonymizers.named import FOUND, NAMES, open_anonymizer, open_detector
from videoveil.anonymizers.obfuscate import Fixed, Obfuscator
from videoveil.anonymizers.pixel import PixelAnonymizer, UNet, pixel
from videoveil.errors import UsageError, VeilError

PERSON = Fixed(np.array([[4, 4, 20, 20, 1]], np.float32))


@pytest.mark.parametrize("name", ["identity", "black", "blur", "weak-blur", "downsample:4", "downsample:2.5"])
def test_whole_picture_obfuscations_have_names(name: str) -> None:
    frames = torch.randint(0, 256, (2, 3, 24, 32), dtype=torch.uint8)
    made = open_anonymizer(name)(frames)
    assert made.shape == frames.shape
    assert torch.equal(made, frames) == (name == "identity")


@pytest.mark.parametrize("name", [name for name in FOUND if name.endswith("people")])
@pytest.mark.parametrize("fail_closed", [False, True])
def test_those_that_ask_a_detector_follow_people(name: str, fail_closed: bool) -> None:
    made = open_anonymizer(name, detector=PERSON, fail_closed=fail_closed)
    assert isinstance(made, Obfuscator)
    assert made.tracker is not None
    assert made.fail_closed == fail_closed
    image = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    covered = next(made.frames([image]))
    assert (covered[4:20, 4:20] != image[4:20, 4:20]).mean() > 0.9
    assert np.array_equal(covered[:, 24:], image[:, 24:])


def test_fail_closed_by_name_gives_nobody_up() -> None:
    class Blinks:
        name, covers = "blinks", "people"

        def __init__(self) -> None:
            self.asked = 0

        def boxes(self, image: np.ndarray) -> np.ndarray:
            self.asked += 1
            return PERSON.boxes(image)[: int(self.asked <= 10)]

    image = np.full((24, 32, 3), 200, np.uint8)
    made = open_anonymizer("blacken-people", detector=Blinks(), fail_closed=True)  # type: ignore[arg-type]
    assert [frame.any() for frame in made.frames([image] * 70)] == [True] * 10 + [False] * 60


def test_a_run_folder_is_opened(tmp_path: Path) -> None:
    network = pixel(UNet(width=4))
    network.save_pretrained(tmp_path / "run")
    made = open_anonymizer(str(tmp_path / "run"))
    assert isinstance(made, PixelAnonymizer)
    assert made.content_hash() == network.content_hash()


@pytest.mark.parametrize("name", ["magic", "downsample:x", "downsample:0.5", "blur-cats", ""])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        open_anonymizer(name)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VeilError):
        open_anonymizer(str(tmp_path))


def test_a_detector_must_find_what_is_to_be_covered() -> None:
    with pytest.raises(UsageError, match="covers faces"):
        open_anonymizer("blur-faces", detector=PERSON)
    with pytest.raises(UsageError, match="asks no detector"):
        open_anonymizer("blur", detector=PERSON)
    with pytest.raises(UsageError, match="asks no detector"):
        open_anonymizer("blur", fail_closed=True)


@pytest.mark.parametrize("name", ["magic", "yolo", "yunet:", "hog:file", "yolo:absent.onnx"])
def test_detectors_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(VeilError):
        open_detector(name)


def test_every_name_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        open_anonymizer("magic")
    assert all(name in str(caught.value) for name in NAMES)
