"""`veil data verify`: what is there, what was published, what is wrong."""

from __future__ import annotations

import io
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.data import test_hmdb51, test_pa_hmdb51, test_ucf101, test_vispr
from tests.data.trees import touch, write
from videoveil.cli import app, main
from videoveil.data import pa_hmdb51, registry, vispr
from videoveil.data.records import FrameSpan, Item
from videoveil.data.verify import Report, broken, verify
from videoveil.errors import UsageError
from videoveil.media.writer import VideoWriter

CRIMES = ["Abuse", "Arrest", "Arson", "Assault", "Burglary", "Explosion", "Fighting"]
CRIMES += ["RoadAccidents", "Robbery", "Shooting", "Shoplifting", "Stealing", "Vandalism"]


def film(path: Path, frames: int = 6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    with VideoWriter(path, width=32, height=32, time_base=Fraction(1, 25)) as writer:
        for number in range(frames):
            writer.write(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8), Fraction(number, 25))


def crimes(root: Path, train: tuple[int, int] = (810, 800), test: tuple[int, int] = (140, 150)) -> Path:
    """UCF-Crime's annotations with any number of (abnormal, normal) videos."""

    def listed(count: tuple[int, int], first: int, folder: str) -> list[str]:
        bad = [CRIMES[n % 13] for n in range(count[0])]
        names = [f"{crime}/{crime}{first + n:04d}_x264.mp4" for n, crime in enumerate(bad)]
        return names + [
            f"{folder}_Normal_Videos_Anomaly/Normal_Videos_{first + n:04d}_x264.mp4" for n in range(count[1])
        ]

    tested = listed(test, 5000, "Testing")
    rows = []
    for number, name in enumerate(tested):
        file = name.split("/")[1]
        edges = "10  20  -1  -1" if number < test[0] else "-1  -1  -1  -1"
        rows.append(f"{file}  {name.split('/')[0] if number < test[0] else 'Normal'}  {edges}")
    return write(
        root,
        {
            "Anomaly_Train.txt": "\n".join(listed(train, 1, "Training")),
            "Anomaly_Test.txt": "\n".join(tested),
            "Temporal_Anomaly_Annotation.txt": "\n".join(rows),
        },
    )


# --- counting ----------------------------------------------------------------------------------------------


def test_a_whole_dataset_is_as_published(tmp_path: Path) -> None:
    report = verify("ucf-crime", crimes(tmp_path), annotations_only=True)
    (count,) = report.counts
    assert count.matches is True
    assert (count.splits, count.classes) == ({"test": 290, "train": 1610}, 13)
    assert (count.anomalous, count.annotated) == ({"test": 140, "train": 810}, 140)
    assert count.per_class["Abuse"] == {"test": 11, "train": 63}
    assert sum(sum(numbers.values()) for numbers in count.per_class.values()) == 950
    assert (report.problems, report.decoded) == ((), False)
    assert "all: test 290, train 1610; 13 classes (as published)" in report.rows()
    assert report.rows()[-1] == "ok"


def test_a_dataset_that_lacks_videos_is_a_problem(tmp_path: Path) -> None:
    report = verify("ucf-crime", crimes(tmp_path, train=(810, 799)), annotations_only=True)
    assert report.counts[0].matches is False
    assert report.problems == (
        "ucf-crime: {'test': 290, 'train': 1609} where {'train': 1610, 'test': 290} was published",
    )


