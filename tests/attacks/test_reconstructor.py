"""The reconstructor: where it begins, and what it learns from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch

from tests.attacks.persons import person_videos
from tests.attacks.pictures import Changed
from videoveil.attacks.pictures import Lens
from videoveil.attacks.reconstructor import (
    MeanPicture,
    PairBatches,
    Pairs,
    Reconstructor,
    fit_filter,
    squared_error,
)
from videoveil.tasks.base import Clips

CPU = torch.device("cpu")


def test_it_begins_as_no_change_at_all() -> None:
    network = Reconstructor(4).eval()
    clip, frames = torch.rand(2, 3, 3, 16, 16), torch.rand(2, 3, 17, 20)
    assert torch.allclose(network.transform(clip), clip, atol=1e-6)
    assert torch.allclose(network.transform(frames), frames, atol=1e-6)
    other = Reconstructor(4, seed=1).eval()
    assert network.content_hash() != other.content_hash()


def test_it_learns_from_black_pictures_without_leaving_the_numbers() -> None:
    """Whoever publishes black frames is still attacked: what can be learnt is the mean picture."""
    torch.manual_seed(0)
    network, truth = Reconstructor(8).train(), torch.rand(1, 3, 1, 32, 32).expand(8, -1, -1, -1, -1)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(30):
        loss = squared_error(network(torch.zeros(8, 3, 1, 32, 32)), truth).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), float("inf"))
        assert torch.isfinite(norm)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_only_pictures_of_one_colour_get_a_grain_and_only_while_learning() -> None:
    torch.manual_seed(0)
    network = Reconstructor(4).train()
    frames = torch.rand(3, 3, 16, 16)
    frames[1] = 0.5
    found = network._grained(frames)
    assert torch.equal(found[[0, 2]], frames[[0, 2]])
    assert 0 < float((found[1] - frames[1]).abs().max()) <= 1 / 255
    assert torch.equal(network.eval()._grained(frames), frames)


def test_the_filter_is_that_of_least_squares() -> None:
    """The slow, obvious twin: numpy's least squares over all windows, written out pixel by pixel."""
    draw = torch.Generator().manual_seed(0)
    truth = torch.rand(2, 3, 9, 9, generator=draw)
    seen = (0.6 * truth.flip(1) + 0.1 + 0.05 * torch.rand(2, 3, 9, 9, generator=draw)).clamp(0, 1)
    network = Reconstructor(1).eval()
    fit_filter(network, iter([(None, truth, seen)]))  # type: ignore[list-item]
    edged = np.pad(seen.numpy().astype(np.float64), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="edge")
    rows, answers = [], []
    for n in range(2):
        for i in range(9):
            for j in range(9):
                rows.append([*edged[n, :, i : i + 5, j : j + 5].ravel(), 1.0])
                answers.append(truth[n, :, i, j].numpy())
    solution = np.linalg.lstsq(np.array(rows), np.array(answers, dtype=np.float64), rcond=None)[0]
    best = float(((np.array(rows) @ solution - np.array(answers)) ** 2).mean())
    made = network.filter(seen).detach()
    assert float((made - truth).square().mean()) < best + 1e-4
    assert best < 0.01


def test_inputs_are_the_published_crop_of_their_target(tmp_path: Path) -> None:
    films = person_videos(tmp_path, people=2, each=2, frames=3)
    negative = Changed("scale", 0.5)
    pairs = Pairs(Clips(films), Clips(films, anonymizer=negative))
    options = {"augment": "ted-spad-weak", "size": 16, "batch": 3, "seed": 0, "workers": 1, "repeat": 2}
    together = PairBatches(pairs, films.items, cache_gib=1.0, device=CPU, **options)  # type: ignore[arg-type]
    seen = list(together.epoch(0, 0, 1, CPU))
    assert together.steps == len(seen) == 3  # eight frames in batches of three
    for batch in seen:
        assert torch.allclose(batch.inputs, 0.5 * batch.targets, atol=1e-6)
    copies = dataclasses.replace(films)  # another folder with the same files
    apart = Pairs(Clips(films), Clips(copies))
    assert apart.apart
    for batch in PairBatches(apart, films.items, cache_gib=1.0, device=CPU, **options).epoch(0, 0, 1, CPU):  # type: ignore[arg-type]
        assert torch.equal(batch.inputs, batch.targets)


def test_the_mean_picture_counts_every_video_once(tmp_path: Path) -> None:
    films = person_videos(tmp_path, people=2, each=1, frames=3)
    pairs = Pairs(Clips(films), Clips(films))
    lens = Lens(1, 1, 16, "ted-spad-test", 2)
    every = [truth for _, truth, _ in pairs.pictures(films.items, lens, 1, 0, CPU)]
    mean = MeanPicture()
    passed = [truth for _, truth, _ in mean.of(pairs.pictures(films.items, lens, 1, 0, CPU))]
    assert all(map(torch.equal, passed, every))
    assert torch.allclose(mean.value, (every[0].mean(0) + every[1].mean(0)) / 2, atol=1e-6)
