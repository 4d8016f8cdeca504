"""Who leads in every video of a twin: private attributes that only the plan knows, for attackers to be measured on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.cast import AGES, BUILDS, HAIR, SKIN, Identity
from videoveil.data.twins import plan
from videoveil.errors import UsageError

PathLabels = Callable[[Item], dict[str, int] | None]

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
    top = Path(root).absolute()
    leads = {
        shot.path: person_attributes(shot.play.roles[0].person) if shot.play.roles else None
        for shot in plan(name, seed, size).shots()
    }

    def labels(item: Item) -> dict[str, int] | None:
        path = item.path.absolute()
        place = path.relative_to(top).as_posix() if path.is_relative_to(top) else str(path)
        if place not in leads:
            raise UsageError(
                f"{item.id}: {place} is not in the twin {name} at {top} with seed {seed} and size {size}; "
                "give what it was made with"
            )
        known = leads[place]
        return None if known is None else dict(known)

    return labels
