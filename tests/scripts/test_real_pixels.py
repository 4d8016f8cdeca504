from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks import intervals, pixel_rows, processes, real_pixels
from benchmarks.real_pixels import RAW, Job
from PIL import Image

from videoveil.data import twins
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome

SHIPPED = "=runs/veil-unet"


def test_a_model_is_a_row_by_its_folder_and_keeps_its_parts_in_one_folder(tmp_path: Path) -> None:
    job = Job(tmp_path, tmp_path, SHIPPED, 0, "cpu", 1, None)
    assert job.place == tmp_path / "seed0" / "=runs-veil-unet"
    assert job.entry is None


def test_what_is_chosen_by_is_kept_apart_from_what_is_reported(tmp_path: Path) -> None:
    job = Job(tmp_path, tmp_path, RAW, 0, "cpu", 1, None)
    choosing = replace(job, validate=True)
    assert job.place != choosing.place
    assert set(real_pixels.SPLITS[False]) == {"test"}
    assert "test" not in real_pixels.SPLITS[True]
    assert "train" not in real_pixels.SPLITS[True]


def test_rows_that_cover_people_need_somebody_to_look_for_them(tmp_path: Path) -> None:
    job = Job(tmp_path, tmp_path, RAW, 0, "cpu", 1, None)
    covering = {name for name in real_pixels.known() if replace(job, row=name).covers}
    people = {"blacken", "strong blur", "weak blur", "blacken, then veil-pixel"}
    assert not job.covers
    assert not replace(job, row=SHIPPED).covers
    assert covering == people | set(real_pixels.FACES)
    item = SimpleNamespace(id="somebody")
    everybody, faces = (
        real_pixels.boxes_file(replace(job, row=row), item) for row in ("blacken", "blacken faces")
    )
    assert everybody != faces  # boxes of faces alone are never taken for those of everybody


def test_figures_stand_beside_their_chance_and_shares_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(places: Any, part: str) -> Any:
        if part == "drawn_faces":
            return None
        value = 0.4 if RAW in str(places[0]) else 0.3
        chance = float("nan") if part == "drawn" else 0.1
        return intervals.Drawn(value, chance, np.full(9, value), np.full(9, 0.1))

    monkeypatch.setattr(real_pixels, "read", read)
    job = Job(tmp_path, tmp_path, RAW, 0, "cpu", 1, None)
    found = real_pixels.table((RAW, SHIPPED), [0], job)[1][SHIPPED]
    assert found["action"] == {"value": 0.3, "low": 0.3, "high": 0.3, "chance": 0.1}
    assert set(found["kept"]) == {"value", "low", "high"}
    assert "chance" not in found["drawn"]  # decibels of which nothing is known
    assert found["drawn_faces"] is None