@pytest.mark.parametrize("sizes", [((12, 800), (12, 150)), ((26, 3), (13, 2))])
def test_no_official_number_applies_to_a_part(
    tmp_path: Path, sizes: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    """Fewer classes than the original, or far fewer videos."""
    report = verify("ucf-crime", crimes(tmp_path, *sizes), annotations_only=True)
    assert (report.counts[0].matches, report.counts[0].official, report.problems) == (None, None, ())
    assert any("no official number applies" in row for row in report.rows())


def test_every_official_split_is_counted_unless_one_is_asked_for(tmp_path: Path) -> None:
    write(
        tmp_path,
        test_ucf101.TREE | {"ucfTrainTestlist/trainlist03.txt": "", "ucfTrainTestlist/testlist03.txt": ""},
    )
    report = verify("ucf101", tmp_path, annotations_only=True)
    assert [(c.variant, c.splits) for c in report.counts] == [
        ("split=1", {"test": 2, "train": 3}),
        ("split=2", {"test": 1, "train": 1}),
        ("split=3", {}),
    ]
    assert report.counts[0].per_class["Walk"] == {"test": 1, "train": 1}
    only = verify("ucf101", tmp_path, annotations_only=True, options={"split": "2"})
    assert [c.variant for c in only.counts] == ["split=2"]


def test_one_broken_split_does_not_hide_the_others_and_is_said_once(tmp_path: Path) -> None:
    write(tmp_path, test_ucf101.TREE)  # no lists of split 3
    report = verify("ucf101", tmp_path, annotations_only=True)
    assert [c.variant for c in report.counts] == ["split=1", "split=2"]
    (problem,) = report.problems
    assert problem.startswith("split=3: ")
    assert "trainlist03.txt: missing" in problem
    assert len(verify("ucf101", tmp_path, annotations_only=True, options={"split": 3}).problems) == 1


def test_all_grammar_errors_are_problems(tmp_path: Path) -> None:
    write(tmp_path, test_hmdb51.TREE | {"testTrainMulti_7030_splits/run_test_split2.txt": "a.avi 7\nb\n"})
    report = verify("hmdb51", tmp_path, annotations_only=True, options={"split": 2})
    assert len(report.problems) == 3
    assert report.problems[1].startswith("run_test_split2.txt:1: ")
    assert report.problems[2].startswith("run_test_split2.txt:2: ")


def test_attribute_counts_are_compared_with_the_published_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, test_vispr.lists() | test_vispr.annotations())
    monkeypatch.setattr(
        vispr, "OFFICIAL", {key: {"train": 2, "val": 1, "test": 1} for key in ("", "attributes=vispr1")}
    )
    monkeypatch.setattr(vispr, "OFFICIAL_POSITIVES", {"train": {"a4_gender": 1}, "test": {"a17_color": 2}})
    report = verify("vispr", tmp_path, annotations_only=True)
    assert report.counts[0].matches
    assert (
        verify("vispr", tmp_path, annotations_only=True, options={"attributes": "vispr1"}).counts[0].matches
    )
    assert report.counts[0].positives["a65_rel_social"] == {"test": 1, "val": 1}
    assert report.problems == ("a17_color in test: 1 items, 2 were published",)
    assert "  has a4_gender: train 1" in report.rows()


@pytest.mark.parametrize(("published", "problems"), [(20, 0), (21, 1)])
def test_labelled_frames_are_compared_with_the_published_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: int, problems: int
) -> None:
    monkeypatch.setattr(pa_hmdb51, "CLASSES", 2)
    monkeypatch.setattr(pa_hmdb51, "OFFICIAL", {"": {"test": 2}})
    monkeypatch.setattr(pa_hmdb51, "OFFICIAL_LABELLED_FRAMES", published)
    report = verify("pa-hmdb51", write(tmp_path, test_pa_hmdb51.LABELS), annotations_only=True)
    assert (report.counts[0].labelled_frames, report.counts[0].annotated) == (20, 2)
    assert len(report.problems) == problems
    assert "no HMDB51 split files" in report.notes[0]


@pytest.mark.parametrize("name", registry.names())
def test_an_empty_folder_is_a_problem_of_every_dataset_and_never_a_crash(tmp_path: Path, name: str) -> None:
    for annotations_only in (True, False):
        report = verify(name, tmp_path, annotations_only=annotations_only)
        assert report.problems
        assert str(tmp_path) in report.problems[0]
        assert report.counts == ()


