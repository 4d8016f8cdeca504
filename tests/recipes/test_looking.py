"""Pictures of a training: written at the right moments, of the right frames, and without a trace in the weights."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.training.minimax_world import QUICK, videos
from videoveil.anonymizers.pixel import Grey, LowResolution, NoiseFloor, PixelAnonymizer, UNet, pixel
from videoveil.data.records import Dataset, Item
from videoveil.errors import UsageError
from videoveil.media.reader import open_video
from videoveil.recipes import PixelRecipe, fit_pixel
from videoveil.recipes.looking import (
    PICTURES,
    Looker,
    _spread,
    budget_nets,
    middle_clip,
    middles,
    picture_run,
    through,
)
from videoveil.report.strips import check_grid, progression, strip
from videoveil.tasks.base import Clips
from videoveil.training import checkpoints
from videoveil.training.minimax import KEPT_FORMAT
from videoveil.training.minimax_settings import Budget, Penalty


def recipe(name: str = "quick", **changes: Any) -> PixelRecipe:
    start = replace(QUICK.start, identity_epochs=1, identity_goal=0)
    own = replace(QUICK, **{"start": start, "budget": Budget(members=("resnet.18",)), "epochs": 3, **changes})
    return PixelRecipe(name=name, stages=(UNet(width=4),), settings=own)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return Clips(videos(tmp_path_factory.mktemp("films")), "train")


@pytest.fixture(scope="module")
def run(films: Clips, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was looked at, of three epochs that were kept."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    looker = Looker(folder, films.with_split("test"))
    fit_pixel(recipe(), films, folder, device="cpu", look=looker)
    return folder


@pytest.fixture(scope="module")
def clip(films: Clips) -> np.ndarray:
    return middle_clip(films.with_split("test"), 32)


def picture(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


# --- what is shown ------------------------------------------------------------------------------------------


def test_the_middle_frame_of_a_video_is_shown_as_a_square(films: Clips) -> None:
    shown = middles(films, 24)
    assert shown.shape == (6, 24, 24, 3)
    assert shown.dtype == np.uint8
    for item, square in zip(films.items(), shown):
        with open_video(item.path) as video:
            (frame,) = video.read([video.count() // 2])
        assert abs(float(square.mean()) - float(frame[:, 6:42].mean())) < 3


def test_of_many_items_some_are_chosen_evenly(films: Clips) -> None:
    assert len(middles(films, 24, count=4)) == 4
    assert list(_spread(3, 16)) == [0, 1, 2]
    assert list(_spread(9, 3)) == [0, 4, 8]
    assert list(_spread(100, 6)) == [0, 20, 40, 59, 79, 99]


def test_the_middle_clip_has_the_asked_frames_and_time_in_it(films: Clips) -> None:
    shown = middle_clip(films, 24, frames=6, stride=3)
    assert shown.shape == (6, 24, 24, 3)
    assert all((a != b).any() for a, b in itertools.pairwise(shown))  # the square moves


def test_nothing_to_look_at_is_said(films: Clips) -> None:
    with pytest.raises(UsageError, match="nothing to look at: no items in split 'val' of films"):
        middle_clip(films.with_split("val"), 24)
    with pytest.raises(UsageError, match="0 items in split 'val'"):
        middles(films.with_split("val"), 24)


@pytest.mark.parametrize("training", [True, False])
def test_looking_changes_neither_weights_nor_mode_nor_chance(training: bool, clip: np.ndarray) -> None:
    anonymizer = pixel(UNet(width=4), NoiseFloor(0.1)).train(training)
    before = {key: value.clone() for key, value in anonymizer.state_dict().items()}
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first, second = through(anonymizer, clip), through(anonymizer, clip)
    assert torch.equal(torch.rand(3), expected)
    assert anonymizer.training is training
    assert all(torch.equal(value, before[key]) for key, value in anonymizer.state_dict().items())
    assert (first == second).all()
    assert first.shape == clip.shape
    assert 0 <= first.min() <= first.max() <= 1


def test_what_is_shown_is_what_the_anonymizer_gives_out(clip: np.ndarray) -> None:
    anonymizer = pixel(Grey(), LowResolution(8))
    given = anonymizer(torch.from_numpy(clip).permute(0, 3, 1, 2).float() / 255).permute(0, 2, 3, 1).numpy()
    assert np.allclose(through(anonymizer, clip), given, atol=1e-6)


# --- along the way ------------------------------------------------------------------------------------------


def test_every_kept_epoch_has_its_check_grid(run: Path, films: Clips) -> None:
    grids = sorted((run / PICTURES).glob("epoch-*.png"))
    assert [path.name for path in grids] == ["epoch-0001.png", "epoch-0002.png", "epoch-0003.png"]
    raw = middles(films.with_split("test"), 32)
    for epoch in (1, 3):
        anonymizer = PixelAnonymizer.from_pretrained(run)
        tensors, _ = checkpoints.read(run / "epochs" / f"{epoch:04d}.safetensors", KEPT_FORMAT)
        anonymizer.load_state_dict(tensors)
        expected = check_grid(raw, through(anonymizer, raw)).pixels
        assert (picture(run / PICTURES / f"epoch-{epoch:04d}.png") == expected).all()


def test_looking_does_not_change_what_is_learnt(run: Path, films: Clips, tmp_path: Path) -> None:
    fit_pixel(recipe(), films, tmp_path, device="cpu")
    assert (tmp_path / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_images_are_looked_at_where_there_are_some(films: Clips, tmp_path: Path) -> None:
    items = []
    for n in range(20):
        Image.fromarray(np.full((30, 40, 3), 10 * n, np.uint8)).save(tmp_path / f"i{n:02d}.png")
        items.append(Item(f"i{n:02d}", tmp_path / f"i{n:02d}.png", "test", kind="image"))
    images = Clips(Dataset("images", tmp_path, tuple(items)))
    looker = Looker(tmp_path / "run", films, images)
    looker(7, pixel(UNet(width=4), size=16))
    shown = picture(tmp_path / "run" / PICTURES / "epoch-0007.png")
    greys = {int(grey) for grey in np.unique(shown[..., 0])}
    assert {10 * n for n in (0, 1, 18, 19)} <= greys  # 16 of 20, the first and the last among them
    assert looker._raw is not None
    assert looker._raw.shape == (16, 16, 16, 3)


# --- at the end ---------------------------------------------------------------------------------------------


def test_a_finished_run_has_a_strip_a_progression_and_curves(run: Path, clip: np.ndarray) -> None:
    written = picture_run(run, clip)
    assert [path.name for path in written] == ["strip.png", "progression.png", "curves.png"]
    assert all(path.parent == run / PICTURES for path in written)
    last = PixelAnonymizer.from_pretrained(run)
    assert (picture(written[0]) == strip(clip, through(last, clip)).pixels).all()
    stages: dict[str, np.ndarray] = {}
    for label, path, form in (
        ("identity start", run / "identity.safetensors", "videoveil-pixel-identity-1"),
        *((f"epoch {n}", run / "epochs" / f"000{n}.safetensors", KEPT_FORMAT) for n in (1, 2, 3)),
    ):
        last.load_state_dict(checkpoints.read(path, form)[0])
        stages[label] = through(last, clip)
    assert (picture(written[1]) == progression(clip, stages).pixels).all()
    assert picture(written[2]).std() > 5  # something is drawn


def test_pictures_are_the_same_bytes_again(run: Path, clip: np.ndarray) -> None:
    one = [path.read_bytes() for path in picture_run(run, clip)]
    two = [path.read_bytes() for path in picture_run(run, torch.from_numpy(clip))]
    assert one == two


def test_a_run_that_learns_nothing_has_a_strip_alone(films: Clips, clip: np.ndarray, tmp_path: Path) -> None:
    still = PixelRecipe(name="code", stages=(Grey(), LowResolution(8)), settings=replace(QUICK, epochs=0))
    fit_pixel(still, films, tmp_path, device="cpu")
    assert [path.name for path in picture_run(tmp_path, clip)] == ["strip.png"]


def test_curves_show_the_penalty_only_where_there_is_one(run: Path, films: Clips, tmp_path: Path) -> None:
    from videoveil.recipes.looking import _records

    assert not {"penalty", "penalty_active"} & set(_records(run)[0])
    leashed = recipe("leashed", penalty=Penalty(bound=0.01), epochs=1)
    fit_pixel(leashed, films, tmp_path, device="cpu")
    (record,) = _records(tmp_path)
    assert record["penalty"] > 0
    assert record["penalty_active"] == 1
    assert {"total", "utility", "budget", "rms", "chance"} <= set(record)


def test_what_is_no_finished_run_is_refused(tmp_path: Path, run: Path, clip: np.ndarray) -> None:
    with pytest.raises(UsageError, match="not a finished pixel run"):
        picture_run(tmp_path, clip)
    with pytest.raises(UsageError, match=r"frames must be \(T, H, W, 3\)"):
        picture_run(run, clip.transpose(3, 0, 1, 2))


# --- where budget nets look ---------------------------------------------------------------------------------


def test_attention_is_compared_between_a_taught_and_an_untaught_budget_net(
    run: Path, films: Clips, clip: np.ndarray, tmp_path: Path
) -> None:
    taught = tmp_path / "taught"
    labels = Budget(kind="labels", members=("resnet.18",))
    made = fit_pixel(recipe("taught", budget=labels, epochs=1), films, taught, device="cpu")
    one, two = picture_run(run, clip, beside=taught)[-1], picture_run(taught, clip, beside=run)[-1]
    assert (one, two) == (run / PICTURES / "attention.png", taught / PICTURES / "attention.png")
    assert one.read_bytes() == two.read_bytes()  # whichever comes first
    with pytest.raises(UsageError, match="these learn alike"):
        picture_run(run, clip, beside=run)
    (net,) = budget_nets(taught)
    frames = torch.rand(2, 1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(net(frames), made.budgets[0].eval()(frames))
    (taught / "checkpoint.safetensors").unlink()
    with pytest.raises(UsageError, match=r"checkpoint\.safetensors: is not there any more"):
        budget_nets(taught)
