"""Whether people can still be seen by detectors that nobody here trained: OpenCV's, which needs no file, and any that
the user brings.

Of raw videos each finds everybody that it finds, so the raw score is 1 by construction. That somebody can be seen is
not that somebody can be recognised: the figure is shown, and nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from videoveil.anonymizers.named import open_detector
from videoveil.anonymizers.obfuscate.detectors import Detector, Hog
from videoveil.attacks.off_the_shelf import NOBODY, DetectorAttack, DetectorConfig, Named
from videoveil.errors import BadItems, UsageError
from videoveil.tasks.base import Clips
from videoveil.tasks.outcomes import Outcome

OWN = Hog.name


@dataclass(frozen=True, kw_only=True)
class PeopleConfig:
    """How much is looked at, and by whom beside OpenCV's detector."""

    look: DetectorConfig = field(default_factory=lambda: DetectorConfig(frames=2))
    videos: int = 100  # of the test videos, evenly spaced
    brought: tuple[Brought, ...] = ()


@dataclass(frozen=True)
class Brought:
    """A detector of the user's, as it is written down."""

    name: str
    covers: str
    identity: str  # hash of its file and of how it is used


def bring(asked: Sequence[str]) -> tuple[Named, ...]:
    """Detectors by the words of `veil anonymize --detector`, each under the name of its kind and its file."""
    found: dict[str, Named] = {}
    for text in asked:
        detector = open_detector(text)
        file = text.partition(":")[2]
        name = f"{detector.name}-{Path(file).stem}" if file else detector.name
        identity = detector.identity()
        if name == OWN or any(one.identity() == identity for one in found.values()):
            raise UsageError(f"--detector {text}: looks already; leave it out")
        if name in found:  # files of one name in two folders
            name = f"{name}-{identity[:8]}"
        found[name] = Named(name, detector)
    return tuple(found.values())


def found(
    test: Clips,
    raw: Clips,
    config: PeopleConfig,
    brought: Sequence[Named] = (),
    *,
    seed: int,
    device: str,
) -> dict[str, Outcome]:
    """The share of people found in raw frames that are found again, by video; one outcome for each detector."""
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
    fitted = DetectorAttack(_shelf(brought), config.look, raw).fit(some, seed=seed, device=device)
    outcomes = fitted.outcomes(some)
    if not outcomes:
        raise BadItems(NOBODY)
    return outcomes


def _shelf(brought: Sequence[Named]) -> tuple[Detector, ...]:
    """OpenCV's detector and those brought; these alone where this OpenCV has none."""
    try:
        return (Hog(), *brought)
    except UsageError:
        if not brought:
            raise
        return tuple(brought)