def test_kinetics_has_no_official_number_to_meet(tmp_path: Path) -> None:
    write(tmp_path, {"train.csv": "label,youtube_id,time_start,time_end,split\nabseiling,a,0,10,train\n"})
    report = verify("kinetics400", tmp_path, annotations_only=True)
    assert (report.counts[0].matches, report.problems) == (None, ())
    assert "all: train 1; 1 of 400 classes (no official number applies)" in report.rows()


def test_biased_sets_are_verified_on_the_split_they_are_made_from(tmp_path: Path) -> None:
    names = [f"S001C001P{p:03d}R001A{a:03d}_rgb.avi" for p in (1, 2, 3, 6) for a in (1, 4)]
    genders = {"P001": "male", "P002": "female", "P003": "male", "P006": "female"}
    write(touch(tmp_path, *names), {"gender.json": json.dumps(genders)})
    report = verify("ntu60", tmp_path, annotations_only=True, options={"bias": "F"})
    assert [(c.variant, c.splits) for c in report.counts] == [
        ("protocol=cross-subject,bias=F", {"test": 4, "train": 4})
    ]
    assert [c.variant for c in verify("ntu60", tmp_path, annotations_only=True).counts] == [
        "protocol=cross-subject",
        "protocol=cross-view",
    ]
    with pytest.raises(UsageError, match="cross-subject"):
        verify("ntu60", tmp_path, options={"bias": "F", "protocol": "cross-view"})


# --- decoding ----------------------------------------------------------------------------------------------


