"""Every loader reads its twin and finds what the theatre knows; twins do not depend on how they are rendered."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from videoveil.data import registry, twins
from videoveil.data.frame_truth import check_truth, frame_truth
from videoveil.data.pa_hmdb51 import frame_labels
from videoveil.data.records import Item
from videoveil.data.theatre import stage
from videoveil.data.theatre.play import attribute_spans, visible_values
from videoveil.data.twins.plan import Reel, Twin, render
from videoveil.data.verify import verify
from videoveil.errors import UsageError
from videoveil.media.reader import open_video

SOUND = {  # what a truth record of each twin is compared on, beside id, split and path
    "action",
    "actions",
    "objects",
    "scenes",
    "attributes",
    "segments",
    "anomaly",
    "duration",
    "rate",
    "subject",
    "gender",
}


def short(twin: Twin, keep: int) -> Twin:
    """The same twin with only some of its media rendered (loaders then skip the rest)."""
    return replace(twin, reels=twin.reels[:keep], stills=twin.stills[:keep])


def write_annotations(name: str, root: Path) -> Twin:
    """A twin on disk: all annotations, and empty files in place of media (what they show is tested elsewhere)."""
    twin = twins.plan(name, seed=3, size="tiny")
    for shot in twin.shots():
        (root / shot.path).parent.mkdir(parents=True, exist_ok=True)
        (root / shot.path).touch()
    for path, content in twin.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return twin


@pytest.fixture(scope="module", params=twins.names())
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Twin]:
    name = str(request.param)
    root = tmp_path_factory.mktemp(name)
    return name, root, write_annotations(name, root)


def test_labels_splits_segments_and_attributes_come_back(made: tuple[str, Path, Twin]) -> None:
    name, root, twin = made
    dataset = registry.load(name, root)
    truth = {item.id: item for item in twin.truth}
    assert len(truth) == len(twin.truth)
    assert {item.id for item in dataset} == set(truth)
    for item in dataset:
        known = truth[item.id]
        assert item.path == root / known.path
        assert (item.split, item.kind) == (known.split, known.kind)
        for field in SOUND:
            assert getattr(item, field) == getattr(known, field), (item.id, field)
        assert [(s.first, s.stop) for s in item.anomaly_spans] == [
            (s.first, s.stop) for s in known.anomaly_spans
        ]
        assert item.attribute_spans == known.attribute_spans


def test_both_parts_of_a_twin_are_there_and_every_class_in_them(made: tuple[str, Path, Twin]) -> None:
    name, root, _ = made
    dataset = registry.load(name, root)
    counts = dataset.counts()
    assert len(counts) >= 2, counts
    if dataset.items[0].action is not None:
        for split in ("train", "test"):
            assert {item.action for item in dataset.split(split)} == set(dataset.classes), split


@pytest.mark.parametrize("name", ["ucf-crime", "xd-violence", "shanghaitech"])
def test_frame_truth_equals_what_the_play_says(name: str, tmp_path: Path) -> None:
    twin, root = write_annotations(name, tmp_path), tmp_path
    plays = {shot.path: shot.play for shot in twin.shots()}
    items = [item for item in registry.load(name, root) if item.split == "test"]
    abnormal = 0
    for item in items:
        play = plays[item.path.relative_to(root).as_posix()]
        truth = frame_truth(item, play.frames)
        check_truth(item, play.frames)
        slow = [any(i.first <= f < i.stop for i in play.incidents) for f in range(play.frames)]
        assert truth.tolist() == [float(v) for v in slow]
        abnormal += any(slow)
    assert 0 < abnormal < len(items)


def test_per_frame_attributes_equal_what_the_play_shows(tmp_path: Path) -> None:
    twin, root = write_annotations("pa-hmdb51", tmp_path), tmp_path
    plays = {shot.path: shot.play for shot in twin.shots()}
    labelled = [item for item in registry.load("pa-hmdb51", root) if item.split == "test"]
    changing = 0
    for item in labelled:
        play = plays[item.path.relative_to(root).as_posix()]
        changing += len(attribute_spans(play)) > 1
        for frame in range(play.frames):
            seen = visible_values(play, frame)
            labels = frame_labels(item, frame, "spact")
            assert labels is not None
            assert labels["a9_face_complete"] == int(seen["face"] == (2,))
            assert labels["a17_color"] == int(seen["skin_color"] != (0,))
    assert changing > 0


def _digest(root: Path) -> dict[str, str]:
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.mark.parametrize("name", ["ucf101", "thumos14", "vispr"])
def test_same_seed_same_bytes_whatever_the_process_count(name: str, tmp_path: Path) -> None:
    twin = short(twins.plan(name, seed=1, size="tiny"), keep=4)
    for folder, processes in (("one", 1), ("three", 3)):
        render(twin, tmp_path / folder, processes)
    assert _digest(tmp_path / "one") == _digest(tmp_path / "three")
    other = short(twins.plan(name, seed=2, size="tiny"), keep=4)
    render(other, tmp_path / "other", 1)
    assert _digest(tmp_path / "other") != _digest(tmp_path / "one")


@pytest.mark.parametrize("name", ["hmdb51", "kinetics400"])
def test_videos_hold_the_frames_of_their_plays(name: str, tmp_path: Path) -> None:
    reel: Reel = twins.plan(name, seed=0, size="tiny").reels[0]
    render(replace(twins.plan(name, 0, "tiny"), reels=(reel,), files={}), tmp_path)
    with open_video(tmp_path / reel.path) as video:
        frames = list(video.frames())
    assert len(frames) == reel.play.frames
    assert [f.time for f in frames] == [i / reel.play.rate for i in range(len(frames))]
    for index in (0, len(frames) // 2, len(frames) - 1):
        error = abs(frames[index].image.astype(int) - stage.Stage(reel.play).frame(index).astype(int)).mean()
        assert error < 6  # a codec away from the original


def test_a_whole_twin_verifies_and_a_damaged_one_says_what_is_wrong(tmp_path: Path) -> None:
    twin = twins.plan("thumos14", seed=0, size="tiny")
    render(twin, tmp_path, processes=2)
    report = verify("thumos14", tmp_path)
    assert report.problems == ()
    assert report.decoded
    assert report.counts[0].segments["train"] == sum(
        len(i.segments) for i in twin.truth if i.split == "train"
    )
    first, second = (tmp_path / r.path for r in twin.reels[:2])
    first.write_bytes(first.read_bytes()[:2000])
    second.unlink()
    report = verify("thumos14", tmp_path)
    assert len(report.problems) == 2
    assert any(first.stem in p for p in report.problems)
    assert any(second.stem in p and "missing" in p for p in report.problems)


def test_videos_shorter_than_their_annotations_are_found(tmp_path: Path) -> None:
    twin = twins.plan("thumos14", seed=0, size="tiny")
    render(
        replace(twin, reels=tuple(replace(r, play=replace(r.play, frames=20)) for r in twin.reels)), tmp_path
    )
    problems = verify("thumos14", tmp_path).problems
    assert len(problems) == len(twin.reels)
    assert all("the annotations say 10.00 s" in problem for problem in problems)


def test_another_twin_is_never_mixed_into_a_folder(tmp_path: Path) -> None:
    first = short(twins.plan("ucf101", seed=0), keep=1)
    render(first, tmp_path / "a")
    assert render(first, tmp_path / "a").frames == 0  # the same again: nothing to do
    for other in (short(twins.plan("ucf101", seed=1), keep=1), short(twins.plan("hmdb51", seed=0), keep=1)):
        with pytest.raises(UsageError, match="holds another twin"):
            render(other, tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "holiday.mp4").touch()
    with pytest.raises(UsageError, match="folder of its own"):
        render(first, tmp_path / "b")


def test_unknown_twins_and_sizes_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ucf101"):
        twins.plan("imagenet")
    with pytest.raises(UsageError, match="medium"):
        twins.plan("ucf101", size="huge")
    with pytest.raises(UsageError):
        render(twins.plan("ucf101"), tmp_path, processes=0)


def test_every_dataset_has_a_twin_or_is_the_users_own() -> None:
    own = {"folder", "csv", "videos"}
    assert set(twins.names()) | own == set(registry.names())


def test_truth_items_are_records() -> None:
    for name in twins.names():
        assert all(isinstance(item, Item) for item in twins.plan(name).truth)
