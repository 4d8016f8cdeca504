from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.audit import world
from videoveil.audit import reckoning
from videoveil.audit import run as run_module
from videoveil.audit.case import Case
from videoveil.audit.participant import Trial
from videoveil.audit.plan import Plan
from videoveil.audit.reckoning import planned
from videoveil.audit.run import audit
from videoveil.audit.subject import BlackFrames, Subject, Untouched
from videoveil.audit.trainings import Trainings
from videoveil.data.records import Dataset
from videoveil.errors import UsageError


def test_a_budget_picks_who_fits_names_the_others_and_is_kept(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    asked = world.settings("frames", budget=0.05)
    found = audit(Subject.of(data, Untouched()), tmp_path / "out", asked, cache=cache)
    reasons = {one.name: one.reason for one in found.left_out}
    assert reasons["frames"] == "did not fit into 0.05 minutes"
    assert reasons["clips"] == "was not asked for"
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert Plan.from_json(plan["plan"]).chosen == ("recogniser", "grid")
    other = Case.of(Subject.of(data, Untouched()), tmp_path / "other", asked, cache)
    again = planned(Trainings(other), asked.participants, (), 0.0)
    assert again.chosen == ("recogniser", "grid")  # the cache has it: not reckoned again


def test_whoever_cannot_learn_from_anonymized_videos_costs_nothing_on_raw_ones(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    asked = world.settings(budget=5.0)
    tried: list[str] = []

    def stuck(trial: Trial, config: object) -> None:
        tried.append(trial.which)
        raise UsageError("nothing can be learnt from these")

    broken = replace(world.learner(), name="stuck", run=stuck)  # type: ignore[arg-type]
    asked = replace(asked, participants=(*asked.participants, broken))
    for _ in range(2):  # run again it keeps to its plan
        found = audit(Subject.of(data, BlackFrames()), tmp_path / "out", asked, cache=cache)
        assert tried == ["anonymized"]
        assert {one.name: one.reason for one in found.left_out}["stuck"] == "nothing can be learnt from these"


def test_killed_before_there_is_a_plan_it_comes_to_the_same_plan(
    nameless: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was reckoned is not reckoned again, and is not free either."""
    moment = [0.0]
    tried: list[str] = []

    def cost(run: Any) -> tuple[float, Any]:
        one = run.args[0].name
        tried.append(one)
        moment[0] += 20.0
        return {"network": 5.0}.get(one, 1.0) + 0.25 * tried.count(one), run(lambda *_: None)

    for module in (run_module, reckoning):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: moment[0]))
    monkeypatch.setattr(reckoning, "cost", cost)
    asked = world.settings(budget=80 / 60)
    asked = replace(asked, participants=(*asked.participants, world.learner()))
    subject = Subject.of(nameless, Untouched())
    whole = audit(subject, tmp_path / "whole", asked)
    assert [one.name for one in whole.left_out if "did not fit" in one.reason] == ["network"]
    assert tried == ["recogniser", "grid", "network"]

    def kill(done: float, total: int, words: str) -> None:
        if words == "how long network takes":
            raise KeyboardInterrupt

    tried.clear()
    with pytest.raises(KeyboardInterrupt):
        audit(subject, tmp_path / "killed", asked, watch=kill)
    assert not (tmp_path / "killed" / "plan.json").exists()
    audit(subject, tmp_path / "killed", asked)
    assert tried == ["recogniser", "grid", "network"]
    for name in ("plan.json", "metrics.json"):
        one, other = ((tmp_path / out / name).read_bytes() for out in ("whole", "killed"))
        assert one == other
