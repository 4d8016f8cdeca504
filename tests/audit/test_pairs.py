from __future__ import annotations

import dataclasses
import shutil
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.audit import world
from tests.media.make import encode
from videoveil.audit.pairs import compare, open_pairs, require_apart
from videoveil.audit.run import audit
from videoveil.audit.subject import Subject, Untouched
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, BadItems, MissingItems, UsageError


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    made = world.dataset(tmp_path_factory.mktemp("raw"))
    world.table(made, made.root / "videos.csv")
    return made


@pytest.fixture
def copied(source: Dataset, tmp_path: Path) -> Path:
    folder = tmp_path / "anonymized"
    shutil.copytree(source.root, folder)
    return folder


def test_the_output_of_any_tool_is_audited_by_its_files(
    source: Dataset, copied: Path, tmp_path: Path
) -> None:
    (copied / "v00.mp4").rename(copied / "v00.mkv")  # another container is no matter
    subject = open_pairs(str(source.root), copied, name="a copy")
    assert [item.id for item in subject.anonymized.dataset] == [item.id for item in subject.dataset]
    assert subject.anonymized.dataset.items[0].path.suffix == ".mkv"
    found = audit(subject, tmp_path / "out", world.settings())
    assert found.verdict.privacy == "FAIL"  # nothing was changed
    assert found.metrics["anonymizer"] == "a copy"


def test_labels_may_lie_elsewhere(source: Dataset, copied: Path, tmp_path: Path) -> None:
    table = world.table(source, tmp_path / "labels.csv")
    before = sorted(source.root.iterdir())
    subject = open_pairs(str(source.root), copied, labels=table)
    assert len(subject.dataset) == len(source)
    assert sorted(source.root.iterdir()) == before


def test_missing_versions_are_all_listed(source: Dataset, copied: Path) -> None:
    (copied / "v03.mp4").unlink()
    (copied / "v05.mp4").unlink()
    with pytest.raises(MissingItems) as error:
        open_pairs(str(source.root), copied)
    assert [one.partition(":")[0] for one in error.value.offenders] == ["v03", "v05"]


def test_other_lengths_are_all_listed(source: Dataset, copied: Path) -> None:
    world.film(copied / "v02.mp4", 0, 1, 0, 2, frames=world.FRAMES - 3)
    with pytest.raises(BadItems, match="v02: 8 frames raw, 5 anonymized"):
        open_pairs(str(source.root), copied)


def test_another_shape_is_refused_and_another_size_is_noted(source: Dataset, copied: Path) -> None:
    encode(copied / "v02.mp4", count=world.FRAMES, size=(24, 18))
    assert "48×36 became 24×18" in open_pairs(str(source.root), copied).notes[0]
    encode(copied / "v02.mp4", count=world.FRAMES, size=(36, 48))
    with pytest.raises(BadItems, match="another shape"):
        open_pairs(str(source.root), copied)


def test_a_file_that_is_no_video_is_named(source: Dataset, copied: Path) -> None:
    (copied / "v02.mp4").write_text("no video")
    with pytest.raises(BadItems, match="v02"):
        open_pairs(str(source.root), copied)


def test_a_version_that_is_there_twice_is_refused(source: Dataset, copied: Path) -> None:
    shutil.copy(copied / "v01.mp4", copied / "v01.mkv")
    with pytest.raises(BadItems, match="more than once"):
        open_pairs(str(source.root), copied)


def test_spare_videos_are_noted(source: Dataset, copied: Path) -> None:
    shutil.copy(copied / "v01.mp4", copied / "extra.mp4")
    assert "1 anonymized videos have no raw version" in open_pairs(str(source.root), copied).notes[0]


def test_missing_labels_say_how_to_give_them(source: Dataset, copied: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(source.items[0].path, bare)
    with pytest.raises(UsageError, match=r"--labels FILE\.csv"):
        open_pairs(str(bare), copied)
    (bare / "videos.csv").write_text("path,split\nv00.mp4,train\n")
    subject = open_pairs(str(bare), copied)
    with pytest.raises((AnnotationError, BadItems)):
        audit(subject, tmp_path / "out", world.settings())


def test_folders_that_are_none_or_the_same_are_refused(source: Dataset, copied: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        open_pairs(str(source.root), copied / "nowhere")
    with pytest.raises(UsageError, match="neither a folder"):
        open_pairs(str(copied / "nowhere"), copied)
    with pytest.raises(UsageError, match="the raw folder itself"):
        open_pairs(str(source.root), source.root)


# --- what a file gives away beside its pictures ---


def rewritten(path: Path, *, sound: bool = False, tags: dict[str, str] | None = None) -> None:
    """The same pictures with sound or tags."""
    source = path.with_suffix(".source.mp4")
    path.rename(source)
    with av.open(str(source)) as read, av.open(str(path), "w") as output:
        output.metadata.update(tags or {})
        pictures = output.add_stream_from_template(read.streams.video[0])
        hum = output.add_stream("aac", rate=8000) if sound else None
        for packet in read.demux(read.streams.video[0]):
            if packet.size:
                packet.stream = pictures
                output.mux(packet)
        if hum is not None:
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 2048), np.int16), format="s16", layout="mono")
            silence.rate, silence.pts = 8000, 0
            output.mux([*hum.encode(silence), *hum.encode(None)])
    source.unlink()


