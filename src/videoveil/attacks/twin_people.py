"""Who is in the videos of a twin, for attacks on identity: what only its plan knows.

Sets such as VP-HMDB51 name nobody, and their twins show people who come again in other videos.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.twins import plan
from videoveil.errors import UsageError


def lead_person(
    name: str, root: str | Path, *, seed: int = 0, size: str = "tiny"
) -> Callable[[Item], str | None]:
    """The name of the leading person of an item of this twin, written at `root` with this seed and size.

    None where nobody is in the picture. An item that the twin does not have is refused: with another seed or size it
    would be somebody else.
    """
    top = Path(root).absolute()
    shots = {shot.path: shot for shot in plan(name, seed, size).shots()}

    def people(item: Item) -> str | None:
        path = item.path.absolute()
        place = path.relative_to(top).as_posix() if path.is_relative_to(top) else str(path)
        if place not in shots:
            raise UsageError(
                f"{item.id}: {place} is not in the twin {name} at {top} with seed {seed} and size {size}; "
                "give what it was made with"
            )
        roles = shots[place].play.roles
        return roles[0].person.name if roles else None

    return people
