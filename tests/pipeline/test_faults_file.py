"""Whatever goes wrong with a file: no raw frame anywhere, the right exit code, a result only if all is well."""

from __future__ import annotations

import signal
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.pipeline.faults import FAULTS, FRAMES, SECRET, SIZE, Scene, fault_of, marked, plain
from videoveil import files
from videoveil.media.reader import open_video
from videoveil.pipeline.canaries import find
from videoveil.pipeline.checks import NOT_CHANGED


def times_of(path: Path) -> list[Fraction]:
    with open_video(path) as video:
        return [frame.time for frame in video.frames()]


def run(scene: Scene) -> int:
    return scene.veil(*scene.command(scene.out / "veiled.mp4", *scene.fault.options))


def test_the_canaries_would_be_found_in_a_raw_copy(tmp_path: Path) -> None:
    source = plain(tmp_path / "raw.mp4")
    assert find(source, SECRET) == list(range(FRAMES))
    (tmp_path / "log.txt").write_bytes(b"array: " + marked(7, 1)[0].tobytes())
    assert find(tmp_path / "log.txt", SECRET) == [7]


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_lets_a_raw_frame_out_of_a_file(name: str, tmp_path: Path) -> None:
    fault = fault_of(name)
    with fault.at(tmp_path) as scene:
        code = run(scene)
        said = scene.harmless(code, (fault.code,))
        assert [path.name for path in scene.results()] == (["veiled.mp4"] if fault.released else [])
        assert "veil: " in said or code in (0, -signal.SIGKILL)
        if fault.released:
            assert times_of(scene.out / "veiled.mp4") == times_of(scene.source)


def test_what_a_killed_run_leaves_is_swept_up_by_the_next(tmp_path: Path) -> None:
    with fault_of("SIGKILL").at(tmp_path) as scene:
        run(scene)
        assert len(list(scene.out.glob(f"{files.TEMPORARY}*.mp4"))) == 1
        assert scene.start(*scene.command(scene.out / "veiled.mp4", model="blur")).wait(120) == 0
        assert [path.name for path in scene.out.iterdir()] == ["veiled.mp4"]


def test_a_crash_leaves_no_copy_of_the_memory(tmp_path: Path) -> None:
    with fault_of("SIGKILL").at(tmp_path) as scene:
        process = scene.start(*scene.command(scene.out / "veiled.mp4"))
        scene.wait_for_work(process)
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert next(line for line in limits.splitlines() if "core file" in line).split()[4] == "0"
        process.send_signal(signal.SIGSEGV)
        assert process.wait(60) == -signal.SIGSEGV
        assert scene.leaks() == {}
        assert scene.results() == []


def test_a_partial_result_says_so_and_its_failed_frames_are_black(tmp_path: Path) -> None:
    with fault_of("raw frame").at(tmp_path) as scene:
        report = scene.out / "report.json"
        more = ("--keep-partial", "--report", str(report))
        assert scene.veil(*scene.command(scene.out / "veiled.mp4", *more)) == 3
        assert [path.name for path in scene.results()] == ["veiled.partial.mp4"]
        assert scene.leaks() == {}
        assert NOT_CHANGED in report.read_text()
        with open_video(scene.out / "veiled.partial.mp4") as video:
            levels = [float(frame.image.mean()) for frame in video.frames()]
        assert len(levels) == FRAMES
        assert min(levels[:12]) > 20
        assert min(levels) < 3


def test_a_truncated_input_leaves_its_sound_frames_as_a_partial_result(tmp_path: Path) -> None:
    with fault_of("truncated input").at(tmp_path) as scene:
        code = scene.veil(*scene.command(scene.out / "veiled.mp4", "--keep-partial"))
        scene.harmless(code, (2, 3))
        assert {path.name for path in scene.results()} <= {"veiled.partial.mp4"}


def test_changed_weights_leave_not_even_a_partial_result(tmp_path: Path) -> None:
    with fault_of("changed weights").at(tmp_path) as scene:
        assert scene.veil(*scene.command(scene.out / "veiled.mp4", "--keep-partial")) == 3
        assert scene.results() == []


def test_sound_is_chosen_by_type_and_only_when_asked_for(tmp_path: Path) -> None:
    with fault_of("audio-first container").at(tmp_path) as scene:
        for options, wanted in (((), ["video"]), (("--audio",), ["video", "audio"])):
            target = scene.out / f"{len(options)}.mp4"
            assert scene.veil(*scene.command(target, *options, model="downsample:8")) == 0
            with av.open(str(target)) as made:
                assert [stream.type for stream in made.streams] == wanted
                assert not made.metadata.get("comment")


def test_of_two_picture_streams_one_comes_out(tmp_path: Path) -> None:
    with fault_of("two video streams").at(tmp_path) as scene:
        assert run(scene) == 0
        with av.open(str(scene.out / "veiled.mp4")) as made:
            assert len(made.streams) == 1


def test_a_turned_picture_comes_out_upright(tmp_path: Path) -> None:
    with fault_of("rotation").at(tmp_path) as scene:
        assert run(scene) == 0
        with open_video(scene.source) as raw, open_video(scene.out / "veiled.mp4") as made:
            assert (made.info.width, made.info.height) == SIZE[::-1] == (raw.info.width, raw.info.height)
            assert made.info.rotation == 0
            apart = raw.read([0])[0].astype(int) - made.read([0])[0]
        assert np.abs(apart).mean() < 40  # the same scene, only blurred
