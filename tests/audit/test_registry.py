from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from videoveil.audit import registry
from videoveil.audit.participant import Participant
from videoveil.audit.registry import PARTICIPANTS, question_of
from videoveil.audit.subject import WHICH, Side, Stores, Subject, Untouched
from videoveil.data.records import Dataset, Item


def subject(root: Path, **changes: object) -> Subject:
    items = []
    for n in range(40):
        item = Item(
            f"v{n}",
            root / "none",
            "train" if n < 20 else "test",
            action=("a", "b")[n % 2],
            attributes={"x": n % 2},
            subject=f"p{n % 10}",
        )
        items.append(dataclasses.replace(item, **changes))  # type: ignore[arg-type]
    return Subject.of(Dataset("made-up", root, tuple(items)), Untouched())


def excuses(asked: Subject) -> dict[str, str]:
    stores = Stores(asked, Path("raw"), Path("own"))
    return {one.name: one.excuse(asked, stores) for one in PARTICIPANTS}


@pytest.mark.parametrize("one", PARTICIPANTS, ids=lambda one: one.name)
@pytest.mark.parametrize("gpu", [False, True])
def test_everybody_has_settings_that_can_be_written_down(one: Participant, gpu: bool) -> None:
    assert json.loads(json.dumps(one.settings(gpu)))
    assert 0 < one.strength <= 1
    assert one.words[0].islower()


def test_names_are_unique_and_every_role_is_there() -> None:
    assert len({one.name for one in PARTICIPANTS}) == len(PARTICIPANTS)
    assert {one.role for one in PARTICIPANTS} == {"attack", "utility"}


def test_with_attributes_actions_and_names_everybody_takes_part_who_asks_for_nothing_else(
    tmp_path: Path,
) -> None:
    left = {name: why for name, why in excuses(subject(tmp_path)).items() if why}
    assert set(left) == {"anomaly", "detection", "gait", "membership"}
    assert "something unusual" in left["anomaly"]
    assert "from when to when" in left["detection"]
    assert "nothing was trained" in left["membership"]


def test_only_who_has_a_raw_side_is_judged_by_it() -> None:
    assert [one.name for one in PARTICIPANTS if one.sides != WHICH] == ["membership"]
    assert all(one.role == "attack" for one in PARTICIPANTS if not one.judged)


def test_without_attributes_actions_or_names_those_who_need_them_say_so(tmp_path: Path) -> None:
    assert "no attributes" in excuses(subject(tmp_path, attributes=None))["frames"]
    assert "no item" in excuses(subject(tmp_path, action=None))["action-probe"]
    assert "one class (a)" in excuses(subject(tmp_path, action="a"))["action-network"]
    assert "0 people" in excuses(subject(tmp_path, subject=None))["identity-features"]


def test_where_only_features_leave_nobody_looks_at_pictures(tmp_path: Path) -> None:
    made = subject(tmp_path)
    hidden = dataclasses.replace(
        made,
        anonymized=Side("anonymized", made.dataset, latent=object()),  # type: ignore[arg-type]
    )
    found = excuses(hidden)
    for one in PARTICIPANTS:
        assert ("no pictures" in found[one.name]) == (one.reads == "clips"), one.name


def test_painted_boxes_have_no_features(tmp_path: Path) -> None:
    made = subject(tmp_path)
    painted = dataclasses.replace(made, anonymized=dataclasses.replace(made.anonymized, paint=object()))  # type: ignore[arg-type]
    assert "painted" in excuses(painted)["features-static"]


def test_likeness_is_shown_and_identity_in_reconstructions_is_identity() -> None:
    (one,) = registry.named(("reconstruction",))
    assert question_of(one, "psnr_unet", "psnr") == (f"{registry.LIKENESS} (psnr)", False)
    assert question_of(one, "attributes_tiny", "cmap") == (registry.ATTRIBUTES, True)
    assert question_of(one, "identity_rank1", "rank1") == (registry.IDENTITY, True)


def test_people_who_were_all_learnt_from_cannot_be_looked_for(tmp_path: Path) -> None:
    made = subject(tmp_path)
    assert excuses(made)["identity-clips"] == ""  # the same people everywhere: half of them are learnt from
    last = dataclasses.replace(made.dataset.items[-1], subject="a stranger who is there once")
    data = dataclasses.replace(made.dataset, items=(*made.dataset.items[:-1], last))
    assert "in training videos too" in excuses(Subject.of(data, Untouched()))["identity-clips"]
