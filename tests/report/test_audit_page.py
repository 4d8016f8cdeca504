from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image

from tests.report.test_page import HOSTILE, Reader
from videoveil.audit.rules import Rules
from videoveil.audit.scoring import Question, question, to_json, verdict
from videoveil.report import plots
from videoveil.report.audit_page import audit_page, summary, write
from videoveil.report.page import render
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome

RULES = Rules(resamples=100)
N = 120
IDS = tuple(f"v{i}" for i in range(N))
RISK = {
    "kind": "inference",
    "words": "Somebody guesses.",
    "attacker": "frames, gender",
    "main": 0.9,
    "control": 0.6,
    "baseline": 0.5,
    "risk": 0.75,
    "low": 0.6,
    "high": 0.85,
    "trials": 40,
    "reason": "",
}
UNMEASURED = {**RISK, "kind": "linkability", "risk": None, "main": None, "reason": "nobody is named"}


def people(knows: float | np.ndarray, seed: int) -> AttributeOutcome:
    """Attackers who know that much of everything, or of each attribute."""
    rng = np.random.default_rng(seed)
    truth = np.stack([np.arange(N) % 2, np.arange(N) // 2 % 2], 1).astype(float)
    return AttributeOutcome(
        ("gender", "skin"), truth, knows * truth + (1 - knows) * rng.random(truth.shape), np.arange(N), IDS
    )


def right(share: float, metric: str = "top1", letter: str = "v", n: int = N) -> MeanOutcome:
    ids = tuple(f"{letter}{i}" for i in range(n))
    return MeanOutcome(metric, ids, (np.arange(n) < share * n).astype(float), np.full(n, 0.1))


def judged(questions: Sequence[Question]) -> dict[str, Any]:
    """The metrics of these questions, with what follows from them."""
    found = verdict(questions)
    return {
        **metrics(),
        "verdict": {**asdict(found), "overall": found.overall},
        "questions": [to_json(one) for one in questions],
    }


def asked(name: str, sides: Any, role: Any = "attack") -> Question:
    return question(name, role, sides, RULES)


def metrics(left: float | np.ndarray = 0.05, useful: float = 0.9) -> dict[str, Any]:
    questions: list[Question] = [
        question(
            "private attributes",
            "attack",
            {
                "frames/tiny": ([people(0.9, 1)] * 2, [people(left, 2)] * 2),
                "grid/linear": ([people(0.0, 3)] * 2, [people(0.0, 4)] * 2),
            },
            RULES,
        ),
        Question("who is walking", "attack", "", (), reason="needs people by name", possible=False),
        question("actions", "utility", {"probe/linear": ([right(0.95)] * 2, [right(useful)] * 2)}, RULES),
    ]
    found = verdict(questions)
    return {
        "verdict": {**asdict(found), "overall": found.overall},
        "rules": asdict(RULES),
        "seeds": [0, 1],
        "data": {
            "name": "vphmdb",
            "synthetic": True,
            "items": {"train": 80, "test": 120},
            "attributes": ["gender", "skin"],
            "encoder": "tiny",
        },
        "anonymizer": "blur",
        "questions": [to_json(one) for one in questions],
        "risks": [RISK, UNMEASURED],
        "took_part": ["frames", "grid"],
        "left_out": [{"name": "clips", "reason": "did not fit into 15 minutes"}],
        "not_measurable": ["nudity: all 120 items have the value 0"],
        "never_tested": ["voices"],
    }


def page(found: dict[str, Any], **options: Any) -> str:
    return render(audit_page(found, words={"frames": "looks at frames"}, **options))


def test_the_page_says_everything_that_an_audit_must_say() -> None:
    text = Reader(page(metrics())).text
    for part in (
        "Privacy: ✓ PASS",
        "Utility: ✓ PASS",
        "frames/tiny",
        "strongest, counts",
        "void",
        "leakage",
        "reduction above chance",
        "relative reduction",
        "gender",
        "Somebody guesses. This succeeded in 90 of 100 cases",
        "not a promise that data are anonymous",
        "nobody is named",
        "did not fit into 15 minutes",
        "nudity: all 120 items have the value 0",
        "voices",
        "are synthetic",
        "veil audit",
    ):
        assert part in text, part


def test_failures_say_so_first() -> None:
    leaky = summary(metrics(left=0.9))
    assert leaky.startswith("This anonymizer does not hide enough")
    assert "can no longer be recognised" in summary(metrics(useful=0.3))
    assert "✗ FAIL" in page(metrics(left=0.9))


def test_an_average_does_not_hide_the_attribute_that_leaks() -> None:
    found = metrics(left=np.array([0.9, 0.0]))
    assert found["verdict"]["privacy"] == "FAIL"
    said = summary(found)
    assert said.startswith("This anonymizer does not hide enough")
    assert "private attributes, on average " in said
    assert ", and 100 % (100 to 100 %) of gender alone." in said
    for evenly in (0.05, 0.9):
        assert "alone" not in summary(metrics(left=evenly))


def test_what_could_not_be_measured_is_no_verdict() -> None:
    found = metrics()
    found["questions"] = [to_json(Question("private attributes", "attack", "", (), reason="no attacker"))]
    found["verdict"] = {
        "privacy": "NOT MEASURABLE",
        "utility": "NOT MEASURABLE",
        "overall": "NOT MEASURABLE",
        "reasons": ["privacy, private attributes: NOT MEASURABLE: no attacker"],
    }
    text = Reader(page(found)).text
    assert "could not be tested for privacy" in text
    assert "One of the two could not be measured" in text


def test_a_question_that_was_not_answered_is_named_where_it_holds_pass_back() -> None:
    attributes = asked("private attributes", {"frames/tiny": ([people(0.9, 1)] * 2, [people(0.05, 2)] * 2)})
    useful = asked("actions", {"probe/linear": ([right(0.95)] * 2, [right(0.9)] * 2)}, "utility")
    missing = Question("who it is", "attack", "", (), reason="nobody fitted into the budget")
    found = judged([attributes, missing, useful])
    assert "could not be tested for all that has to be hidden (who it is), and" in summary(found)
    text = Reader(page(found)).text
    assert "Privacy: ? NOT MEASURABLE" in text
    assert "Private attributes: PASS: frames/tiny" in text
    assert "Who it is: NOT MEASURABLE: nobody fitted into the budget; this holds PASS back." in text
    unasked = Reader(page(metrics())).text
    assert (
        "needs people by name; these data do not allow to ask it, and PASS says nothing about it." in unasked
    )


def test_an_attribute_that_may_leak_too_much_is_told_beside_a_mean_that_passes() -> None:
    found = metrics()
    (part, *_) = found["questions"][0]["parts"]
    part["leakage"] = {"value": 1.0, "low": 0.46, "high": 2.23}
    found["verdict"]["privacy"] = "FAIL"
    said = summary(found)
    assert said.startswith("This anonymizer has not been shown to hide enough")
    assert ", and 100 % (46 to 223 %) of gender alone." in said
    text = Reader(page(found)).text
    assert "Of gender alone frames/tiny finds 100 % (46 to 223 %)." in text
    assert "one attribute alone" in page(found)  # in the picture, on the wrong side of the limit
    assert "over, not surely" in text
    part["leakage"] = {"value": 0.4, "low": 0.1, "high": 0.7}
    assert "within, not surely" in Reader(page(found)).text


def test_the_attribute_alone_is_told_whichever_question_leaks_most() -> None:
    found = metrics(left=np.array([0.9, 0.0]))
    walks = asked("who it is", {"rank1": ([right(1.0, "rank1")] * 2, [right(0.9, "rank1")] * 2)})
    found["questions"].append(to_json(walks))
    said = summary(found)
    assert "Largest leakage: who it is, 89 %" in said
    assert "of gender alone" in said


def test_every_figure_of_an_attribute_has_its_interval_and_chance_beside_it() -> None:
    found = metrics()
    first, second = found["questions"][0]["parts"]
    first["raw"] = {"value": 0.912, "low": 0.85, "high": 0.955}
    first["anonymized"] = {"value": 0.61, "low": 0.503, "high": 0.7}
    first["chance"] = 0.504
    second["anonymized"] = {
        "value": 0.55,
        "low": None,
        "high": None,
    }  # the videos define it only now and then
    table = " ".join(re.sub("<[^>]*>", " ", page(found)).split())
    # what decides comes first
    assert "attribute limit 50 % leakage raw anonymized chance found best by" in table
    assert " 91.2 [85.0, 95.5] 61.0 [50.3, 70.0] 50.4 " in table
    alt = next(
        v or ""
        for tag, name, v in Reader(page(found)).attributes
        if "leakage" in (v or "") and "chance" in (v or "")
    )
    assert (
        f"{first['name']}: raw 91.2 [85.0, 95.5], anonymized 61.0 [50.3, 70.0], chance 50.4, leakage" in alt
    )
    assert "anonymized 55.0, chance" in alt


def test_bars_of_attributes_have_their_intervals_at_the_height_of_the_bars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Figure] = []
    bars = plots.bars

    def kept(*given: Any) -> Figure:
        made.append(bars(*given))
        return made[-1]

    monkeypatch.setattr(plots, "bars", kept)
    found = metrics()
    first, second = found["questions"][0]["parts"]
    first["raw"] = {"value": 0.912, "low": 0.85, "high": 0.955}
    first["anonymized"] = {"value": 0.61, "low": 0.503, "high": 0.7}
    second["raw"] = {"value": None, "low": None, "high": None}  # has no bar
    second["anonymized"] = {"value": 0.55, "low": 0.4, "high": 0.8}
    text = page(found)
    (axes,) = made[0].axes
    middle = {round(p.get_width(), 6): p.get_y() + p.get_height() / 2 for p in axes.patches}
    segments = [one.get_segments()[0] for one in axes.collections if isinstance(one, LineCollection)]
    along = {
        (round(left, 6), round(right, 6), round(y, 6)) for (left, y), (right, other) in segments if y == other
    }
    assert along == {
        (0.85, 0.955, round(middle[0.912], 6)),
        (0.503, 0.7, round(middle[0.61], 6)),
        (0.4, 0.8, round(middle[0.55], 6)),
    }
    assert "are 95 % intervals" in Reader(text).text


def test_attributes_that_nobody_found_are_named_with_what_that_means() -> None:
    raw = [people(np.array([0.9, 0.0]), 1)] * 2
    found = judged([asked("private attributes", {"frames/tiny": (raw, [people(0.0, 6)] * 2)})])
    assert found["questions"][0]["unproven"] == ("skin",)
    text = Reader(page(found)).text
    said = "Nobody found these attributes even in raw videos, so nothing is known of whether they are hidden"
    assert text.count(said) == 2
    assert "does not speak of them: skin." in text
    assert said not in Reader(page(metrics())).text
    nobody = judged([asked("private attributes", {"frames/tiny": ([people(0, 1)] * 2, [people(0, 6)] * 2)})])
    assert "does not speak of them: gender, skin." in Reader(page(nobody)).text


def test_the_rule_claims_no_more_than_is_shown() -> None:
    text = Reader(page(metrics())).text
    assert "certainty" not in text
    assert "any attacker" not in text
    for part in (
        "the attackers named below",
        "of their average",
        "the estimate of each",
        "Nothing is said of other",
    ):
        assert part in text, part


def test_every_row_has_its_metric_where_they_differ() -> None:
    again = {
        "identity/rank1_cosine": ([right(0.5, "rank1")] * 2, [right(0.4, "rank1")] * 2),
        "identity/map_cosine": ([right(0.9, "map")] * 2, [right(0.3, "map")] * 2),
    }
    walks = {
        "gait/cosine_nm": ([right(0.9, letter="nm")] * 2, [right(0.3, letter="nm")] * 2),
        "gait/cosine_cl": ([right(0.5, letter="cl", n=40)] * 2, [right(0.4, letter="cl", n=40)] * 2),
    }
    found = judged([asked("who it is", again), asked("who is walking", walks)])
    text = " ".join(re.sub("<[^>]*>", " ", page(found)).split())
    assert "attacker metric raw anonymized chance identity/rank1_cosine rank-1 50.0" in text
    assert "identity/map_cosine mAP 90.0" in text
    assert (
        "of the same person (rank-1), in %; mean average precision of finding all videos of the same" in text
    )
    assert "detected actions" not in text
    assert "attacker videos raw anonymized chance gait/cosine_cl 40 50.0" in text
    assert "40 to 120 test videos" in text
    assert "measured by leakage found best by rank-1, 120 videos 75 %" in text
    assert "identity/rank1_cosine largest, counts mAP, 120 videos 25 %" in text
    assert "measured by" not in Reader(page(metrics())).text


def test_metrics_of_an_earlier_version_can_still_be_drawn() -> None:
    found = metrics()
    for one in found["questions"]:
        for name in ("possible", "unproven", "groups"):
            del one[name]
        for part in one["parts"]:
            del part["witnesses"]
    del found["rules"]["least_found"]
    assert "Privacy: ✓ PASS" in Reader(page(found)).text


def test_equal_metrics_give_an_equal_page_that_asks_nobody_for_anything() -> None:
    assert page(metrics()) == page(metrics())
    assert "http" not in page(metrics()).replace("http-equiv", "")


def test_hostile_names_are_text() -> None:
    found = copy.deepcopy(metrics())
    found["anonymizer"] = HOSTILE
    found["left_out"][0]["name"] = HOSTILE
    reader = Reader(page(found))
    assert "script" not in reader.tags
    assert HOSTILE in reader.text


def test_a_drawing_that_is_kept_back_is_named(tmp_path: Path) -> None:
    found = {**metrics(), "took_part": ["frames", "reconstruction"]}
    assert "What the reconstruction attack drew of test videos is not shown" in page(found)
    path = tmp_path / "drawing.png"
    Image.new("RGB", (8, 8)).save(path)
    assert "is not shown" not in page(found, drawings=[path])
    assert "is not shown" not in page(metrics())


def test_pictures_are_taken_into_the_page(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "p.png")
    assert "data:image/png;base64" in page(metrics(), strip=tmp_path / "p.png")


def test_reconstructions_follow_one_picture_per_video(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(2)]
    for path in paths:
        Image.new("RGB", (8, 6)).save(path)
    made = page(metrics(), drawings=paths)
    assert made.count("data:image/png;base64") == 2
    assert "Test video 2: what the reconstruction attack" in Reader(made).text
    assert "Test video 1" not in Reader(page(metrics())).text


def test_membership_is_told_without_a_person() -> None:
    found = metrics()
    found["risks"].append({**RISK, "kind": "membership", "words": "Somebody is shown two videos."})
    text = Reader(page(found)).text
    assert "Membership: Somebody is shown two videos. This succeeded in 90 of 100 cases" in text
    assert "40 videos of either kind); from the raw videos alone, or by chance, it does in 60" in text


def test_what_is_not_judged_is_shown_and_called_that() -> None:
    found = metrics()
    shown = question("people found", "attack", {"hog": ([right(1.0)], [right(0.4)])}, RULES, judged=False)
    found["questions"].append(to_json(shown))
    text = Reader(page(found)).text
    assert "People found" in text
    assert "Shown; nothing is decided by it." in text
    assert summary(found) == summary(metrics())


def test_what_is_kept_of_a_utility_is_told_with_chance_and_without() -> None:
    text = " ".join(re.sub("<[^>]*>", " ", page(metrics(useful=0.5))).split())
    assert "kept of the raw score, which decides 53 %" in text
    assert "kept above chance 47 %" in text


def test_so_few_videos_that_nothing_is_known_have_no_figure() -> None:
    few = asked("who it is", {"rank1": ([right(1.0, n=3)] * 2, [right(1.0, n=3)] * 2)})
    text = " ".join(re.sub("<[^>]*>", " ", page(judged([few]))).split())
    assert "rank1 – – – void: 3 test items; at least 10 are needed" in text


def test_doubt_is_not_told_as_too_much_that_was_found() -> None:
    found = metrics(left=0.9)
    found["questions"][0]["parts"] = ()
    found["questions"][0]["leakage"] = {"value": 0.75, "low": 0.45, "high": 1.43}
    assert summary(found).startswith("This anonymizer has not been shown to hide enough")


def test_the_overview_shows_the_utility_that_suffers_most() -> None:
    found = metrics()
    lost = question("unusual events", "utility", {"mgfn": ([right(0.9)], [right(0.5)])}, RULES)
    found["questions"].append(to_json(lost))
    assert "against unusual events (mgfn)" in Reader(page(found)).text
    assert "against actions (probe/linear)" in Reader(page(metrics())).text


def test_the_command_that_made_it_is_shown(tmp_path: Path) -> None:
    write(metrics(), tmp_path / "report.html", command="veil audit vphmdb:ROOT --anonymizer blur")
    assert "veil audit vphmdb:ROOT --anonymizer blur" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("left", [0.0, 1.0])
def test_extremes_can_be_drawn(left: float) -> None:
    assert "<svg" in page(metrics(left=left))
