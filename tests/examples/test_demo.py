"""The demo on its smallest data: every part runs, the page has every figure, and no figure is made up."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from videoveil.data.twins.plan import SCALES, Scale
from videoveil.tasks.base import Metric, Score

EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = ("linear", "knn")
EPOCHS = 4
SMALLEST = Scale("smallest", per_class=3, frames=32, untrimmed=2, long_frames=190, images=1, people=2)


@pytest.fixture(scope="module")
def demo_module() -> Iterator[Any]:
    """The script as a module; its folder is where Python looks for `demo_page`, as when it is run."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import demo

        yield demo
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def told(demo_module: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    """A whole demo: few and short videos, few epochs, two attackers; in this process, which knows the scale."""
    folder = tmp_path_factory.mktemp("demo")
    works = dict(demo_module.WORKS)
    works["action"] = replace(works["action"], size=SMALLEST.name, clips="1")
    quick = {
        **demo_module.SHORT,
        "width": "32",
        "mlp_width": "32",
        "warmup_epochs": "1",
        "cosine_epochs": "1",
    }
    works["detection"] = replace(works["detection"], size=SMALLEST.name, clips="dense:32", changes=quick)
    works["anomaly"] = replace(works["anomaly"], size=SMALLEST.name, changes={"epochs": "1"})
    recipes = dict(demo_module.RECIPES)
    recipes["splavu"] = replace(recipes["splavu"], epochs=EPOCHS, evaluate_every=2)
    demo = demo_module.Demo(folder, 5, works, recipes, KINDS, processes=1)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setitem(SCALES, SMALLEST.name, SMALLEST)
        story = demo_module.run(demo, pool, Console(quiet=True))
    demo_module.write_page(story, folder / "report.html")
    return demo, story, folder


def test_every_variant_has_every_score(told: tuple[Any, Any, Path]) -> None:
    _, story, _ = told
    assert list(story.scores) == ["raw", "splavu", "veil"]
    for scores in story.scores.values():
        assert set(scores) == {"action", "detection", "anomaly", "static", "moving"}
        assert all(0 <= score.headline.value <= 1 for score in scores.values())


def test_raw_features_tell_what_happens_and_to_whom(told: tuple[Any, Any, Path]) -> None:
    _, story, _ = told
    for what in ("action", "static", "moving"):
        assert story.value("raw", what) > story.chance(what) + 0.1
    assert story.leaks("raw", "static") == story.leaks("raw", "moving") == 1
    assert set(story.kept("raw")) == {1}


def test_anonymizers_are_made_from_training_videos_and_stores_name_them(told: tuple[Any, Any, Path]) -> None:
    demo, story, folder = told
    for variant in ("splavu", "veil"):
        run = json.loads((folder / variant / "run" / "run.json").read_text())
        assert {source["split"] for source in run["sources"].values()} == {"train"}
        for task in demo.works:
            assert demo.store(task, variant).encoder["anonymizer"]["hash"] == story.hashes[variant]
    assert story.hashes["splavu"] != story.hashes["veil"]


def test_published_objective_has_its_curves(told: tuple[Any, Any, Path]) -> None:
    demo, story, _ = told
    history = story.history("splavu")
    assert len(history) == EPOCHS
    assert [record["epoch"] for record in history if "score" in record] == [1, 3]
    for record in history:
        if "score" in record:
            assert record["score"] == pytest.approx((record["accuracy"] + 1 - record["leakage"]) / 2)
    assert story.history("veil") == []
    assert story.in_a_step("splavu") == len(demo.train("action").items())
    assert story.blind_budget("splavu") == pytest.approx(math.log(2 * story.in_a_step("splavu") - 1))


def test_page_has_every_figure_and_fact_and_asks_for_nothing(told: tuple[Any, Any, Path]) -> None:
    _, story, folder = told
    page = (folder / "report.html").read_text("utf-8")
    for variant, scores in story.scores.items():
        for what, score in scores.items():
            assert f"{100 * score.headline.value:.1f}" in page, (variant, what)
        for attack in ("static", "moving"):
            assert f"({story.leaks(variant, attack):.2f})" in page
    for name in story.scores["raw"]["static"].per_class:
        assert page.count(f">{name}<") == 2  # a row of bars for still and for moving clips
    for hash_ in story.hashes.values():
        assert hash_ in page
    for word in ("Synthetic data", "One seed", *KINDS, "epochs 100 → 4", "budget", "consistency", "utility"):
        assert word in page
    assert page.count("<svg") == 8
    assert not re.search(r"https?://|<script|src=\"(?!data:)", page)
    assert "anonymous" not in page.lower()


def test_page_says_so_where_an_anonymizer_hides_nothing(
    demo_module: Any, told: tuple[Any, Any, Path]
) -> None:
    import demo_page

    _, story, _ = told
    same = replace(story, scores={"raw": story.scores["raw"], "splavu": story.scores["raw"]},
                   recipes={"splavu": story.recipes["splavu"]})  # fmt: skip
    verdict = demo_page.verdicts(same)[-1]
    assert "splavu hides next to nothing" in verdict
    assert "100 % of the leakage is still there" in verdict
    assert "splavu leaves 100\u00a0% of what attackers read and 100\u00a0%" in demo_page.summary(same)


def test_task_that_raw_features_are_no_good_for_is_named_and_does_not_count(
    told: tuple[Any, Any, Path],
) -> None:
    import demo_page

    def score(value: float, chance: float) -> Score:
        return Score("x", 1, (Metric("m", value, chance),))

    raw = {"action": (0.8, 0.1), "detection": (0.01, 0.02), "anomaly": (0.9, 0.5), "static": (0.9, 0.3)}
    veil = {"action": (0.4, 0.1), "detection": (0.04, 0.02), "anomaly": (0.9, 0.5), "static": (0.6, 0.3)}
    scores = {
        variant: {what: score(*pair) for what, pair in {**found, "moving": found["static"]}.items()}
        for variant, found in (("raw", raw), ("veil", veil))
    }
    story = replace(told[1], scores=scores, recipes={"veil": told[1].recipes["veil"]})
    assert story.kept("veil") == [0.5, 1.0]
    assert story.leaks("veil", "moving") == pytest.approx(0.5)
    first, second = demo_page.verdicts(story)
    assert "no better than a blind guess at actions in time" in first
    assert "0.50 of the leakage on still clips and 0.50 on moving" in second


def test_table_has_every_variant_and_chance(told: tuple[Any, Any, Path]) -> None:
    import demo_page

    _, story, _ = told
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(demo_page.tell(story))
    shown = console.export_text()
    for word in ("raw", "splavu", "veil", "blind guess", f"{100 * story.value('veil', 'moving'):.1f}"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 110


def test_next_demo_clears_what_the_last_one_left_and_nothing_else(demo_module: Any, tmp_path: Path) -> None:
    demo = demo_module.Demo(tmp_path)
    for name in ("raw", "veil", "vphmdb", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "report.html").touch()
    demo_module.clear(demo)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".demo", "mine", "report.html"]


def test_a_folder_that_no_demo_made_is_left_alone(demo_module: Any, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "holiday.mp4").touch()
    with pytest.raises(SystemExit, match="choose another folder"):
        demo_module.clear(demo_module.Demo(tmp_path))
    assert (tmp_path / "raw" / "holiday.mp4").exists()
