"""What an audit must say of anonymizers whose worth is known beforehand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.audit import world
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.attacks.attributes import AttackConfig
from videoveil.audit import needs, registry
from videoveil.audit import run as run_module
from videoveil.audit.plan import Plan
from videoveil.audit.run import Audit, Result, audit, without_folders
from videoveil.audit.scoring import Question
from videoveil.audit.subject import BlackFrames, Subject, Untouched, open_anonymizer
from videoveil.data.records import Dataset
from videoveil.errors import BadItems, UsageError


class CornerLeft(Classical):
    """Blackens everything but one corner, where the canary is."""

    kind = "all but a corner"

    def transform_frames(self, frames: Tensor) -> Tensor:
        out = torch.zeros_like(frames)
        out[..., -world.CORNER :, -world.CORNER :] = frames[..., -world.CORNER :, -world.CORNER :]
        return out

    def settings(self) -> Mapping[str, Any]:
        return {}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="module")
def nameless(data: Dataset) -> Dataset:
    """The same videos, of which nobody says who is in them."""
    return replace(data, items=tuple(replace(item, subject=None) for item in data.items))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def outs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outs")


@pytest.fixture(scope="module")
def identity(data: Dataset, cache: Path, outs: Path) -> Result:
    return audit(Subject.of(data, Untouched()), outs / "identity", world.settings(), cache=cache)


def test_an_anonymizer_that_changes_nothing_fails_on_privacy_and_passes_on_utility(identity: Result) -> None:
    assert identity.verdict.privacy == "FAIL"
    assert identity.verdict.utility == "PASS"
    assert identity.exit_code == 2
    attributes = identity.questions[1]
    assert attributes.leakage.value == pytest.approx(1.0)
    assert attributes.leakage.low == pytest.approx(1.0)
    kept = identity.questions[0].kept
    assert kept.value == kept.low == kept.high == 1.0


def test_black_frames_fail_on_utility_and_leak_nothing(data: Dataset, cache: Path, outs: Path) -> None:
    asked = world.settings()
    asked = replace(asked, participants=(*asked.participants, world.learner()))
    found = audit(Subject.of(data, BlackFrames()), outs / "black", asked, cache=cache)
    assert found.verdict.utility == "FAIL"
    assert found.verdict.privacy == "PASS"
    attributes = next(one for one in found.questions if one.role == "attack" and one.attempts)
    assert attributes.leakage.high is not None
    assert attributes.leakage.high <= 0.05
    assert "does not clearly beat chance" in "".join(found.verdict.reasons)


def test_a_canary_in_one_corner_is_found_where_the_anonymizer_leaves_it(
    data: Dataset, cache: Path, outs: Path
) -> None:
    found = audit(Subject.of(data, CornerLeft()), outs / "corner", world.settings(), cache=cache)
    attributes = next(one for one in found.questions if one.role == "attack" and one.attempts)
    leakage = {part.name: part.leakage.value for part in attributes.parts}
    assert leakage["canary"] == pytest.approx(1.0, abs=0.05)
    assert (leakage.get("tinted") or 0) < 0.3  # eight people prove no more of it than that
    assert found.verdict.privacy == "FAIL"


def test_the_folder_has_everything_and_no_time_or_place_in_the_metrics(
    identity: Result, outs: Path, data: Dataset
) -> None:
    folder = outs / "identity"
    for name in ("metrics.json", "config.yaml", "environment.json", "timing.json", "report.html"):
        assert (folder / name).is_file(), name
    text = (folder / "metrics.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(identity.metrics))
    assert str(data.root) not in text
    assert "seconds" not in text
    assert "Audit of identity on made-up" in (folder / "report.html").read_text()


def test_the_same_again_gives_the_same_bytes(
    identity: Result, data: Dataset, outs: Path, tmp_path: Path
) -> None:
    audit(Subject.of(data, Untouched()), tmp_path / "again", world.settings(), cache=tmp_path / "cache")
    assert (tmp_path / "again" / "metrics.json").read_bytes() == (
        outs / "identity" / "metrics.json"
    ).read_bytes()


def test_killed_and_resumed_gives_the_same_bytes(
    identity: Result, data: Dataset, outs: Path, cache: Path, tmp_path: Path
) -> None:
    class Killed(Exception):
        pass

    def kill(done: float, total: int, words: str) -> None:
        if words.startswith("grid, anonymized, seed 1"):
            raise Killed

    with pytest.raises(Killed):
        audit(Subject.of(data, Untouched()), tmp_path / "out", world.settings(), cache=cache, watch=kill)
    assert not (tmp_path / "out" / "metrics.json").exists()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "results").glob("*.npz")}
    assert len(before) == 3  # two of the recogniser, one of the grid
    audit(Subject.of(data, Untouched()), tmp_path / "out", world.settings(), cache=cache)
    assert {p: p.stat().st_mtime_ns for p in before} == before  # what was done was not done again
    assert (tmp_path / "out" / "metrics.json").read_bytes() == (
        outs / "identity" / "metrics.json"
    ).read_bytes()


def test_a_folder_of_another_audit_is_refused(
    identity: Result, data: Dataset, outs: Path, cache: Path
) -> None:
    with pytest.raises(UsageError, match="something else"):
        audit(Subject.of(data, BlackFrames()), outs / "identity", world.settings(), cache=cache)


def test_three_samples_are_not_measurable_and_no_number_is_made_up(tmp_path: Path) -> None:
    small = world.dataset(tmp_path / "videos", train=16, test=3)
    found = audit(Subject.of(small, Untouched()), tmp_path / "out", world.settings())
    assert found.verdict.overall == "NOT MEASURABLE"
    assert found.exit_code == 1
    assert any("3 test items" in reason for reason in found.not_measurable)
    assert all(one.leakage.value is None and one.kept.value is None for one in found.questions)
    assert all(one.risk is None for one in found.risks)


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
    again = Audit(Subject.of(data, Untouched()), tmp_path / "other", asked, cache, None)
    able, unable = again._able()
    assert again._plan(able, unable).chosen == ("recogniser", "grid")  # the cache has it: not reckoned again


def test_pictures_do_not_pass_where_no_network_that_learns_from_them_took_part(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    black = Subject.of(data, BlackFrames())
    alone = audit(black, tmp_path / "asked", world.settings(), cache=cache)
    assert alone.verdict.privacy == "NOT MEASURABLE"  # that nobody else was asked is no reason to pass
    assert "frames" in "".join(alone.verdict.reasons)
    short = audit(black, tmp_path / "short", world.settings("frames", budget=0.05), cache=cache)
    assert [one.name for one in short.left_out if "did not fit" in one.reason] == ["frames"]
    assert short.verdict.privacy == "NOT MEASURABLE"
    assert any("no network that learns from the pictures" in reason for reason in short.verdict.reasons)
    assert short.exit_code == 2  # the utility fails


def test_who_walks_is_not_settled_by_features_where_pictures_are_published(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    """No network here learns from pictures who is walking, and features are of the middle of a picture."""
    made = Question("who is walking", "attack", "rank1", (), verdict="PASS", reason="little is left")
    asked = Audit(Subject.of(data, BlackFrames()), tmp_path / "out", world.settings(), cache, None)
    doubted = asked._doubted(made)
    assert doubted.verdict == "NOT MEASURABLE"
    assert doubted.reason.startswith("little is left; but nobody here learns from the pictures")


def test_what_other_audits_left_in_the_cache_changes_nothing(data: Dataset, tmp_path: Path) -> None:
    subject = Subject.of(data, BlackFrames())
    one = audit(subject, tmp_path / "one", world.settings(), cache=tmp_path / "cold")
    audit(subject, tmp_path / "two", world.settings("features-static"), cache=tmp_path / "warm")
    again = audit(subject, tmp_path / "three", world.settings(), cache=tmp_path / "warm")
    assert again.metrics == one.metrics
    assert all(risk.risk is None for risk in one.risks if risk.kind != "inference")


def test_an_anonymizer_that_asks_for_other_features_of_raw_videos_does_not_find_results_of_the_usual_ones(
    nameless: Dataset, tmp_path: Path
) -> None:
    """Static clips: ten where they are subtracted, else four. Attackers on raw features learn from all of them."""
    chosen = registry.named(
        ("features-static",), {"features-static": AttackConfig(input="static", kinds=("linear",))}
    )
    asked = replace(world.settings(seeds=1), participants=chosen)
    motion = Subject.of(nameless, open_anonymizer("veil-motion-tiny"))
    audit(motion, tmp_path / "one", asked, cache=tmp_path / "cold")
    audit(
        Subject.of(nameless, open_anonymizer("veil-tiny")), tmp_path / "two", asked, cache=tmp_path / "warm"
    )
    audit(motion, tmp_path / "three", asked, cache=tmp_path / "warm")
    one, three = ((tmp_path / name / "metrics.json").read_bytes() for name in ("one", "three"))
    assert three == one


def test_a_question_that_could_have_been_asked_holds_a_pass_back(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    asked = world.settings("identity-features")
    asked = replace(asked, participants=(*asked.participants, world.learner()))

    def stuck(trial: object, config: object) -> None:
        raise UsageError("nothing can be learnt from these")

    broken = tuple(
        replace(one, run=stuck, why_not=lambda subject: "") if one.name == "identity-features" else one
        for one in asked.participants
    )
    found = audit(
        Subject.of(data, BlackFrames()), tmp_path / "out", replace(asked, participants=broken), cache=cache
    )
    assert found.verdict.privacy == "NOT MEASURABLE"
    assert "nothing can be learnt from these" in "".join(found.verdict.reasons)


def test_whoever_cannot_learn_from_anonymized_videos_costs_nothing_on_raw_ones(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    asked = world.settings(budget=5.0)
    tried: list[str] = []

    def stuck(trial: registry.Trial, config: object) -> None:
        tried.append(trial.which)
        raise UsageError("nothing can be learnt from these")

    broken = replace(world.learner(), name="stuck", run=stuck)  # type: ignore[arg-type]
    asked = replace(asked, participants=(*asked.participants, broken))
    for _ in range(2):  # run again it keeps to its plan
        found = audit(Subject.of(data, BlackFrames()), tmp_path / "out", asked, cache=cache)
        assert tried == ["anonymized"]
        assert {one.name: one.reason for one in found.left_out}["stuck"] == "nothing can be learnt from these"


def test_another_folder_gives_the_same_bytes_also_where_an_error_names_its_own(
    nameless: Dataset, tmp_path: Path
) -> None:
    asked = world.settings(seeds=1)

    def stuck(trial: registry.Trial, config: object) -> None:
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

    monkeypatch.setattr(run_module, "time", SimpleNamespace(perf_counter=lambda: moment[0]))
    monkeypatch.setattr(run_module, "cost", cost)
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


def test_one_class_in_the_test_videos_is_not_measurable_and_says_so(data: Dataset, tmp_path: Path) -> None:
    items = [
        replace(item, subject=None, action="above" if item.split == "test" else item.action) for item in data
    ]
    asked = world.settings(seeds=1)
    asked = replace(
        asked, participants=(replace(world.RECOGNISER, why_not=needs.actions), *asked.participants[1:])
    )
    found = audit(Subject.of(replace(data, items=tuple(items)), Untouched()), tmp_path / "out", asked)
    assert found.verdict.utility == "NOT MEASURABLE"
    assert any(
        "all test videos with an action label are of one class (above)" in one
        for one in found.verdict.reasons
    )