def test_files_that_are_alike_give_no_notes(source: Dataset, copied: Path) -> None:
    assert open_pairs(str(source.root), copied).notes == ()


def test_sound_and_tags_are_noted_with_how_many_have_them_and_not_with_what_they_say(
    source: Dataset, copied: Path
) -> None:
    rewritten(copied / "v02.mp4", sound=True)
    rewritten(copied / "v03.mp4", sound=True, tags={"title": "SECRET", "comment": "SECRET"})
    sound, tags = open_pairs(str(source.root), copied).notes
    assert sound.startswith(f"2 of {len(source)} anonymized files have sound")
    assert tags.startswith(f"1 of {len(source)} anonymized files have tags")
    assert "(comment, title)" in tags
    assert "SECRET" not in tags


def test_other_times_of_frames_are_noted(source: Dataset, copied: Path) -> None:
    for name in ("v02.mp4", "v05.mp4"):
        encode(copied / name, count=world.FRAMES, size=(world.WIDTH, world.HEIGHT), rate=30)
    (note,) = open_pairs(str(source.root), copied).notes
    assert note.startswith(f"2 of {len(source)} anonymized videos show their frames at other times")


def test_times_that_another_container_rounds_are_the_same_times(tmp_path: Path) -> None:
    def item(name: str, **options: object) -> Item:
        path = encode(tmp_path / name, count=40, size=(48, 36), **options)  # type: ignore[arg-type]
        return Item(name, path, "test")

    film = item("a.mp4", rate=Fraction(30000, 1001))
    assert compare(film, item("b.mkv", rate=Fraction(30000, 1001))).on_time
    assert not compare(film, item("c.mkv", rate=29)).on_time
    late = [n + (n > 20) for n in range(40)]  # as many frames, of which one stays twice as long
    assert not compare(film, item("d.mp4", rate=30, times=late, time_base=Fraction(1001, 30000))).on_time


def test_sizes_that_depend_on_the_video_are_noted(source: Dataset, copied: Path) -> None:
    for n in range(len(source)):
        encode(copied / f"v{n:02d}.mp4", count=world.FRAMES, size=(24, 18))
    assert len(open_pairs(str(source.root), copied).notes) == 1  # another size, but the same for all
    for n in range(6):
        encode(copied / f"v{n:02d}.mp4", count=world.FRAMES, size=(64 + 8 * n, 48 + 6 * n))
    first, second = open_pairs(str(source.root), copied).notes
    assert first.endswith("and 3 more")
    assert "7 sizes, which depend on the video" in second


# --- copies ---


def test_copies_in_several_splits_are_refused_and_listed(source: Dataset, tmp_path: Path) -> None:
    raw, made = tmp_path / "raw", tmp_path / "made"
    shutil.copytree(source.root, raw)
    shutil.copy(raw / "v00.mp4", raw / "v01.mp4")  # both are for training: no matter
    shutil.copytree(raw, made)
    open_pairs(str(raw), made)
    for one, other in (("v00", "v20"), ("v03", "v21")):
        shutil.copy(raw / f"{one}.mp4", raw / f"{other}.mp4")
    with pytest.raises(BadItems, match="2 raw videos are in several splits") as error:
        open_pairs(str(raw), made)
    assert set(error.value.offenders) == {
        "v00 (train) = v01 (train) = v20 (test)",
        "v03 (train) = v21 (test)",
    }


def test_parts_of_one_file_and_splits_that_nobody_looks_at_are_no_copies(tmp_path: Path) -> None:
    path = encode(tmp_path / "long.mp4", count=8)
    first = Item("a", path, "train", clip=(Fraction(0), Fraction(1, 5)))
    second = Item("b", path, "test", clip=(Fraction(1, 5), Fraction(2, 5)))
    spare = dataclasses.replace(first, id="c", split="unused")
    subject = Subject.of(Dataset("parts", tmp_path, (first, second, spare)), Untouched())
    require_apart(subject)
    again = dataclasses.replace(first, id="d", split="test")
    with pytest.raises(BadItems, match=r"a \(train\) = d \(test\)"):
        require_apart(Subject.of(Dataset("parts", tmp_path, (first, again)), Untouched()))
