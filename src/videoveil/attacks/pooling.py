"""What is said of whole videos, made of what was said of their rows (frames, clips).

A score by rows asks of each of them; where only a few rows of a video tell something, the others water that down. An
attacker has all of them, and is free to go by the one that says most.

Shapes: m rows of n videos, k attributes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from videoveil.attacks.pictures import mostly
from videoveil.tasks.outcomes import AttributeOutcome, Outcome

VIDEO, PEAK = (
    "_video",
    "_peak",
)  # of the name of an outcome: by the mean of a video's rows, by the highest of them


def with_videos(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The same, and beside attributes of several rows per video NAME_video (their mean) and NAME_peak.

    The peak is taken for every attribute by itself. A NAME_video that is there stays as it is.
    """
    found = dict(outcomes)
    for name, one in outcomes.items():
        if isinstance(one, AttributeOutcome) and len(np.unique(one.rows)) < len(one.rows):
            found.setdefault(f"{name}{VIDEO}", pooled(one, peak=False))
            found.setdefault(f"{name}{PEAK}", pooled(one, peak=True))
    return found


def pooled(one: AttributeOutcome, *, peak: bool) -> AttributeOutcome:
    """One row for every video; true is what is true in at least half of its known rows."""
    numbers = np.unique(one.rows)
    own = [one.rows == number for number in numbers]
    scores = np.stack([one.scores[rows].max(0) if peak else one.scores[rows].mean(0) for rows in own])
    truth = np.stack([mostly(one.truth[rows]) for rows in own])
    return AttributeOutcome(one.names, truth, scores, numbers, one.items, one.metric)
