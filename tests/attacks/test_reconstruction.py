"""Paired reconstruction: what is drawn again, what cannot be, and who looks at it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from tests.attacks.persons import person_videos
from tests.attacks.pictures import Changed
from tests.media.make import encode
from videoveil.attacks.fidelity import MOST
from videoveil.attacks.reconstruction import (
    MODEL,
    FittedReconstruction,
    ReconstructionAttack,
    ReconstructionConfig,
)
from videoveil.attacks.reconstructor import Pairs
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, UsageError
from videoveil.tasks.base import Clips

QUICK = ReconstructionConfig(
    width=4, size=32, epochs=12, batch=8, per_video=2, frames=2, networks=(), learning_rate=5e-3
)


class Negative(Changed):
    """Everything dark is bright: hides nothing from who has pairs."""

    def transform(self, x: torch.Tensor) -> torch.Tensor:
        return 1 - x


class Blurred(Changed):
    """The mean of 3×3 pixels."""

    def transform(self, x: torch.Tensor) -> torch.Tensor:
        frames = x.transpose(1, 2).flatten(0, 1)
        soft = torch.nn.functional.avg_pool2d(frames, 3, 1, 1, count_include_pad=False)
        return soft.unflatten(0, (len(x), -1)).transpose(1, 2)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return person_videos(tmp_path_factory.mktemp("films"), frames=6)


def fit(
    films: Dataset, anonymizer: Any, config: ReconstructionConfig = QUICK, **options: Any
) -> FittedReconstruction:
    return ReconstructionAttack(config).fit(Clips(films, "train", anonymizer), device="cpu", **options)


def test_what_is_only_turned_into_its_negative_is_drawn_again(films: Dataset) -> None:
    hidden = Clips(films, "test", Negative("negative"))
    score = fit(films, Negative("negative")).score(hidden)
    assert score["psnr_unet"].value > score["psnr_published"].value + 5  # type: ignore[operator]
    assert score["psnr_unet"].value > score["psnr_unet"].chance + 3  # type: ignore[operator]
    assert score["ssim_unet"].value > score["ssim_published"].value  # type: ignore[operator]
    assert score.headline == dataclasses.replace(score["psnr_unet"], name="psnr")


def test_a_blur_is_undone_beyond_what_is_published(films: Dataset) -> None:
    blurred = Blurred("blur")
    fitted = fit(films, blurred, dataclasses.replace(QUICK, epochs=20))
    score = fitted.score(Clips(films, "test", blurred))
    assert score["psnr_unet"].value > score["psnr_published"].value + 2  # type: ignore[operator]
    assert score["ssim_unet"].value > score["ssim_published"].value  # type: ignore[operator]


def test_of_black_frames_no_more_is_drawn_than_the_mean_frame(films: Dataset) -> None:
    black = Changed("constant", 0.0)
    score = fit(films, black).score(Clips(films, "test", black))
    assert score["psnr"].value < score["psnr"].chance + 0.5  # type: ignore[operator]
    assert score["psnr_published"].value < score["psnr_published"].chance  # type: ignore[operator]


def test_frames_that_were_published_as_they_are_need_no_drawing(films: Dataset) -> None:
    same = Changed("scale", 1.0)
    score = fit(films, same, dataclasses.replace(QUICK, epochs=1)).score(Clips(films, "test", same))
    assert score["psnr_published"].value == pytest.approx(MOST)
    assert score["psnr_unet"].value == pytest.approx(MOST)  # as it began: no change is the best there is
    assert score["ssim"].value == pytest.approx(1.0)


def test_attackers_look_at_what_was_drawn(films: Dataset) -> None:
    config = dataclasses.replace(QUICK, epochs=1, networks=("tiny",), network_epochs=1, identity=True)
    fitted = fit(films, Negative("negative"), config)
    test = Clips(films, "test", Negative("negative"))
    outcomes, score = fitted.outcomes(test), fitted.score(test)
    names = [name for name in outcomes if name.startswith("attributes_")]
    assert names == [f"attributes_tiny{kind}" for kind in ("", "_video", "-raw", "-raw_video")]
    assert any(name.startswith("identity_rank1") for name in outcomes)
    for name, one in outcomes.items():
        assert score[name].value == pytest.approx(one.measure().value)
    assert score["cmap"].value == max(score[name].value for name in names)  # type: ignore[type-var]
    drawn = fitted.attributes[1].score(fitted.through(test))
    assert drawn["cmap"].value == pytest.approx(score["attributes_tiny-raw"].value)


def test_videos_that_were_anonymized_elsewhere_are_paired_by_name(films: Dataset, tmp_path: Path) -> None:
    """Two folders, files that are negatives of each other: the same as an anonymizer between, but for compression."""
    others = mirrored(films, tmp_path / "published")
    task = ReconstructionAttack(dataclasses.replace(QUICK, epochs=8), raw=Clips(films))
    fitted = task.fit(Clips(others, "train"), device="cpu")
    score = fitted.score(Clips(others, "test"))
    assert score["psnr_unet"].value > score["psnr_published"].value + 4  # type: ignore[operator]
    short = mirrored(films, tmp_path / "short", cut=1)
    with pytest.raises(BadItems, match="12 of 12 pairs do not fit") as caught:
        task.fit(Clips(short, "train"), device="cpu")
    assert caught.value.offenders[0] == "v00-0: 6 raw frames and 5 published ones"
    with pytest.raises(BadItems, match="have no pair there"):
        Pairs(Clips(films.where(lambda item: item.id != "v00-0")), Clips(others)).check(others.items, 1)


def test_publishing_at_another_size_keeps_nobody_from_drawing_again(films: Dataset, tmp_path: Path) -> None:
    """Frames of half and of twice the size are cut where the raw ones are; only another shape fits no pair."""
    small = mirrored(films, tmp_path / "small", size=(24, 18))
    task = ReconstructionAttack(dataclasses.replace(QUICK, epochs=8), raw=Clips(films))
    score = task.fit(Clips(small, "train"), device="cpu").score(Clips(small, "test"))
    assert score["psnr_unet"].value > score["psnr_published"].value + 4  # type: ignore[operator]

    large = mirrored(films, tmp_path / "large", size=(96, 72))
    lens = QUICK.lens()
    for _, truth, seen in Pairs(Clips(films), Clips(large)).pictures(
        films.items[:3], lens, 1, 0, torch.device("cpu")
    ):
        assert float((truth + seen - 1).abs().mean()) < 0.03  # a negative, pixel by pixel
    wide = mirrored(films, tmp_path / "wide", size=(64, 36))
    with pytest.raises(BadItems, match="12 of 12 pairs do not fit") as caught:
        task.fit(Clips(wide, "train"), device="cpu")
    assert caught.value.offenders[0] == "v00-0: 48×36 raw, 64×36 published: another shape"


def mirrored(films: Dataset, root: Path, cut: int = 0, size: tuple[int, int] = (48, 36)) -> Dataset:
    from videoveil.media.reader import open_video

    root.mkdir()
    items = []
    for item in films:
        with open_video(item.path) as video:
            images = [255 - frame.image for frame in video.frames()]
        images = [cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images]
        path = encode(root / item.path.name, images=images[: len(images) - cut], size=size)
        items.append(dataclasses.replace(item, path=path))
    return Dataset("published", root, tuple(items), attributes=films.attributes)


class Paint:
    """Covers the middle of every frame."""

    def __call__(self, item: Item, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        covered = images.copy()
        covered[:, 8:28, 12:36] = 0
        return covered

    def content_hash(self) -> str:
        return "middle"


def test_painted_frames_are_paired_with_the_same_crop_of_the_raw_frame(films: Dataset) -> None:
    fitted = ReconstructionAttack(dataclasses.replace(QUICK, epochs=1)).fit(
        Clips(films, "train", paint=Paint()), device="cpu"
    )
    for one in fitted.draw(Clips(films, "test", paint=Paint())):
        different = (one.raw - one.published).abs().amax((0, 1))
        assert float(different.amax()) > 0.05
        assert float(different[:2].amax()) < 0.02  # above what is covered nothing changed: the crops agree


def test_the_same_seed_draws_the_same_and_a_run_goes_on(films: Dataset, tmp_path: Path) -> None:
    config = dataclasses.replace(QUICK, epochs=2, checkpoint_every=1)
    noise = Changed("noise", 0.2)
    whole = fit(films, noise, config)
    fit(films, noise, dataclasses.replace(config, epochs=2), run=tmp_path)
    again = fit(films, noise, config, run=tmp_path)
    assert whole.network.content_hash() == again.network.content_hash()
    kept = ReconstructionAttack(config).load(tmp_path / MODEL)
    test = Clips(films, "test", noise)
    assert kept.score(test) == whole.score(test)
    assert fit(films, noise, config, seed=1).network.content_hash() != whole.network.content_hash()


def test_a_strip_shows_raw_frames_only_if_asked(films: Dataset) -> None:
    fitted = fit(films, Negative("negative"), dataclasses.replace(QUICK, epochs=1))
    test = Clips(films, "test", Negative("negative"))
    item = test.items()[0]
    without, complete = fitted.strip(test, item), fitted.strip(test, item, raw=True)
    assert (len(without.corners), len(complete.corners)) == (2, 3)
    assert np.array_equal(without.cell(0, 0), complete.cell(1, 0))
    (one,) = fitted.draw(test, (item,))
    shown = (one.raw[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    assert np.array_equal(complete.cell(0, 0)[::2, ::2], shown)


def test_bad_settings_are_named(films: Dataset) -> None:
    with pytest.raises(UsageError, match="size=8"):
        ReconstructionConfig(size=8)
    with pytest.raises(UsageError, match="choose one of fresh"):
        ReconstructionConfig(knowledge=("psychic",))  # type: ignore[arg-type]
    with pytest.raises(BadItems, match="1 videos"):
        fit(films.where(lambda item: item.id == "v00-0"), None)
