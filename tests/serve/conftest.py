"""What the tests of the service share: one server that most of them ask, and films."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.running import MODELS, Server, film


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film(tmp_path_factory.mktemp("films") / "walk.mp4")


@pytest.fixture(scope="session")
def long_walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So long that the model `held` can be met in the middle of it."""
    return film(tmp_path_factory.mktemp("films") / "long.mp4", frames=40)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("service") / "data", models=MODELS, faults=True) as running:
        yield running
