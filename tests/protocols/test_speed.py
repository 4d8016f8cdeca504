from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.errors import UsageError
from videoveil.protocols.speed import combined


@given(st.floats(0, 1), st.floats(0, 1))
def test_equation_14_is_half_of_accuracy_and_what_does_not_leak(accuracy: float, leakage: float) -> None:
    found = combined(accuracy, leakage)
    assert 0 <= found <= 1
    assert found == pytest.approx((accuracy + (1 - leakage)) / 2)


def test_per_cents_are_refused() -> None:
    with pytest.raises(UsageError, match="share"):
        combined(80.0, 0.2)
