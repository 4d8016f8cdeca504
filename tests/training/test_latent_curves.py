from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from videoveil.training.latent import LatentLoop
from videoveil.training.latent_curves import EVENT_FILES, EVENTS, HISTORY, Curves

from .latent_world import world
from .test_latent import loop_of, quick

RECORDS = [{"epoch": i, "total": -1.5 * i, "seconds": 0.1 * i} for i in range(5)]


def scalars(folder: Path, *, purge: bool = True) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every tag, as TensorBoard itself reads them; `purge=False` shows all that is in the files."""
    events = EventAccumulator(str(folder / EVENTS), size_guidance={"scalars": 0}, purge_orphaned_data=purge)
    events.Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


def written(records: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    return [(r["epoch"], pytest.approx(r[name], rel=1e-6)) for r in records if name in r]


def test_tensorboard_reads_every_scalar_of_every_epoch(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    for record in RECORDS:
        curves.add(record)
    curves.close()
    found = scalars(tmp_path)
    assert set(found) == {"total", "seconds"}
    for name in found:
        assert found[name] == written(RECORDS, name)


def test_a_checkpoint_shows_what_was_written_while_the_run_goes_on(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    for record in RECORDS[:2]:
        curves.add(record)
    curves.write(RECORDS[:2])
    assert scalars(tmp_path)["total"] == written(RECORDS[:2], "total")
    curves.close()


@pytest.mark.parametrize("reached", [1, 4])
def test_after_a_resume_no_epoch_is_doubled_or_missing(tmp_path: Path, reached: int) -> None:
    """One wrote beyond its checkpoint, or was killed before its events were on disk: the next one has it right."""
    first = Curves(tmp_path)
    for record in RECORDS[:reached]:
        first.add({**record, "total": 99.0})
    first.close()
    second = Curves(tmp_path)
    second.go_on(RECORDS[:2])
    for record in RECORDS[2:]:
        second.add(record)
    second.close()
    for purge in (True, False):
        assert scalars(tmp_path, purge=purge)["total"] == written(RECORDS, "total")
    sizes = [path.stat().st_size for path in (tmp_path / EVENTS).glob(EVENT_FILES)]
    assert sum(size > 0 for size in sizes) == 1


def test_a_viewer_that_is_open_during_the_resume_forgets_what_it_read(tmp_path: Path) -> None:
    first = Curves(tmp_path)
    for record in RECORDS[:4]:
        first.add({**record, "total": 99.0})
    first.write(RECORDS[:2])
    viewer = EventAccumulator(str(tmp_path / EVENTS), size_guidance={"scalars": 0})
    viewer.Reload()
    assert len(viewer.Scalars("total")) == 4
    first.close()
    time.sleep(1.05)  # the viewer goes by file names, which count seconds
    second = Curves(tmp_path)
    second.go_on(RECORDS[:2])
    for record in RECORDS[2:]:
        second.add(record)
    second.close()
    viewer.Reload()
    assert [(e.step, e.value) for e in viewer.Scalars("total")] == written(RECORDS, "total")


def test_a_killed_training_run_has_the_curves_of_its_history(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(step: int, total: int, loss: float) -> None:
        if step > total * 0.7:
            raise Killed

    def run(**options: Any) -> LatentLoop:
        recipe = quick(epochs=6, batch=16, checkpoint_every=3, evaluate_every=2)
        made = loop_of(recipe, world(16), folder=tmp_path, evaluate=lambda *_: (0.8, 0.4), **options)
        made.run()
        return made

    with pytest.raises(Killed):
        run(progress=kill)
    before = scalars(tmp_path)
    assert [step for step, _ in before["total"]] == [0, 1, 2, 3]  # one epoch beyond the checkpoint
    history = run().history
    found = scalars(tmp_path, purge=False)
    assert set(found) == {name for record in history for name in record} - {"epoch"}
    for name in found.keys() - {"seconds"}:  # an epoch's curve is drawn before its checkpoint is saved
        assert found[name] == written(history, name), name
    assert [step for step, _ in found["seconds"]] == list(range(6))
    assert [step for step, _ in found["score"]] == [1, 3, 5]
    run()  # finished: nothing is written again
    assert scalars(tmp_path, purge=False) == found


def test_the_history_has_one_line_per_epoch_and_needs_no_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as if it were not installed
    curves = Curves(tmp_path)
    for record in RECORDS:
        curves.add(record)
    curves.write(RECORDS)
    curves.close()
    assert [json.loads(line) for line in (tmp_path / HISTORY).read_text().splitlines()] == RECORDS
    assert not (tmp_path / EVENTS).exists()


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    curves = Curves(None)
    curves.add(RECORDS[0])
    curves.write(RECORDS)
    curves.close()
    assert list(tmp_path.iterdir()) == []
