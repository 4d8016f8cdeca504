"""Labels and boxes of the people are those of the play that an item was rendered from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from videoveil.data import twins
from videoveil.data.records import Item
from videoveil.data.theatre import extents
from videoveil.data.theatre.cast import identity
from videoveil.data.twins.people import ATTRIBUTES, KINDS, lead_attributes, lead_boxes, person_attributes
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


def test_every_item_gets_the_boxes_of_everybody_in_it(tmp_path: Path) -> None:
    boxes = lead_boxes("ucf-crime", tmp_path, seed=2)
    for shot in twins.plan("ucf-crime", 2, "tiny").shots()[:2]:
        found = boxes(item(tmp_path / shot.path))
        assert len(found) == shot.play.frames
        assert max(len(part) for part in found) > 1
        np.testing.assert_array_equal(found[7], extents.Extents(shot.play).frame(7))


def test_photographs_have_the_boxes_of_one_frame(tmp_path: Path) -> None:
    boxes = lead_boxes("vispr", tmp_path)
    shots = twins.plan("vispr", 0, "tiny").shots()
    for shot in shots[:12]:
        (found,) = boxes(item(tmp_path / shot.path))
        assert found.shape == (len(shot.play.roles), 5)


def test_boxes_of_an_item_of_another_twin_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in the twin"):
        lead_boxes("vispr", tmp_path)(item(tmp_path / "images/none.jpg"))


def test_boxes_fit_the_video_that_was_written(tmp_path: Path) -> None:
    """Blackened by the boxes and read from the file, nothing is left of the colours of the actors."""
    from dataclasses import replace

    from videoveil.data.twins.film import AVI, shoot
    from videoveil.media.reader import open_video

    shot = next(s for s in twins.plan("shanghaitech").shots() if s.play.incidents)
    play = replace(shot.play, frames=30)
    shoot(play, tmp_path / "with.avi", AVI)
    shoot(replace(play, roles=(), incidents=()), tmp_path / "without.avi", AVI)
    with open_video(tmp_path / "with.avi") as one, open_video(tmp_path / "without.avi") as other:
        first, second = one.read(range(30)).astype(int), other.read(range(30)).astype(int)
    inside = np.zeros(first.shape[:3], bool)
    for t, found in enumerate(extents.boxes(play)):
        for x0, y0, x1, y1 in found[:, :4].astype(int):
            inside[t, max(0, y0 - 4) : y1 + 4, max(0, x0 - 4) : x1 + 4] = True
    difference = np.abs(first - second).max(-1)
    assert difference[inside].mean() > 10 * difference[~inside].mean()
    assert np.percentile(difference[~inside], 99) <= 8  # what the codec does elsewhere
