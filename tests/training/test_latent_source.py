from __future__ import annotations

import pytest
import torch

from videoveil.errors import UsageError
from videoveil.tasks.tridet import TriDet, TriDetConfig
from videoveil.training.latent_data import LatentData
from videoveil.training.latent_draws import CLIP, FIRST, SECOND, VIDEO
from videoveil.training.latent_source import StoredSource
from videoveil.training.latent_tasks import DetectionTask

from .latent_world import WIDTH, untrimmed, world

CPU = torch.device("cpu")


def test_a_moment_has_the_features_that_the_plan_names() -> None:
    pool = world(24).pool
    source = StoredSource(LatentData(action=pool), 8, 0, CPU, wants_static=True)
    (first, *_), plan = source.moments(0), source.plan(0)
    assert source.steps == 3
    assert source.batch == 8
    assert torch.equal(first.clip, pool.rows[plan[0, CLIP]])
    assert pool.static is not None
    assert pool.labels is not None
    assert torch.equal(first.first, pool.static[plan[0, VIDEO], plan[0, FIRST]])
    assert torch.equal(first.second, pool.static[plan[0, VIDEO], plan[0, SECOND]])
    assert torch.equal(first.labels, pool.labels[plan[0, VIDEO]])  # type: ignore[arg-type]
    assert torch.equal(first.alone, pool.counts[plan[0, VIDEO]] == 1)  # type: ignore[arg-type]
    assert torch.equal(first.still, pool.still()[plan[0, VIDEO]])  # type: ignore[arg-type]


def test_without_actions_pairs_come_from_the_other_tasks_and_an_epoch_is_theirs() -> None:
    config = TriDetConfig(width=16, group_norm_groups=4, branch_blocks=2, max_seq_len=64)
    detection = untrimmed()
    task = DetectionTask(detection, TriDet(WIDTH, 2, config), config)
    data = LatentData(detection=detection, anomaly=untrimmed(8, seed=1))
    source = StoredSource(data, 512, 0, CPU, tasks=(task,))
    moments = list(source.moments(0))
    assert len(moments) == source.steps == 6
    assert source.batch == len(moments[0].clip) == 20  # all videos of both
    assert moments[0].labels is None


def test_features_without_static_clips_are_refused() -> None:
    pool = world(8).pool
    bare = type(pool)(pool.ids, pool.rows, pool.offsets, labels=pool.labels)
    with pytest.raises(UsageError, match="needs static clips"):
        StoredSource(LatentData(action=bare), 8, 0, CPU)
