"""Rendering: any frame of a play as a picture, a pure function of the play and the frame number."""

from __future__ import annotations

import math
from collections.abc import Iterator

import cv2
import numpy as np

from videoveil.data.theatre import cast
from videoveil.data.theatre.motion import (
    ACTIONS,
    IDLE,
    STRUGGLE,
    TAU,
    Action,
    Phases,
    Pose,
    advance,
    pose,
    travel_speed,
)
from videoveil.data.theatre.play import Incident, Play, Role, facing_at
from videoveil.data.theatre.scene import PROPS, fill, texture

Point = tuple[float, float]

BUILD_WIDTH = {"slim": 0.82, "average": 1.0, "heavy": 1.32}
RAMP_SECONDS = 0.6  # to fall down or get up, to close in on somebody
MARGIN = 0.25  # how far beyond the sides people walk before they turn up on the other one, in widths


class Stage:
    """A play with its background painted once."""

    def __init__(self, play: Play):
        self.play = play
        # padded sideways, so that any view of the repeating texture is one rectangle of it
        self.background = cv2.copyMakeBorder(
            texture(play.scene, play.width, play.height), 0, 0, play.width, 2 * play.width, cv2.BORDER_WRAP
        )
        self._courses = [_Course(play, index) for index in range(len(play.roles))]
        self._order = sorted(range(len(play.roles)), key=lambda i: play.roles[i].y)  # far actors first

    def frame(self, index: int) -> np.ndarray:
        """Frame `index` as (height, width, 3) uint8 RGB."""
        play = self.play
        if not 0 <= index < play.frames:
            raise IndexError(f"frame {index} of a play with {play.frames} frames")
        seconds = float(index / play.rate)
        view = _View(play, seconds, scroll=self._scroll(seconds))
        canvas = view.background(self.background)
        for i in self._order:
            self._draw_left_behind(canvas, view, i, seconds)
        for i in self._order:
            self._draw_actor(canvas, view, i, index, seconds)
        if play.infrared:
            canvas = cv2.cvtColor(cv2.cvtColor(canvas, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        return canvas

    def _scroll(self, seconds: float) -> float:
        """How far the camera has followed the leading actor, in picture heights."""
        if not self.play.roles or self.play.roles[0].crosses:
            return 0.0
        return self._courses[0].distance(seconds)

    def _draw_actor(self, canvas: np.ndarray, view: _View, i: int, index: int, seconds: float) -> None:
        role, course = self.play.roles[i], self._courses[i]
        x, tilt = course.placement(seconds)
        _Figure(canvas, view, role, x, tilt, course.direction(seconds), facing_at(role, index)).draw(
            pose(role.person, course.phases(seconds)), carries=course.carries(seconds)
        )

    def _draw_left_behind(self, canvas: np.ndarray, view: _View, i: int, seconds: float) -> None:
        place = self._courses[i].left_behind(seconds)
        if place is None:
            return
        role = self.play.roles[i]
        _draw_bag(canvas, view.point(place, role.y), 0.95 * view.zoom * role.scale * self.play.height)


def frames(play: Play, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
    """Frames of a play, in order."""
    stage = Stage(play)
    for index in range(start, play.frames if stop is None else stop):
        yield stage.frame(index)


def clip(play: Play, indices: list[int] | range | None = None) -> np.ndarray:
    """Frames at the given indices (all by default) as (T, height, width, 3) uint8."""
    stage = Stage(play)
    return np.stack([stage.frame(i) for i in (range(play.frames) if indices is None else indices)])


class _Course:
    """Where an actor is, in which phase and tilt, as closed functions of time."""

    def __init__(self, play: Play, index: int):
        self.play, self.role, self.index = play, play.roles[index], index
        self.incident: Incident | None = next((i for i in play.incidents if index in i.roles), None)
        self.pieces = self._pieces()

    def _action(self, frame: int) -> Action:
        incident = self.incident
        if incident is not None and incident.first <= frame < incident.stop:
            if incident.kind == "fight":
                return STRUGGLE
            if incident.kind == "run":
                return ACTIONS["run"]
            if incident.kind == "fall":
                return ACTIONS["stand"]
        for movement in self.role.movements:
            if movement.first <= frame < movement.stop:
                return ACTIONS[movement.action]
        return IDLE

    def _pieces(self) -> list[tuple[float, Phases, float, Action, int]]:
        """(start second, phases there, distance there, action from there on, direction) for every change."""
        play, role = self.play, self.role
        cuts = {0}
        for movement in role.movements:
            cuts |= {movement.first, movement.stop}
        if self.incident is not None:
            cuts |= {self.incident.first, self.incident.stop}
        pieces: list[tuple[float, Phases, float, Action, int]] = []
        for cut in sorted(c for c in cuts if 0 <= c < play.frames):
            second = float(cut / play.rate)
            if pieces:
                phases, distance = self._at(pieces[-1], second)
            else:
                phases, distance = role.phases, 0.0
            pieces.append((second, phases, distance, self._action(cut), self._direction_at(cut)))
        return pieces

    def _direction_at(self, frame: int) -> int:
        incident = self.incident
        against = (
            incident is not None and incident.kind == "wrong_way" and incident.first <= frame < incident.stop
        )
        return -self.role.direction if against else self.role.direction

    def _at(self, piece: tuple[float, Phases, float, Action, int], seconds: float) -> tuple[Phases, float]:
        start, phases, distance, action, direction = piece
        gait = self.role.person.gait
        reach = self.role.scale * self.role.person.height * travel_speed(action, gait) * direction
        return advance(phases, action, gait.tempo, seconds - start), distance + reach * (seconds - start)

    def _piece(self, seconds: float) -> tuple[float, Phases, float, Action, int]:
        return [piece for piece in self.pieces if piece[0] <= seconds + 1e-9][-1]

    def phases(self, seconds: float) -> Phases:
        return self._at(self._piece(seconds), seconds)[0]

    def distance(self, seconds: float) -> float:
        """Signed way travelled, in picture heights."""
        return self._at(self._piece(seconds), seconds)[1]

    def direction(self, seconds: float) -> int:
        return self._piece(seconds)[4]

    def placement(self, seconds: float) -> tuple[float, float]:
        """(x as a share of the width, perhaps outside the picture; tilt in radians)."""
        role, play = self.role, self.play
        x, tilt = role.x, 0.0
        if role.crosses:
            # one lap leads from beyond one side to beyond the other, then starts again
            lap = 1.0 + 2 * MARGIN
            x = (role.x + self.distance(seconds) * play.height / play.width + MARGIN) % lap - MARGIN
        incident, grip = self.incident, self._grip(seconds)
        if incident is not None and grip > 0:
            if incident.kind == "fall":
                tilt = -role.direction * (math.pi / 2) * grip**2
            if incident.kind == "fight":
                other = next(play.roles[r] for r in incident.roles if r != self.index)
                middle, side = (role.x + other.x) / 2, math.copysign(0.09, role.x - other.x)
                clinch = middle + side + 0.02 * math.sin(TAU * 2.3 * seconds + self.index)
                x += grip * (clinch - x)
                tilt = grip * 0.18 * math.sin(TAU * 1.9 * seconds + 2 * self.index)
        return x, tilt

    def _grip(self, seconds: float) -> float:
        """How far the actor is into the incident: 0 outside, 1 in the middle, ramps at both ends."""
        if self.incident is None:
            return 0.0
        since = seconds - float(self.incident.first / self.play.rate)
        left = float(self.incident.stop / self.play.rate) - seconds
        return max(0.0, min(1.0, since / RAMP_SECONDS, left / RAMP_SECONDS))

    def _drop(self) -> float | None:
        incident = self.incident
        if incident is None or incident.kind != "abandoned_object":
            return None
        return float(incident.first / self.play.rate)

    def carries(self, seconds: float) -> bool:
        drop = self._drop()
        return self.role.costume.bag if drop is None else seconds < drop

    def left_behind(self, seconds: float) -> float | None:
        """Where the abandoned bag stands (share of the width), from the drop to the end of the incident."""
        drop = self._drop()
        if drop is None or self.incident is None:
            return None
        if not drop <= seconds < float(self.incident.stop / self.play.rate):
            return None
        return self.placement(drop)[0]


class _View:
    """From world coordinates (shares of the picture) to pixels, for one frame."""

    def __init__(self, play: Play, seconds: float, scroll: float):
        camera = play.scene.camera
        self.width, self.height = play.width, play.height
        turn = TAU * (camera.sway_rate * seconds + camera.phase)
        jolt = TAU * (1.7 * seconds + camera.phase)
        self.dx = camera.sway * math.sin(turn) + camera.shake * math.sin(3.1 * jolt)
        self.dy = camera.shake * math.cos(2.3 * jolt)
        self.zoom = 1.0 + camera.zoom * math.sin(turn * 0.7 + 1.0)
        self.scroll = scroll * self.height

    def background(self, wide: np.ndarray) -> np.ndarray:
        """The part of the background in view."""
        scale = 1.0 / self.zoom
        cx, cy = self.width / 2, self.height / 2
        left = cx - cx * scale + self.dx * self.width * scale + self.scroll
        top = cy - cy * scale + self.dy * self.height * scale
        period = (
            2 * self.width
        )  # the texture's own width; `wide` has one picture more before and two after it
        matrix = np.array([[scale, 0.0, self.width + left % period], [0.0, scale, top]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return cv2.warpAffine(
            wide, matrix, (self.width, self.height), flags=flags, borderMode=cv2.BORDER_REPLICATE
        )

    def point(self, x: float, y: float) -> Point:
        """Pixel position of a point given in shares of width and height."""
        px = (x - self.dx - 0.5) * self.width * self.zoom + self.width / 2
        py = (y - self.dy - 0.5) * self.height * self.zoom + self.height / 2
        return px, py


class _Figure:
    """One actor drawn on a canvas."""

    def __init__(
        self, canvas: np.ndarray, view: _View, role: Role, x: float, tilt: float, direction: int, facing: str
    ):
        self.canvas, self.role, self.direction, self.facing = canvas, role, direction, facing
        self.size = role.scale * role.person.height * view.height * view.zoom
        self.cos, self.sin = math.cos(tilt), math.sin(tilt)
        ground_x, ground_y = view.point(x, role.y)
        self.origin = (
            ground_x,
            ground_y - 0.12 * self.size * abs(self.sin),
        )  # who lies down lies on the ground
        self._colours()

    def _colours(self) -> None:
        person, costume = self.role.person, self.role.costume
        self.skin = _tone(cast.SKIN[person.skin], person.tone)
        self.hair = _tone(cast.HAIR[person.hair], person.tone)
        self.top = cast.CLOTH[costume.top]
        self.bottom = cast.CLOTH[costume.bottom]
        if costume.covered:
            self.skin = self.hair = _tone(self.top, 0.55)
            self.bottom = self.top
        self.torso = self.skin if costume.bare_torso else self.top
        self.sleeve = self.top if costume.long_sleeves or costume.covered else self.skin

    def at(self, point: Point) -> Point:
        """Body coordinates (heights, x forward, y up) to pixels."""
        x, y = point[0] * self.direction * self.size, -point[1] * self.size
        return (self.origin[0] + self.cos * x - self.sin * y, self.origin[1] + self.sin * x + self.cos * y)

    def limb(self, a: Point, b: Point, width_a: float, width_b: float, colour: cast.Colour) -> None:
        """A tapered bone with a rounded far end."""
        (ax, ay), (bx, by) = self.at(a), self.at(b)
        length = math.hypot(bx - ax, by - ay) or 1.0
        nx, ny = -(by - ay) / length * self.size / 2, (bx - ax) / length * self.size / 2
        tx, ty = (bx - ax) / length * self.size / 2 * width_b, (by - ay) / length * self.size / 2 * width_b
        fill(
            self.canvas,
            [
                (ax + nx * width_a, ay + ny * width_a),
                (bx + nx * width_b, by + ny * width_b),
                (bx + nx * width_b * 0.6 + tx, by + ny * width_b * 0.6 + ty),
                (bx - nx * width_b * 0.6 + tx, by - ny * width_b * 0.6 + ty),
                (bx - nx * width_b, by - ny * width_b),
                (ax - nx * width_a, ay - ny * width_a),
            ],
            colour,
        )

    def disc(self, centre: Point, radius: float, colour: cast.Colour, squash: float = 1.0) -> None:
        cx, cy = self.at(centre)
        r = radius * self.size
        fill(self.canvas, [(cx + r * squash * c, cy + r * s) for c, s in _CIRCLE], colour)

    def draw(self, body: Pose, carries: bool) -> None:
        person, costume = self.role.person, self.role.costume
        thick = BUILD_WIDTH[person.build] * (1.1 if person.age == "child" else 1.0)
        far, near = 1, 0
        self._arm(body, far, thick, shade=0.8)
        self._leg(body, far, thick, shade=0.8)
        self._leg(body, near, thick, shade=1.0)
        self._trunk(body, thick)
        self._head(body)
        self._arm(body, near, thick, shade=1.0)
        if carries:
            hand = self.at(body.hands[near])
            _draw_bag(self.canvas, (hand[0], hand[1] + 0.09 * self.size), self.size)
        if person.tattoo and not costume.long_sleeves and not costume.covered:
            self._tattoo(body)

    def _leg(self, body: Pose, side: int, thick: float, shade: float) -> None:
        skirt = self._skirt()
        cloth = _tone(self.bottom, shade)
        lower = _tone(self.skin, shade) if skirt else cloth
        self.limb(body.pelvis, body.knees[side], 0.1 * thick, 0.075 * thick, cloth)
        self.limb(body.knees[side], body.feet[side], 0.072 * thick, 0.05 * thick, lower)
        toe = (body.feet[side][0] + 0.055, body.feet[side][1])
        self.limb(body.feet[side], toe, 0.045, 0.03, (40, 36, 34))

    def _arm(self, body: Pose, side: int, thick: float, shade: float) -> None:
        sleeve, skin = _tone(self.sleeve, shade), _tone(self.skin, shade)
        upper = sleeve if self.role.costume.bare_torso else _tone(self.top, shade)
        self.limb(body.shoulder, body.elbows[side], 0.066 * thick, 0.055 * thick, upper)
        self.limb(body.elbows[side], body.hands[side], 0.052 * thick, 0.04 * thick, sleeve)
        self.disc(body.hands[side], 0.026, skin)

    def _skirt(self) -> bool:
        person, costume = self.role.person, self.role.costume
        return person.gender == "female" and not costume.covered

    def _trunk(self, body: Pose, thick: float) -> None:
        female = self._skirt()
        shoulders, hips = (0.15, 0.15) if female else (0.2, 0.13)
        if self.role.costume.covered:
            shoulders, hips = 0.18, 0.15
        self.limb(body.neck, body.pelvis, shoulders * thick, hips * thick, self.torso)
        if female:
            (px, py), half = body.pelvis, 0.13 * thick
            skirt = [
                (px - 0.07, py + 0.04),
                (px + 0.07, py + 0.04),
                (px + half, py - 0.15),
                (px - half, py - 0.15),
            ]
            fill(self.canvas, [self.at(p) for p in skirt], self.bottom)
        if self.role.costume.coat:
            (px, py), half = body.pelvis, 0.12 * thick
            tails = [
                (px - 0.08, py + 0.1),
                (px + 0.08, py + 0.1),
                (px + half, py - 0.22),
                (px - half, py - 0.22),
            ]
            fill(self.canvas, [self.at(p) for p in tails], _tone(self.top, 0.85))
        if self.facing == "front" and not self.role.costume.bare_torso:
            self.limb(body.neck, body.pelvis, 0.012, 0.012, _tone(self.torso, 0.7))

    def _head(self, body: Pose) -> None:
        person, costume = self.role.person, self.role.costume
        (hx, hy) = body.head
        radius = 0.088 if person.age != "child" else 0.105
        if person.long_hair and not costume.covered:
            back = -0.03 if self.facing == "profile" else 0.0
            mane = [(hx - radius + back, hy + 0.03), (hx + radius + back, hy + 0.03)]
            mane += [(hx + radius * 0.9 + back, hy - 0.17), (hx - radius * 0.9 + back, hy - 0.17)]
            fill(self.canvas, [self.at(p) for p in mane], self.hair)
        self.disc((hx, hy), radius, self.hair)
        if costume.covered or self.facing == "back":
            return
        if self.facing == "front":
            self.disc((hx, hy - 0.022), radius * 0.8, self.skin)
            for side in (-0.032, 0.032):
                self.disc((hx + side, hy - 0.008), 0.013, (24, 20, 22))
            self.limb((hx - 0.026, hy - 0.058), (hx + 0.026, hy - 0.058), 0.014, 0.014, (164, 52, 52))
        else:
            self.disc((hx + 0.024, hy - 0.018), radius * 0.76, self.skin)
            self.disc((hx + 0.056, hy - 0.004), 0.013, (24, 20, 22))
            self.limb((hx + 0.03, hy - 0.056), (hx + 0.07, hy - 0.056), 0.012, 0.012, (164, 52, 52))

    def _tattoo(self, body: Pose) -> None:
        for joint, hand in zip(body.elbows, body.hands):
            middle = ((joint[0] + hand[0]) / 2, (joint[1] + hand[1]) / 2)
            self.disc(middle, 0.02, (24, 52, 104))


_CIRCLE = [(math.cos(a), math.sin(a)) for a in (i * TAU / 14 for i in range(14))]
_BAG: cast.Colour = (92, 46, 28)


def _draw_bag(canvas: np.ndarray, foot: Point, size: float) -> None:
    height, shapes = PROPS["bag"]
    unit = 1.3 * height * size
    for polygon, shade in shapes:
        points = [(foot[0] + unit * (x - 0.5), foot[1] - unit * y) for x, y in polygon]
        fill(canvas, points, _tone(_BAG, shade))


def _tone(colour: cast.Colour, factor: float) -> cast.Colour:
    r, g, b = (min(255, max(0, round(c * factor))) for c in colour)
    return r, g, b
