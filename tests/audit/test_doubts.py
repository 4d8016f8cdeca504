from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.audit import world
from videoveil.audit.case import Case
from videoveil.audit.doubts import doubted, qualified
from videoveil.audit.plan import LeftOut
from videoveil.audit.run import audit
from videoveil.audit.scoring import Question
from videoveil.audit.subject import BlackFrames, Subject
from videoveil.data.records import Dataset
from videoveil.errors import UsageError


def test_pictures_do_not_pass_where_no_network_that_learns_from_them_took_part(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    black = Subject.of(data, BlackFrames())
    alone = audit(black, tmp_path / "asked", world.settings(), cache=cache)
    assert alone.verdict.privacy == "NOT MEASURABLE"  # that nobody else was asked is no reason to pass
    assert "frames" in "".join(alone.verdict.reasons)
    short = audit(black, tmp_path / "short", world.settings("frames", budget=0.05), cache=cache)
    assert [one.name for one in short.left_out if "did not fit" in one.reason] == ["frames"]
    assert short.verdict.privacy == "NOT MEASURABLE"
    assert any("no network that learns from the pictures" in reason for reason in short.verdict.reasons)
    assert short.exit_code == 2  # the utility fails


def test_who_walks_is_not_settled_by_features_where_pictures_are_published(
    data: Dataset, tmp_path: Path
) -> None:
    """No network here learns from pictures who is walking, and features are of the middle of a picture."""
    made = Question("who is walking", "attack", "rank1", (), verdict="PASS", reason="little is left")
    case = Case.of(Subject.of(data, BlackFrames()), tmp_path / "out", world.settings())
    found = doubted(case, made)
    assert found.verdict == "NOT MEASURABLE"
    assert found.reason.startswith("little is left; but nobody here learns from the pictures")


def test_a_question_that_nobody_was_let_ask_holds_a_pass_back(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    """`--only` without whoever looks for people again: their names are known, so it could have been asked."""
    asked = world.settings()
    asked = replace(asked, participants=(*asked.participants, world.learner()))
    found = audit(Subject.of(data, BlackFrames()), tmp_path / "out", asked, cache=cache)
    assert found.verdict.privacy == "NOT MEASURABLE"
    held = "".join(reason for reason in found.verdict.reasons if "holds PASS back" in reason)
    assert "who it is" in held
    assert "was not asked for" in held
    attributes = next(one for one in found.questions if one.name == "private attributes")
    assert attributes.verdict == "PASS"
    assert (
        "without clips, clips-tuned, " in attributes.reason
    )  # networks that ask the same and were not there
    assert "frames-tuned, reconstruction, which took no part" in attributes.reason


def test_a_question_that_could_have_been_asked_holds_a_pass_back(
    data: Dataset, cache: Path, tmp_path: Path
) -> None:
    asked = world.settings("identity-features")
    asked = replace(asked, participants=(*asked.participants, world.learner()))

    def stuck(trial: object, config: object) -> None:
        raise UsageError("nothing can be learnt from these")

    broken = tuple(
        replace(one, run=stuck, why_not=lambda subject: "") if one.name == "identity-features" else one
        for one in asked.participants
    )
    found = audit(
        Subject.of(data, BlackFrames()), tmp_path / "out", replace(asked, participants=broken), cache=cache
    )
    assert found.verdict.privacy == "NOT MEASURABLE"
    assert "nothing can be learnt from these" in "".join(found.verdict.reasons)


def test_a_drawing_that_nobody_made_is_missing_from_the_word_on_who_it_is(
    data: Dataset, tmp_path: Path
) -> None:
    """Faces that were drawn again are looked at for names, too."""
    made = Question("who it is", "attack", "rank1", (), verdict="PASS", reason="little is left")
    case = Case.of(Subject.of(data, BlackFrames()), tmp_path / "out", world.settings())
    away = [LeftOut(name, "did not fit") for name in ("reconstruction", "frames")]
    found = qualified(case, made, away)
    assert (
        found.reason == "little is left; this is without reconstruction, which took no part and may find more"
    )
