from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.audit import world
from videoveil.anonymizers import Rank
from videoveil.anonymizers import latent as latent_anonymizer
from videoveil.audit import registry
from videoveil.audit.case import Case
from videoveil.audit.doubts import doubted, qualified
from videoveil.audit.draws import Estimate, Found
from videoveil.audit.plan import LeftOut
from videoveil.audit.run import audit
from videoveil.audit.scoring import Attempt, Part, Question
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


def passed(**changes: object) -> Question:
    """A question about attributes that passes, after what these attackers found in raw videos."""
    strong = Found(Estimate(0.9, 0.85, 0.95), 0.3, Estimate(0.6, 0.5, 0.7))
    attempts = tuple(Attempt(name, "cmap", strong, strong) for name in changes.pop("attackers", ()))  # type: ignore[call-overload,attr-defined]
    made = Question(registry.ATTRIBUTES, "attack", "cmap", attempts, verdict="PASS", reason="little is left")
    return replace(made, **changes)  # type: ignore[arg-type]


def of_features(data: Dataset, folder: Path) -> Case:
    """An audit of features that somebody else anonymized."""
    subject = Subject.of(data, BlackFrames())
    veiled = replace(subject.anonymized, pixels=None, latent=latent_anonymizer(8, Rank(4)))
    return replace(Case.of(subject, folder, world.settings()), subject=replace(subject, anonymized=veiled))


def test_features_do_not_pass_on_the_word_of_who_learnt_from_raw_ones_alone(
    data: Dataset, tmp_path: Path
) -> None:
    """Any change of the features blinds him, also one that can be undone."""
    case = of_features(data, tmp_path / "out")
    blinded = doubted(case, passed(attackers=("features-moving-raw/kernel",)))
    assert blinded.verdict == "NOT MEASURABLE"
    assert "but nobody who learns from anonymized features found at least half" in blinded.reason
    fresh = passed(attackers=("features-moving-raw/kernel", "features-moving/kernel"))
    assert doubted(case, fresh) == fresh
    away = [LeftOut("features-static", "did not fit"), LeftOut("features-static-raw", "did not fit")]
    assert (
        qualified(case, fresh, away).reason
        == "little is left; this is without features-static, which took no part and may find more"
    )


def test_every_attribute_needs_somebody_whose_failure_means_something(data: Dataset, tmp_path: Path) -> None:
    """A network that is blind to one of them leaves it to frozen features."""
    case = Case.of(Subject.of(data, BlackFrames()), tmp_path / "out", world.settings())
    figure = Estimate(0.1, 0.0, 0.2)
    seen = Part("seen", figure, figure, 0.3, figure, "frames/tiny", ("features-moving/kernel", "frames/tiny"))
    unseen = replace(seen, name="unseen", witnesses=("features-moving/kernel",))
    attackers = ("features-moving/kernel", "frames/tiny")
    assert doubted(case, passed(attackers=attackers, parts=(seen,))).verdict == "PASS"
    held = doubted(case, passed(attackers=attackers, parts=(seen, unseen)))
    assert held.verdict == "NOT MEASURABLE"
    assert "no network that learns from the pictures themselves found of unseen at least half" in held.reason


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
