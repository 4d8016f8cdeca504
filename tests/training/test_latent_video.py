from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.tasks.make_store import grey_dataset
from videoveil.anonymizers import Attention, latent
from videoveil.data.records import Dataset
from videoveil.encoders import create
from videoveil.encoders.base import Encoder
from videoveil.errors import UsageError
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.targets import targets
from videoveil.training.latent import LatentLoop, LatentSchedule
from videoveil.training.latent_video import VideoSource

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return grey_dataset(tmp_path_factory.mktemp("films"), train=5, test=0)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return create("tiny", frames=8, size=32)


def source_of(films: Dataset, encoder: Encoder, **options: int) -> VideoSource:
    labels = targets(films.items, films.classes, "action")
    given = {"batch": 3, "seed": 0, "workers": 2, **options}
    return VideoSource(films.items, labels, encoder, device=CPU, memory=2**24, **given)  # type: ignore[arg-type]


def test_static_clips_are_two_different_frames_of_the_clip_itself(
    films: Dataset, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(films, encoder)
    seen: list[torch.Tensor] = []
    plain = Encoder.forward

    def watch(self: Encoder, clips: torch.Tensor) -> torch.Tensor:
        seen.append(clips.clone())
        return plain(self, clips)

    monkeypatch.setattr(Encoder, "forward", watch)
    moments = list(source.moments(0))
    assert len(moments) == source.steps == 2
    first, second, clip = seen[:3]
    for still in (first, second):
        assert torch.equal(still, still[:, :, :1].expand_as(still))  # nothing moves
        same = (clip == still[:, :, :1]).all(1).all(-1).all(-1)  # (B, T)
        assert bool(same.any(1).all())
    assert not any(torch.equal(a, b) for a, b in zip(first, second))
    assert not moments[0].clip.requires_grad
    assert moments[0].clip.shape == (3, encoder.width)


def test_draws_depend_on_seed_and_epoch_alone(films: Dataset, encoder: Encoder) -> None:
    one, two = (list(source_of(films, encoder, workers=w).moments(1)) for w in (1, 3))
    for a, b in zip(one, two):
        assert torch.equal(a.clip, b.clip)
        assert torch.equal(a.first, b.first)
    other = next(iter(source_of(films, encoder).moments(2)))
    assert not torch.equal(one[0].clip, other.clip)


def test_the_encoder_stays_frozen_while_the_anonymizer_learns(films: Dataset, encoder: Encoder) -> None:
    source = source_of(films, encoder)
    before = encoder.content_hash()
    head = source.action_head(ProbeConfig(epochs=5), passes=1)
    anonymizer = latent(encoder.width, Attention(1, 4))
    start = anonymizer.content_hash()
    schedule = LatentSchedule(epochs=2, learning_rate=1e-2)
    history = LatentLoop(anonymizer, source, {"action": head}, schedule=schedule).run()
    assert encoder.content_hash() == before
    assert anonymizer.content_hash() != start
    assert len(history) == 2
    assert history[1]["consistency"] > 0
    assert history[0]["action"] > 0


def test_a_last_video_alone_in_its_step_is_left_out(films: Dataset, encoder: Encoder) -> None:
    source = source_of(films, encoder, batch=2)
    assert source.steps == 2 == len(list(source.moments(0)))
    with pytest.raises(UsageError, match="at least 2 videos"):
        source_of(films, encoder, batch=1)


def test_raw_features_are_of_the_right_videos(films: Dataset, encoder: Encoder) -> None:
    source = source_of(films, encoder)
    found = source.features(2)
    assert found.rows.shape == (10, encoder.width)
    assert found.offsets.tolist() == [0, 2, 4, 6, 8, 10]
    clip = source.clips.clip(3, 1)
    with torch.no_grad():
        row = encoder(clip[None])[0].numpy()
    assert np.allclose(found.rows[3 * 2 + 1], row, atol=1e-5)


def test_the_fingerprint_changes_with_videos_and_encoder(films: Dataset, encoder: Encoder) -> None:
    base = source_of(films, encoder).fingerprint()
    fewer = replace(films, items=films.items[:4])
    assert source_of(fewer, encoder).fingerprint()["videos"] != base["videos"]
    other = create("tiny", weights="random", frames=8, size=32)
    assert source_of(films, other).fingerprint()["encoder"] != base["encoder"]
    assert source_of(films, encoder, seed=3).fingerprint() == base
