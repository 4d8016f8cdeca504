"""Trimmed action videos, as the twins of all action-recognition sets need them."""

from __future__ import annotations

from videoveil.data.theatre.cast import Identity
from videoveil.data.theatre.play import Play
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.plan import HEIGHT, RATE, WIDTH, Scale, person_for


def action_play(
    dataset: str,
    seed: int,
    scale: Scale,
    action: str,
    *key: str | int,
    person: Identity | None = None,
    turns: int = 1,
) -> Play:
    """One video of an action. The key only seeds: scene, people, clothes and phases are drawn alike for all classes."""
    return trimmed(
        dataset,
        seed,
        *key,
        action=action,
        person=person or person_for(seed, dataset, *key),
        width=WIDTH,
        height=HEIGHT,
        rate=RATE,
        frames=scale.frames,
        population=seed,
        turns=turns,
    )
