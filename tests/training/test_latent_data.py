from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from videoveil.errors import BadItems, UsageError
from videoveil.tasks.base import Features
from videoveil.training.latent_data import (
    LatentData,
    join,
    load_action,
    load_anomaly,
    load_detection,
    load_plain,
)

from .latent_world import WIDTH, store_of, untrimmed, video_features, world


def test_a_store_comes_back_as_one_matrix_with_its_labels(tmp_path: Path) -> None:
    pool = world(16).pool
    found = load_action(Features(store_of(tmp_path, pool), split="train"))
    assert found.ids == pool.ids
    assert found.classes == pool.classes
    assert torch.equal(found.rows, pool.rows)
    assert torch.equal(found.offsets, pool.offsets)
    assert pool.static is not None
    assert found.static is not None
    assert torch.equal(found.static, pool.static)
    assert torch.equal(found.labels, pool.labels)  # type: ignore[arg-type]
    assert found.fingerprint() == pool.fingerprint()
    assert torch.equal(found.still(), pool.static.mean(1))
    assert found.owners().tolist() == [i for i, n in enumerate(found.counts.tolist()) for _ in range(n)]


def test_untrimmed_videos_come_with_their_segments_or_labels(tmp_path: Path) -> None:
    pool = untrimmed()
    detection = load_detection(Features(store_of(tmp_path / "d", pool, kind="detection")))
    for mine, theirs in zip(detection.targets, pool.targets):
        assert torch.allclose(mine.segments, theirs.segments, atol=0.01)
        assert torch.equal(mine.labels, theirs.labels)
    anomaly = load_anomaly(Features(store_of(tmp_path / "a", pool, kind="anomaly")))
    assert torch.equal(anomaly.labels, pool.labels)  # type: ignore[arg-type]
    with pytest.raises(BadItems, match="neither normal nor anomalous"):
        load_anomaly(Features(store_of(tmp_path / "b", world(8).pool)))


def test_tokens_are_loaded_where_they_are_asked_for(tmp_path: Path) -> None:
    pool = world(8).pool
    with_tokens = store_of(tmp_path / "t", pool, tokens=3)
    found = load_plain(Features(with_tokens), "temporal")
    assert found.rows.shape == (len(pool.rows), 3, WIDTH)
    assert torch.allclose(found.rows.mean(1), pool.rows, atol=1e-5)
    with pytest.raises(UsageError, match="no temporal tokens"):
        load_plain(Features(store_of(tmp_path / "p", pool)), "temporal")


def test_every_unusable_video_is_listed(tmp_path: Path) -> None:
    pool = world(8).pool
    store = store_of(tmp_path, pool)
    entries = {entry.item.id: entry for entry in store.items()}
    store.path(entries["v001"].key).unlink()
    rows = np.zeros((2, WIDTH), np.float32)
    store.write(entries["v002"].key, video_features(rows, rows[:, :5]), {})
    with pytest.raises(BadItems) as caught:
        load_action(Features(store))
    assert [line.split(":")[0] for line in caught.value.offenders] == ["v001", "v002"]


def test_videos_with_other_numbers_of_static_clips_are_listed(tmp_path: Path) -> None:
    store = store_of(tmp_path, world(8).pool)
    entry = store.items()[3]
    rows = np.zeros((3, WIDTH), np.float32)
    store.write(entry.key, video_features(rows, rows), {})
    with pytest.raises(BadItems, match="v003: 3 static clips, the others have 4"):
        load_plain(Features(store))


def test_sets_are_joined_end_to_end() -> None:
    one, two = world(8).pool, untrimmed(4, static=3)
    both = join([one, two])
    assert len(both) == 12
    assert both.labels is None
    assert both.static is not None
    assert both.static.shape == (12, 3, WIDTH)
    assert torch.equal(both.rows[both.offsets[8] : both.offsets[9]], two.rows[: two.offsets[1]])
    assert len(set(both.ids)) == 12


def test_data_without_anything_or_of_two_widths_is_refused() -> None:
    with pytest.raises(UsageError, match="no features"):
        LatentData()
    narrow = world(8).pool
    narrow = type(narrow)(narrow.ids, narrow.rows[:, :5], narrow.offsets)
    with pytest.raises(UsageError, match="several widths"):
        LatentData(action=world(8).pool, anomaly=narrow)
    with pytest.raises(UsageError, match="no static clips"):
        narrow.still()


def test_fingerprints_change_with_every_part() -> None:
    base = world(8).pool
    other = world(8).pool
    assert base.fingerprint() == other.fingerprint()
    other.rows[3, 4] += 1e-6
    assert base.fingerprint() != other.fingerprint()
    assert untrimmed().fingerprint() != untrimmed(seed=1).fingerprint()
