"""Run folders: whoever comes back finds the same run, or an error that names what is different."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import videoveil
from videoveil.errors import UsageError
from videoveil.recipes.runs import RUN, YAML, claim, claimed, note

MINE = {"format": "x-1", "recipe": {"name": "spact", "members": ("a", "b")}, "seed": 3}


def test_a_new_folder_is_taken_with_all_that_describes_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "run"
    claim(folder, MINE, "name: spact\n")
    written = json.loads((folder / RUN).read_text())
    assert written.pop("software") == f"videoveil {videoveil.__version__}"
    assert written == json.loads(json.dumps(MINE))
    assert (folder / YAML).read_text() == "name: spact\n"


def test_the_same_run_is_found_again_and_nothing_is_written(tmp_path: Path) -> None:
    claim(tmp_path, MINE, "name: spact\n")
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    claim(tmp_path, {**MINE, "recipe": {"name": "spact", "members": ["a", "b"]}}, "other words\n")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 4}, "other seed;"),
        ({"recipe": {"name": "spact"}, "seed": 4}, "other recipe, seed;"),
        ({"sources": {}}, "other sources;"),
    ],
)
def test_another_run_is_refused_by_what_differs(changes: dict, named: str, tmp_path: Path) -> None:
    claim(tmp_path, MINE, "")
    with pytest.raises(UsageError, match=f"holds a run with {named} use another folder"):
        claim(tmp_path, {**MINE, **changes}, "")
    assert json.loads((tmp_path / RUN).read_text())["seed"] == 3


def test_what_is_free_may_differ_and_nothing_else(tmp_path: Path) -> None:
    recipe = {"name": "spact", "settings": {"workers": 2, "rate": 1}}
    claim(tmp_path, {"recipe": recipe, "workers": 1}, "")
    free = ("recipe.settings.workers", "recipe.settings.new")
    other = {"name": "spact", "settings": {"workers": 8, "rate": 1, "new": True}}
    claim(tmp_path, {"recipe": other, "workers": 1}, "", free)
    assert json.loads((tmp_path / RUN).read_text())["recipe"] == recipe  # as the run was begun
    for wrong in (
        {"recipe": {**other, "settings": {"workers": 2, "rate": 2}}, "workers": 1},
        {"recipe": other, "workers": 2},  # the same name in another place is not free
    ):
        with pytest.raises(UsageError, match="holds a run with other"):
            claim(tmp_path, wrong, "", free)


def test_what_an_earlier_version_wrote_is_read_as_this_one_means_it(tmp_path: Path) -> None:
    claim(tmp_path, MINE, "")
    now = {**MINE, "new": ""}
    with pytest.raises(UsageError, match="other new;"):
        claim(tmp_path, now, "")
    claim(tmp_path, now, "", read=lambda there: {"new": "", **there})
    assert "new" not in json.loads((tmp_path / RUN).read_text())  # as the run was begun


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.mp4").touch()
    with pytest.raises(UsageError, match="exists and is not a run; choose an empty or new folder"):
        claim(tmp_path, MINE, "")
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.mp4"]


def test_hidden_files_do_not_make_a_folder_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    claim(tmp_path, MINE, "")
    assert (tmp_path / RUN).is_file()


def test_a_damaged_description_is_an_error_and_not_a_new_run(tmp_path: Path) -> None:
    claim(tmp_path, MINE, "")
    (tmp_path / RUN).write_text('{"format": ')
    with pytest.raises(UsageError, match=r"run\.json: damaged .* use another folder"):
        claim(tmp_path, MINE, "")


def test_of_several_that_come_at_once_with_different_runs_one_gets_the_folder(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def come(seed: int) -> str:
        together.wait()
        try:
            claim(tmp_path / "run", {"seed": seed}, f"seed: {seed}\n")
        except UsageError as error:
            return str(error)
        return "mine"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(come, range(8)))
    assert said.count("mine") == 1
    assert all(text == "mine" or "holds a run with other seed" in text for text in said)
    assert json.loads((tmp_path / "run" / RUN).read_text())["seed"] == said.index("mine")
    assert (tmp_path / "run" / YAML).read_text() == f"seed: {said.index('mine')}\n"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [YAML, RUN]


def test_a_run_that_is_refused_before_it_began_leaves_no_folder_behind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(UsageError, match="too wide"), claimed(folder, MINE, "name: spact\n"):
        raise UsageError("too wide")
    assert not folder.exists()
    with claimed(
        folder, {**MINE, "seed": 5}, "name: spact\n"
    ):  # so it can be begun again with other settings
        (folder / "work").write_text("half")
    with pytest.raises(UsageError, match="later"), claimed(folder, {**MINE, "seed": 5}, ""):
        raise UsageError("later")
    assert (folder / "work").is_file()
    assert (folder / RUN).is_file()


def test_a_note_is_kept_and_makes_no_other_run_of_it(tmp_path: Path) -> None:
    claim(tmp_path, MINE, "")
    note(tmp_path, identity_error=0.25)
    claim(tmp_path, MINE, "")
    assert json.loads((tmp_path / RUN).read_text())["identity_error"] == 0.25
    stamp = (tmp_path / RUN).stat().st_mtime_ns
    note(tmp_path, identity_error=0.25)
    assert (tmp_path / RUN).stat().st_mtime_ns == stamp
