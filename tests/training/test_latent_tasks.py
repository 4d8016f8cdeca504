from __future__ import annotations

import pytest
import torch

from videoveil.tasks.mgfn import MGFN, losses, small
from videoveil.tasks.mgfn.segments import row_ranges
from videoveil.tasks.tridet import Normaliser, TriDet, TriDetConfig
from videoveil.tasks.tridet import losses as detection_losses
from videoveil.training import latent_tasks, seeds
from videoveil.training.latent_draws import balanced, windows
from videoveil.training.latent_tasks import AnomalyTask, DetectionTask

from .latent_world import WIDTH, untrimmed

CONFIG = TriDetConfig(
    width=16, mlp_width=16, group_norm_groups=4, branch_blocks=2, max_seq_len=64, input_noise=0.0
)


def detection() -> DetectionTask:
    torch.manual_seed(0)
    return DetectionTask(untrimmed(), TriDet(WIDTH, 2, CONFIG), CONFIG)


def anomaly(snippets: int = 4) -> AnomalyTask:
    torch.manual_seed(0)
    return AnomalyTask(untrimmed(), MGFN(WIDTH, small()).eval(), small(batch=4), snippets)


def test_the_detection_loss_is_that_of_the_detector_on_the_same_windows() -> None:
    task = detection()
    drawn = task.draw(3, 0, None)
    cut = windows(task.pool, CONFIG, 0, 3)
    sequences = [task.pool.rows[rows].T for rows in cut.rows.split(list(cut.lengths))]
    found = detection_losses(
        task.network, sequences, cut.targets, Normaliser.of(CONFIG), CONFIG, paths=cut.paths
    )
    assert float(drawn.loss(drawn.rows).detach()) == pytest.approx(float(found.total.detach()), rel=1e-6)
    assert task.state() == {"normaliser": pytest.approx(found.normaliser)}
    other = detection()
    other.restore(task.state())
    assert other.normaliser.value == task.normaliser.value


def test_the_anomaly_loss_is_that_of_the_network_on_means_of_the_drawn_snippets() -> None:
    """With as many snippets as a segment has, on the segments that the task itself trains on."""
    task = anomaly(snippets=10)
    drawn = task.draw(2, 0, None)
    chosen = balanced(task.labels, 4, 0, 2)
    means = []
    for video in chosen.tolist():
        start, stop = task.pool.offsets[video : video + 2].tolist()
        own = task.pool.rows[start:stop]
        means.append(torch.stack([own[part.start : part.stop].mean(0) for part in row_ranges(len(own), 32)]))
    expected = losses(
        task.network, torch.stack(means), task.labels[chosen], task.config, seeds.generator(0, "mask", 2)
    )
    assert float(drawn.loss(drawn.rows).detach()) == pytest.approx(float(expected.total.detach()), rel=1e-4)


def test_gradients_reach_the_features_and_the_head() -> None:
    for task in (detection(), anomaly()):
        drawn = task.draw(0, 0, None)
        rows = drawn.rows.clone().requires_grad_(True)
        drawn.loss(rows).backward()
        assert rows.grad is not None
        assert float(rows.grad.abs().sum()) > 0
        assert any(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in task.network.parameters())


def test_rows_that_only_fill_up_a_segment_have_no_influence_and_are_not_kept_consistent() -> None:
    task = anomaly()
    drawn = task.draw(0, 0, None)
    filler = torch.ones(len(drawn.rows), dtype=torch.bool)
    filler[drawn.consistent] = False
    assert bool(filler.any())
    changed = drawn.rows.clone()
    changed[filler] += 100
    again = task.draw(0, 0, None)  # the same draws: its mask of the selection has not been used up
    assert float(drawn.loss(drawn.rows).detach()) == float(again.loss(changed).detach())


def test_consistency_looks_at_no_more_rows_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent_tasks, "CONSISTENT", 10)
    for task in (detection(), anomaly()):
        kept = task.draw(0, 0, None).consistent
        assert len(kept) == 10 == len(set(kept.tolist()))


def test_static_features_are_those_of_each_rows_video() -> None:
    for task in (detection(), anomaly()):
        still = torch.arange(len(task.pool), dtype=torch.float32)[:, None].expand(-1, WIDTH)
        drawn = task.draw(1, 0, still)
        owners = {tuple(row.tolist()): int(o) for row, o in zip(task.pool.rows, task.pool.owners())}
        assert drawn.still is not None
        assert [int(v) for v in drawn.still[:, 0]] == [owners[tuple(row.tolist())] for row in drawn.rows]


def test_one_pass_goes_over_every_video_once() -> None:
    assert detection().steps() == 6
    assert anomaly().steps() == 1
