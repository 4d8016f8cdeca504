from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.audit import world
from tests.media.make import encode
from videoveil.audit.pairs import open_pairs
from videoveil.audit.run import audit
from videoveil.data.records import Dataset
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
