"""Privacy against utility of pixel methods, with every attacker that tried.

    frontier([Attack("raw", "resnet.18", 11.7e6, 0.62, 0.78), …], "VISPR cMAP", "UCF101 top-1", chance=0.248)

A method has one utility and as many privacy scores as attackers. The attacker that does best is the one that counts:
its marker is filled. The larger a marker, the larger the attacker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from videoveil.errors import UsageError
from videoveil.report.plots import Level, Point, tradeoff

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Attack:
    """What one attacker, with so many parameters, got out of one method's output, and what is left of the utility.

    Methods of one `family` share a colour and are named beside their point; without it each has its own colour.
    """

    method: str
    attacker: str
    parameters: float
    privacy: float  # leakage or cMAP: less is better
    utility: float
    privacy_interval: Interval | None = None
    utility_interval: Interval | None = None
    family: str = ""

    def __post_init__(self) -> None:
        for interval, value in ((self.privacy_interval, self.privacy), (self.utility_interval, self.utility)):
            if interval is not None and not interval[0] <= value <= interval[1]:
                raise UsageError(
                    f"{self.method}, {self.attacker}: {value} is not inside its interval {interval}"
                )


def frontier(attacks: Sequence[Attack], privacy: str, utility: str, *, chance: float | None = None) -> Figure:
    """The plane of both: left is more private, up is more useful, and the dashed line is what a blind guess gets."""
    if not attacks:
        raise UsageError("a frontier needs at least one attack")
    strongest: dict[str, Attack] = {}
    for attack in attacks:
        if attack.method not in strongest or attack.privacy > strongest[attack.method].privacy:
            strongest[attack.method] = attack
    points = [_point(attack, strongest[attack.method] is attack) for attack in attacks]
    levels = () if chance is None else (Level("blind guess", chance),)
    return tradeoff(
        points,
        f"{privacy}  (← more private)",
        utility,
        levels,
        size_label="parameters",
        filled_label="the strongest one",
    )


def _point(attack: Attack, counts: bool) -> Point:
    """Utility belongs to the method: its interval is drawn once, at the attacker that counts."""
    low, high = attack.utility_interval if counts and attack.utility_interval else (None, None)
    left, right = attack.privacy_interval or (None, None)
    return Point(
        attack.family or attack.method,
        "attacker",
        attack.privacy,
        attack.utility,
        low,
        high,
        left,
        right,
        attack.parameters,
        filled=counts,
        label=attack.method if counts and attack.family else "",
    )
