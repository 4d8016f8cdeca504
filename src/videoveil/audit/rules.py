"""What an audit asks for: seeds, draws, and the lines that decide."""

from __future__ import annotations

from dataclasses import dataclass

from videoveil.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts as proven. All of it is written into the report.

    Privacy is promised to people who are not asked, so doubt counts against it: the *upper* end of the leakage must be
    at most `max_leakage`. Half is a round figure above everything that hides well on our twins and below blur and
    downsampling; whoever has more to lose asks for less. Utility is a matter of whoever uses the videos and is judged
    by its estimate: at least `min_utility` of raw, and clearly better than chance.
    """

    seeds: int = 3
    resamples: int = 1000
    level: float = 0.95
    margin: float = 0.02  # by which the lower end must beat chance: the strength floor
    max_leakage: float = 0.5
    min_utility: float = 0.9
    least_items: int = 10  # test items below which nothing is measured
    least_found: float = (
        0.2  # of what could be known, somebody must find in raw videos before anything can pass
    )

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.resamples < 100 or self.least_items < 2:
            raise UsageError(
                f"seeds={self.seeds}, resamples={self.resamples}, least_items={self.least_items}: at least 1, 100 and 2"
            )
        for name in ("level", "max_leakage", "min_utility"):
            if not 0 < getattr(self, name) <= 1 or self.level == 1:
                raise UsageError(f"{name}={getattr(self, name)}: must be a share in (0, 1]")
        for name in ("margin", "least_found"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)}: must be in [0, 1)")
