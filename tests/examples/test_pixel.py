"""The pixel example from videos to an anonymized video, with fewer epochs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.examples.scripts import lines, load
from videoveil.anonymizers.pixel import PixelAnonymizer, UNet
from videoveil.media.reader import open_video

FEWER = {
    "stages": (UNet(width=4),),
    "settings.size": 32,
    "settings.budget.members": ("mobilenet.v1-0.25",),
    "settings.epochs": 2,
    "settings.start.identity_epochs": 1,
    "settings.start.budget_epochs": 1,
}


def test_the_example_is_short_enough_to_be_read() -> None:
    assert lines("pixel") < 80


def test_an_anonymizer_is_trained_pictured_loaded_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load("pixel")
    example.main(tmp_path, changes={**example.SMALL, **FEWER})
    said = capsys.readouterr().out
    loaded = PixelAnonymizer.from_pretrained(tmp_path / "run")
    assert f"through anonymizer {loaded.content_hash()[:12]}" in said
    assert "(2.71 if f_B cannot tell)" in said  # ln 15 of 8 pairs
    shown = {path.name for path in (tmp_path / "run" / "pictures").iterdir()}
    assert {"strip.png", "progression.png", "curves.png", "epoch-0001.png", "epoch-0002.png"} == shown
    for name in ("strip.png", "progression.png", "curves.png"):
        assert f"picture: {tmp_path / 'run' / 'pictures' / name}" in said
    raw = sorted((tmp_path / "twin").rglob("*.avi"))
    with open_video(tmp_path / "anonymized.mp4") as video:
        made = list(video.frames())
    sources = []
    for path in raw:
        with open_video(path) as video:
            frames = list(video.frames())
        if [frame.time for frame in frames] == [frame.time for frame in made]:
            sources.append(np.stack([frame.image for frame in frames]))
    pictures = np.stack([frame.image for frame in made]).astype(int)
    assert sources
    assert min(float(np.abs(source - pictures).mean()) for source in sources) > 5  # nobody's raw frames

    before = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    example.main(tmp_path, changes={**example.SMALL, **FEWER})  # again: everything is found
    assert capsys.readouterr().out == said
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == before


def test_its_changes_fit_the_recipe() -> None:
    from videoveil.recipes import PixelRecipe, spact

    recipe = spact()
    for path, value in load("pixel").SMALL.items():
        recipe = recipe.changed(path, value)
    assert PixelRecipe.from_json(recipe.to_json()) == recipe
    assert recipe.settings.epochs >= 2
