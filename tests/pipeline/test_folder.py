from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.pipeline import films
from tests.pipeline.faults import Faulty
from videoveil import files
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.errors import UsageError
from videoveil.media.reader import open_video
from videoveil.pipeline.errors import Stopped
from videoveil.pipeline.folder import OWN, anonymize_folder
from videoveil.pipeline.options import Options
from videoveil.pipeline.records import Records
from videoveil.pipeline.report import FolderProgress


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three films in two containers, two pictures, and something else."""
    root = tmp_path / "raw"
    (root / "a" / "b").mkdir(parents=True)
    films.coded(root / "one.mp4", films.scenes(6))
    films.coded(root / "a" / "two.mkv", films.scenes(6), container="matroska")
    films.coded(root / "a" / "b" / "three.mp4", films.scenes(6))
    exif = Image.Exif()
    exif[0x010E] = "SECRET description"
    Image.fromarray(films.scene(0)).save(root / "a" / "face.jpg", exif=exif)
    Image.fromarray(films.scene(1)).save(root / "a" / "face.png")
    (root / "notes.txt").write_text("who is who")
    return root


MADE = {"one.mp4", "a/two.mp4", "a/b/three.mp4", "a/face.jpg", "a/face.png"}


def made_in(folder: Path) -> dict[str, str]:
    """Names and hashes of the results."""
    found = (path for path in folder.rglob("*") if path.is_file() and OWN not in path.parts)
    return {path.relative_to(folder).as_posix(): files.file_hash(path) for path in found}


def states(report: object) -> dict[str, str]:
    return {result.source: result.state for result in report.files}  # type: ignore[attr-defined]


def test_the_same_tree_comes_out_and_other_files_are_listed(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = anonymize_folder(tree, out, open_anonymizer("blur"))
    assert set(made_in(out)) == MADE
    assert states(report)["notes.txt"] == "other"
    assert report.exit_code == 0
    assert report.frames == 3 * 6 + 2
    assert json.loads(json.dumps(report.to_json()))["counts"] == {
        "done": 5,
        "present": 0,
        "failed": 0,
        "other": 1,
    }
    with open_video(out / "a" / "two.mp4") as video:
        assert video.info.frames == 6


def test_pictures_come_out_anonymized_without_tags(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    anonymize_folder(tree, out, open_anonymizer("downsample:8"))
    for name in ("face.jpg", "face.png"):
        with Image.open(out / "a" / name) as made:
            assert made.size == films.SIZE
            assert not made.getexif()
            apart = np.asarray(made).astype(int) - films.scene(0 if name == "face.jpg" else 1)
        assert np.abs(apart).mean() > 1
        assert b"SECRET" not in (out / "a" / name).read_bytes()


def test_a_second_run_does_nothing_and_the_third_what_is_new(tree: Path, tmp_path: Path) -> None:
    out, blur = tmp_path / "out", open_anonymizer("blur")
    anonymize_folder(tree, out, blur)
    before = made_in(out)
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*.mp4")}
    again = anonymize_folder(tree, out, blur)
    assert set(states(again).values()) == {"present", "other"}
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.mp4")} == stamps
    films.coded(tree / "new.mp4", films.scenes(4))
    third = anonymize_folder(tree, out, blur)
    assert [name for name, state in states(third).items() if state == "done"] == ["new.mp4"]
    assert {name: value for name, value in made_in(out).items() if name != "new.mp4"} == before


@pytest.mark.parametrize("change", ["anonymizer", "options", "input", "result", "record"])
def test_what_does_not_fit_its_record_is_done_again(change: str, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    anonymize_folder(tree, out, open_anonymizer("blur"))
    name, options = "blur", Options()
    if change == "anonymizer":
        name = "black"
    elif change == "options":
        options = Options(crf=30)
    elif change == "input":
        films.coded(tree / "one.mp4", films.scenes(9))
    elif change == "result":
        (out / "one.mp4").write_bytes(b"somebody else's")
    else:
        (out / "one.mp4").unlink()
    again = states(anonymize_folder(tree, out, open_anonymizer(name), options))
    assert again["one.mp4"] == "done"
    assert (again["a/two.mkv"] == "done") == (change in ("anonymizer", "options"))


def test_a_model_that_says_another_size_of_training_makes_its_files_again(tree: Path, tmp_path: Path) -> None:
    """Its hash does not tell that size, and yet the results depend on it."""
    out, options = tmp_path / "out", Options(engine="torch")
    made = {}
    for trained, inner, state in (
        (24, None, "done"),
        (24, None, "present"),
        (32, None, "done"),
        (32, 0, "done"),
    ):
        network = pixel(UNet(width=4), size=trained)
        with torch.no_grad():
            network.get_parameter("stages.0.outc.conv.weight").mul_(
                20
            )  # an untrained one gives nearly the same grey everywhere
        report = anonymize_folder(tree, out, network, replace(options, inner=inner))
        assert set(states(report).values()) == {state, "other"}
        made[trained, inner] = (out / "one.mp4").read_bytes()
    assert len(set(made.values())) == 3


def test_an_input_that_was_only_touched_is_not_done_again(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    anonymize_folder(tree, out, open_anonymizer("blur"))
    os.utime(tree / "one.mp4", ns=(1, 1))
    assert states(anonymize_folder(tree, out, open_anonymizer("blur")))["one.mp4"] == "present"


def test_a_bad_file_stops_nobody_and_nothing_of_it_comes_out(tree: Path, tmp_path: Path) -> None:
    data = (tree / "one.mp4").read_bytes()
    (tree / "one.mp4").write_bytes(data[: len(data) // 2])
    (tree / "a" / "face.png").write_bytes(b"\x89PNG nothing")
    (tree / "empty.avi").touch()
    report = anonymize_folder(tree, tmp_path / "out", open_anonymizer("blur"))
    assert {result.source for result in report.failed} == {"one.mp4", "a/face.png", "empty.avi"}
    assert all(result.reason for result in report.failed)
    assert report.exit_code == 3
    assert set(made_in(tmp_path / "out")) == MADE - {"one.mp4", "a/face.png"}
    assert "3 failed" in str(report)


def test_a_result_of_unknown_origin_is_not_written_over(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one.mp4").write_bytes(b"precious")
    report = anonymize_folder(tree, tmp_path / "out", open_anonymizer("blur"))
    assert [result.source for result in report.failed] == ["one.mp4"]
    assert (tmp_path / "out" / "one.mp4").read_bytes() == b"precious"


def test_when_doing_it_again_fails_the_earlier_result_is_gone(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    anonymize_folder(tree, out, open_anonymizer("weak-blur"))
    report = anonymize_folder(tree, out, Faulty("wrong shape"), Options(batch=100))
    done = {result.source for result in report.of("done")}
    left = made_in(out)
    for result in report.failed:  # nothing that the weaker one made is taken for the work of the other
        assert result.source.replace(".mkv", ".mp4") not in left
    assert done


def test_weights_that_change_fail_all_that_follows(tree: Path, tmp_path: Path) -> None:
    report = anonymize_folder(tree, tmp_path / "out", Faulty("changed weights"))
    assert report.exit_code == 3
    assert sum("hash" in result.reason for result in report.failed) >= 2


def test_two_inputs_never_get_one_name(tmp_path: Path) -> None:
    root = tmp_path / "raw"
    root.mkdir()
    films.coded(root / "x.mp4", films.scenes(3))
    films.coded(root / "x.mkv", films.scenes(4), container="matroska")
    anonymize_folder(root, tmp_path / "out", open_anonymizer("black"))
    assert set(made_in(tmp_path / "out")) == {"x.mp4", "x.mkv.mp4"}


def test_a_glob_takes_what_it_matches(tree: Path, tmp_path: Path) -> None:
    report = anonymize_folder(str(tree / "**" / "*.mp4"), tmp_path / "out", open_anonymizer("black"))
    assert set(made_in(tmp_path / "out")) == {"one.mp4", "a/b/three.mp4"}
    assert len(report.files) == 2


def test_results_inside_the_input_are_not_inputs(tree: Path) -> None:
    anonymize_folder(tree, tree / "veiled", open_anonymizer("black"))
    again = anonymize_folder(tree, tree / "veiled", open_anonymizer("black"))
    assert len(again.of("present")) == 5
    assert len(again.files) == 6


def test_a_hidden_folder_above_the_input_hides_nothing(tree: Path, tmp_path: Path) -> None:
    (tmp_path / OWN).mkdir()
    tree.rename(tmp_path / OWN / "raw")
    report = anonymize_folder(tmp_path / OWN / "raw", tmp_path / "out", open_anonymizer("black"))
    assert len(report.of("done")) == 5


@pytest.mark.parametrize("source", ["absent", "raw/*.none"])
def test_nothing_to_do_is_told(source: str, tree: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        anonymize_folder(str(tmp_path / source), tmp_path / "out", open_anonymizer("blur"))


def test_the_input_folder_itself_is_refused(tree: Path) -> None:
    with pytest.raises(UsageError, match="itself"):
        anonymize_folder(tree, tree, open_anonymizer("blur"))
    with pytest.raises(UsageError, match="identity"):
        anonymize_folder(tree, tree / "out", open_anonymizer("identity"))


def test_a_stop_leaves_what_is_done_and_nothing_else(tree: Path, tmp_path: Path) -> None:
    stop, out = threading.Event(), tmp_path / "out"

    def tell(progress: FolderProgress) -> None:
        if progress.files == 2:
            stop.set()

    with pytest.raises(Stopped, match="2 of 5"):
        anonymize_folder(tree, out, open_anonymizer("blur"), progress=tell, stop=stop)
    assert len(made_in(out)) == 2
    assert len(anonymize_folder(tree, out, open_anonymizer("blur")).of("present")) == 2


def test_a_file_that_another_process_has_claimed_is_left_to_it(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = [], []

    def work(found: list[object]) -> None:
        found.append(anonymize_folder(tree, out, open_anonymizer("blur")))

    threads = [threading.Thread(target=work, args=(found,)) for found in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one, other = states(first[0]), states(second[0])
    for name in one:
        assert sorted((one[name], other[name])) in (["done", "present"], ["other", "other"])
    assert set(made_in(out)) == MADE


KILLED = """
import os, signal, sys
from videoveil import files
from videoveil.anonymizers.named import open_anonymizer
from videoveil.pipeline.folder import anonymize_folder

