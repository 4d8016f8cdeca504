"""Backgrounds: a texture per scene that repeats sideways, with the scene's objects painted in."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from videoveil.data.theatre.cast import Colour
from videoveil.data.theatre.chance import generator
from videoveil.data.theatre.play import Prop, Scene

Canvas = np.ndarray  # (height, width, 3) uint8 RGB
HORIZON = 0.62  # share of the height at which wall or sky meets the ground

# Upper colour, lower colour, ornament. Every scene is re-coloured a little by its seed.
SCENES: dict[str, tuple[Colour, Colour, str]] = {
    "kitchen": ((224, 214, 190), (164, 128, 92), "tiles"),
    "street": ((168, 190, 214), (112, 112, 116), "blocks"),
    "park": ((150, 196, 236), (92, 148, 72), "trees"),
    "beach": ((134, 198, 238), (226, 206, 150), "waves"),
    "gym": ((196, 198, 206), (188, 142, 88), "stripes"),
    "office": ((210, 216, 220), (104, 116, 132), "blocks"),
    "stadium": ((120, 132, 160), (88, 160, 92), "stripes"),
    "corridor": ((190, 184, 172), (134, 130, 122), "tiles"),
}


def texture(scene: Scene, width: int, height: int) -> Canvas:
    """The background, twice as wide as the picture; it repeats sideways."""
    rng = generator("texture", scene.seed)
    upper, lower, ornament = SCENES[scene.name]
    tint = rng.integers(-36, 37, size=(2, 3))
    wide = 2 * width
    horizon = int(HORIZON * height)
    canvas = np.empty((height, wide, 3), dtype=np.uint8)
    for part, colour, shift in (
        (slice(0, horizon), upper, tint[0]),
        (slice(horizon, height), lower, tint[1]),
    ):
        rows = canvas[part].shape[0]
        ramp = np.linspace(-14, 14, rows)[:, None, None]
        canvas[part] = np.clip(np.asarray(colour) + shift + ramp, 0, 255).astype(np.uint8)
    _ORNAMENTS[ornament](canvas, horizon, rng)
    for prop in scene.props:
        draw_prop(canvas, prop, height)
    if scene.light != 1.0:
        canvas = np.clip(canvas.astype(np.float32) * scene.light, 0, 255).astype(np.uint8)
    return canvas


def _shade(colour: np.ndarray | Colour, factor: float) -> tuple[int, int, int]:
    r, g, b = (int(min(255, max(0, float(c) * factor))) for c in colour)
    return r, g, b


def _tiles(canvas: Canvas, horizon: int, rng: np.random.Generator) -> None:
    step = max(4, int(horizon * rng.uniform(0.14, 0.26)))
    line = _shade(canvas[0, 0], 0.82)
    for y in range(step, horizon, step):
        cv2.line(canvas, (0, y), (canvas.shape[1], y), line, 1)
    for x in range(0, canvas.shape[1], step):
        cv2.line(canvas, (x, 0), (x, horizon), line, 1)


def _blocks(canvas: Canvas, horizon: int, rng: np.random.Generator) -> None:
    x = 0
    while x < canvas.shape[1]:
        w = int(canvas.shape[1] * rng.uniform(0.06, 0.14)) + 2
        top = int(horizon * rng.uniform(0.15, 0.7))
        cv2.rectangle(
            canvas, (x, top), (x + w, horizon), _shade(canvas[0, 0], float(rng.uniform(0.55, 0.9))), -1
        )
        x += w


def _trees(canvas: Canvas, horizon: int, rng: np.random.Generator) -> None:
    for _ in range(7):
        x, r = int(rng.integers(canvas.shape[1])), int(horizon * rng.uniform(0.12, 0.26))
        green = (int(rng.integers(30, 90)), int(rng.integers(100, 170)), int(rng.integers(30, 80)))
        cv2.rectangle(canvas, (x - r // 6, horizon - r), (x + r // 6, horizon + 2), (92, 66, 44), -1)
        cv2.circle(canvas, (x, horizon - int(1.6 * r)), r, green, -1, cv2.LINE_AA)


def _waves(canvas: Canvas, horizon: int, rng: np.random.Generator) -> None:
    sea = int(horizon * rng.uniform(0.55, 0.8))
    canvas[sea:horizon] = (
        int(rng.integers(20, 70)),
        int(rng.integers(100, 150)),
        int(rng.integers(170, 220)),
    )
    for y in range(sea, horizon, max(3, (horizon - sea) // 4)):
        cv2.line(canvas, (0, y), (canvas.shape[1], y), (228, 240, 248), 1)


def _stripes(canvas: Canvas, horizon: int, rng: np.random.Generator) -> None:
    step = max(6, int(canvas.shape[1] * rng.uniform(0.05, 0.1)))
    stripe = _shade(canvas[0, 0], float(rng.uniform(0.75, 0.92)))
    for x in range(0, canvas.shape[1], 2 * step):
        canvas[:horizon, x : x + step] = stripe


_ORNAMENTS: dict[str, Callable[[Canvas, int, np.random.Generator], None]] = {
    "tiles": _tiles,
    "blocks": _blocks,
    "trees": _trees,
    "waves": _waves,
    "stripes": _stripes,
}

# An object is polygons in a box of width 1, height 1 standing on the ground (y up), with a shade factor each.
_Shape = tuple[tuple[tuple[float, float], ...], float]


def _box(left: float, bottom: float, right: float, top: float, shade: float = 1.0) -> _Shape:
    return ((left, bottom), (right, bottom), (right, top), (left, top)), shade


def _disc(x: float, y: float, radius: float, shade: float = 1.0) -> _Shape:
    angles = np.linspace(0, 2 * np.pi, 17)[:-1]
    return tuple((x + radius * float(np.cos(a)), y + radius * float(np.sin(a))) for a in angles), shade


def _poly(*points: tuple[float, float], shade: float = 1.0) -> _Shape:
    return points, shade


PROPS: dict[str, tuple[float, tuple[_Shape, ...]]] = {  # name: (height as a share of the picture, shapes)
    "ball": (0.12, (_disc(0.5, 0.5, 0.5), _disc(0.4, 0.65, 0.15, 1.5))),
    "racket": (0.22, (_disc(0.5, 0.72, 0.28), _disc(0.5, 0.72, 0.2, 1.6), _box(0.46, 0.0, 0.54, 0.46, 0.6))),
    "chair": (
        0.28,
        (
            _box(0.1, 0.4, 0.9, 0.5),
            _box(0.1, 0.5, 0.2, 1.0),
            _box(0.12, 0, 0.2, 0.4),
            _box(0.8, 0, 0.88, 0.4),
        ),
    ),
    "table": (0.26, (_box(-0.4, 0.8, 1.4, 0.95), _box(-0.3, 0, -0.18, 0.8), _box(1.18, 0, 1.3, 0.8))),
    "lamp": (
        0.5,
        (_box(0.47, 0, 0.53, 0.8, 0.5), _poly((0.3, 0.75), (0.7, 0.75), (0.6, 1), (0.4, 1), shade=1.3)),
    ),
    "plant": (0.24, (_box(0.35, 0, 0.65, 0.35, 0.7), _disc(0.5, 0.65, 0.33), _disc(0.35, 0.55, 0.2, 0.85))),
    "bicycle": (
        0.3,
        (
            *(_disc(x, 0.3, r, shade) for x in (0.0, 1.0) for r, shade in ((0.3, 1.0), (0.2, 2.2))),
            _poly((0.0, 0.28), (0.45, 0.62), (1.0, 0.34), (0.5, 0.72)),
            _box(0.9, 0.6, 1.05, 0.95),
        ),
    ),
    "car": (
        0.3,
        (
            _box(-0.8, 0.18, 1.8, 0.6),
            _poly((-0.3, 0.6), (1.3, 0.6), (1.0, 1.0), (0.0, 1.0)),
            _disc(-0.3, 0.18, 0.18, 0.3),
            _disc(1.3, 0.18, 0.18, 0.3),
        ),
    ),
    "box": (0.16, (_box(0, 0, 1, 1), _box(0.45, 0, 0.55, 1, 0.7))),
    "sign": (0.5, (_box(0.47, 0, 0.53, 0.7, 0.5), _disc(0.5, 0.82, 0.18), _box(0.38, 0.79, 0.62, 0.85, 2.0))),
    "bench": (
        0.2,
        (
            _box(-0.5, 0.5, 1.5, 0.65),
            _box(-0.5, 0.8, 1.5, 0.95, 0.9),
            _box(-0.35, 0, -0.2, 0.5),
            _box(1.2, 0, 1.35, 0.5),
        ),
    ),
    "tower": (
        0.58,
        (
            _poly((0.2, 0), (0.8, 0), (0.58, 0.75), (0.42, 0.75)),
            _box(0.36, 0.75, 0.64, 0.82, 0.7),
            _poly((0.44, 0.82), (0.56, 0.82), (0.5, 1.0)),
        ),
    ),
    "bag": (
        0.11,
        (
            _box(0.05, 0, 0.95, 0.7),
            _poly((0.3, 0.7), (0.7, 0.7), (0.6, 1.0), (0.4, 1.0)),
            _box(0.05, 0.3, 0.95, 0.38, 0.6),
        ),
    ),
}


def draw_prop(canvas: Canvas, prop: Prop, height: int, ground: float = HORIZON + 0.06) -> None:
    """Paint an object into a background; it wraps at the sides like the background does."""
    size = PROPS[prop.name][0] * prop.scale * height
    wide = canvas.shape[1]
    for turn in (-1, 0, 1):
        x0, y0 = (prop.x + turn) * wide, ground * height
        for polygon, shade in PROPS[prop.name][1]:
            fill(canvas, [(x0 + size * x, y0 - size * y) for x, y in polygon], _shade(prop.colour, shade))


def fill(canvas: Canvas, points: list[tuple[float, float]], colour: Colour) -> None:
    """A filled polygon with 1/16 pixel precision and smooth edges."""
    corners = np.rint(np.asarray(points, dtype=np.float64) * 16).astype(np.int32)
    cv2.fillPoly(canvas, [corners], colour, cv2.LINE_AA, shift=4)
