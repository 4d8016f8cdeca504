"""What a minimax step sees is the same clip by clip and all at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.training.minimax_world import QUICK, SIZE, loop, settings, state, videos
from videoveil.data.records import Dataset, Item
from videoveil.media.transforms import apply_one, preset
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames
from videoveil.training.minimax_data import (
    MinimaxBatch,
    MinimaxBatches,
    PrivacyStream,
    Sample,
    VideoStream,
    identity_frames,
)
from videoveil.training.minimax_settings import Budget, Utility

CPU = torch.device("cpu")
NEAR = 3 / 255  # a level of rounding, and what colour makes of it


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return videos(tmp_path_factory.mktemp("data"))


def samples(dataset: Dataset) -> list[Sample]:
    return [Sample(item, torch.tensor(float(n))) for n, item in enumerate(dataset.split("train"))]


def pictures(root: Path) -> list[Sample]:
    """Images of four sizes."""
    found = []
    for number, size in enumerate([(40, 50), (50, 40), (36, 36), (90, 30)]):
        path = root / f"p{number}.png"
        Image.fromarray(np.random.default_rng(number).integers(0, 255, (*size, 3), dtype=np.uint8)).save(path)
        found.append(Sample(Item(path.stem, path, "train", kind="image"), torch.zeros(0)))
    return found


UTILITIES = {
    "one": Utility(encoder="tiny", frames=8, stride=2),
    "triplet": Utility(encoder="tiny", frames=8, stride=1, temporal="triplet"),
    "local": Utility(encoder="tiny", frames=8, stride=1, temporal="local"),
    "invariance": Utility(encoder="tiny", frames=8, stride=1, temporal="invariance"),
}
BUDGETS = {
    "pair": Budget(members=("mobilenet.v1-0.25",)),
    "clips": Budget(members=("tiny",), kind="clips"),
    "labels": Budget(members=("mobilenet.v1-0.25",), kind="labels"),
}


def made(dataset: Dataset, utility: Utility, budget: Budget | None, **options: Any) -> MinimaxBatches:
    own, frames = (
        replace(QUICK, utility=utility, budget=budget, workers=options.pop("workers", 2)),
        Frames(2**30),
    )
    all_ = samples(dataset)
    private = budget and PrivacyStream(options.pop("private", all_), frames, budget, utility, SIZE, 5)
    return MinimaxBatches(VideoStream(all_, frames, utility, SIZE, 5), private or None, own, 5, **options)


def epoch(source: MinimaxBatches, number: int = 1, rank: int = 0, ranks: int = 1) -> list[MinimaxBatch]:
    return list(source.epoch(number, rank, ranks, CPU))


def near(one: torch.Tensor | None, other: torch.Tensor | None, most: float = NEAR) -> bool:
    if one is None or other is None:
        return one is other
    assert one.shape == other.shape
    return float((one - other).abs().max()) <= most


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("utility", UTILITIES)
def test_steps_made_at_once_show_what_clip_by_clip_shows(dataset: Dataset, utility: str, budget: str) -> None:
    slow = epoch(made(dataset, UTILITIES[utility], BUDGETS[budget], at_once=False))
    fast = epoch(made(dataset, UTILITIES[utility], BUDGETS[budget], at_once=True))
    views = {"one": 1, "triplet": 3, "local": 8, "invariance": 2}[utility]
    seen = {"pair": (2, 3), "clips": (2, 3, 8), "labels": (1, 3)}[budget]
    for one, other in zip(slow, fast, strict=True):
        assert other.clips.shape == (3, views, 3, 8, SIZE, SIZE)
        assert other.views is not None
        assert other.views.shape == (4, *seen, SIZE, SIZE)
        assert near(one.clips, other.clips)
        assert near(one.views, other.views)
        assert (one.ids, one.targets.tolist()) == (other.ids, other.targets.tolist())
        assert (one.labels is None) == (other.labels is None) == (budget != "labels")
        assert one.labels is None or torch.equal(one.labels, other.labels)  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [False, True])
def test_threads_change_nothing(dataset: Dataset, at_once: bool) -> None:
    args = dataset, UTILITIES["triplet"], BUDGETS["pair"]
    one, three = (
        epoch(made(*args, at_once=at_once, workers=1)),
        epoch(made(*args, at_once=at_once, workers=3)),
    )
    for mine, other in zip(one, three, strict=True):
        assert torch.equal(mine.clips, other.clips)
        assert torch.equal(mine.views, other.views)  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [False, True])
def test_processes_share_a_step(dataset: Dataset, at_once: bool) -> None:
    def batches() -> MinimaxBatches:
        found = made(dataset, UTILITIES["one"], BUDGETS["pair"], at_once=at_once)
        found.sizes = [4, 4]
        return found

    whole, shares = epoch(batches()), [epoch(batches(), 1, rank, 2) for rank in (0, 1)]
    for step, batch in enumerate(whole):
        for rank, share in enumerate(shares):
            assert near(share[step].clips, batch.clips[rank::2], 1e-6)
            assert batch.views is not None
            assert near(share[step].views, batch.views[rank::2], 1e-6)


def test_the_views_of_a_sample_are_drawn_one_after_another_from_its_own_seed(dataset: Dataset) -> None:
    """The slow, obvious twin: every clip and every augmentation by hand."""
    frames, own = Frames(), UTILITIES["triplet"]
    stream = VideoStream(samples(dataset), frames, own, SIZE, 5)
    for place, epoch_ in ((0, 0), (3, 2)):
        item = stream.samples[place].item
        clips = stream._places(item, seeds.rng(5, "clip", epoch_, item.id))
        generator = seeds.generator(5, "augment", epoch_, item.id)
        shown, value = stream.draw(place, epoch_)
        assert float(value) == place
        for clip, one in zip(clips, shown, strict=True):
            decoded = frames.read(item, clip.indices)
            (draw,) = preset(own.augment, SIZE).draw(1, 36, 48, generator)
            assert torch.equal(apply_one(decoded, draw), one)


@pytest.mark.parametrize("at_once", [False, True])
def test_images_of_all_sizes_are_seen_twice(dataset: Dataset, tmp_path: Path, at_once: bool) -> None:
    budget = replace(BUDGETS["pair"], source="images")
    batch = epoch(made(dataset, UTILITIES["one"], budget, private=pictures(tmp_path), at_once=at_once))[0]
    assert batch.views is not None
    assert batch.views.shape == (4, 2, 3, SIZE, SIZE)
    assert not near(batch.views[:, 0], batch.views[:, 1])
    other = epoch(made(dataset, UTILITIES["one"], budget, private=pictures(tmp_path), at_once=not at_once))[0]
    assert near(batch.views, other.views)


def test_identity_frames_one_by_one_and_at_once(dataset: Dataset, tmp_path: Path) -> None:
    draw = identity_frames([*samples(dataset), *pictures(tmp_path)], Frames(2**30), SIZE, 7)
    single = torch.stack([draw(place, 3) for place in range(10)])
    assert single.shape == (10, 3, SIZE, SIZE)
    assert near(draw.several(range(10), 3, CPU)[:, 0], single)
    assert not near(draw(2, 3), draw(2, 4))


class Stopped(Exception):
    pass


def test_a_killed_run_goes_on_exactly_where_batches_are_made_at_once(
    dataset: Dataset, tmp_path: Path
) -> None:
    def at_once(folder: Path, **options: Any) -> Any:
        found = loop(dataset, settings(epochs=1), folder, **options)
        found.batches.at_once = True
        return found

    whole = at_once(tmp_path / "whole")
    whole.run()

    def stop(done: int, total: int, value: float) -> None:
        if done == 2 * whole.batches.steps + 1:
            raise Stopped

    with pytest.raises(Stopped):
        at_once(tmp_path / "cut", progress=stop).run()
    again = at_once(tmp_path / "cut")
    again.run()
    first, second = state(whole), state(again)
    assert all(torch.equal(first[n][k], second[n][k]) for n in first for k in first[n])
