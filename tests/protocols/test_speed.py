from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.conftest import SIDE, Twin
from videoveil import files
from videoveil.anonymizers import Attention, Noise, NoiseKey
from videoveil.errors import UsageError
from videoveil.protocols.base import Reading
from videoveil.protocols.scales import TINY
from videoveil.protocols.speed import SPEED, Moment, combined, curve_of, pictures
from videoveil.protocols.subjects import from_run, raw
from videoveil.protocols.workshop import Workshop
from videoveil.recipes import EncodedClips, fit, recipe
from videoveil.recipes.fitting import from_videos
from videoveil.tasks.base import Metric, Score


@given(st.floats(0, 1), st.floats(0, 1))
def test_equation_14_is_half_of_accuracy_and_what_does_not_leak(accuracy: float, leakage: float) -> None:
    found = combined(accuracy, leakage)
    assert 0 <= found <= 1
    assert found == pytest.approx((accuracy + (1 - leakage)) / 2)


def test_per_cents_are_refused() -> None:
    with pytest.raises(UsageError, match="share"):
        combined(80.0, 0.2)


@pytest.fixture(scope="module")
def timed(twin: Twin, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    roots = {name: twin(name) for name in SPEED.needs}
    return Workshop(
        tmp_path_factory.mktemp("timed"), roots, TINY, encoder_size=SIDE, device="cpu", cache=cache
    )


SHORT = replace(recipe("splavu-hmdb51"), epochs=2, batch=8, stages=(Attention(depth=1, heads=4),))


def test_a_recipe_with_noise_is_asked_with_the_key_of_its_run(timed: Workshop, tmp_path: Path) -> None:
    noisy = replace(SHORT, stages=(*SHORT.stages, Noise(floor=0.1, learned=False)))
    fit(noisy, {"action": timed.features("hmdb51", raw(), "train")}, tmp_path / "run", device="cpu")
    subject = from_run(f"noisy={tmp_path / 'run'}", NoiseKey(bytes(range(32))))
    found = SPEED.run(timed, subject)
    points = curve_of(timed.run_folder(SPEED, subject))
    assert len(points) == 2
    assert found["y"].value == points[-1].score is not None


def test_a_run_from_videos_is_timed_from_videos(timed: Workshop, tmp_path: Path) -> None:
    watched = EncodedClips(timed.clips("hmdb51", raw(), "train"), timed.encoder_of(raw()))
    fit(SHORT, {"action": watched}, tmp_path / "run", device="cpu")
    subject = from_run(f"raw video={tmp_path / 'run'}")
    found = SPEED.run(timed, subject)
    again = timed.run_folder(SPEED, subject)
    assert from_videos(again)
    assert found["whole"].value == found["minutes"].value == curve_of(again)[-1].seconds / 60


def test_what_test_items_do_not_define_is_not_measurable_and_never_perfect_privacy(
    shop: Workshop, twin: Twin, trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nobody:
        """An attack whose test pictures have no attribute at all."""

        def score(self, test: object) -> Score:
            return Score("attack", 0, (Metric("cmap_mlp2", None, None),))

    monkeypatch.setattr("videoveil.protocols.measures.attack_on_features", lambda *_: Nobody())
    own = replace(shop, out=tmp_path, roots={**shop.roots, "vispr": twin("vispr")})
    subject = from_run(str(trained_run))
    found = own.measured(SPEED, subject)
    assert (found["cmap"].value, found["y"].value) == (None, None)
    assert found["top1"].value is not None
    (curve,) = tmp_path.glob("runs/*/curve.json")
    assert "NaN" not in curve.read_text("utf-8")
    assert all(moment.score is None for moment in curve_of(curve.parent))
    assert pictures([own], [subject], []) == {}


def test_curves_are_means_over_seeds_and_raw_features_are_a_level(
    shop: Workshop, trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Any, ...]] = []
    monkeypatch.setattr("videoveil.report.plots.curves", lambda *given: drawn.append(given))
    monkeypatch.setattr(Workshop, "run_folder", lambda self, *_: tmp_path / str(self.seed))
    monkeypatch.setattr(
        Workshop, "measured", lambda *_: {name: Reading(0.5) for name in ("top1", "cmap", "y", "minutes")}
    )
    shops = [replace(shop, seed=seed) for seed in (0, 1)]
    trained = from_run(str(trained_run))
    for seed in (0, 1):
        moments = [Moment(60.0 * (t + seed), 0.5, 0.5, 0.1 * t + seed) for t in (1, 2)]
        files.write_json(tmp_path / str(seed) / "curve.json", [asdict(one) for one in moments])
    assert list(pictures(shops, [trained], [])) == ["speed-curves"]
    ((line,), *_, levels) = drawn[0]
    assert (line.name, levels) == (trained.row, [])
    assert line.x == pytest.approx((1.5, 2.5))
    assert line.y == pytest.approx((0.6, 0.7))
    for seed in (0, 1):
        (tmp_path / str(seed) / "curve.json").unlink()
    pictures(shops, [raw(), trained], [])
    ((line,), *_, levels) = drawn[1]
    assert (line.x, line.y, [level.value for level in levels]) == ((0.5,), (0.5,), [0.5])


def test_a_pixel_run_is_one_point_with_the_minutes_that_it_noted(
    shop: Workshop, twin: Twin, pixel_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(pixel_run, run)
    own = replace(shop, out=tmp_path / "out", roots={**shop.roots, "vispr": twin("vispr")})
    assert own.measured(SPEED, from_run(str(run)))["minutes"].value is None  # it trained nothing
    (run / "history.jsonl").write_text('{"seconds": 90}\n{"seconds": 30}\n', encoding="utf-8")
    found = SPEED.run(own, from_run(str(run)))
    assert found["minutes"].value == 2
    assert found["top1"].value is not None
    assert found["cmap"].value is not None
    assert found["y"].value == combined(found["top1"].value, found["cmap"].value)
