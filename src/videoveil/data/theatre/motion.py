"""What can happen: actions as velocities of three body phases, and the pose a set of phases gives.

A body has three phases (in cycles): arms, legs, trunk. Each runs round a closed loop of joint angles. An action is the
signed rates at which the phases advance; where they start is drawn uniformly and independently of the action. A single
frame therefore has the same distribution under every action; only time tells them apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from videoveil.data.theatre.cast import Gait, Identity

TAU = 2 * math.pi
SLOW, FAST = 0.8, 2.2  # cycles per second; personal tempo moves them by at most 16 %, so they never meet


@dataclass(frozen=True, slots=True)
class Action:
    """Rates of the three phases in cycles per second; `travels`: the legs carry the body along."""

    name: str
    arms: float = 0.0
    legs: float = 0.0
    trunk: float = 0.0
    travels: bool = False


ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        Action("stand"),
        Action("walk", arms=SLOW, legs=SLOW, travels=True),
        Action("run", arms=FAST, legs=FAST, travels=True),
        Action("retreat", arms=-SLOW, legs=-SLOW, travels=True),
        Action("march", legs=SLOW),
        Action("sprint_in_place", legs=FAST),
        Action("stir", arms=SLOW),
        Action("unwind", arms=-SLOW),
        Action("wave", arms=FAST),
        Action("shake", arms=-FAST),
        Action("squat", trunk=SLOW),
        Action("rise", trunk=-SLOW),
        Action("bounce", trunk=FAST),
        Action("row", arms=SLOW, trunk=SLOW),
        Action("back_row", arms=-SLOW, trunk=-SLOW),
        Action("dance", arms=FAST, legs=SLOW, trunk=SLOW),
    )
}
IDLE = Action("idle", arms=0.12, legs=0.0, trunk=0.18)  # background of untrimmed videos, not a class
STRUGGLE = Action("struggle", arms=3.6, legs=1.6, trunk=2.8)  # what the two sides of a fight do


@dataclass(frozen=True, slots=True)
class Phases:
    """Positions on the three loops, in cycles."""

    arms: float
    legs: float
    trunk: float


@dataclass(frozen=True, slots=True)
class Pose:
    """Joint positions in units of the standing height: x forward, y up, feet on y = 0."""

    pelvis: tuple[float, float]
    neck: tuple[float, float]
    head: tuple[float, float]
    elbows: tuple[tuple[float, float], tuple[float, float]]
    hands: tuple[tuple[float, float], tuple[float, float]]
    knees: tuple[tuple[float, float], tuple[float, float]]
    feet: tuple[tuple[float, float], tuple[float, float]]
    shoulder: tuple[float, float]


def advance(phases: Phases, action: Action, tempo: float, seconds: float) -> Phases:
    """Phases after `seconds` of an action."""
    turn = tempo * seconds
    return Phases(
        phases.arms + action.arms * turn, phases.legs + action.legs * turn, phases.trunk + action.trunk * turn
    )


def travel_speed(action: Action, gait: Gait) -> float:
    """Forward speed in standing heights per second: two steps a cycle, each as long as the stride opens."""
    return 2.0 * action.legs * gait.tempo * gait.stride * 0.48 * 2 if action.travels else 0.0


def _arm(phase: float, gait: Gait, trunk: float) -> tuple[float, float]:
    """Angles of upper arm and forearm, 0 hanging down, positive forward."""
    upper = 0.85 + gait.arm_swing * math.cos(TAU * phase) + trunk
    return upper, upper + gait.elbow + 0.55 * math.sin(TAU * phase)


def _leg(phase: float, gait: Gait, crouch: float) -> tuple[float, float]:
    """Angles of thigh and shin, 0 hanging down, positive forward."""
    thigh = gait.stride * math.cos(TAU * phase) + 0.75 * crouch
    return thigh, thigh - gait.knee * max(0.0, math.sin(TAU * phase)) ** 2 - 1.45 * crouch


def _reach(origin: tuple[float, float], angle: float, length: float) -> tuple[float, float]:
    return origin[0] + math.sin(angle) * length, origin[1] - math.cos(angle) * length


def pose(person: Identity, phases: Phases) -> Pose:
    """The pose of a person at given phases; pelvis height follows from the lower foot standing on the ground."""
    gait = person.gait
    crouch = 0.5 - 0.5 * math.cos(TAU * phases.trunk)
    lean = gait.lean + 0.30 * math.sin(TAU * phases.trunk)
    thigh = shin = person.leg_share / 2
    torso = (1.0 - person.leg_share) * 0.58
    knees, feet = [], []
    for offset in (0.0, 0.5):
        upper, lower = _leg(phases.legs + offset, gait, crouch)
        knee = _reach((0.0, 0.0), upper, thigh)
        knees.append(knee)
        feet.append(_reach(knee, lower, shin))
    lift = -min(foot[1] for foot in feet)
    neck = (math.sin(lean) * torso, lift + math.cos(lean) * torso)
    shoulder = (neck[0] - math.sin(lean) * 0.03, neck[1] - math.cos(lean) * 0.03)
    head = (neck[0] + math.sin(lean) * 0.105, neck[1] + math.cos(lean) * 0.105)
    elbows, hands = [], []
    for offset in (0.0, gait.arm_lag):
        upper, lower = _arm(phases.arms + offset, gait, lean)
        elbow = _reach(shoulder, upper, 0.165 * person.arm_length)
        elbows.append(elbow)
        hands.append(_reach(elbow, lower, 0.155 * person.arm_length))
    return Pose(
        pelvis=(0.0, lift),
        neck=neck,
        head=head,
        elbows=(elbows[0], elbows[1]),
        hands=(hands[0], hands[1]),
        knees=((knees[0][0], knees[0][1] + lift), (knees[1][0], knees[1][1] + lift)),
        feet=((feet[0][0], feet[0][1] + lift), (feet[1][0], feet[1][1] + lift)),
        shoulder=shoulder,
    )
