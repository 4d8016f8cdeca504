"""Feature inversion: what features let somebody draw, and what they do not."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.attacks.persons import person_videos
from tests.tasks.make_store import features, recipe
from videoveil.attacks.inversion import FittedInversion, InversionAttack, InversionConfig, load_rows
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, UsageError
from videoveil.features.store import FeatureStore
from videoveil.media.reader import open_video
from videoveil.media.transforms import EvalTransform
from videoveil.tasks.base import Clips, Features

QUICK = InversionConfig(size=16, width=4, epochs=30, batch=16, learning_rate=3e-3, kinds=("knn",))
WIDTH = 24


def store(films: Dataset, root: Path, *, told: float = 1.0) -> FeatureStore:
    """Features that are a fixed mixture of an 4×4 thumbnail of the clip's middle frame, or constant (told=0)."""
    made = FeatureStore.create(
        root, {"name": "thumbnail", "hash": "0" * 64, "width": WIDTH}, replace(recipe(), static=1)
    )
    mixing = np.random.default_rng(5).normal(size=(48, WIDTH))
    keys = {}
    for item in films:
        with open_video(item.path) as video:
            frame = video.read([8])
        shown = EvalTransform(32, 32)(frame).float().div(255).reshape(3, 4, 8, 4, 8).mean((2, 4))
        row = told * (shown.flatten().numpy() @ mixing)[None]
        value = replace(
            features(row, frames=18), static=row.astype(np.float32), static_frames=np.array([8], np.int64)
        )
        keys[item.id] = made.key(item.id)
        made.write(keys[item.id], value, {"id": item.id})
    made.write_index(films, keys)
    return made


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return person_videos(tmp_path_factory.mktemp("films"), people=16)


@pytest.fixture(scope="module")
def telling(films: Dataset, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return store(films, tmp_path_factory.mktemp("store") / "s")


def bright(item: Item) -> dict[str, int]:
    """Whether the background is, which every video has one of its own for."""
    with open_video(item.path) as video:
        return {"bright": int(video.read([8])[0, :3].mean() > 120)}


def fit(made: FeatureStore, config: InversionConfig = QUICK, **options: Any) -> FittedInversion:
    return InversionAttack(config).fit(Features(made, split="train"), device="cpu", **options)


def test_frames_are_drawn_from_features_that_hold_them(telling: FeatureStore) -> None:
    task = InversionAttack(QUICK, labels=bright)
    score = task.fit(Features(telling, split="train"), device="cpu").score(Features(telling, split="test"))
    assert score["psnr"].value > score["psnr"].chance + 2  # type: ignore[operator]
    assert score["psnr_decoder"].value > score["psnr_decoder"].chance + 1  # type: ignore[operator]
    assert score["ssim"].value > score["ssim"].chance  # type: ignore[operator]
    for name in ("attributes_knn", "attributes_knn-raw"):
        assert score[name].value > score[name].chance + 0.2, name  # type: ignore[operator]
    assert score["psnr_decoder"].value > score["psnr_linear"].value - 0.5  # type: ignore[operator]


def test_features_that_are_all_the_same_draw_the_mean_frame_and_no_more(
    films: Dataset, tmp_path: Path
) -> None:
    blank = store(films, tmp_path / "s", told=0.0)
    score = fit(blank).score(Features(blank, split="test"))
    for name in ("psnr_linear", "ssim_linear", "attributes_knn", "attributes_knn-raw"):
        assert score[name].value == pytest.approx(score[name].chance, abs=1e-4), name
    assert score["psnr_decoder"].value < score["psnr_decoder"].chance + 0.3  # type: ignore[operator]


def test_the_frame_is_the_middle_of_the_clip_as_the_encoder_saw_it(
    films: Dataset, telling: FeatureStore
) -> None:
    rows = load_rows(Features(telling, split="test"), dataclasses.replace(QUICK, size=32))
    still = load_rows(Features(telling, split="test"), dataclasses.replace(QUICK, size=32, input="static"))
    item = rows.items[0]
    with open_video(item.path) as video:
        frame = video.read([8])
    expected = EvalTransform(32, 32)(frame).float().div(255)[:, 0]
    assert np.allclose(rows.pictures[0], expected)
    assert np.allclose(still.pictures[0], expected)


def test_outcomes_are_what_the_score_is_made_of(telling: FeatureStore) -> None:
    fitted, test = fit(telling, dataclasses.replace(QUICK, epochs=2)), Features(telling, split="test")
    outcomes, score = fitted.outcomes(test), fitted.score(test)
    assert set(outcomes) == {
        *(f"{metric}_{name}" for metric in ("psnr", "ssim") for name in ("linear", "decoder")),
        *(f"attributes_{name}" for name in ("knn", "knn-raw")),
    }
    for name, one in outcomes.items():
        assert one.measure().value == pytest.approx(score[name].value)
        assert len(one.items) == 24


def test_the_same_seed_draws_the_same_and_a_run_goes_on(telling: FeatureStore, tmp_path: Path) -> None:
    config, test = dataclasses.replace(QUICK, epochs=3), Features(telling, split="test")
    first = fit(telling, config, run=tmp_path).score(test)
    assert first == fit(telling, config, run=tmp_path).score(test)
    assert first == fit(telling, config).score(test)
    assert first != fit(telling, config, seed=1).score(test)


def test_bad_input_is_named(films: Dataset, telling: FeatureStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="power of two"):
        InversionConfig(size=24)
    with pytest.raises(UsageError, match="ReconstructionAttack"):
        InversionAttack().fit(Clips(films))  # type: ignore[arg-type]
    gone = Dataset("persons", tmp_path, tuple(replace(i, path=tmp_path / "no.mp4") for i in films))
    with pytest.raises(BadItems, match="24 items cannot be inverted"):
        InversionAttack(QUICK, videos=gone).fit(Features(telling, split="train"), device="cpu")
    empty = Dataset("persons", tmp_path, ())
    with pytest.raises(BadItems, match="24 items cannot be inverted") as caught:
        InversionAttack(QUICK, videos=empty).fit(Features(telling, split="train"), device="cpu")
    assert "no video of that name" in caught.value.offenders[0]
