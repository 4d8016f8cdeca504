from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.protocols.conftest import Twin
from videoveil.data import registry as data
from videoveil.data.hmdb51 import film
from videoveil.data.pa_hmdb51 import RULES
from videoveil.data.records import Item
from videoveil.protocols import two_fold
from videoveil.protocols.subjects import raw
from videoveil.protocols.two_fold import TwoFoldAttributes, halves, ranks
from videoveil.protocols.workshop import Workshop


def clips(films: dict[str, int]) -> list[Item]:
    return [
        Item(f"run/{name}_run_f_cm_np1_fr_med_{n}", Path("x"), "test", action="run")
        for name, count in films.items()
        for n in range(count)
    ]


def test_no_film_is_in_both_halves_and_they_are_as_equal_as_films_allow() -> None:
    items = clips({"a": 7, "b": 5, "c": 3, "d": 1})
    found = halves(items)
    films = np.array([film(item) for item in items])
    assert all(len(set(found[films == name])) == 1 for name in "abcd")
    assert sorted(np.bincount(found)) == [8, 8]
    assert np.array_equal(halves(items[::-1])[::-1], found)  # whatever the order


def test_ranks_keep_the_order_and_what_is_equal() -> None:
    found = ranks(np.array([[3.0, -1], [3.0, 5], [9.0, 2]]))
    assert found.tolist() == [[0.25, 0], [0.25, 1], [1, 0.5]]


def test_nobody_is_asked_about_what_he_learnt_from(
    shop: Workshop, twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every frame is judged once, by an attacker that saw the other half only; one film alone cannot be halved."""
    own = replace(shop, out=tmp_path / "one", roots={"pa-hmdb51": twin("pa-hmdb51")})
    assert TwoFoldAttributes().run(own, raw())["cmap"].value is None  # a twin of this size has one film
    videos = data.load("pa-hmdb51", twin("pa-hmdb51")).split("test")
    place = {item.id: n % 4 for n, item in enumerate(sorted(videos, key=lambda item: item.id))}
    monkeypatch.setattr(two_fold, "film", lambda item: str(place[item.id]))
    taught: list[tuple[set[bytes], set[bytes]]] = []

    class Listening:
        def fit(
            self, x: np.ndarray, y: np.ndarray, held_out: tuple[np.ndarray, np.ndarray], seed: int
        ) -> Listening:
            self.known = {row.tobytes() for row in (*x, *held_out[0])}
            assert y.shape[1] == len(RULES["splavu"])
            return self

        def scores(self, x: np.ndarray) -> np.ndarray:
            taught.append((self.known, {row.tobytes() for row in x}))
            return np.arange(len(x))[:, None] + np.zeros(6)

    monkeypatch.setattr("videoveil.attacks.features.attacker", lambda kind: Listening())
    found = TwoFoldAttributes().run(own, raw())
    assert found["cmap"].value is not None
    outcome = found["cmap"].outcome
    for (known, asked), (other, rest) in zip(taught[::2], taught[1::2]):
        assert not known & asked
        assert (known, asked) == (rest, other)
        assert len(asked | rest) <= len(outcome.truth)  # type: ignore[union-attr]
