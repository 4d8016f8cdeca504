"""What a minimax step sees: which moments of which videos, whatever the threads, the order or the processes.

Every frame is painted with its own number (red) and that of its item (green), and a slope (blue) that crops change.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from tests.media.make import encode
from videoveil.data.records import Item
from videoveil.errors import BadItems, UsageError
from videoveil.training.clip_batches import Frames
from videoveil.training.minimax_data import (
    MinimaxBatch,
    MinimaxBatches,
    PrivacyStream,
    Sample,
    VideoStream,
    identity_frames,
    passes,
)
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Utility

CPU = torch.device("cpu")
LENGTHS = {"v0": 60, "v1": 61, "v2": 62, "v3": 63, "v4": 64}
STEP, APART = 3, 20  # grey levels from one frame to the next, and from one item to the next
CROPS = "ted-spad-weak"  # nothing but a random crop: colours stay what they are
PAIRS = Budget(members=("mobilenet.v1-0.25",), augment=CROPS)
QUICK = MinimaxSettings(
    utility=Utility(encoder="tiny", frames=8, stride=2, augment=CROPS),
    budget=PAIRS,
    size=16,
    batch=2,
    privacy_batch=3,
)


class Numbered:
    """Paints every frame with its number."""

    def __call__(self, item: Item, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        height, width = images.shape[1:3]
        painted = np.empty_like(images)
        painted[..., 0] = (STEP * np.asarray(indices))[:, None, None]
        painted[..., 1] = APART * number(item.id)
        painted[..., 2] = np.add.outer(np.linspace(0, 99, height), np.linspace(0, 149, width)).astype(
            np.uint8
        )
        return painted

    def content_hash(self) -> str:
        return "numbered"


def number(id_: str) -> int:
    return int(id_[1:])


@dataclass
class Films:
    items: dict[str, Item]

    def samples(self, *ids: str) -> list[Sample]:
        return [Sample(self.items[id_], torch.tensor(number(id_))) for id_ in ids]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Films:
    root = tmp_path_factory.mktemp("films")
    items = {}
    for id_, frames in {**LENGTHS, "v7": 4, "v8": 9, "v9": 10}.items():
        path = encode(root / f"{id_}.mp4", count=frames, size=(32, 24))
        items[id_] = Item(id_, path, "train", action="a")
    return Films(items)


def batches(
    films: Films,
    own: MinimaxSettings = QUICK,
    seed: int = 0,
    ids: Sequence[str] = tuple(LENGTHS),
    private: Sequence[Sample] = (),
) -> MinimaxBatches:
    """Both streams over the five long videos, unless told otherwise; `private` are samples of the budget."""
    frames = Frames(2**28, paint=Numbered())
    samples = films.samples(*ids)
    stream = VideoStream(samples, frames, own.utility, own.size, seed)
    privacy = None
    if own.budget is not None:
        blank = [Sample(sample.item, torch.zeros(0)) for sample in samples]
        privacy = PrivacyStream(private or blank, frames, own.budget, own.utility, own.size, seed)
    return MinimaxBatches(stream, privacy, own, seed)


def epoch(source: MinimaxBatches, number: int = 0, rank: int = 0, ranks: int = 1) -> list[MinimaxBatch]:
    return list(source.epoch(number, rank, ranks, CPU))


def moments(clip: Tensor) -> list[int]:
    """Frame numbers of a clip (3, T, S, S) or of a frame (3, S, S)."""
    red = clip[0].mean((-2, -1)) * 255 / STEP
    assert torch.allclose(red, red.round(), atol=0.05)
    return [int(value) for value in red.round().reshape(-1)]


def owner(clip: Tensor) -> int:
    return round(float(clip[1].mean()) * 255 / APART)


def drawn(source: MinimaxBatches, number: int = 0) -> dict[str, Tensor]:
    """The clips of an epoch by their video; the first time where it comes twice."""
    found: dict[str, Tensor] = {}
    for batch in epoch(source, number):
        for id_, clip in zip(batch.ids, batch.clips):
            found.setdefault(id_, clip)
    return found


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[id_], b[id_]) for id_ in a)


# --- chance -------------------------------------------------------------------------------------------------


def test_a_draw_belongs_to_seed_epoch_and_item_alone(films: Films) -> None:
    first = drawn(batches(films))
    assert set(first) == set(LENGTHS)
    assert same(first, drawn(batches(films)))
    assert same(first, drawn(batches(films, replace(QUICK, workers=5))))
    assert same(first, drawn(batches(films, ids=tuple(LENGTHS)[::-1])))
    fewer = drawn(batches(films, ids=("v1", "v4")))
    assert same(fewer, {id_: first[id_] for id_ in ("v1", "v4")})
    assert not any(torch.equal(clip, first[id_]) for id_, clip in drawn(batches(films), 1).items())
    assert not any(torch.equal(clip, first[id_]) for id_, clip in drawn(batches(films, seed=1)).items())


def test_clips_and_labels_stay_with_their_videos(films: Films) -> None:
    for batch in epoch(batches(films)):
        assert batch.clips.shape == (2, 1, 3, 8, 16, 16)
        for id_, clip, target in zip(batch.ids, batch.clips, batch.targets):
            assert owner(clip[0]) == number(id_) == int(target)
            times = moments(clip[0])
            assert times == list(range(times[0], times[0] + 16, 2))
            assert times[-1] < LENGTHS[id_]


def test_views_of_the_budget_are_drawn_like_that_too(films: Films) -> None:
    def views(source: MinimaxBatches, number: int = 0) -> list[Tensor]:
        found = [batch.views for batch in epoch(source, number)]
        assert all(batch is not None for batch in found)
        return [batch for batch in found if batch is not None]

    one, two = views(batches(films)), views(batches(films, replace(QUICK, workers=5)))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one, views(batches(films), 1)))
    assert all(batch.labels is None for batch in epoch(batches(films)))  # nobody is told anything


# --- pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "gaps"), [("random", set(range(2, 16, 2))), ("gap:3", {6}), ("ends", {14})])
def test_a_pair_is_two_frames_of_one_clip_by_its_rule(rule: str, gaps: set[int], films: Films) -> None:
    own = replace(QUICK, budget=replace(PAIRS, pair=rule))
    seen, alike = set(), 0
    for lap in range(4):
        for batch in epoch(batches(films, own), lap):
            assert batch.views is not None
            assert batch.views.shape == (3, 2, 3, 16, 16)
            for first, second in batch.views:
                assert owner(first) == owner(second)
                (a,), (b,) = moments(first), moments(second)
                seen.add(b - a)
                alike += torch.equal(first[2], second[2])
    assert alike <= 2  # each has an augmentation of its own; small pictures have few crops
    assert seen <= gaps
    assert len(seen) >= min(3, len(gaps))


@pytest.mark.parametrize("sampler", ["random", "spact"])  # pads, mirrors
def test_a_random_pair_of_a_short_video_is_never_one_picture_twice(sampler: Any, films: Films) -> None:
    private = [Sample(films.items[id_], torch.zeros(0)) for id_ in ("v8", "v9")]
    source = batches(films, sampled(sampler), private=private)
    seen = set()
    for lap in range(12):
        for batch in epoch(source, lap):
            assert batch.views is not None
            seen |= {(*moments(first), *moments(second)) for first, second in batch.views}
    assert all(first < second for first, second in seen)
    assert len(seen) > 4


def test_a_gap_that_no_clip_has_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(UsageError, match="gap:8"):
        replace(QUICK, budget=replace(PAIRS, pair="gap:8"))


def test_two_clips_of_a_video_are_the_views_of_a_budget_on_clips(films: Films) -> None:
    own = replace(QUICK, budget=Budget(kind="clips", members=("tiny",), augment=CROPS))
    distances = set()
    for batch in epoch(batches(films, own)):
        assert batch.views is not None
        assert batch.views.shape == (3, 2, 3, 8, 16, 16)
        for first, second in batch.views:
            assert owner(first) == owner(second)
            a, b = moments(first), moments(second)
            assert [t - a[0] for t in a] == [t - b[0] for t in b] == list(range(0, 16, 2))
            distances.add(b[0] - a[0])
    assert len(distances) > 1


def test_labels_go_with_the_frame_that_they_are_of(films: Films) -> None:
    own = replace(QUICK, budget=Budget(kind="labels", members=("mobilenet.v1-0.25",), augment=CROPS))
    rows = {id_: torch.tensor([float(number(id_)), float("nan")]) for id_ in LENGTHS}
    private = [Sample(films.items[id_], row) for id_, row in rows.items()]
    for batch in epoch(batches(films, own, private=private)):
        assert batch.views is not None
        assert batch.labels is not None
        assert batch.views.shape == (3, 1, 3, 16, 16)
        assert [owner(view[0]) for view in batch.views] == batch.labels[:, 0].int().tolist()
        assert batch.labels[:, 1].isnan().all()


def test_images_are_a_privacy_source_with_two_views_of_one_image(films: Films, tmp_path: Path) -> None:
    private = []
    for n in range(7):
        Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(tmp_path / f"i{n}.png")
        private.append(Sample(Item(f"i{n}", tmp_path / f"i{n}.png", "train", kind="image"), torch.zeros(0)))
    own = replace(QUICK, budget=replace(PAIRS, source="images"))
    owners: Counter[int] = Counter()
    alike = 0
    for batch in epoch(batches(films, own, private=private)):
        assert batch.views is not None
        for first, second in batch.views:
            assert owner(first) == owner(second)
            assert moments(first) == moments(second) == [0]
            owners[owner(first)] += 1
            alike += torch.equal(first, second)
    assert alike <= 2
    assert set(owners) == set(range(7))


# --- several clips of a video -------------------------------------------------------------------------------


def temporal(films: Films, kind: Any, **changes: Any) -> list[list[list[int]]]:
    """Times of every clip of every video over some epochs; all of one video, each with its own augmentation."""
    own = replace(QUICK, utility=replace(QUICK.utility, temporal=kind, **changes))
    found: list[list[list[int]]] = []
    alike = 0
    for lap in range(3):
        for batch in epoch(batches(films, own), lap):
            assert batch.clips.shape[1] == own.utility.views
            for clips in batch.clips:
                assert len({owner(clip) for clip in clips}) == 1
                alike += torch.equal(clips[0][2], clips[1][2])
                found.append([moments(clip) for clip in clips])
    assert alike <= 2
    return found


def test_a_triplet_is_one_moment_twice_and_another_one(films: Films) -> None:
    for anchor, positive, negative in temporal(films, "triplet"):
        assert anchor == positive
        assert anchor[0] != negative[0]
        assert {b - a for clip in (anchor, negative) for a, b in itertools.pairwise(clip)} == {2}


@pytest.mark.parametrize("apart", [8, 20])
def test_a_negative_at_a_distance_begins_so_many_frames_after_the_anchor(apart: int, films: Films) -> None:
    found = temporal(films, "triplet", negative=apart)
    assert {negative[0] - anchor[-1] for anchor, _, negative in found} == {apart}


def test_local_contrast_has_four_neighbouring_clips_twice(films: Films) -> None:
    for clips in temporal(films, "local"):
        assert len(clips) == 8
        assert clips[:4] == clips[4:]
        together = [time for clip in clips[:4] for time in clip]
        assert together == list(range(together[0], together[0] + 32))


def test_invariance_has_two_clips_at_times_of_their_own(films: Films) -> None:
    distances = {second[0] - first[0] for first, second in temporal(films, "invariance")}
    assert len(distances) > 3


# --- too short, too few -------------------------------------------------------------------------------------


def test_videos_that_are_too_short_for_the_clips_are_left_out_and_counted(films: Films) -> None:
    own = replace(QUICK, budget=None, utility=replace(QUICK.utility, temporal="triplet", frames=16))
    source = batches(films, own, ids=(*LENGTHS, "v8", "v9"))
    assert source.videos.short == 2
    assert set(drawn(source)) == set(LENGTHS)


def test_too_many_short_videos_are_an_error_that_says_what_to_lower(films: Films) -> None:
    own = replace(QUICK, utility=replace(QUICK.utility, temporal="triplet", frames=16))
    found = r"only 1 of 3 videos .* temporal='triplet' with 16 frames, stride 2, .* lower these"
    with pytest.raises(BadItems, match=found):
        batches(films, own, ids=("v0", "v8", "v9"))


def test_a_plain_clip_of_a_short_video_is_padded(films: Films) -> None:
    source = batches(films, replace(QUICK, budget=None), ids=("v8", "v9"))
    assert moments(drawn(source)["v8"][0]) == [0, 2, 4, 6, 8, 8, 8, 8]


def sampled(sampler: Any, **changes: Any) -> MinimaxSettings:
    return replace(QUICK, utility=replace(QUICK.utility, sampler=sampler, **changes))


@pytest.mark.parametrize(
    ("sampler", "times"), [("spact", [0, 2, 4, 6, 8, 6, 4, 2]), ("ted-spad", list(range(8)))]
)
@pytest.mark.parametrize("kind", ["pairs", "clips"])
def test_short_videos_are_mirrored_or_slowed_and_very_short_ones_left_out_of_both_streams(
    kind: Any, sampler: str, times: list[int], films: Films
) -> None:
    members = ("tiny",) if kind == "clips" else PAIRS.members
    own = replace(sampled(sampler), budget=replace(PAIRS, kind=kind, members=members))
    source = batches(films, own, ids=(*LENGTHS, "v7", "v8"))
    assert source.privacy is not None
    assert source.videos.short == source.privacy.short == 1
    assert moments(drawn(source)["v8"][0]) == times
    seen: set[int] = set()
    for lap in range(3):
        for batch in epoch(source, lap):
            assert batch.views is not None
            assert "v7" not in batch.ids
            for view in batch.views.flatten(0, 1):
                if owner(view) == 8:
                    assert set(moments(view)) <= set(times)
                seen.add(owner(view))
    assert seen == {0, 1, 2, 3, 4, 8}


@pytest.mark.parametrize(("sampler", "starts"), [("random", {0, 1, 2}), ("spact", {0}), ("ted-spad", {0})])
def test_the_published_rules_never_draw_the_last_starts(sampler: str, starts: set[int], films: Films) -> None:
    own = replace(sampled(sampler, frames=30), budget=None)  # left = 61 − 60
    source = batches(films, own, ids=("v0", "v1"))
    assert {moments(drawn(source, lap)["v1"][0])[0] for lap in range(12)} == starts


def test_a_mirrored_clip_is_the_same_decoded_anew(films: Films) -> None:
    own, samples = sampled("spact"), films.samples("v8", "v9")
    kept, anew = (
        VideoStream(samples, Frames(memory, paint=Numbered()), own.utility, own.size, 0).draw(0, 0)[0]
        for memory in (2**28, 0)
    )
    assert torch.equal(kept, anew)


def test_pictures_have_no_clip_to_be_too_short_for(films: Films, tmp_path: Path) -> None:
    private = []
    for n in range(3):
        Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(tmp_path / f"i{n}.png")
        private.append(Sample(Item(f"i{n}", tmp_path / f"i{n}.png", "train", kind="image"), torch.zeros(0)))
    own = replace(sampled("spact"), budget=replace(PAIRS, source="images"))
    source = batches(films, own, private=private)
    assert source.privacy is not None
    assert source.privacy.short == 0
    assert len(epoch(source)) == source.steps


def test_a_budget_that_most_videos_are_too_short_for_is_an_error(films: Films) -> None:
    private = [Sample(films.items[id_], torch.zeros(0)) for id_ in ("v7", "v7", "v8")]
    found = (
        r"only 1 of 3 videos .* the budget's pairs with 8 frames, stride 2, .* sampler 'spact'; lower these"
    )
    with pytest.raises(BadItems, match=found):
        batches(films, sampled("spact"), private=private)


def test_a_budget_needs_two_samples(films: Films) -> None:
    with pytest.raises(UsageError, match="1 samples for the budget nets"):
        batches(films, private=[Sample(films.items["v0"], torch.zeros(0))])


# --- epochs and processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "private", "steps"), [(2, 3, 3), (5, 2, 3), (2, 5, 3), (4, 4, 2), (50, 50, 1)]
)
def test_the_longer_stream_makes_the_epoch_and_the_shorter_goes_round(
    batch: int, private: int, steps: int, films: Films
) -> None:
    source = batches(films, replace(QUICK, batch=batch, privacy_batch=private))
    found = epoch(source, 3)
    assert len(found) == source.steps == steps
    clips = Counter(id_ for one in found for id_ in one.ids)
    views = Counter(owner(view[0]) for one in found if one.views is not None for view in one.views)
    for counted, size in ((clips, min(batch, 5)), (views, min(private, 5))):
        assert sum(counted.values()) == steps * size  # every step is full
        assert len(counted) == 5
        assert max(counted.values()) - min(counted.values()) <= 1  # a whole round before anybody comes again


@given(count=st.integers(2, 40), size=st.integers(2, 40), steps=st.integers(1, 30))
def test_no_sample_is_twice_in_a_step_and_a_pass_is_whole(count: int, size: int, steps: int) -> None:
    order = passes(count, min(size, count), steps, np.random.default_rng(3))
    assert order.shape == (steps, min(size, count))
    assert all(len(set(step % count)) == len(step) for step in order)
    line = order.ravel()
    for start in range(0, len(line) - count + 1, count):
        assert set(line[start : start + count]) == set(range(start, start + count))
    assert len(set(line)) == len(line)  # in a later pass a sample has another place


def test_the_shorter_stream_sees_something_new_when_it_goes_round(films: Films) -> None:
    source = batches(films, replace(QUICK, batch=2, privacy_batch=5))
    assert source.steps == 3
    rounds = [one.views for one in epoch(source) if one.views is not None]
    by_owner = [{owner(view[0]): view for view in views} for views in rounds]
    for first, second in itertools.pairwise(by_owner):
        assert first.keys() == second.keys()
        assert not any(torch.equal(first[who], second[who]) for who in first)


def test_every_epoch_has_an_order_of_its_own(films: Films) -> None:
    source = batches(films)
    orders = {tuple(id_ for batch in epoch(source, n) for id_ in batch.ids) for n in range(4)}
    assert len(orders) == 4


def test_processes_share_every_step_without_loss_or_doubling(films: Films) -> None:
    own = replace(QUICK, batch=4, privacy_batch=4)
    whole = epoch(batches(films, own), 2)
    shares = [epoch(batches(films, own), 2, rank, 2) for rank in (0, 1)]

    def sorted_views(parts: Sequence[MinimaxBatch]) -> Tensor:
        views = torch.cat([part.views for part in parts if part.views is not None])
        return views[views.flatten(1).double().sum(1).argsort()]

    for one, *parts in zip(whole, *shares, strict=True):
        assert [len(part.clips) for part in parts] == [2, 2]
        clips = [(id_, clip) for part in parts for id_, clip in zip(part.ids, part.clips)]
        assert Counter(id_ for id_, _ in clips) == Counter(one.ids)
        by_id = dict(zip(one.ids, one.clips))
        assert all(torch.equal(by_id[id_], clip) for id_, clip in clips)
        assert torch.equal(sorted_views(parts), sorted_views([one]))


@pytest.mark.parametrize(("batch", "ranks"), [(3, 2), (2, 2), (4, 4)])
def test_a_batch_that_cannot_be_shared_is_refused(batch: int, ranks: int, films: Films) -> None:
    own = replace(QUICK, batch=batch, privacy_batch=4)
    with pytest.raises(UsageError, match=f"cannot be shared by {ranks} processes"):
        epoch(batches(films, own), ranks=ranks)


def test_frames_of_the_identity_start_belong_to_seed_epoch_and_item(films: Films) -> None:
    frames = Frames(2**28, paint=Numbered())
    samples = films.samples(*LENGTHS)
    draw, other = (identity_frames(part, frames, 16, 4) for part in (samples, samples[::-1]))
    for place in range(5):
        frame = draw(place, 6)
        assert frame.shape == (3, 16, 16)
        assert torch.equal(frame, other(4 - place, 6))
        assert not torch.equal(frame, draw(place, 7))
    assert not torch.equal(draw(0, 6), identity_frames(samples, frames, 16, 5)(0, 6))
