from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.audit import world
from videoveil.audit.excuses import without_folders
from videoveil.audit.participant import Trial
from videoveil.audit.run import audit
from videoveil.audit.subject import BlackFrames, Subject
from videoveil.data.records import Dataset
from videoveil.errors import BadItems


def test_another_folder_gives_the_same_bytes_also_where_an_error_names_its_own(
    nameless: Dataset, tmp_path: Path
) -> None:
    asked = world.settings(seeds=1)

    def stuck(trial: Trial, config: object) -> None:
        store, video = trial.stores.raw_folder, trial.subject.dataset.items[0].path
        raise BadItems(
            f"{store}: 1 problems with 16 items", [f"{video}: too short", f"{trial.stores.own_folder}"]
        )

    broken = replace(world.learner(), name="stuck", run=stuck, question="who it is")  # type: ignore[arg-type]
    asked = replace(asked, participants=(*asked.participants, broken))
    subject = Subject.of(nameless, BlackFrames())
    audit(subject, tmp_path / "here" / "out", asked)
    audit(subject, tmp_path / "there", asked, cache=tmp_path / "elsewhere" / "kept")
    for name in ("metrics.json", "report.html"):
        one, other = ((tmp_path / out / name).read_text("utf-8") for out in ("here/out", "there"))
        assert one == other
        assert str(tmp_path) not in one
        assert "1 problems with 16 items" in one  # what it said is there
        assert str(nameless.root) not in one


def test_folders_of_this_machine_are_named_by_what_they_are_and_other_words_stay() -> None:
    named = {Path("/data/audit"): "OUT", Path("/data/audit/cache"): "CACHE", Path("out"): "RAW"}

    def said(text: str) -> str:
        return without_folders(text, named)

    assert said("/data/audit/cache/features/x-1: damaged") == "CACHE/features/x-1: damaged"
    assert said("/data/audit: no /home/ann/films/a.mp4") == "OUT: no a.mp4"
    assert said("left out and/or out/v1.mp4") == "left out and/or RAW/v1.mp4"
    assert said("/data/audit-2 has 3/4 of them") == "audit-2 has 3/4 of them"
