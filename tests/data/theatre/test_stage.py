"""Rendering: deterministic, random access, fast."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.data.theatre import stage
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.motion import ACTIONS
from videoveil.data.theatre.play import INCIDENTS, Play
from videoveil.data.theatre.playwright import photo, surveillance, trimmed, untrimmed


def some_play(number: int, frames: int = 24) -> Play:
    action = list(ACTIONS)[number % len(ACTIONS)]
    return trimmed("stage", number, action=action, person=identity(0, number), frames=frames)


@given(st.integers(0, 500), st.integers(0, 23))
@settings(max_examples=25, deadline=None)
def test_a_frame_is_a_pure_function_of_play_and_number(number: int, index: int) -> None:
    play = some_play(number)
    alone = stage.Stage(play).frame(index)
    in_order = next(f for i, f in enumerate(stage.frames(play)) if i == index)
    assert alone.shape == (112, 112, 3)
    assert alone.dtype == np.uint8
    np.testing.assert_array_equal(alone, in_order)


def test_another_process_renders_the_same_bytes() -> None:
    play = some_play(3)
    here = hashlib.sha256(stage.clip(play).tobytes()).hexdigest()
    code = (
        "import hashlib; from tests.data.theatre.test_stage import some_play; from videoveil.data.theatre import stage;"
        "print(hashlib.sha256(stage.clip(some_play(3)).tobytes()).hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_other_seeds_give_other_pictures() -> None:
    pictures = {stage.Stage(some_play(n)).frame(0).tobytes() for n in range(20)}
    assert len(pictures) == 20


@pytest.mark.parametrize("action", [name for name in ACTIONS if name != "stand"])
def test_every_action_moves_and_standing_does_not(action: str) -> None:
    def change(name: str) -> float:
        play = trimmed("move", 1, action=name, person=identity(0, 5), frames=20, bystanders=0)
        pictures = stage.clip(play).astype(int)
        camera_only = trimmed("move", 1, action="stand", person=identity(0, 5), frames=20, bystanders=0)
        return float(np.abs(pictures - stage.clip(camera_only).astype(int)).mean())

    assert change("stand") == 0
    assert change(action) > 0.5


@pytest.mark.parametrize("kind", INCIDENTS)
def test_an_incident_changes_the_picture_from_its_first_frame_on(kind: str) -> None:
    with_it = surveillance("incident", 4, incident=kind, frames=200)
    (incident,) = with_it.incidents
    assert 0 < incident.first < incident.stop <= 200
    quiet = Play(
        **{f: getattr(with_it, f) for f in Play.__dataclass_fields__ if f != "incidents"}, incidents=()
    )
    middle = (incident.first + incident.stop) // 2
    before = incident.first - 1
    np.testing.assert_array_equal(stage.Stage(with_it).frame(before), stage.Stage(quiet).frame(before))
    assert (stage.Stage(with_it).frame(middle) != stage.Stage(quiet).frame(middle)).any()


def test_odd_sizes_and_photographs_render() -> None:
    for width, height in ((112, 112), (161, 121), (64, 200), (16, 16)):
        play = photo("odd", width, width=width, height=height, people=4)
        assert stage.clip(play).shape == (1, height, width, 3)


def test_untrimmed_plays_hold_several_instances_that_do_not_overlap() -> None:
    for k in range(10):
        play = untrimmed("u", k, actions=("walk", "wave"), person=identity(0, k), frames=750)
        segments = play.segments()
        assert len(segments) >= 3
        assert all(a.end < b.start for a, b in pairwise(segments))
        assert segments[-1].end <= play.frames / play.rate


def test_one_to_four_actors_appear() -> None:
    counts = {len(trimmed("n", k, action="walk", person=identity(0, k)).roles) for k in range(60)}
    assert counts == {1, 2, 3, 4}


def test_at_least_300_frames_a_second_on_one_core() -> None:
    plays = [some_play(n, frames=48) for n in range(6)]
    began = time.process_time()
    frames = sum(1 for play in plays for _ in stage.frames(play))
    assert frames / (time.process_time() - began) >= 300