files.file_hash = lambda path: os.kill(os.getpid(), signal.SIGKILL)  # what comes after the result, before its record
anonymize_folder(sys.argv[1], sys.argv[2], open_anonymizer("blur"))
"""


def test_a_run_killed_between_a_result_and_its_record_goes_on(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    films.coded(tmp_path / "raw" / "one.mp4", films.scenes(6))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "raw"), str(tmp_path / "out")]
    assert subprocess.run(command, timeout=300).returncode == -signal.SIGKILL
    assert (tmp_path / "out" / "one.mp4").is_file()
    for state in ("done", "present"):
        report = anonymize_folder(tmp_path / "raw", tmp_path / "out", open_anonymizer("blur"))
        assert [result.state for result in report.files] == [state]
    assert not list((tmp_path / "out" / OWN / "made").iterdir())


def test_a_file_that_somebody_put_there_after_a_killed_run_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    films.coded(tmp_path / "raw" / "one.mp4", films.scenes(6))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "raw"), str(tmp_path / "out")]
    assert subprocess.run(command, timeout=300).returncode == -signal.SIGKILL
    (tmp_path / "out" / "one.mp4").write_bytes(b"somebody's")
    report = anonymize_folder(tmp_path / "raw", tmp_path / "out", open_anonymizer("blur"))
    assert [result.state for result in report.files] == ["failed"]
    assert "no record says what made it" in report.files[0].reason
    assert (tmp_path / "out" / "one.mp4").read_bytes() == b"somebody's"


def test_a_disk_that_is_full_after_the_result_does_not_keep_it_from_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    films.coded(tmp_path / "raw" / "one.mp4", films.scenes(6))
    put = Records.put

    def full(self: Records, kind: str, name: str, value: dict[str, Any]) -> None:
        if kind == refused:
            raise OSError(28, "No space left on device")
        put(self, kind, name, value)

    for refused in ("made", "done"):
        out = tmp_path / refused
        with monkeypatch.context() as patch:
            patch.setattr(Records, "put", full)
            report = anonymize_folder(tmp_path / "raw", out, open_anonymizer("blur"))
        assert [(result.state, "No space" in result.reason) for result in report.files] == [("failed", True)]
        report = anonymize_folder(tmp_path / "raw", out, open_anonymizer("blur"))
        assert [result.state for result in report.files] == ["done"]
