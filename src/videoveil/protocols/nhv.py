"""Normalised hypervolume of a privacy–utility curve, in the three normalisations that are in use.

A point is utility u (more is better) and leakage p (less is better), both as shares. They become U = (u − u_ref) /
(u_best − u_ref) and V = (p_ref − p) / (p_ref − p_best), clipped to [0, 1]; the area that the points dominate in the
unit square is the NHV. Which reference is meant decides the number, so variants are never compared with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from videoveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class Frame:
    """What counts as nothing and as everything, for utility and for leakage."""

    utility_ref: float
    utility_best: float
    leakage_ref: float
    leakage_best: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Utility and leakage of one setting, as shares."""

    utility: float
    leakage: float

    def __post_init__(self) -> None:
        for name, value in (("utility", self.utility), ("leakage", self.leakage)):
            if not 0 <= value <= 1:
                raise UsageError(f"{name}={value}: must be a share in [0, 1]")


def hypervolume(points: Sequence[CurvePoint], frame: Frame) -> float | None:
    """Σ_k (U_k − U_{k+1}) · max_{j≤k} V_j over points by falling U, U_{K+1} = 0; None where the frame has no extent."""
    if not points:
        raise UsageError("a hypervolume needs at least one point")
    width = frame.utility_best - frame.utility_ref
    height = frame.leakage_ref - frame.leakage_best
    if width <= 0 or height <= 0:
        return None
    placed = sorted(
        (
            (
                _unit((one.utility - frame.utility_ref) / width),
                _unit((frame.leakage_ref - one.leakage) / height),
            )
            for one in points
        ),
        reverse=True,
    )
    area, highest = 0.0, 0.0
    edges = [u for u, _ in placed[1:]] + [0.0]
    for (u, v), following in zip(placed, edges):
        highest = max(highest, v)
        area += (u - following) * highest
    return area


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def unit_frame() -> Frame:
    """No reference at all: utility from 0 to 1, leakage from 1 to 0."""
    return Frame(0.0, 1.0, 1.0, 0.0)


def chance_frame(raw: CurvePoint, chance: CurvePoint) -> Frame:
    """From what knowing nothing gives to what raw features give."""
    return Frame(chance.utility, raw.utility, raw.leakage, chance.leakage)


def observed_frame(points: Sequence[CurvePoint]) -> Frame:
    """Between the extremes of the points themselves."""
    utilities, leakages = [one.utility for one in points], [one.leakage for one in points]
    return Frame(min(utilities), max(utilities), max(leakages), min(leakages))


def variants(
    points: Sequence[CurvePoint], raw: CurvePoint | None, chance: CurvePoint | None
) -> dict[str, float | None]:
    """`nhv_unit`, `nhv_chance` (None without raw and chance) and `nhv_minmax` (extremes, raw included)."""
    all_points = [*points, *([raw] if raw is not None else [])]
    known = raw is not None and chance is not None
    return {
        "nhv_unit": hypervolume(points, unit_frame()),
        "nhv_chance": hypervolume(points, chance_frame(raw, chance)) if known else None,  # type: ignore[arg-type]
        "nhv_minmax": hypervolume(points, observed_frame(all_points)),
    }
