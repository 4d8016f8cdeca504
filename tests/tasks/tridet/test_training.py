"""Training: it learns, resumes exactly, does not depend on order or processes, and says when it diverges."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.forked import start_processes
from tests.ports import free_port
from videoveil import _torchvision  # noqa: F401 - must come before lightning
from videoveil.errors import CheckpointError, Diverged, UsageError
from videoveil.tasks.tridet import FittedTriDet, TriDetConfig, evaluate, fit, truth_of, uniform_detections
from videoveil.tasks.tridet.training import CHECKPOINT, MODEL, epoch_batches, fingerprint, sample

from .make import CLASSES, SMALL, small, some_video, some_videos


def weights_of(fitted: FittedTriDet) -> dict[str, torch.Tensor]:
    return fitted.network.state_dict()


def equal(one: FittedTriDet, two: FittedTriDet) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights_of(one).values(), weights_of(two).values()))


@pytest.mark.slow
@pytest.mark.parametrize("start", ["zero", "gates"])
def test_the_detector_learns_to_find_unseen_actions(start: Any) -> None:
    train, test = some_videos(16, seed=0), some_videos(8, seed=1)
    config = small(
        warmup_epochs=2, cosine_epochs=10, learning_rate=4e-3, batch_size=4, ema_decay=0.9, sgp_init=start
    )
    losses: list[float] = []
    fitted = fit(train, CLASSES, config, seed=0, device="cpu", progress=lambda *row: losses.append(row[2]))
    score = fitted.score(test)
    blind = evaluate(uniform_detections(train, test, CLASSES), truth_of(test))
    assert score.mean > 0.6 > 0.2 > blind.mean
    assert score.at[0.3] >= score.at[0.7]
    assert len(losses) == 12 * 4
    assert fitted.history[-1]["sgp_active"] is (start == "gates")
    # the normaliser falls from 100 to the true number of positives, so raw losses of two epochs do not compare
    per_positive = [row["loss"] * row["normaliser"] for row in fitted.history]
    assert per_positive[-1] < 0.5 * per_positive[0]


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_same_weights_and_detections(tmp_path: Path) -> None:
    videos = some_videos(5)
    whole = fit(videos, CLASSES, SMALL, run=tmp_path / "whole", seed=1, device="cpu")

    def kill(step: int, total: int, loss: float) -> None:
        if step == 4:  # in the second of three epochs of two steps
            raise Killed

    with pytest.raises(Killed):
        fit(videos, CLASSES, SMALL, run=tmp_path / "cut", seed=1, device="cpu", progress=kill)
    steps: list[int] = []
    again = fit(
        videos,
        CLASSES,
        SMALL,
        run=tmp_path / "cut",
        seed=1,
        device="cpu",
        progress=lambda s, *_: steps.append(s),
    )
    assert steps == [3, 4, 5, 6]
    assert equal(whole, again)
    assert list(again.history) == list(whole.history)
    for one, two in zip(whole.detect(videos), again.detect(videos)):
        assert np.array_equal(one.scores, two.scores)
        assert np.array_equal(one.segments, two.segments)
    assert equal(FittedTriDet.load(tmp_path / "cut" / MODEL), whole)
    # a finished run is not trained again
    fit(videos, CLASSES, SMALL, run=tmp_path / "cut", seed=1, device="cpu", progress=kill)


def test_a_run_folder_of_another_run_is_refused_naming_what_differs(tmp_path: Path) -> None:
    videos, short = some_videos(2), small(warmup_epochs=0, cosine_epochs=1)
    fit(videos, CLASSES, short, run=tmp_path, seed=1, device="cpu")
    for reason, arguments in {
        "seed": (videos, CLASSES, short, 2),
        "learning_rate": (videos, CLASSES, dataclasses.replace(short, learning_rate=1.0), 1),
        "data": ([videos[0], some_video(9)], CLASSES, short, 1),
        "classes": (videos, CLASSES[::-1], short, 1),
    }.items():
        *rest, seed = arguments
        with pytest.raises(CheckpointError, match=f"run with other {reason};"):
            fit(*rest, run=tmp_path, seed=seed, device="cpu")  # type: ignore[arg-type]
    (tmp_path / CHECKPOINT).write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        fit(videos, CLASSES, short, run=tmp_path, seed=1, device="cpu")


def test_the_seed_decides_everything_and_the_order_of_the_videos_nothing() -> None:
    videos, short = some_videos(4), small(warmup_epochs=1, cosine_epochs=1)
    torch.manual_seed(0)
    one = fit(videos, CLASSES, short, seed=5, device="cpu")
    torch.manual_seed(1)
    two = fit(videos[::-1], CLASSES, short, seed=5, device="cpu")
    assert equal(one, two)
    assert not equal(one, fit(videos, CLASSES, short, seed=6, device="cpu"))


def test_training_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    before = torch.get_rng_state(), json.dumps(np.random.get_state()[1].tolist())  # type: ignore[union-attr,index]
    fit(some_videos(2), CLASSES, small(warmup_epochs=0, cosine_epochs=1), device="cpu")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert json.dumps(np.random.get_state()[1].tolist()) == before[1]  # type: ignore[union-attr,index]


def test_the_result_is_the_average_of_the_weights() -> None:
    videos = some_videos(2)
    slow = fit(videos, CLASSES, small(warmup_epochs=1, cosine_epochs=1, ema_decay=0.999999), device="cpu")
    fast = fit(videos, CLASSES, small(warmup_epochs=1, cosine_epochs=1, ema_decay=0.0), device="cpu")
    start = fit(videos, CLASSES, small(warmup_epochs=1, cosine_epochs=0, learning_rate=1e-30), device="cpu")
    weight = "cls_head.head.0.conv.weight"
    far = (weights_of(fast)[weight] - weights_of(start)[weight]).abs().max()
    near = (weights_of(slow)[weight] - weights_of(start)[weight]).abs().max()
    assert far > 1e-4
    assert near < 1e-3 * far


def test_half_precision_learns_nearly_the_same_and_keeps_whole_weights() -> None:
    videos, short = some_videos(4), small(warmup_epochs=1, cosine_epochs=1)
    whole = fit(videos, CLASSES, short, device="cpu")
    half = fit(videos, CLASSES, dataclasses.replace(short, precision="bf16-mixed"), device="cpu")
    assert {value.dtype for value in weights_of(half).values()} == {torch.float32}
    assert half.history[-1]["loss"] == pytest.approx(whole.history[-1]["loss"], rel=0.05)
    assert not equal(whole, half)


def test_divergence_stops_with_step_videos_and_terms() -> None:
    config = small(cosine_epochs=20, learning_rate=1e30, warmup_epochs=0)
    with pytest.raises(
        Diverged, match=r"step \d+ \(epoch \d+, videos video_00.*classification .*regression .*gradient"
    ):
        fit(some_videos(2), CLASSES, config, device="cpu")


def test_every_epoch_visits_whole_batches_of_different_videos() -> None:
    batches = [epoch_batches(7, SMALL, 0, epoch) for epoch in range(6)]
    for epoch in batches:
        assert [len(batch) for batch in epoch] == [2, 2, 2]
        assert len({n for batch in epoch for n in batch}) == 6
    assert len({str(epoch) for epoch in batches}) == 6
    assert epoch_batches(1, SMALL, 0, 0) == [[0]]


def test_a_sample_depends_on_seed_epoch_and_video_only() -> None:
    video = some_video(3, steps=200)
    one, two = sample(video, CLASSES, SMALL, 0, 4), sample(video, CLASSES, SMALL, 0, 4)
    assert torch.equal(one.features, two.features)
    assert torch.equal(one.paths, two.paths)
    windows = {float(sample(video, CLASSES, SMALL, 0, epoch).features[0, 0]) for epoch in range(8)}
    assert len(windows) > 4


def test_the_fingerprint_sees_features_clocks_and_segments() -> None:
    video = some_video(0)
    touched = video.array().copy()
    touched[3, 3] += 1e-3
    versions = [
        video,
        dataclasses.replace(video, features=touched),
        dataclasses.replace(video, feat_stride=5),
        dataclasses.replace(video, segments=video.segments[:1]),
        dataclasses.replace(video, id="other"),
    ]
    assert len({fingerprint([v]) for v in versions}) == 5
    assert fingerprint([video]) == fingerprint(
        [dataclasses.replace(video, features=lambda: some_video(0).array())]
    )


def test_a_device_that_is_not_there_is_an_error_with_a_way_out() -> None:
    with pytest.raises(UsageError, match="try 'cpu'"):
        fit(some_videos(2), CLASSES, SMALL, device="cuda:99")


# --- several processes --------------------------------------------------------------------------------------


def _one_of_two(rank: int, destination: str, port: int, config: TriDetConfig) -> None:
    """What a launcher such as torchrun starts: the environment says which process this is."""
    from lightning.fabric import Fabric

    torch.set_num_threads(1)
    os.environ |= {
        **{name: str(rank) for name in ("RANK", "LOCAL_RANK")},
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "2"),
        **{
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": "test",
        },
    }
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    assert (fabric.global_rank, fabric.world_size) == (rank, 2)
    fit(some_videos(5), CLASSES, config, seed=2, run=Path(destination), fabric=fabric)
    if rank == 0:
        with pytest.raises(UsageError, match="cannot be shared by 2 processes"):
            fit(some_videos(5), CLASSES, dataclasses.replace(config, batch_size=3), fabric=fabric)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    config = small(batch_size=4, warmup_epochs=1, cosine_epochs=1)
    alone = fit(some_videos(5), CLASSES, config, seed=2, device="cpu")
    start_processes(_one_of_two, (str(tmp_path), free_port(), config), nprocs=2)
    shared = FittedTriDet.load(tmp_path / MODEL)
    for name, value in weights_of(alone).items():
        torch.testing.assert_close(weights_of(shared)[name], value, atol=2e-4, rtol=1e-3)
    assert shared.history[-1]["normaliser"] == alone.history[-1]["normaliser"]
