"""What an audit must say of anonymizers whose worth is known beforehand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.audit import world
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.audit import needs
from videoveil.audit.conclusions import Result
from videoveil.audit.run import audit
from videoveil.audit.subject import BlackFrames, Subject, Untouched
from videoveil.data.records import Dataset


class CornerLeft(Classical):
    """Blackens everything but one corner, where the canary is."""

    kind = "all but a corner"

    def transform_frames(self, frames: Tensor) -> Tensor:
        out = torch.zeros_like(frames)
        out[..., -world.CORNER :, -world.CORNER :] = frames[..., -world.CORNER :, -world.CORNER :]
        return out

    def settings(self) -> Mapping[str, Any]:
        return {}


def nameless(data: Dataset) -> Dataset:
    """The same videos; who is in them is not known, so nobody can be asked for it."""
    return replace(data, items=tuple(replace(item, subject=None) for item in data))


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
    found = audit(Subject.of(nameless(data), BlackFrames()), outs / "black", asked, cache=cache)
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


def test_three_samples_are_not_measurable_and_no_number_is_made_up(tmp_path: Path) -> None:
    small = world.dataset(tmp_path / "videos", train=16, test=3)
    found = audit(Subject.of(small, Untouched()), tmp_path / "out", world.settings())
    assert found.verdict.overall == "NOT MEASURABLE"
    assert found.exit_code == 1
    assert any("3 test items" in reason for reason in found.not_measurable)
    assert all(one.leakage.value is None and one.kept.value is None for one in found.questions)
    assert all(one.risk is None for one in found.risks)


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
