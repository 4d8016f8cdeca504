"""Who can appear: identities (what a person keeps from video to video) and costumes (what they wear in one)."""

from __future__ import annotations

from dataclasses import dataclass

from videoveil.data.theatre.chance import between, coin, generator, pick

Colour = tuple[int, int, int]

SKIN: dict[str, Colour] = {"light": (236, 198, 172), "brown": (176, 124, 84), "dark": (92, 60, 42)}
HAIR: dict[str, Colour] = {
    "black": (26, 22, 24),
    "brown": (98, 62, 34),
    "blond": (226, 196, 104),
    "red": (176, 70, 30),
    "grey": (172, 172, 176),
}
CLOTH: dict[str, Colour] = {
    "red": (204, 44, 48),
    "orange": (232, 132, 36),
    "yellow": (232, 212, 62),
    "green": (52, 148, 70),
    "teal": (40, 160, 160),
    "blue": (48, 84, 192),
    "purple": (130, 66, 168),
    "white": (238, 238, 236),
}
GENDERS = ("male", "female")
AGES = ("child", "adult", "old")
BUILDS = ("slim", "average", "heavy")
FACINGS = ("front", "profile", "back")  # face complete, partial, invisible


@dataclass(frozen=True, slots=True)
class Gait:
    """How a person moves, whatever they do: the motion-borne part of identity."""

    tempo: float  # factor on all rates
    stride: float  # hip amplitude, radians
    knee: float  # knee flexion amplitude, radians
    arm_swing: float  # shoulder amplitude, radians
    elbow: float  # mean elbow bend, radians
    lean: float  # mean forward lean, radians
    arm_lag: float  # phase of the second arm behind the first, cycles


@dataclass(frozen=True, slots=True)
class Identity:
    """A person. Colours, body and gait are independent draws, so none can be told from another."""

    number: int
    skin: str
    hair: str
    long_hair: bool
    gender: str
    age: str
    build: str
    tattoo: bool
    tone: float  # personal shade of skin and hair, factor on brightness
    height: float  # factor on the standing height
    leg_share: float  # legs as a share of the height
    arm_length: float  # factor
    gait: Gait

    @property
    def name(self) -> str:
        return f"P{self.number:03d}"


@dataclass(frozen=True, slots=True)
class Costume:
    """What is worn in one video."""

    top: str
    bottom: str
    long_sleeves: bool = True
    bare_torso: bool = False
    covered: bool = False  # overall, gloves and helmet: neither skin nor hair nor gender can be seen
    bag: bool = False
    coat: bool = False


def identity(seed: int, number: int) -> Identity:
    """Person `number` of the population `seed`."""
    rng = generator("identity", seed, number)
    age = pick(rng, AGES)
    gender = pick(rng, GENDERS)
    gait = Gait(
        tempo=between(rng, 0.86, 1.16),
        stride=between(rng, 0.38, 0.68),
        knee=between(rng, 0.6, 1.2),
        arm_swing=between(rng, 0.75, 1.25),
        elbow=between(rng, 0.5, 1.2),
        lean=between(rng, -0.08, 0.16),
        arm_lag=between(rng, 0.38, 0.62),
    )
    return Identity(
        number=number,
        skin=pick(rng, tuple(SKIN)),
        hair="grey" if age == "old" else pick(rng, ("black", "brown", "blond", "red")),
        long_hair=coin(rng, 0.85 if gender == "female" else 0.12),
        gender=gender,
        age=age,
        build=pick(rng, BUILDS),
        tattoo=coin(rng, 0.3),
        tone=between(rng, 0.9, 1.1),
        height={"child": 0.72, "adult": 1.0, "old": 0.95}[age] * between(rng, 0.94, 1.06),
        leg_share=between(rng, 0.44, 0.51),
        arm_length=between(rng, 0.9, 1.1),
        gait=gait,
    )


def costume(*key: str | int, bare_torso: bool | None = None, covered: bool | None = None) -> Costume:
    """A costume from a key; the flags can be fixed by the caller."""
    rng = generator("costume", *key)
    top, bottom = pick(rng, tuple(CLOTH)), pick(rng, tuple(CLOTH))
    sleeves, bare, cover = coin(rng, 0.5), coin(rng, 0.2), coin(rng, 0.08)
    cover = cover if covered is None else covered
    bare = (bare if bare_torso is None else bare_torso) and not cover
    return Costume(top, bottom, long_sleeves=sleeves and not bare, bare_torso=bare, covered=cover)
