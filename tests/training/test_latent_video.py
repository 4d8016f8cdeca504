from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.tasks.make_store import grey_dataset
from videoveil.anonymizers import Attention, latent
from videoveil.data.records import Dataset
from videoveil.encoders import create
from videoveil.encoders.base import Encoder
from videoveil.errors import UsageError
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.base import Clips
from videoveil.tasks.targets import targets
from videoveil.training import seeds
from videoveil.training.latent import LatentLoop, LatentSchedule
from videoveil.training.latent_video import EncodedClips, VideoSource

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
    head = source.action_head(source.pool(1), ProbeConfig(epochs=5))
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
    found = source.pool(2)
    assert found.rows.shape == (10, encoder.width)
    assert found.offsets.tolist() == [0, 2, 4, 6, 8, 10]
    assert found.ids == tuple(item.id for item in films.items)
    assert found.labels is not None
    assert found.labels.tolist() == source.targets.values.tolist()
    clip = source.clips.clip(3, 1)
    with torch.no_grad():
        row = encoder(clip[None])[0]
        stills = encoder(
            clip.transpose(0, 1)[:, :, None].expand(-1, -1, clip.shape[1], -1, -1)
        )  # of every frame
    assert torch.allclose(found.rows[3 * 2 + 1], row, atol=1e-5)
    assert found.static is not None
    assert found.static.shape == (5, 4, encoder.width)
    for pair in found.static[3, 2:]:  # of the second pass
        assert float((stills - pair).abs().amax(1).min()) < 1e-5


def test_the_step_is_the_same_however_many_clips_the_encoder_takes_at_once(
    films: Dataset, encoder: Encoder
) -> None:
    one, two = (next(iter(source_of(films, encoder, at_once=n).moments(0))) for n in (1, 32))
    for name in ("clip", "first", "second"):
        assert torch.allclose(getattr(one, name), getattr(two, name), atol=1e-5)


def test_a_second_moving_clip_is_another_one_of_the_same_video(films: Dataset, encoder: Encoder) -> None:
    plain, both = (source_of(films, encoder, second=second) for second in (False, True))
    before, after = next(iter(plain.moments(0))), next(iter(both.moments(0)))
    assert before.other is None
    assert after.other is not None
    assert after.alone is not None
    assert torch.equal(before.clip, after.clip)
    order = seeds.rng(0, "order", 0).permutation(5)[:3]
    clips = torch.stack([both.others.clip(int(place), 0) for place in order])
    with torch.no_grad():
        assert torch.allclose(encoder(clips), after.other, atol=1e-5)
    assert not torch.allclose(after.clip, after.other, atol=1e-3)
    assert not after.alone.any()


def test_a_video_no_longer_than_a_clip_has_no_other(tmp_path: Path, encoder: Encoder) -> None:
    short = grey_dataset(tmp_path, train=2, test=0, frames=8)
    source = source_of(short, encoder, second=True)
    assert source.alone.tolist() == [True, False]  # 8 and 11 frames
    (moment,) = source.moments(0)
    assert moment.alone is not None
    assert sorted(moment.alone.tolist()) == [False, True]


def test_videos_that_an_anonymizer_went_over_are_refused(films: Dataset, encoder: Encoder) -> None:
    from videoveil.anonymizers.obfuscate import Downsampler

    with pytest.raises(UsageError, match="anonymized already"):
        EncodedClips(Clips(films, anonymizer=Downsampler(2.0)), encoder)
    told = EncodedClips(Clips(films, "train"), encoder).describe()
    assert told["kind"] == "videos"
    assert told["encoder"]["hash"] == encoder.content_hash()
    assert (told["dataset"], told["split"]) == (films.name, "train")


def test_the_fingerprint_changes_with_videos_and_encoder(films: Dataset, encoder: Encoder) -> None:
    base = source_of(films, encoder).fingerprint()
    fewer = replace(films, items=films.items[:4])
    assert source_of(fewer, encoder).fingerprint()["videos"] != base["videos"]
    other = create("tiny", weights="random", frames=8, size=32)
    assert source_of(films, other).fingerprint()["encoder"] != base["encoder"]
    assert source_of(films, encoder, seed=3).fingerprint() == base
