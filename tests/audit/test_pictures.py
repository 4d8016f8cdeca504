from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from PIL import Image

from tests.audit import world
from videoveil.attacks.reconstruction import ReconstructionConfig
from videoveil.audit import pictures, registry
from videoveil.audit.rules import Rules
from videoveil.audit.run import audit
from videoveil.audit.settings import Pictures, Settings
from videoveil.audit.subject import BlackFrames, Subject
from videoveil.data.records import Dataset

DRAWER = ReconstructionConfig(
    width=4,
    size=32,
    frames=2,
    per_video=1,
    epochs=1,
    batch=8,
    workers=1,
    network_epochs=1,
    knowledge=("fresh",),
)
ASKED = Settings(
    rules=Rules(seeds=1, resamples=100),
    participants=registry.named((registry.RECONSTRUCTION,), {registry.RECONSTRUCTION: DRAWER}),
    device="cpu",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"), train=8, test=8)


def test_pictures_are_raw_only_where_asked_for(data: Dataset) -> None:
    subject = Subject.of(data, BlackFrames())
    hidden = pictures.strip(subject, 2)
    assert len(hidden.corners) == 2
    assert all(not hidden.cell(row, column).any() for row in range(2) for column in range(pictures.COLUMNS))
    both = pictures.strip(subject, 1, raw=True)
    assert both.cell(0, 0).any()
    assert not both.cell(1, 0).any()


def test_reconstructions_are_shown_beside_what_was_published_and_raw_frames_only_where_asked_for(
    data: Dataset, tmp_path: Path
) -> None:
    subject = Subject.of(data, BlackFrames())
    audit(subject, tmp_path / "out", dataclasses.replace(ASKED, pictures=Pictures(2)))
    trained = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "results").iterdir()}
    shown = sorted((tmp_path / "out").glob("reconstruction-*.png"))
    assert [path.name for path in shown] == ["reconstruction-1.png", "reconstruction-2.png"]
    report = (tmp_path / "out" / "report.html").read_text()
    assert report.count("data:image/png;base64") == 3  # the strip of published frames, and these two
    assert "Test video 2: what the reconstruction attack" in report
    height = Image.open(shown[0]).size[1]
    audit(subject, tmp_path / "out", dataclasses.replace(ASKED, pictures=Pictures(1, raw=True)))
    assert Image.open(shown[0]).size[1] > height  # one row more
    assert {path: path.stat().st_mtime_ns for path in trained} == trained  # nothing was learnt again


def test_where_nobody_reconstructed_there_is_nothing_to_show(data: Dataset, tmp_path: Path) -> None:
    asked = world.settings(seeds=1, pictures=Pictures(1))
    audit(Subject.of(data, BlackFrames()), tmp_path / "out", asked)
    assert (tmp_path / "out" / "pictures.png").is_file()
    assert not [*(tmp_path / "out").glob("reconstruction-*.png")]
