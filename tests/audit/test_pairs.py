from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from torch import Tensor

from tests.audit import world
from tests.media.make import encode
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.audit import pairs
from videoveil.audit.pairs import (
    check,
    compare,
    exchangeable,
    open_pairs,
    require_apart,
    require_no_raw,
    told,
)
from videoveil.audit.published import publish
from videoveil.audit.run import audit
from videoveil.audit.subject import Subject, Untouched, open_anonymizer
from videoveil.data.records import Dataset, Item
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import MP4, shoot
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
    begun = dataclasses.replace(again, clip=(Fraction(1, 10), Fraction(3, 10)))  # reaches into both
    with pytest.raises(BadItems, match=r"a \(train\) = d \(test\) = b \(test\)"):
        require_apart(Subject.of(Dataset("parts", tmp_path, (first, second, begun)), Untouched()))
    whole = dataclasses.replace(again, clip=None)
    with pytest.raises(BadItems, match="parts of one file that overlap"):
        require_apart(Subject.of(Dataset("parts", tmp_path, (first, whole)), Untouched()))


# --- names that were mixed up ---


def test_raw_files_under_the_names_of_others_are_refused_and_listed(source: Dataset, copied: Path) -> None:
    for one, other in (("v00", "v08"), ("v05", "v13")):
        first, second = copied / f"{one}.mp4", copied / f"{other}.mp4"
        first.rename(copied / "spare")
        second.rename(first)
        (copied / "spare").rename(second)
    with pytest.raises(BadItems, match=r"4 of 28 .* byte for byte; name every") as error:
        open_pairs(str(source.root), copied)
    assert "v05: is the raw video of v13" in error.value.offenders
    assert len(error.value.offenders) == 4


def test_raw_files_that_are_there_twice_may_stand_for_each_other(tmp_path: Path) -> None:
    paths = [encode(tmp_path / f"{name}.mp4", count=4) for name in "abc"]  # all alike
    made = Dataset("same", tmp_path, tuple(Item(path.stem, path, "test") for path in paths))
    require_no_raw(made, dataclasses.replace(made, items=made.items[::-1]))


class Inverted(Classical):
    """Colours of a negative, each in the place of another."""

    kind = "inverted"

    def transform_frames(self, frames: Tensor) -> Tensor:
        return 255 - frames.flip(-3)

    def settings(self) -> Mapping[str, Any]:
        return {}


class Coded(Inverted):
    """The same pictures in another file."""

    kind = "coded again"

    def transform_frames(self, frames: Tensor) -> Tensor:
        return frames.clone()


class Noise(Inverted):
    """Other noise in every frame."""

    kind = "noise"

    def transform_frames(self, frames: Tensor) -> Tensor:
        own = torch.Generator().manual_seed(int(frames.long().sum()))
        return torch.randint(0, 256, frames.shape, generator=own).to(frames.dtype)


ACTORS = 14
TELLING = ("coded", "blur", "weak-blur", "downsample:8", "veil-pixel", "inverted")
SILENT = ("black", "noise")


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    root = tmp_path_factory.mktemp("theatre")
    items = []
    for n in range(ACTORS):
        play = trimmed(
            "pairs", n, action=("walk", "wave", "squat")[n % 3], person=identity(0, n % 5), frames=20
        )
        path = root / f"a{n:02d}.mp4"
        shoot(play, path, MP4)
        items.append(Item(path.stem, path, "test"))
    return Dataset("theatre", root, tuple(items))


