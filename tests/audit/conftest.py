"""What audits of tests are made on: a few videos, and a cache that the audits of one file share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit import world
from videoveil.data.records import Dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def nameless(data: Dataset) -> Dataset:
    """The same videos, of which nobody says who is in them."""
    return replace(data, items=tuple(replace(item, subject=None) for item in data.items))
