from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.errors import UsageError
from videoveil.tasks.mgfn.segments import row_ranges
from videoveil.tasks.tridet import TriDetConfig
from videoveil.training.latent_data import ClipPool
from videoveil.training.latent_draws import (
    CLIP,
    FIRST,
    OTHER,
    SECOND,
    VIDEO,
    Strata,
    balanced,
    cycle,
    pass_steps,
    plan,
    windows,
)

from .latent_world import WIDTH, untrimmed, world


def pool_of(counts: list[int], static: int = 3) -> ClipPool:
    offsets = torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()])
    return ClipPool(
        tuple(str(i) for i in range(len(counts))),
        torch.zeros(int(offsets[-1]), 2),
        offsets,
        torch.zeros(len(counts), static, 2),
    )


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 6), min_size=2, max_size=23),
    batch=st.integers(2, 9),
    static=st.integers(2, 5),
    epoch=st.integers(0, 3),
)
def test_every_video_is_seen_and_every_step_is_of_different_videos(
    counts: list[int], batch: int, static: int, epoch: int
) -> None:
    pool = pool_of(counts, static)
    drawn = plan(pool, batch, 7, epoch)
    size = min(batch, len(counts))
    assert drawn.shape == (pass_steps(pool, batch), 5, size)
    assert set(drawn[:, VIDEO].flatten().tolist()) == set(range(len(counts)))
    for step in drawn:
        assert len(set(step[VIDEO].tolist())) == size
    owner = pool.owners()
    assert torch.equal(owner[drawn[:, CLIP]], drawn[:, VIDEO])
    assert torch.equal(owner[drawn[:, OTHER]], drawn[:, VIDEO])
    several = pool.counts[drawn[:, VIDEO]] > 1
    assert torch.equal(drawn[:, CLIP] != drawn[:, OTHER], several)
    assert bool((drawn[:, FIRST] != drawn[:, SECOND]).all())
    assert int(drawn[:, FIRST:].max()) < static


def test_pairs_are_equally_likely() -> None:
    pool = pool_of([4] * 50, 3)
    drawn = torch.cat([plan(pool, 50, 0, epoch) for epoch in range(80)])
    clips = (drawn[:, CLIP] - pool.offsets[drawn[:, VIDEO]]).flatten() * 4
    clips += (drawn[:, OTHER] - pool.offsets[drawn[:, VIDEO]]).flatten()
    counts = torch.bincount(clips, minlength=16).view(4, 4)
    assert int(counts.diagonal().sum()) == 0
    off = counts[~torch.eye(4, dtype=torch.bool)].double()
    assert float(off.min()) > 0.75 * 4000 / 12
    assert float(off.max()) < 1.25 * 4000 / 12


def test_plans_depend_on_seed_and_epoch_alone() -> None:
    pool = pool_of([3] * 10)
    assert torch.equal(plan(pool, 4, 1, 2), plan(pool, 4, 1, 2))
    assert not torch.equal(plan(pool, 4, 1, 2), plan(pool, 4, 1, 3))
    assert not torch.equal(plan(pool, 4, 1, 2), plan(pool, 4, 2, 2))
    assert plan(pool, 4, 0, 0, steps=9).shape == (9, 5, 4)
    with pytest.raises(UsageError, match="at least 2 videos"):
        plan(pool_of([3]), 4, 0, 0)


@given(count=st.integers(1, 20), size=st.integers(1, 8), seed=st.integers(0, 5))
def test_a_cycle_goes_through_whole_batches_of_different_videos(count: int, size: int, seed: int) -> None:
    each = min(size, count)
    rounds = count // each
    seen = torch.cat([cycle(count, size, seed, "x", step) for step in range(rounds)])
    assert len(seen) == rounds * each == len(set(seen.tolist()))
    assert int(seen.max()) < count


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    segments=st.integers(1, 8),
    most=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_snippets_are_different_rows_of_their_segment_and_all_where_there_are_few(
    lengths: list[int], segments: int, most: int, seed: int
) -> None:
    pool = pool_of(lengths)
    rows, there = Strata.of(pool, segments, most).draw(
        torch.arange(len(lengths)), torch.Generator().manual_seed(seed)
    )
    for video, length in enumerate(lengths):
        start = int(pool.offsets[video])
        for segment, part in enumerate(row_ranges(length, segments)):
            kept = rows[video, segment][there[video, segment]].tolist()
            allowed = {start + row for row in part}
            assert set(kept) <= allowed
            assert len(kept) == len(set(kept)) == min(most, len(part))
    assert int(rows.max()) < len(pool.rows)  # rows that do not count are still rows of the pool


def test_windows_are_cut_as_the_detector_cuts_them() -> None:
    pool = untrimmed()
    config = TriDetConfig(width=16, group_norm_groups=4, branch_blocks=2, max_seq_len=32, batch_size=2)
    cut = windows(pool, config, 0, 5)
    assert cut.lengths == (32, 32)
    for video, rows, target in zip(cut.videos.tolist(), cut.rows.split(list(cut.lengths)), cut.targets):
        assert torch.equal(rows, torch.arange(int(rows[0]), int(rows[0]) + 32))
        assert int(pool.offsets[video]) <= int(rows[0])
        assert int(rows[-1]) < int(pool.offsets[video + 1])
        shift = int(rows[0]) - int(pool.offsets[video])
        whole = pool.targets[video].segments
        assert torch.equal(target.segments, whole.clamp(shift, shift + 32) - shift)
    again = windows(pool, config, 0, 5)
    assert torch.equal(cut.rows, again.rows)
    assert torch.equal(cut.paths, again.paths)
    assert not torch.equal(cut.rows, windows(pool, config, 0, 6).rows)


def test_anomaly_batches_have_as_many_of_each_class_and_an_even_number() -> None:
    labels = torch.tensor([0] * 9 + [1] * 5)
    chosen = balanced(labels, 16, 0, 3)
    assert labels[chosen].tolist() == [0] * 4 + [1] * 4
    assert len(set(chosen.tolist())) == 8
    with pytest.raises(UsageError, match="9 normal and 1 anomalous"):
        balanced(torch.tensor([0] * 9 + [1]), 4, 0, 0)


def test_the_world_has_what_the_tests_say() -> None:
    home = world(24)
    assert home.pool.rows.shape[1] == WIDTH
    assert int((home.pool.counts == 1).sum()) == 3