@pytest.fixture(scope="module")
def veiled(theatre: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """What anonymizers make of the films, by their names."""
    own = {"coded": Coded, "inverted": Inverted, "noise": Noise}
    return {
        name: publish(
            theatre,
            own[name]() if name in own else open_anonymizer(name),
            tmp_path_factory.mktemp("veiled"),
            device="cpu",
        )
        for name in (*TELLING, *SILENT)
    }


def mixed(made: Dataset, places: slice = slice(None)) -> Dataset:
    """With the files of the next one in the place of its own."""
    paths = [item.path for item in made.items]
    paths[places] = [*paths[places][1:], paths[places][0]]
    items = tuple(dataclasses.replace(item, path=path) for item, path in zip(made.items, paths))
    return dataclasses.replace(made, items=items)


@pytest.mark.parametrize("name", [*TELLING, *SILENT])
def test_what_any_anonymizer_makes_of_a_video_is_taken_for_its_own(
    name: str, theatre: Dataset, veiled: dict[str, Dataset]
) -> None:
    assert check(theatre, veiled[name]) == ()


@pytest.mark.parametrize("name", TELLING)
def test_names_that_were_mixed_up_are_refused_with_what_the_videos_look_like(
    name: str, theatre: Dataset, veiled: dict[str, Dataset]
) -> None:
    with pytest.raises(BadItems, match=r"show what another raw video shows .* name every") as error:
        check(theatre, mixed(veiled[name]))
    assert len(error.value.offenders) > ACTORS // 2
    for line in error.value.offenders:
        one, _, rest = line.partition(": looks like ")
        assert int(rest[1:3]) == (int(one[1:]) + 1) % ACTORS


@pytest.mark.parametrize("name", SILENT)
def test_where_nothing_is_left_to_go_by_nothing_is_said_of_names(
    name: str, theatre: Dataset, veiled: dict[str, Dataset]
) -> None:
    assert check(theatre, mixed(veiled[name])) == ()


def test_a_part_of_the_names_is_enough_and_a_single_exchange_is_not(
    theatre: Dataset, veiled: dict[str, Dataset]
) -> None:
    with pytest.raises(BadItems, match=f"5 of {ACTORS} anonymized videos"):
        check(theatre, mixed(veiled["weak-blur"], slice(2, 7)))
    assert check(theatre, mixed(veiled["weak-blur"], slice(2, 4))) == ()


def test_videos_of_other_films_are_not_taken_for_names_that_were_mixed_up(
    theatre: Dataset, tmp_path: Path
) -> None:
    """Some film is always the nearest; that alone is no likeness."""
    items = []
    for n in range(ACTORS):
        play = trimmed("others", n, action="walk", person=identity(1, n), frames=20)
        shoot(play, tmp_path / f"o{n:02d}.mp4", MP4)
        items.append(Item(f"a{n:02d}", tmp_path / f"o{n:02d}.mp4", "test"))
    assert check(theatre, dataclasses.replace(theatre, root=tmp_path, items=tuple(items))) == ()


def test_only_videos_of_one_length_can_be_mistaken_and_of_many_runs_are_compared() -> None:
    paths = [Path(f"{n}.mp4") for n in range(6)]
    assert exchangeable(paths, [8, 9, 8, 7, 9, 5]) == [0, 2, 1, 4]
    assert exchangeable([paths[0], *paths[:2]], [8, 8, 8]) == [0, 2]  # two parts of one file are one video
    many = [Path(f"{n}.mp4") for n in range(1000)]
    chosen = exchangeable(many, [8] * 1000)
    assert len(chosen) == pairs.COMPARED
    assert chosen == sorted(set(chosen))
    assert (chosen[0], chosen[-1]) == (0, 999)
    assert sum(b - a == 1 for a, b in pairwise(chosen)) == pairs.COMPARED - pairs.COMPARED // pairs.RUN


def test_two_are_told_by_being_nearest_to_each_other_with_all_others_well_behind() -> None:
    alike = np.array([[0.9, 0.2, 0.1], [0.2, 0.3, 0.8], [0.1, 0.75, 0.78]])
    assert told(alike) == {0: 0}  # the second is near to the third, and so is the third itself
    alike[2, 2] = 0.68
    assert told(alike) == {0: 0, 1: 2}  # the third is nearest to the second, but not by enough
    assert told(0.3 * np.eye(3)) == {}
