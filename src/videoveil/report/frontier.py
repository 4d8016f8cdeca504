"""Privacy against utility of pixel methods, with every attacker that tried.

    frontier([Attack("raw", "resnet.18", 11.7e6, 0.62, 0.78), …], "VISPR cMAP", "UCF101 top-1", chance=0.248)

A method has one utility and as many privacy scores as attackers. The attacker that does best is the one that counts:
its marker is filled. The larger a marker, the larger the attacker. Where methods are settings of one family, those
points that count are joined to its curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from videoveil.errors import UsageError
from videoveil.report.plots import Level, Line, Point, tradeoff

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Attack:
    """What one attacker, with so many parameters, got out of one method's output, and what is left of the utility.

    Methods of one `family` share a colour and are named beside their point; without it each has its own colour. Without
    parameters all markers are of one size. `void`: nothing follows from it; it is never filled, and says so.
    """

    method: str
    attacker: str
    parameters: float | None
    privacy: float  # leakage or cMAP: less is better
    utility: float
    privacy_interval: Interval | None = None
    utility_interval: Interval | None = None
    family: str = ""
    void: bool = False

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
    several = len(strongest) < len(attacks)  # else only void ones are empty, and nobody was compared
    kind = "attacker" if several else "void" if any(one.void for one in attacks) else ""
    points = [_point(attack, strongest[attack.method] is attack, kind) for attack in attacks]
    filled = "the strongest one" if several else " or ".join(dict.fromkeys(one.attacker for one in attacks))
    levels = () if chance is None else (Level("blind guess", chance),)
    curves: dict[str, list[Attack]] = {}
    for one in sorted(strongest.values(), key=lambda one: (one.privacy, one.utility)):
        if one.family:
            curves.setdefault(one.family, []).append(one)
    return tradeoff(
        points,
        f"{privacy}  (← more private)",
        utility,
        levels,
        size_label="parameters",
        filled_label=filled if any(point.filled for point in points) else "",
        joins=[
            Line(name, [a.privacy for a in own], [a.utility for a in own]) for name, own in curves.items()
        ],
    )


def _point(attack: Attack, counts: bool, kind: str) -> Point:
    """Utility belongs to the method: its interval is drawn once, at the attacker that counts."""
    low, high = attack.utility_interval if counts and attack.utility_interval else (None, None)
    left, right = attack.privacy_interval or (None, None)
    return Point(
        attack.family or attack.method,
        kind,
        attack.privacy,
        attack.utility,
        low,
        high,
        left,
        right,
        attack.parameters,
        filled=counts and not attack.void,
        label=_label(attack) if counts else "",
    )


def _label(attack: Attack) -> str:
    name = attack.method if attack.family else ""
    return f"{name} (void)".strip() if attack.void else name
