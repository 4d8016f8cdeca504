from __future__ import annotations

import pytest

from videoveil.errors import UsageError
from videoveil.recipes import recipe, recipe_names


def test_every_recipe_carries_its_own_name() -> None:
    for name in recipe_names():  # ablations too: runs are known by it
        assert recipe(name).name == name


def test_ablations_have_names_too() -> None:
    assert "table9/1000" in recipe_names()
    assert recipe("table9/1000").w_consistency == 1000


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no recipe 'splatu'; there are veil,"):
        recipe("splatu")
