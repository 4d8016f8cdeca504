from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from videoveil.errors import UsageError
from videoveil.pipeline.options import Options


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": (0, 10)},
        {"engine": "magic"},
        {"preset": "warp"},
        {"batch": -1},
        {"crf": 52},
        {"threads": 65},
        {"queue": 0},
        {"least_change": 0.0},
        {"least_change": float("nan")},
        {"inner": -5},
        {"empty_frames": "raw"},
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Options(**wrong)


def test_what_decides_a_result_is_told_and_what_only_decides_its_speed_is_not() -> None:
    usual = Options()
    other: dict[str, Any] = {
        "size": (2, 4),
        "inner": 64,
        "audio": True,
        "crf": 1,
        "preset": "slow",
        "threads": 2,
    }
    other |= {"least_change": 1.0, "empty_frames": "keep"}
    speed: dict[str, Any] = {"engine": "torch", "device": "cpu", "batch": 3, "queue": 2, "keep_partial": True}
    for name, value in other.items():
        assert replace(usual, **{name: value}).decisive() != usual.decisive()
    for name, value in speed.items():
        assert replace(usual, **{name: value}).decisive() == usual.decisive()
    assert {*other, *speed, "expect", "limits"} == {field.name for field in fields(Options)}


def test_an_unset_inner_size_is_told_apart_by_what_it_stands_for() -> None:
    unset, all_of_it = Options(), Options(inner=0)
    assert unset.decisive() == all_of_it.decisive()  # of an anonymizer that knows no size
    assert unset.decisive(112) != all_of_it.decisive(112)
    assert unset.decisive(112) != unset.decisive(224)
    assert all_of_it.decisive(112) == all_of_it.decisive(224)
    assert Options(inner=64).decisive(112) == Options(inner=64).decisive()