def test_clips_of_one_film_are_drawn_together() -> None:
    """Thirty films of ten clips, all right or all wrong: as many witnesses as films."""
    items = tuple(f"walk/film{i // 10}_walk_f_nm_np1_fr_med_{i % 10}" for i in range(300))
    right = (np.arange(300) // 10 % 2).astype(float)
    said = MeanOutcome("top1", items, right)
    films = {one: real_pixels.film(one) for one in items}
    assert set(films.values()) == {f"film{n}" for n in range(30)}
    assert real_pixels.film("face17") == "face17"
    wide, narrow = (np.std(intervals.drawn([said], owners).values) for owners in (films, None))
    assert wide == pytest.approx(0.5 / 30**0.5, rel=0.1)
    assert narrow == pytest.approx(0.5 / 300**0.5, rel=0.1)


def test_only_what_stored_results_lack_is_done_and_of_raw_videos_what_it_is_held_against() -> None:
    stored = {"blacken": {"action": {"value": 0.4}, "faces": None}, "SPAct": {"action": {"value": 0.3}}}
    found = real_pixels.lacking((RAW, "blacken", "SPAct", "VITA, told"), ("faces", "action"), stored)
    assert found == {
        RAW: ("faces", "action"),
        "blacken": ("faces",),
        "SPAct": ("faces", "action"),  # trained again it is another anonymizer
        "VITA, told": ("faces", "action"),
    }
    assert real_pixels.lacking((RAW, "SPAct"), ("action",), stored) == {RAW: (), "SPAct": ()}


@pytest.mark.filterwarnings(
    "ignore:(invalid value|divide by zero):RuntimeWarning"
)  # shares of next to nothing
def test_every_part_of_a_row_is_found_on_clips_and_faces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin has the layout of HMDB51, so the whole script runs on it; detectors are those of real people."""
    data, out = tmp_path / "data", tmp_path / "out"
    twins.make("hmdb51", data / "hmdb51-12", seed=4, size="tiny")
    photographs(data / "utkface", 48)
    small = replace(
        pixel_rows.SCALES["try"], attackers=("mobilenet.v1-0.25",), clip_attackers=(), frames=8, batch=6
    )
    monkeypatch.setitem(real_pixels.SIZES, "cpu", small)
    monkeypatch.setitem(real_pixels.DRAWING_WIDTH, "cpu", 2)
    monkeypatch.setitem(real_pixels.DRAWING_EPOCHS, "cpu", 1)
    rows = ("VITA, told",)
    words = ["real_pixels.py", str(data), str(out), "--scale", "cpu", "--rows", *rows, "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(processes, "_pool", lambda count: ThreadPoolExecutor(1))  # in this process
    real_pixels.main()
    found = json.loads((out / "results.json").read_text("utf-8"))
    assert found["scale"] == "cpu"
    assert set(found["rows"]) == {RAW, *rows}
    for cells in found["rows"].values():
        assert set(cells) == {*real_pixels.PARTS, "kept", "leakage", "drawn_leakage"}
        for part in real_pixels.PARTS:
            assert cells[part]["low"] <= cells[part]["value"] <= cells[part]["high"], part
            assert "chance" in cells[part], part
    first = (out / "results.json").read_bytes()
    real_pixels.main()  # nothing is done again
    assert (out / "results.json").read_bytes() == first


def test_parts_wait_for_people_to_be_found_and_for_their_anonymizer_to_be_made(tmp_path: Path) -> None:
    plain = Job(tmp_path, tmp_path, RAW, 0, "cpu", 1, None, ("faces", "action"))
    rows = [replace(plain, row=row) for row in (RAW, "SPAct", "blacken", "blacken, then veil-pixel")]
    todo = real_pixels.Work(rows, shares=2)

    def titles() -> list[str]:
        return sorted(job.title for job in todo.possible() if job not in todo.done)

    looking = [f"people and faces, share {n} of 2" for n in (1, 2)]
    raw = ["seed 0 raw action", "seed 0 raw faces"]
    made = "seed 0 blacken, then veil-pixel make"
    assert titles() == sorted([*looking, *raw, "seed 0 SPAct make", made])
    for job in list(todo.possible()):
        if job.what == real_pixels.LOOK and job.share == (0, 2):
            todo.after(job)
    assert titles() == sorted([looking[1], *raw, "seed 0 SPAct make", made])
    for job in list(todo.possible()):
        if job.what in (real_pixels.LOOK, real_pixels.MAKE):
            todo.after(job)
    assert titles() == sorted(f"seed 0 {row.row} {part}" for row in rows for part in ("faces", "action"))
    first, last = replace(rows[3], what=real_pixels.MAKE), replace(rows[0], what="faces")
    assert todo.urgency(first) < todo.urgency(last)  # what others wait for comes first


def photographs(folder: Path, count: int) -> None:
    """Pictures of nobody, named and described as UTKFace is."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    lines = ["file,age,gender,race"]
    for number in range(count):
        name = f"{number}.jpg"
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(folder / name)
        lines.append(f"{name},{(10, 30, 50, 70)[number % 4]},{number // 4 % 2},{number % 5}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.parametrize("images", [300, 840, 3600])
def test_a_row_that_learns_from_more_images_than_clips_takes_no_more_steps_for_it(images: int) -> None:
    """But for the rest of its last epoch; an epoch is a pass of whichever are more."""
    recipe = real_pixels.known()["VITA, told"].recipe
    assert recipe is not None
    clips, own = 840, recipe.settings
    found = real_pixels.as_many_steps(own, clips, images)
    others, mine = (-(-count // own.batch) for count in (clips, max(clips, images)))  # steps of an epoch
    for before, after in (
        (own.epochs, found.epochs),
        (own.start.utility_epochs, found.start.utility_epochs),
        (own.start.budget_epochs, found.start.budget_epochs),
    ):
        assert before * others <= after * mine < before * others + mine


def test_rows_of_earlier_calls_stay_unless_seeds_or_items_were_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"

    def rows(seeds: list[int], **found: Any) -> dict[str, Any]:
        real_pixels.write(path, {"seeds": seeds, "limit": None, "scale": "cpu", "rows": found})
        return dict(json.loads(path.read_text("utf-8"))["rows"])

    one, two, none = {"action": 1, "faces": 1}, {"action": 2, "faces": 2}, {"action": 3, "faces": None}
    assert rows([0], raw=one, SPAct=two) == {"raw": one, "SPAct": two}
    assert rows([0], raw=one, blacken=none) == {"raw": one, "SPAct": two, "blacken": none}
    assert rows([0], SPAct=none)["SPAct"] == {
        "action": 3,
        "faces": 2,
    }  # what is not known now was known before
    assert rows([1], raw=two) == {"raw": two}


def test_what_is_there_is_shown_without_running_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(share: float) -> dict[str, AttributeOutcome]:
        truth = np.tile([[1.0], [0.0]], (20, 1))
        scores = np.where(np.arange(40)[:, None] < 40 * share, truth, 0.5)
        items = tuple(f"face {number}" for number in range(40))
        return {"resnet.18": AttributeOutcome(("female",), truth, scores, np.arange(40), items)}

    job = Job(tmp_path, tmp_path / "out", RAW, 0, "cpu", 1, None)
    real_pixels.keep(job.place / "faces.json", said(1.0))
    real_pixels.keep(replace(job, row="SPAct").place / "faces.json", said(0.5))
    words = ["real_pixels.py", "no-data", str(tmp_path / "out"), "--show"]
    monkeypatch.setattr("sys.argv", words)
    real_pixels.main()
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))["rows"]
    assert 0 < found["SPAct"]["leakage"]["value"] < 1
    assert found["SPAct"]["action"] is None
    assert set(found) == {RAW, "SPAct"}
    assert "| SPAct | – | – |" in capsys.readouterr().out
