"""Labels of the leading person are those of the play that an item was rendered from."""

from __future__ import annotations

from pathlib import Path

import pytest

from videoveil.data import twins
from videoveil.data.records import Item
from videoveil.data.theatre.cast import identity
from videoveil.data.twins.people import ATTRIBUTES, KINDS, lead_attributes, person_attributes
from videoveil.errors import UsageError


def item(path: Path) -> Item:
    return Item(id=path.stem, path=path, split="train")


def test_every_item_gets_the_attributes_of_its_own_lead(tmp_path: Path) -> None:
    labels = lead_attributes("vphmdb", tmp_path, seed=3, size="tiny")
    for shot in twins.plan("vphmdb", 3, "tiny").shots():
        person, found = shot.play.roles[0].person, labels(item(tmp_path / shot.path))
        assert found is not None
        assert tuple(found) == ATTRIBUTES
        assert found["female"] == (person.gender == "female")
        assert (
            found[f"skin {person.skin}"] == found[f"age {person.age}"] == found[f"build {person.build}"] == 1
        )
        assert person.hair == "grey" or found[f"hair {person.hair}"] == 1


@pytest.mark.parametrize("number", range(40))
def test_exactly_one_value_of_a_kind_holds(number: int) -> None:
    person = identity(0, number)
    found = person_attributes(person)
    for kind, values in KINDS.items():
        grey = kind == "hair" and person.hair == "grey"
        assert sum(found[f"{kind} {value}"] for value in values) == (0 if grey else 1)


def test_no_two_attributes_are_the_same_in_a_population() -> None:
    columns = zip(*(person_attributes(identity(0, n)).values() for n in range(60)))
    assert len(set(columns)) == len(ATTRIBUTES)


def test_root_and_item_may_be_written_differently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shot = twins.plan("ucf-crime", 0, "tiny").shots()[0]
    for root, path in ((Path("twin"), tmp_path / "twin"), (tmp_path / "twin", Path("twin"))):
        assert lead_attributes("ucf-crime", root)(item(path / shot.path)) is not None


def test_caller_may_change_what_is_returned(tmp_path: Path) -> None:
    labels = lead_attributes("vphmdb", tmp_path)
    one = item(tmp_path / twins.plan("vphmdb").shots()[0].path)
    first = labels(one)
    assert first is not None
    first.clear()
    assert labels(one)


def test_item_of_another_place_is_refused(tmp_path: Path) -> None:
    labels = lead_attributes("vphmdb", tmp_path / "twin", seed=3)
    shot = twins.plan("vphmdb", 3, "tiny").shots()[0]
    with pytest.raises(UsageError, match=r"not in the twin vphmdb.*seed 3 and size tiny"):
        labels(item(tmp_path / "other" / shot.path))
    with pytest.raises(UsageError, match="not in the twin"):
        labels(item(tmp_path / "twin" / "hmdb51_org/none.avi"))


def test_video_without_people_has_no_labels(tmp_path: Path) -> None:
    shots = twins.plan("vispr", 0, "tiny").shots()
    empty = [shot for shot in shots if not shot.play.roles]
    labels = lead_attributes("vispr", tmp_path)
    assert empty
    assert all(labels(item(tmp_path / shot.path)) is None for shot in empty)
    assert any(labels(item(tmp_path / shot.path)) for shot in shots)
