"""Whether people can still be seen by a detector that nobody here trained; OpenCV's needs no file.

Of raw videos it finds everybody that it finds, so the raw score is 1 by construction. That somebody can be seen is not
that somebody can be recognised: the figure is shown, and nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from videoveil.anonymizers.obfuscate.detectors import Hog
from videoveil.attacks.off_the_shelf import NOBODY, DetectorAttack, DetectorConfig
from videoveil.errors import BadItems
from videoveil.tasks.base import Clips
from videoveil.tasks.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class PeopleConfig:
    """How much is looked at."""

    look: DetectorConfig = field(default_factory=lambda: DetectorConfig(frames=2))
    videos: int = 100  # of the test videos, evenly spaced


def found(test: Clips, raw: Clips, config: PeopleConfig, *, seed: int, device: str) -> dict[str, Outcome]:
    """The share of people found in raw frames that are found again, by video."""
    ids = sorted(item.id for item in test.items())
    places = np.linspace(0, len(ids) - 1, min(config.videos, len(ids))).round().astype(int)
    chosen = {ids[place] for place in places}
    some = Clips(
        test.dataset.where(lambda item: item.id in chosen),
        test.split,
        test.anonymizer,
        test.eight_bit,
        test.paint,
    )
    fitted = DetectorAttack((Hog(),), config.look, raw).fit(some, seed=seed, device=device)
    outcomes = fitted.outcomes(some)
    if not outcomes:
        raise BadItems(NOBODY)
    return outcomes
