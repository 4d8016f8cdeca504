"""Writing plays from keys: trimmed actions, untrimmed videos, surveillance, walks, photographs.

Everything that is not the label (scene, camera, place, facing, bystanders, phases, clothes) is drawn from the key
alone, never from the action, so nothing but the motion carries the action.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from videoveil.data.theatre.cast import CLOTH, FACINGS, Costume, Identity, costume, identity
from videoveil.data.theatre.chance import Key, between, coin, generator, pick
from videoveil.data.theatre.motion import ACTIONS, Phases, travel_speed
from videoveil.data.theatre.play import Camera, Incident, Movement, Play, Prop, Role, Scene, Turn
from videoveil.data.theatre.scene import PROPS, SCENES

ACTION_NAMES = tuple(ACTIONS)
OBJECT_NAMES = tuple(name for name in PROPS if name != "bag")
SCENE_NAMES = tuple(SCENES)


def draw_scene(*key: str | int, steady: bool = False, name: str | None = None) -> Scene:
    """A scene with one to three objects; `steady` for a fixed camera."""
    rng = generator("scene", *key)
    chosen = name or pick(rng, SCENE_NAMES)
    count = int(rng.integers(1, 4))
    picked = rng.permutation(len(OBJECT_NAMES))[:count]
    colours = tuple(CLOTH.values())
    props = tuple(
        Prop(
            OBJECT_NAMES[i],
            x=between(rng, 0, 1),
            scale=between(rng, 0.8, 1.25),
            colour=colours[int(rng.integers(len(colours)))],
        )
        for i in picked
    )
    camera = Camera(
        sway=0.0 if steady else between(rng, 0, 0.02),
        sway_rate=between(rng, 0.05, 0.3),
        shake=0.0 if steady or coin(rng, 0.7) else between(rng, 0, 0.006),
        zoom=0.0 if steady else between(rng, 0, 0.04),
        phase=between(rng, 0, 1),
    )
    return Scene(chosen, int(rng.integers(2**31)), props, light=between(rng, 0.8, 1.1), camera=camera)


def draw_phases(*key: str | int) -> Phases:
    """Uniform, independent of everything else: this is what hides the action from a single frame."""
    arms, legs, trunk = generator("phases", *key).random(3)
    return Phases(float(arms), float(legs), float(trunk))


def draw_turns(rng: np.random.Generator, frames: int, changes: int) -> tuple[Turn, ...]:
    """Facings over the video: the first at frame 0, then up to `changes` more."""
    count = int(rng.integers(0, changes + 1)) if frames > 8 else 0
    cuts = sorted({int(c) for c in rng.integers(4, max(5, frames - 4), size=count)})
    return tuple(Turn(first, pick(rng, FACINGS)) for first in (0, *cuts))


def _lead(
    key: Key, person: Identity, wardrobe: Costume, movements: tuple[Movement, ...], frames: int, turns: int
) -> Role:
    rng = generator("lead", *key)
    return Role(
        person,
        wardrobe,
        x=between(rng, 0.34, 0.66),
        y=between(rng, 0.9, 0.97),
        scale=between(rng, 0.72, 0.86),
        phases=draw_phases(*key, 0),
        movements=movements,
        turns=draw_turns(rng, frames, turns),
        direction=1 if coin(rng, 0.5) else -1,
    )


def _bystander(key: Key, index: int, person: Identity, wardrobe: Costume, frames: int) -> Role:
    rng = generator("bystander", *key, index)
    left = index % 2 == 1
    return Role(
        person,
        wardrobe,
        x=between(rng, 0.06, 0.2) if left else between(rng, 0.8, 0.94),
        y=between(rng, 0.74, 0.84),
        scale=between(rng, 0.42, 0.52),
        phases=draw_phases(*key, index),
        turns=draw_turns(rng, frames, 1),
        direction=1 if left else -1,
    )


def trimmed(
    *key: str | int,
    action: str,
    person: Identity,
    width: int = 112,
    height: int = 112,
    rate: Fraction = Fraction(25),
    frames: int = 64,
    bystanders: int | None = None,
    population: int = 0,
    turns: int = 1,
    scene: Scene | None = None,
    wardrobe: Costume | None = None,
) -> Play:
    """One action from the first frame to the last, by one person, perhaps with others standing by."""
    if action not in ACTIONS:
        raise KeyError(f"unknown action {action!r}; the theatre has {', '.join(ACTIONS)}")
    rng = generator("trimmed", *key)
    others = int(rng.choice(4, p=(0.6, 0.2, 0.12, 0.08))) if bystanders is None else bystanders
    movement = Movement(action, 0, frames)
    roles = [_lead(key, person, wardrobe or costume(*key, 0), (movement,), frames, turns)]
    for index in range(1, others + 1):
        other = identity(population, 1000 + int(rng.integers(1000)))
        roles.append(_bystander(key, index, other, costume(*key, index), frames))
    roles_out, personal, social = _relate(rng, tuple(roles))
    return Play(
        width, height, rate, frames, scene or draw_scene(*key), roles_out, personal=personal, social=social
    )


def _relate(rng: np.random.Generator, roles: tuple[Role, ...]) -> tuple[tuple[Role, ...], bool, bool]:
    """Perhaps make the first two a couple (side by side) and three or more a team (one colour)."""
    personal = len(roles) >= 2 and coin(rng, 0.4)
    social = len(roles) >= 3 and coin(rng, 0.5)
    changed = list(roles)
    if personal:
        lead = roles[0]
        side = 0.2 if lead.x < 0.5 else -0.2
        changed[1] = replace(
            roles[1], x=lead.x + side, y=lead.y - 0.01, scale=lead.scale, direction=-lead.direction
        )
    if social:
        colour = changed[0].costume.top
        changed = [
            replace(r, costume=replace(r.costume, top=colour, bottom="white", bare_torso=False))
            for r in changed
        ]
    return tuple(changed), personal, social


def untrimmed(
    *key: str | int,
    actions: tuple[str, ...],
    person: Identity,
    width: int = 112,
    height: int = 112,
    rate: Fraction = Fraction(25),
    frames: int = 600,
    population: int = 0,
) -> Play:
    """Several instances of the given actions, in random order, with idling in between; none overlap."""
    rng = generator("untrimmed", *key)
    movements: list[Movement] = []
    cursor = int(rng.integers(int(rate * 1), int(rate * 3)))
    while True:
        length = int(rng.integers(int(rate * 2), int(rate * 5)))
        if cursor + length > frames - int(rate):
            break
        movements.append(Movement(pick(rng, actions), cursor, cursor + length))
        cursor += length + int(rng.integers(int(rate * 1), int(rate * 4)))
    lead = _lead(key, person, costume(*key, 0), tuple(movements), frames, turns=3)
    return Play(width, height, rate, frames, draw_scene(*key), (lead,))


def surveillance(
    *key: str | int,
    incident: str | None,
    width: int = 112,
    height: int = 112,
    rate: Fraction = Fraction(25),
    frames: int = 400,
    population: int = 0,
    crowd: int = 4,
) -> Play:
    """A fixed camera on people who all walk one way; with an incident, one or two of them break the rule."""
    rng = generator("surveillance", *key)
    direction = 1 if coin(rng, 0.5) else -1
    roles = []
    for index in range(crowd):
        person = identity(population, int(rng.integers(1000)))
        roles.append(
            Role(
                person,
                costume(*key, index),
                x=(index + between(rng, 0.1, 0.9)) / crowd,
                y=0.80 + 0.15 * index / max(1, crowd - 1),
                scale=0.42 + 0.10 * index / max(1, crowd - 1),
                phases=draw_phases(*key, index),
                movements=(Movement("walk", 0, frames),),
                turns=(Turn(0, "profile"),),
                direction=direction,
                crosses=True,
            )
        )
    incidents: tuple[Incident, ...] = ()
    if incident is not None:
        length = int(frames * between(rng, 0.25, 0.5))
        first = int(rng.integers(int(0.1 * frames), frames - length - int(0.1 * frames) + 1))
        who = int(rng.integers(crowd))
        members = (who, (who + 1) % crowd) if incident == "fight" else (who,)
        incidents = (Incident(incident, first, first + length, members),)
        _prepare(
            roles,
            incidents[0],
            seen_at=between(rng, 0.3, 0.7),
            aspect=height / width,
            seconds=float(first / rate),
        )
    return Play(width, height, rate, frames, draw_scene(*key, steady=True), tuple(roles), incidents)


def _prepare(roles: list[Role], incident: Incident, *, seen_at: float, aspect: float, seconds: float) -> None:
    """Place those who take part so that the incident begins in view; `seconds` is when it begins."""
    who = incident.roles[0]
    if incident.kind == "fight":  # the two sides stand near the middle instead of walking through
        for k, member in enumerate(incident.roles):
            x = seen_at + 0.16 * (2 * k - 1)
            roles[member] = replace(roles[member], x=x, crosses=False, movements=(), direction=1 - 2 * k)
        return
    role = roles[who]
    walked = (
        role.direction * travel_speed(ACTIONS["walk"], role.person.gait) * role.scale * role.person.height
    )
    role = replace(role, x=seen_at - walked * seconds * aspect)
    if incident.kind == "fall":
        role = replace(role, movements=(Movement("walk", 0, incident.first),))
    if incident.kind == "abandoned_object":
        role = replace(role, costume=replace(role.costume, bag=True))
    roles[who] = role


def walk(
    *key: str | int,
    person: Identity,
    view: int,
    wardrobe: Costume,
    width: int = 112,
    height: int = 112,
    rate: Fraction = Fraction(25),
    frames: int = 75,
    infrared: bool = False,
    scene: Scene | None = None,
) -> Play:
    """One person walking through the picture, seen from `view` degrees (0 front, 90 side, 180 back)."""
    rng = generator("walk", *key)
    facing = "front" if view < 45 else "profile" if view <= 135 else "back"
    scale = 0.62 + 0.16 * abs(view - 90) / 90  # nearer when seen along the path
    role = Role(
        person,
        wardrobe,
        x=0.1,
        y=0.93,
        scale=scale,
        phases=draw_phases(*key),
        movements=(Movement("walk", 0, frames),),
        turns=(Turn(0, facing),),
        direction=1 if coin(rng, 0.5) else -1,
        crosses=True,
    )
    return Play(
        width, height, rate, frames, scene or draw_scene(*key, steady=True), (role,), infrared=infrared
    )


def photo(
    *key: str | int,
    width: int = 112,
    height: int = 112,
    population: int = 0,
    people: int | None = None,
) -> Play:
    """A single picture of nobody to four people, for image datasets with private attributes."""
    rng = generator("photo", *key)
    count = int(rng.choice(5, p=(0.38, 0.3, 0.16, 0.1, 0.06))) if people is None else people
    roles: list[Role] = []
    for index in range(count):
        person = identity(population, int(rng.integers(1000)))
        wardrobe = costume(*key, index)
        if index == 0:
            roles.append(_lead(key, person, wardrobe, (), 1, turns=0))
        else:
            roles.append(_bystander(key, index, person, wardrobe, 1))
    placed, personal, social = _relate(rng, tuple(roles))
    return Play(width, height, Fraction(1), 1, draw_scene(*key), placed, personal=personal, social=social)
