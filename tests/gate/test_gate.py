from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.gate.measure import (
    DRAWN,
    MAY_RISE,
    RECORDED,
    SHARES,
    SHIPPED,
    TOLERANCE,
    Figures,
    measure,
    worse,
)
from videoveil import shipped

CHANCE = 0.3  # about what a blind guess gets of these attributes


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


def test_our_default_and_the_shipped_one_hide_and_keep_at_this_size_too(recorded: Figures) -> None:
    assert max(recorded["leaks"].values()) < 0.6
    assert min(recorded["finds"].values()) > 0.75
    for name in ("veil", SHIPPED):
        assert recorded["keeps"][name] >= 0.9 * recorded["keeps"]["raw"]


def test_attackers_that_find_nothing_anywhere_fail_the_build(recorded: Figures) -> None:
    found = copy.deepcopy(recorded)
    for kind in ("leaks", "finds"):
        found[kind] = dict.fromkeys(recorded[kind], CHANCE)
    said = worse(found, recorded)
    assert [line.split(" fell ")[0] for line in said] == ["finds: raw, static", "finds: raw, moving"]


def test_what_comes_with_the_package_is_attacked_as_well(recorded: Figures) -> None:
    for name in (SHIPPED, DRAWN):
        assert name in shipped.names()
        assert {f"{name}, static", f"{name}, moving"} <= set(recorded["leaks"])
        assert name in recorded["keeps"]


@pytest.mark.parametrize("kind", list(TOLERANCE))
def test_every_kind_of_step_back_fails_the_build(kind: str, recorded: Figures) -> None:
    for name, before in recorded[kind].items():
        found = copy.deepcopy(recorded)
        step = TOLERANCE[kind] * (before if kind in SHARES else 1)
        found[kind][name] = before + (-1.01 if kind in MAY_RISE else 1.01) * step
        assert any(name in line for line in worse(found, recorded))
        found[kind][name] = before + (1.01 if kind in MAY_RISE else -1.01) * step
        assert worse(found, recorded) == []


def test_what_is_no_longer_measured_fails_the_build(recorded: Figures) -> None:
    found = copy.deepcopy(recorded)
    del found["leaks"]["veil, static"]
    assert worse(found, recorded) == ["leaks: veil, static is recorded and was not measured"]
    assert Path(RECORDED).name in {path.name for path in Path(__file__).parent.iterdir()}
