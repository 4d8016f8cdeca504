"""Boxes of actors hold everything that is drawn of them, and little else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from videoveil.data.theatre import extents, stage
from videoveil.data.theatre.cast import costume, identity
from videoveil.data.theatre.play import INCIDENTS, Play
from videoveil.data.theatre.playwright import photo, surveillance, trimmed, walk

SIZE = {"width": 80, "height": 60}


def plays() -> list[Play]:
    found = [surveillance("extents", n, incident=None, frames=40, **SIZE) for n in range(2)]
    found += [surveillance("extents", kind, incident=kind, frames=80, **SIZE) for kind in INCIDENTS]
    actions = ("dance", "run", "squat", "wave")
    found += [
        trimmed("extents", n, action=action, person=identity(0, n), bystanders=n, frames=20, **SIZE)
        for n, action in enumerate(actions)
    ]
    return [*found, photo("extents", 1, people=4, **SIZE)]


def outside(boxes: np.ndarray, play: Play) -> np.ndarray:
    """Which pixels no box covers."""
    free = np.ones((play.height, play.width), bool)
    for x0, y0, x1, y1 in boxes[:, :4].astype(int):
        free[y0:y1, x0:x1] = False
    return free


@pytest.mark.parametrize("number", range(len(plays())))
def test_nothing_outside_the_boxes_changes_when_the_actors_look_different(number: int) -> None:
    play = plays()[number]
    paint = {"skin": "dark", "hair": "blond", "tone": 1.1, "tattoo": True}
    other = replace(
        play, roles=tuple(replace(role, person=replace(role.person, **paint)) for role in play.roles)
    )
    dressed = replace(
        other,
        roles=tuple(
            replace(role, costume=replace(role.costume, top="white", bottom="red")) for role in other.roles
        ),
    )
    changed = 0
    for index in range(0, play.frames, max(1, play.frames // 12)):
        free = outside(extents.Extents(play).frame(index), play)
        before, after = stage.Stage(play).frame(index), stage.Stage(dressed).frame(index)
        np.testing.assert_array_equal(before[free], after[free])
        changed += int((before[~free] != after[~free]).sum())
    assert changed


@pytest.mark.parametrize("number", range(4))
def test_nothing_outside_the_boxes_changes_when_the_actors_are_gone_and_boxes_are_tight(number: int) -> None:
    person = identity(0, number)
    play = walk(
        "extents", number, person=person, view=90, wardrobe=costume("extents", number), frames=40, **SIZE
    )
    empty = replace(play, roles=())
    seen = 0
    for index in range(0, 40, 4):
        boxes = extents.Extents(play).frame(index)
        with_them, without = stage.Stage(play).frame(index), stage.Stage(empty).frame(index)
        drawn = (with_them != without).any(2)
        assert not (drawn & outside(boxes, play)).any()
        assert len(boxes) == int(drawn.any())
        if drawn.any():
            rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
            tight = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
            assert np.abs(boxes[0, :4] - tight).max() <= 3
            seen += 1
    assert seen >= 4


def test_who_is_outside_the_picture_has_no_box_and_who_is_hidden_has_one() -> None:
    counts = {
        len(boxes) for boxes in extents.boxes(surveillance("out", 1, incident=None, frames=120, **SIZE))
    }
    assert min(counts) < 4
    assert max(counts) <= 4
    play = trimmed("hidden", 1, action="stand", person=identity(0, 1), bystanders=1, frames=2, **SIZE)
    lead = play.roles[0]
    behind = replace(play, roles=(lead, replace(lead, y=lead.y - 0.001)))
    assert len(extents.Extents(behind).frame(0)) == 2


@pytest.mark.parametrize("tone", [0.0, 9.0])
def test_pitch_black_and_pure_white_actors_have_the_same_boxes(tone: float) -> None:
    for play in plays()[:8:3]:
        roles = tuple(replace(role, person=replace(role.person, tone=tone)) for role in play.roles)
        for a, b in zip(
            extents.boxes(replace(play, frames=6)), extents.boxes(replace(play, frames=6, roles=roles))
        ):
            np.testing.assert_array_equal(a, b)


def test_boxes_are_whole_pixels_inside_the_picture_one_list_per_frame() -> None:
    for play in plays():
        frames = extents.boxes(play)
        assert len(frames) == play.frames
        every = np.concatenate(frames)
        assert every.dtype == np.float32
        np.testing.assert_array_equal(every, every.round())
        assert (every[:, :2] >= 0).all()
        assert (every[:, 2] <= play.width).all()
        assert (every[:, 3] <= play.height).all()
        assert (every[:, 2:4] > every[:, :2]).all()
        assert (every[:, 4] == 1).all()


def test_a_frame_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(IndexError):
        extents.Extents(plays()[0]).frame(40)


def test_an_empty_stage_has_empty_boxes() -> None:
    play = photo("nobody", 1, people=0, **SIZE)
    (found,) = extents.boxes(play)
    assert found.shape == (0, 5)
