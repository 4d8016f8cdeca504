from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.recipes.text import yaml as written

yaml = pytest.importorskip("yaml")

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=8)
)
KEYS = st.from_regex(r"[a-z_]{1,6}", fullmatch=True)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_what_is_written_is_what_a_yaml_reader_reads(value: dict[str, Any]) -> None:
    assert yaml.safe_load(written(value)) == value
