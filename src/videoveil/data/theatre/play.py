"""A play: everything that determines every frame of one video, and the truth that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from videoveil.data.records import AttributeSpan, FrameSpan, Segment
from videoveil.data.theatre.cast import Costume, Identity
from videoveil.data.theatre.motion import Phases

INCIDENTS = ("fall", "fight", "run", "abandoned_object", "wrong_way")


@dataclass(frozen=True, slots=True)
class Movement:
    """An action between two frames, `[first, stop)`."""

    action: str
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Turn:
    """From this frame on the actor faces so."""

    first: int
    facing: str


@dataclass(frozen=True, slots=True)
class Role:
    """One actor in one video."""

    person: Identity
    costume: Costume
    x: float  # ground point at frame 0, as a share of the width
    y: float  # ground line, as a share of the height
    scale: float  # standing height of a 1.0-person, as a share of the picture height
    phases: Phases  # at frame 0
    movements: tuple[Movement, ...] = ()  # idle in between
    turns: tuple[Turn, ...] = (Turn(0, "front"),)
    direction: int = 1  # 1 faces and goes right, -1 left
    crosses: bool = False  # moves through the picture (and re-enters) instead of being followed by the camera


@dataclass(frozen=True, slots=True)
class Incident:
    """Something abnormal in `[first, stop)` done by the roles with these indices."""

    kind: str
    first: int
    stop: int
    roles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prop:
    """An object of the scene, at a place of the background."""

    name: str
    x: float
    scale: float
    colour: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Camera:
    """Slow sway, hand shake and zoom; amplitudes as shares of the picture."""

    sway: float = 0.0
    sway_rate: float = 0.1
    shake: float = 0.0
    zoom: float = 0.0
    phase: float = 0.0


@dataclass(frozen=True, slots=True)
class Scene:
    """Where it happens."""

    name: str
    seed: int  # texture and colours
    props: tuple[Prop, ...] = ()
    light: float = 1.0
    camera: Camera = field(default_factory=Camera)


@dataclass(frozen=True, slots=True)
class Play:
    """A video before it is rendered."""

    width: int
    height: int
    rate: Fraction
    frames: int
    scene: Scene
    roles: tuple[Role, ...]
    incidents: tuple[Incident, ...] = ()
    personal: bool = False  # the first two actors are a couple
    social: bool = False  # all actors form a team in one colour
    infrared: bool = False  # grey picture, as from a night camera

    def segments(self) -> tuple[Segment, ...]:
        """Action instances of the leading actor, in seconds."""
        lead = self.roles[0].movements if self.roles else ()
        return tuple(Segment(m.action, m.first / self.rate, m.stop / self.rate) for m in lead)

    def incident_spans(self) -> tuple[FrameSpan, ...]:
        return tuple(FrameSpan(i.first, i.stop, i.kind) for i in self.incidents)


def facing_at(role: Role, frame: int) -> str:
    """Which way the actor faces in a frame."""
    return [turn.facing for turn in role.turns if turn.first <= frame][-1]


def visible_values(play: Play, frame: int) -> dict[str, tuple[int, ...]]:
    """Private attributes in a frame with the values of PA-HMDB51 (skin 0–3, face 0–2, gender 0–2, nudity 0–2,
    relationship 0/1); several people give the sorted set of the identifiable values."""
    skins, genders, faces, nude = set(), set(), [0], [0]
    for role in play.roles:
        facing = facing_at(role, frame)
        if not role.costume.covered:
            skins.add({"light": 1, "brown": 2, "dark": 3}[role.person.skin])
            genders.add({"male": 1, "female": 2}[role.person.gender])
            faces.append({"front": 2, "profile": 1, "back": 0}[facing])
        nude.append(2 if role.costume.bare_torso else 1 if not role.costume.long_sleeves else 0)
    return {
        "skin_color": tuple(sorted(skins)) or (0,),
        "face": (max(faces),),
        "gender": tuple(sorted(genders)) or (0,),
        "nudity": (max(nude),),
        "relationship": (int(play.personal),),
    }


def attribute_spans(play: Play) -> tuple[AttributeSpan, ...]:
    """`visible_values` as the fewest spans that cover the play."""
    cuts = sorted({0} | {t.first for r in play.roles for t in r.turns if 0 < t.first < play.frames})
    spans: list[AttributeSpan] = []
    for first, stop in zip(cuts, [*cuts[1:], play.frames]):
        values = visible_values(play, first)
        if spans and spans[-1].values == values:
            spans[-1] = AttributeSpan(spans[-1].first, stop, values)
        else:
            spans.append(AttributeSpan(first, stop, values))
    return tuple(spans)


def vispr_labels(play: Play, frame: int = 0) -> Mapping[str, int]:
    """The 14 VISPR attributes (sets 1 and 2) that a viewer of this frame could name, 0/1."""
    seen = visible_values(play, frame)
    people = [role for role in play.roles if not role.costume.covered]
    shown = [role for role in people if facing_at(role, frame) != "back"]
    props = {prop.name for prop in play.scene.props}
    return {
        "a17_color": int(seen["skin_color"] != (0,)),
        "a4_gender": int(seen["gender"] != (0,)),
        "a9_face_complete": int(seen["face"] == (2,)),
        "a10_face_partial": int(any(facing_at(role, frame) == "profile" for role in people)),
        "a12_semi_nudity": int(seen["nudity"] == (2,)),
        "a64_rel_personal": int(play.personal),
        "a65_rel_social": int(play.social),
        "a6_hair_color": int(bool(people)),
        "a16_race": int(bool(shown)),
        "a59_sports": int(bool(props & {"ball", "racket"})),
        "a1_age_approx": int(any(role.person.age != "adult" for role in people)),
        "a2_weight_approx": int(any(role.person.build == "heavy" for role in people)),
        "a73_landmark": int("tower" in props),
        "a11_tattoo": int(any(role.person.tattoo and not role.costume.long_sleeves for role in people)),
    }
