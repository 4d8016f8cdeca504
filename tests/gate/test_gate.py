from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.gate.measure import RECORDED, TOLERANCE, Figures, measure, worse


@pytest.fixture(scope="module")
def recorded() -> Figures:
    found: Figures = json.loads(RECORDED.read_text())
    return found


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return measure(tmp_path_factory.mktemp("gate"))


def test_nothing_leaks_more_keeps_less_or_computes_more_than_recorded(
    now: Figures, recorded: Figures
) -> None:
    said = worse(now, recorded)
    assert not said, "\n".join([*said, "if this is meant: python -m tests.gate.measure --record"])


def test_our_default_hides_and_keeps_at_this_size_too(recorded: Figures) -> None:
    assert max(recorded["leaks"].values()) < 0.6  # of raw features attackers find about 80 to 90 points
    assert recorded["keeps"]["veil"] >= 0.9 * recorded["keeps"]["raw"]


@pytest.mark.parametrize("kind", list(TOLERANCE))
def test_every_kind_of_step_back_fails_the_build(kind: str, recorded: Figures) -> None:
    for name, before in recorded[kind].items():
        found = copy.deepcopy(recorded)
        step = TOLERANCE[kind] * (before if kind in ("flops", "operations") else 1)
        found[kind][name] = before + (-1.01 if kind == "keeps" else 1.01) * step
        assert any(name in line for line in worse(found, recorded))
        found[kind][name] = before + (1.01 if kind == "keeps" else -1.01) * step
        assert worse(found, recorded) == []


def test_what_is_no_longer_measured_fails_the_build(recorded: Figures) -> None:
    found = copy.deepcopy(recorded)
    del found["leaks"]["veil, static"]
    assert worse(found, recorded) == ["leaks: veil, static is recorded and was not measured"]
    assert Path(RECORDED).name in {path.name for path in Path(__file__).parent.iterdir()}
