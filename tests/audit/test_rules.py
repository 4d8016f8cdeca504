from __future__ import annotations

import pytest

from videoveil.audit.rules import Rules
from videoveil.errors import UsageError


def test_impossible_rules_are_refused() -> None:
    for wrong in (
        {"seeds": 0},
        {"max_leakage": 0},
        {"margin": 1},
        {"level": 1.0},
        {"resamples": 3},
        {"least_found": -0.1},
    ):
        with pytest.raises(UsageError):
            Rules(**wrong)
