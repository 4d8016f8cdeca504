"""Whatever goes wrong with one file of a folder: no raw frame anywhere, the others are done, the exit code tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.faults import FAULTS, Scene, fault_of, plain
from videoveil import files

# these befall the process or the folder, so that there is nothing to be done for the other file
WHOLE = ("NaN", "wrong weights", "full disk", "read-only output", "SIGKILL", "SIGTERM", "SIGINT")


def run(scene: Scene) -> int:
    (scene.folder / "raw" / "sub").mkdir()
    plain(scene.folder / "raw" / "sub" / "other.mp4")
    (scene.folder / "raw" / "notes.txt").write_bytes(b"not a film")
    return scene.veil(*of_folder(scene, *scene.fault.options))


def of_folder(scene: Scene, *more: str, model: str | None = None) -> tuple[str, ...]:
    """The command for the whole folder; which engine is fastest is not asked, a file's tests do."""
    return scene.command(scene.out, "--engine", "torch", *more, source=scene.source.parent, model=model)


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_lets_a_raw_frame_out_of_a_folder(name: str, tmp_path: Path) -> None:
    fault = fault_of(name)
    with fault.at(tmp_path) as scene:
        scene.harmless(run(scene), (fault.folder_code,))
        made = {path.relative_to(scene.out).as_posix() for path in scene.results()}
        if fault.released:
            assert made == {"film.mp4", "sub/other.mp4"}
        elif name in WHOLE or name.startswith("changed"):
            assert made == set()
        elif name == "truncated input":
            assert made == {"sub/other.mp4"}
        else:
            assert "film.mp4" not in made


def test_a_killed_run_over_a_folder_goes_on_where_it_was(tmp_path: Path) -> None:
    with fault_of("SIGKILL").at(tmp_path) as scene:
        assert run(scene) == -9
        assert scene.start(*of_folder(scene, model="blur")).wait(120) == 0
        assert {path.name for path in scene.results()} == {"film.mp4", "other.mp4"}
        assert not list(scene.out.rglob(f"{files.TEMPORARY}*"))
        assert scene.leaks() == {}


def test_two_processes_on_one_folder_give_one_result(tmp_path: Path) -> None:
    with fault_of("rotation").at(tmp_path) as scene:
        for number in range(4):
            plain(scene.folder / "raw" / f"{number}.mp4")
        arguments = of_folder(scene, "--json")
        one = scene.start(*arguments)
        scene.log = scene.folder / "logs" / "other.txt"
        other = scene.start(*arguments)
        assert one.wait(120) == other.wait(120) == 0
        reports = [(scene.folder / "logs" / name).read_text() for name in ("veil.txt", "other.txt")]
        assert sum(report.count('"state": "done"') for report in reports) == 5
        assert sum(report.count('"state": "present"') for report in reports) == 5
        assert len(scene.results()) == 5
        assert scene.leaks() == {}
