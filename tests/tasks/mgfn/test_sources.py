"""Videos from a feature store and from public `.npy` files, with the truth made from official annotation text."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from videoveil.data import shanghaitech, ucf_crime, xd_violence
from videoveil.data.records import Dataset, FrameSpan, Item
from videoveil.errors import AnnotationError, BadItems, MissingItems, UsageError
from videoveil.features.store import FeatureRecipe, FeatureStore, VideoFeatures
from videoveil.tasks.mgfn.evaluation import evaluate
from videoveil.tasks.mgfn.sources import frames_per_snippet, from_npy, from_store, snippet
from videoveil.tasks.mgfn.training_set import prepare

ITEMS = (
    Item("Abuse/Abuse028_x264", Path("a.mp4"), "test", anomaly=True, anomaly_class="Abuse",
         anomaly_spans=(FrameSpan(10, 30, "Abuse"),)),
    Item("Normal/Normal_Videos_003_x264", Path("n.mp4"), "test", anomaly=False, anomaly_class="Normal"),
    Item("Abuse/Abuse001_x264", Path("t.mp4"), "train", anomaly=True, anomaly_class="Abuse"),
)  # fmt: skip


def make_store(
    root: Path, *, clips: str = "all", stride: int = 1, items: tuple[Item, ...] = ITEMS
) -> FeatureStore:
    recipe = FeatureRecipe(frames=8, stride=stride, resize=128, size=112, clips=clips)
    store = FeatureStore.create(root, {"name": "tiny", "hash": "h" * 16, "width": 4}, recipe)
    keys = {}
    for i, item in enumerate(items):
        n = 5 + i
        keys[item.id] = store.key(item.id)
        features = VideoFeatures(
            clip=np.random.default_rng(i).standard_normal((n, 4)).astype(np.float32),
            starts=np.arange(n) * 8 * stride,
            pts=np.zeros((n, 2), dtype=np.int64),
            time_base=Fraction(1, 30),
            frames=n * 8 * stride + 3,
            rate=Fraction(30),
        )
        store.write(keys[item.id], features, {"id": item.id})
    store.write_index(Dataset("ucf-crime", root, items), keys)
    return store


def test_a_store_gives_videos_whose_truth_covers_exactly_the_scored_frames(tmp_path: Path) -> None:
    videos = from_store(make_store(tmp_path), split="test", with_truth=True)
    abuse, normal = videos
    assert (len(videos), abuse.frames_per_snippet, abuse.snippets) == (2, 8, 5)
    assert (abuse.label, abuse.class_name, normal.label) == (1, "Abuse", 0)
    assert abuse.truth is not None
    assert normal.truth is not None
    assert abuse.truth.tolist() == [0] * 10 + [1] * 20 + [0] * 10
    assert (len(normal.truth), normal.truth.any()) == (48, False)
    assert [v.id for v in videos] == [v.id for v in videos]  # may be gone through again
    assert [v.id for v in videos[1:]] == ["Normal/Normal_Videos_003_x264"]


def test_the_stride_counts_in_frames_per_snippet(tmp_path: Path) -> None:
    store = make_store(tmp_path, stride=2)
    assert frames_per_snippet(store) == 16
    assert len(from_store(store, split="test", with_truth=True)[0].truth) == 5 * 16


def test_a_padded_last_clip_is_scored_whole_and_a_short_video_by_its_own_stride(tmp_path: Path) -> None:
    store = make_store(tmp_path, clips="ted-spad", stride=2)
    assert frames_per_snippet(store) == 16
    assert from_store(store, split="test", with_truth=True)[0].frames_per_snippet == 16
    assert snippet(store.recipe, 16) == 16
    assert snippet(store.recipe, 15) == 8
    assert snippet(replace(store.recipe, clips="all"), 15) == 16


def test_overlapping_clips_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="consecutive clips"):
        from_store(make_store(tmp_path, clips="dense:4"))


def test_training_videos_have_no_truth_to_ask_for(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    assert from_store(store, split="train")[0].truth is None
    with pytest.raises(AnnotationError, match=r"Abuse/Abuse001_x264"):
        from_store(store, split="train", with_truth=True)


def test_videos_without_a_label_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="mystery"):
        from_npy(tmp_path, [Item("mystery", Path("x"), "train")], 16)


def test_damaged_and_ill_annotated_videos_are_listed_together(tmp_path: Path) -> None:
    spans = (FrameSpan(500, 900, "Abuse"),)
    late = Item("Abuse/late", Path("l.mp4"), "test", anomaly=True, anomaly_class="Abuse", anomaly_spans=spans)
    store = make_store(tmp_path, items=(*ITEMS[:2], late))
    store.path(store.items()[1].key).write_bytes(b"torn")
    videos = from_store(store, with_truth=True)
    scores = {ITEMS[0].id: np.zeros(5), ITEMS[1].id: np.zeros(0), late.id: np.zeros(7)}
    with pytest.raises(BadItems) as caught:
        evaluate(scores, videos)
    assert len(caught.value.offenders) == 2
    text = "\n".join(caught.value.offenders)
    assert "Normal_Videos_003_x264" in text
    assert "damaged" in text
    assert "Abuse/late: abnormal, but 0 of its 59 frames" in text


# --- official annotation text --------------------------------------------------------------------------------


def test_truth_from_the_official_ucf_crime_text(tmp_path: Path) -> None:
    (tmp_path / "Anomaly_Train.txt").write_text("Abuse/Abuse001_x264.mp4\n")
    names = ("Abuse/Abuse028_x264.mp4", "Testing_Normal_Videos_Anomaly/Normal_Videos_003_x264.mp4",
             "Arson/Arson011_x264.mp4")  # fmt: skip
    (tmp_path / "Anomaly_Test.txt").write_text("\n".join(names))
    (tmp_path / "Temporal_Anomaly_Annotation_for_Testing_Videos.txt").write_text(
        "Abuse028_x264.mp4  Abuse  165  240  -1  -1  \n"
        "Normal_Videos_003_x264.mp4  Normal  -1  -1  -1  -1  \n"
        "Arson011_x264.mp4  Arson  10  20  100  360  \n"
    )
    items = ucf_crime.load(tmp_path, annotations_only=True).split("test")
    for item in items:
        np.save(tmp_path / f"{Path(item.id).name}_i3d.npy", np.ones((20, 10, 4), np.float32))
    abuse, normal, arson = from_npy(tmp_path, items, 16, with_truth=True)
    assert abuse.features.shape == (20, 10, 4)
    assert abuse.truth is not None
    assert normal.truth is not None
    assert arson.truth is not None
    assert np.flatnonzero(abuse.truth).tolist() == list(range(165, 241))  # the end is included
    assert (len(abuse.truth), normal.truth.sum()) == (320, 0)
    marked = [*range(10, 21), *range(100, 320)]  # cut at the last snippet
    assert np.flatnonzero(arson.truth).tolist() == marked


def test_an_annotation_far_beyond_the_features_is_a_problem_of_that_video(tmp_path: Path) -> None:
    np.save(tmp_path / "Abuse028_x264.npy", np.ones((1, 4), np.float32))
    spans = (FrameSpan(10, 16 + 65, "Abuse"),)
    item = Item("Abuse/Abuse028_x264", Path("a.mp4"), "test", anomaly=True, anomaly_spans=spans)
    video = from_npy(tmp_path, [item], 16, with_truth=True)[0]
    assert "annotated up to frame 81, the video has 16" in video.problems[0]


def test_truth_from_the_official_xd_violence_text(tmp_path: Path) -> None:
    violent, calm = "Film__#00-01-45_label_B1-B2-0", "Film__#00-03-00_label_A"
    (tmp_path / "annotations.txt").write_text(f"{violent}.mp4 3 10 40 60\n")
    (tmp_path / "test").mkdir()
    for name in (violent, calm):
        (tmp_path / "test" / f"{name}.mp4").write_bytes(b"not decoded here")
        for crop in range(5):
            np.save(tmp_path / f"{name}__{crop}.npy", np.full((4, 6), crop, np.float32))
    items = xd_violence.load(tmp_path).split("test")
    videos = {v.label: v for v in from_npy(tmp_path, items, 16, with_truth=True)}
    assert videos[1].features.shape == (4, 5, 6)
    assert videos[1].features[0, :, 0].tolist() == [0, 1, 2, 3, 4]
    assert videos[1].truth is not None
    assert np.flatnonzero(videos[1].truth).tolist() == [*range(3, 10), *range(40, 60)]  # the end is excluded
    assert videos[1].classes == ("B1", "B2")
    assert videos[0].truth is not None
    assert not videos[0].truth.any()


def test_truth_from_the_official_shanghaitech_masks(tmp_path: Path) -> None:
    (tmp_path / "SH_Train.txt").write_text("01_002\n")
    (tmp_path / "SH_Test.txt").write_text("01_0014\n01_003\n")
    (tmp_path / "test_frame_mask").mkdir()
    np.save(tmp_path / "test_frame_mask" / "01_0014.npy", np.array([0] * 20 + [1] * 10, np.uint8))
    items = shanghaitech.load(tmp_path, annotations_only=True).split("test")
    features = tmp_path / "features"
    features.mkdir()
    for name in ("01_0014", "01_003"):
        np.save(features / f"{name}.npy", np.ones((2, 4), np.float32))
    strange, plain = from_npy(features, items, 16, with_truth=True)
    assert strange.truth is not None
    assert strange.truth.tolist() == [0] * 20 + [1] * 12  # the mask's last value goes on
    assert (strange.class_name, plain.class_name) == ("Anomaly", "Normal")


# --- feature files -------------------------------------------------------------------------------------------


def test_every_missing_feature_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingItems) as caught:
        from_npy(tmp_path, ITEMS, 16)
    assert len(caught.value.offenders) == 3


def test_unreadable_feature_files_are_listed_before_training(tmp_path: Path) -> None:
    np.save(tmp_path / "Abuse028_x264.npy", np.array([{"code": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "Normal_Videos_003_x264.npy").write_bytes(b"")
    np.save(tmp_path / "Abuse001_x264.npy", np.float32(3))
    with pytest.raises(BadItems) as caught:
        prepare(from_npy(tmp_path, ITEMS, 16), 32)
    text = "\n".join(caught.value.offenders)
    for name in ("Abuse028_x264", "Normal_Videos_003_x264", "Abuse001_x264"):
        assert f"{name}.npy" in text
