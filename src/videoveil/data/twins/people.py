"""Who is in every video of a twin, and where: what only the plan knows, for attackers to be measured on and for
obfuscation to be tried with a detector that makes no mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from videoveil.data.records import Item
from videoveil.data.theatre import extents
from videoveil.data.theatre.cast import AGES, BUILDS, HAIR, SKIN, Identity
from videoveil.data.twins import plan
from videoveil.data.twins.plan import Reel, Still
from videoveil.errors import UsageError

PathLabels = Callable[[Item], dict[str, int] | None]
PathBoxes = Callable[[Item], list[np.ndarray]]

# grey hair is left out: in the theatre it is the same as being old, and nothing should count twice
KINDS = {"skin": tuple(SKIN), "age": AGES, "build": BUILDS, "hair": tuple(h for h in HAIR if h != "grey")}
ATTRIBUTES = ("female", *(f"{kind} {value}" for kind, values in KINDS.items() for value in values))


def person_attributes(person: Identity) -> dict[str, int]:
    """What is private about a person as 0 and 1, in the order of `ATTRIBUTES`; true whether it can be seen or not."""
    found = {"female": int(person.gender == "female")}
    for kind, values in KINDS.items():
        found |= {f"{kind} {value}": int(getattr(person, kind) == value) for value in values}
    return found


def lead_attributes(name: str, root: str | Path, *, seed: int = 0, size: str = "tiny") -> PathLabels:
    """The attributes of the leading person of an item of this twin, written at `root` with this seed and size.

    The answer is None where nobody is in the picture. An item that the twin does not have is refused: its root, seed or
    size is another, and its labels would be those of somebody else.
    """
    find = _finder(name, root, seed, size)

    def labels(item: Item) -> dict[str, int] | None:
        roles = find(item).play.roles
        return person_attributes(roles[0].person) if roles else None

    return labels


def lead_boxes(name: str, root: str | Path, *, seed: int = 0, size: str = "tiny") -> PathBoxes:
    """The boxes of the leading person and of everybody else in each frame of an item of this twin.

    One (n, 5) float32 array a frame: x0, y0, x1, y1 in pixels of the video, score 1; n is 0 where nobody is in the
    picture. They are those of the picture before it was compressed: a lossy codec carries colour a few pixels beyond
    them, which a margin covers. Drawn when asked for; an item that the twin does not have is refused.
    """
    find = _finder(name, root, seed, size)
    return lambda item: extents.boxes(find(item).play)


def _finder(name: str, root: str | Path, seed: int, size: str) -> Callable[[Item], Reel | Still]:
    """From an item to what it was rendered from."""
    top = Path(root).absolute()
    shots = {shot.path: shot for shot in plan(name, seed, size).shots()}

    def find(item: Item) -> Reel | Still:
        path = item.path.absolute()
        place = path.relative_to(top).as_posix() if path.is_relative_to(top) else str(path)
        if place not in shots:
            raise UsageError(
                f"{item.id}: {place} is not in the twin {name} at {top} with seed {seed} and size {size}; "
                "give what it was made with"
            )
        return shots[place]

    return find
