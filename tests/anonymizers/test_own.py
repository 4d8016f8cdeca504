"""An anonymizer in one Python file: opened by name, tried before use, checked at work, known by its hash."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.pipeline import films
from videoveil.anonymizers import named
from videoveil.anonymizers.errors import NotExportable, ShapeMismatch, Withheld
from videoveil.anonymizers.latent import require_exportable
from videoveil.anonymizers.obfuscate import Obfuscator
from videoveil.anonymizers.own import OwnAnonymizer, open_own
from videoveil.errors import UsageError
from videoveil.features.pixels import PixelVeil
from videoveil.media.reader import open_video
from videoveil.pipeline.anonymize import anonymize_file
from videoveil.pipeline.errors import FramesFailed

NEGATIVE = "def anonymize(frames):\n    return 1 - frames\n"
NETWORK = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.5))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, frames):
        return self.drop(frames * self.scale)
"""


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_function_is_an_anonymizer_for_bytes_floats_frames_and_clips(tmp_path: Path) -> None:
    made = named.open_anonymizer(written(tmp_path, NEGATIVE))
    require_exportable(made)
    frames = torch.randint(0, 256, (2, 3, 20, 24), dtype=torch.uint8)
    assert torch.equal(made(frames), 255 - frames)
    assert torch.allclose(made(frames / 255), 1 - frames / 255)
    clips = torch.rand(2, 3, 4, 20, 24)
    assert torch.allclose(made(clips), 1 - clips)
    assert torch.allclose(made.transform(clips), 1 - clips)
    assert torch.allclose(PixelVeil(made)(clips), 1 - clips)  # what an audit trains on


def test_a_film_goes_through_it(tmp_path: Path) -> None:
    film = films.coded(tmp_path / "film.mp4", films.scenes(6))
    report = anonymize_file(film, tmp_path / "out.mp4", open_own(written(tmp_path, NEGATIVE)))
    assert report.frames == 6
    assert report.anonymizer == open_own(str(tmp_path / "mine.py")).content_hash()
    with open_video(film) as raw, open_video(tmp_path / "out.mp4") as made:
        for before, after in zip(raw.frames(), made.frames(), strict=True):
            assert abs(int(after.image.astype(int).sum()) - int((255 - before.image.astype(int)).sum())) < (
                0.05 * 255 * before.image.size
            )


@pytest.mark.parametrize(
    "body", ["return frames", "return frames * 1.0", "out = frames.clone(); out[..., :4, :4] = 0; return out"]
)
def test_what_leaves_raw_pictures_releases_nothing(body: str, tmp_path: Path) -> None:
    film = films.coded(tmp_path / "film.mp4", films.scenes(4))
    made = open_own(written(tmp_path, f"def anonymize(frames):\n    {body}\n"))
    with pytest.raises(FramesFailed):
        anonymize_file(film, tmp_path / "out.mp4", made)
    assert not (tmp_path / "out.mp4").exists()


def test_working_in_place_does_not_touch_the_frames_that_were_given(tmp_path: Path) -> None:
    made = open_own(written(tmp_path, "def anonymize(frames):\n    return frames.zero_()\n"))
    frames = torch.rand(1, 3, 20, 24)
    before = frames.clone()
    assert not made(frames).any()
    assert torch.equal(frames, before)


def test_a_network_by_its_class_is_in_eval_mode_and_its_weights_are_in_its_hash(tmp_path: Path) -> None:
    made = open_own(written(tmp_path, NETWORK) + ":Net")
    assert isinstance(made, OwnAnonymizer)
    assert isinstance(made.work, nn.Module)
    frames = torch.rand(1, 3, 20, 24)
    assert torch.allclose(made(frames), frames / 2)
    before = made.content_hash()
    with torch.no_grad():
        made.work.scale.add_(0.1)  # type: ignore[union-attr, operator]
    assert made.content_hash() != before
    made.train()
    with pytest.raises(NotExportable, match="training mode"):
        require_exportable(made)


def test_the_hash_is_that_of_the_text_and_not_of_the_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = open_own(written(tmp_path / "a", NEGATIVE)).content_hash()
    assert open_own(written(tmp_path / "b", NEGATIVE)).content_hash() == first
    assert open_own(written(tmp_path / "a", NEGATIVE + "# changed\n")).content_hash() != first


def test_an_obfuscator_with_ones_own_detector_is_taken_as_it_is(tmp_path: Path) -> None:
    text = (
        "import numpy as np\n"
        "from videoveil.anonymizers.obfuscate import Fixed, Obfuscator\n"
        "anonymize = Obfuscator('blacken', Fixed(np.array([[2, 2, 9, 9, 1.0]], np.float32)))\n"
    )
    assert isinstance(named.open_anonymizer(written(tmp_path, text)), Obfuscator)


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        ("return frames + torch.rand_like(frames)", NotExportable, "another picture each time"),
        ("return frames - frames.mean(0, keepdim=True)", NotExportable, "depend on the others"),
        ("return frames.flip(0)", NotExportable, "depend on the others"),
        ("return frames[..., ::2, ::2]", ShapeMismatch, "same shape back"),
        ("return None", ShapeMismatch, "NoneType"),
        ("return frames.numpy()", ShapeMismatch, "ndarray"),
        ("return frames / 0", Withheld, "NaN or infinite"),
        ("return frames.no_such_thing", UsageError, "no_such_thing"),
    ],
)
def test_what_is_no_anonymizer_is_refused_when_it_is_opened(
    body: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    source = written(tmp_path, f"import torch\ndef anonymize(frames):\n    {body}\n")
    with pytest.raises(error, match=words):
        open_own(source)


def test_values_outside_the_range_are_cut_off(tmp_path: Path) -> None:
    made = open_own(written(tmp_path, "def anonymize(frames):\n    return 3 * frames - 1\n"))
    out = made(torch.rand(2, 3, 20, 24))
    assert (float(out.min()), float(out.max())) == (0.0, 1.0)


def test_a_failure_at_work_withholds_the_frame(tmp_path: Path) -> None:
    text = (
        "def anonymize(frames):\n    assert frames.shape[-1] == 128, 'another size'\n    return 1 - frames\n"
    )
    made = open_own(written(tmp_path, text))  # the frames on which it is tried are 128 wide
    with pytest.raises(Withheld, match="another size"):
        made(torch.rand(1, 3, 20, 24))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("anonymize = 3\n", "is a int"),
        ("class anonymize:\n    def __init__(self, size): ...\n", "without arguments"),
        ("class anonymize: ...\n", "is a anonymize"),
    ],
)
def test_what_cannot_be_called_is_said(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        open_own(written(tmp_path, text))


def test_a_detector_belongs_to_the_file_itself(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="asks no detector"):
        named.open_anonymizer(written(tmp_path, NEGATIVE), fail_closed=True)
