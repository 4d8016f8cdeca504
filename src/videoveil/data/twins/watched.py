"""Surveillance videos, as the twins of the anomaly sets need them."""

from __future__ import annotations

from videoveil.data.theatre.play import INCIDENTS, Play
from videoveil.data.theatre.playwright import surveillance
from videoveil.data.twins.plan import HEIGHT, RATE, WIDTH, Scale


def incident_for(number: int) -> str | None:
    """Every second video is normal, the others go through the kinds of incident."""
    return None if number % 2 else INCIDENTS[(number // 2) % len(INCIDENTS)]


def watched_play(dataset: str, seed: int, scale: Scale, split: str, number: int) -> Play:
    """Video `number` of a split; lengths differ from video to video."""
    frames = scale.long_frames - 7 * (number % 11)
    return surveillance(
        dataset,
        seed,
        split,
        number,
        incident=incident_for(number),
        width=WIDTH,
        height=HEIGHT,
        rate=RATE,
        frames=frames,
        population=seed,
    )