def test_every_video_is_decoded_to_its_end(tmp_path: Path) -> None:
    for name in ("good", "cut", "other"):
        film(tmp_path / f"walk/{name}.mp4")
    data = (tmp_path / "walk/cut.mp4").read_bytes()
    (tmp_path / "walk/cut.mp4").write_bytes(data[: len(data) * 2 // 3])
    write(tmp_path, {"walk/empty.mp4": b"", "walk/text.avi": "no video at all"})
    report = verify("folder", tmp_path)
    assert report.decoded
    assert sorted(problem.split(": ")[0] for problem in report.problems) == [
        "walk/cut",
        "walk/empty",
        "walk/text",
    ]
    assert verify("folder", tmp_path, annotations_only=True).problems == ()


def test_missing_videos_are_said_once_for_all_splits(tmp_path: Path) -> None:
    write(tmp_path, test_hmdb51.TREE)
    film(tmp_path / "videos/climb/a_climb.mp4")
    report = verify("hmdb51", tmp_path)
    assert [p for p in report.problems if p.startswith("climb/#20")] == [
        f"climb/{test_hmdb51.ODD[:-4]}: missing (climb/{test_hmdb51.ODD})"
    ]
    assert [c.splits for c in report.counts] == [{"train": 1}, {"test": 1}]


def test_images_are_decoded_whatever_their_colours(tmp_path: Path) -> None:
    write(tmp_path, test_vispr.lists() | test_vispr.annotations())
    for name, mode in zip(test_vispr.pictures(), ("L", "CMYK", "RGB", "RGB")):
        buffer = io.BytesIO()
        Image.new(mode, (8, 8)).save(buffer, "JPEG")
        write(tmp_path, {name: buffer.getvalue()})
    assert verify("vispr", tmp_path).problems == ()
    write(tmp_path, {test_vispr.pictures()[0]: b"no picture"})
    (problem,) = verify("vispr", tmp_path).problems
    assert problem.startswith("train2017/2017_00000001: is none of JPEG")


def test_truth_that_does_not_fit_the_video_is_a_problem(tmp_path: Path) -> None:
    def saved(mask: np.ndarray) -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, mask)
        return buffer.getvalue()

    masks = {
        "01_0001": np.ones(6),
        "01_0002": np.eye(1, 9, 8)[0],
        "01_0003": np.ones(80),
        "01_0004": np.ones(80),
    }
    write(tmp_path, {f"test_frame_mask/{name}.npy": saved(mask) for name, mask in masks.items()})
    write(tmp_path, {"SH_Train.txt": "01_0004\n", "SH_Test.txt": "01_0001\n01_0002\n01_0003\n01_001\n"})
    for name in (*masks, "01_001"):
        film(tmp_path / f"videos/{name}.mp4")
    assert verify("shanghaitech", tmp_path).problems == (
        "01_0002: abnormal, but 0 of its 6 frames are marked abnormal",
        "01_0003: annotated up to frame 80, the video has 6; is it the whole video at its own rate?",
    )


def test_a_sound_item_has_no_reason(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4")
    item = Item("a", tmp_path / "a.mp4", "test", anomaly=True, anomaly_spans=(FrameSpan(1, 3),))
    assert broken(item) is None
    late = Item("a", tmp_path / "a.mp4", "test", anomaly=True, anomaly_spans=(FrameSpan(6, 9),))
    assert broken(late) == "abnormal, but 0 of its 6 frames are marked abnormal"
    assert broken(Item("b", tmp_path / "b.mp4", "test")) is not None


# --- the report --------------------------------------------------------------------------------------------


def test_a_long_report_is_cut_for_people_but_not_in_json() -> None:
    report = Report(
        "mine", "root", True, (), tuple(f"p{n}" for n in range(50)), tuple(f"n{n}" for n in range(21))
    )
    rows = report.rows()
    assert rows.count("PROBLEM: … and 30 more") == rows.count("note: … and 1 more") == 1
    assert rows[-1] == "50 problems"
    assert len(report.to_json()["problems"]) == 50


def test_the_json_form_has_everything(tmp_path: Path) -> None:
    report = verify("ucf-crime", crimes(tmp_path), annotations_only=True)
    value = json.loads(json.dumps(report.to_json()))
    assert set(value) == {"name", "root", "decoded", "counts", "problems", "notes"}
    (count,) = value["counts"]
    assert count["matches"] is True
    assert count["splits"] == {"test": 290, "train": 1610}
    assert count["official"] == {"train": 1610, "test": 290}
    assert value["notes"] == ["290 rows of temporal annotation, 140 of them with events"]


# --- the command -------------------------------------------------------------------------------------------


def veil(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["data", "verify", *arguments])
    return result.exit_code, result.stdout


def test_the_command_ends_with_0_and_ok_when_all_is_well(tmp_path: Path) -> None:
    code, text = veil("ucf-crime", str(crimes(tmp_path)), "--annotations-only")
    assert code == 0
    assert text.splitlines()[0] == f"ucf-crime in {tmp_path} (annotations only)"
    assert text.splitlines()[-1] == "ok"


def test_the_command_ends_with_1_when_there_are_problems(tmp_path: Path) -> None:
    code, text = veil("hmdb51", str(write(tmp_path, test_hmdb51.TREE)), "-o", "split=1")
    assert code == 1
    assert "PROBLEM: climb/a_climb: missing (climb/a_climb.avi)" in text
    assert text.splitlines()[-1] == "5 problems"


def test_the_command_prints_json_and_the_same_exit_code(tmp_path: Path) -> None:
    root = str(write(tmp_path, test_hmdb51.TREE))
    code, text = veil("hmdb51", root, "-o", "split=1", "--json")
    value = json.loads(text)
    assert (code, len(value["problems"])) == (1, 5)
    code, text = veil("hmdb51", root, "-o", "split=1", "--json", "--annotations-only")
    value = json.loads(text)
    assert (code, value["problems"], value["counts"][0]["variant"]) == (0, [], "split=1")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["imagenet", "."], "no dataset 'imagenet'"),
        (["hmdb51", "./nowhere"], "no such folder"),
        (["hmdb51", ".", "-o", "split=9"], "choose one of 1, 2, 3"),
        (["hmdb51", ".", "-o", "split"], "KEY=VALUE"),
        (["hmdb51", ".", "-o", "spilt=1"], "no option spilt"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["veil", "data", "verify", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("veil: UsageError: ")
    assert reason in printed.err
    assert "Traceback" not in printed.err
