"""The anonymizers that `latent_study` compares, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from videoveil.anonymizers.config import (
    AttentionOnly,
    Erase,
    Keep,
    Motion,
    Noise,
    Quantise,
    Rank,
    StageConfig,
    StaticResidual,
)
from videoveil.recipes import LatentRecipe, recipe
from videoveil.recipes.latent import HeadSettings
from videoveil.tasks import registry
from videoveil.training.identity import IdentitySettings

Family = Literal["published", "released", "mechanism", "ours"]
Order = Literal["shuffled", "label order"]

STEPS = 700  # of the paper's 100 epochs on HMDB51 with batches of 512; a small twin is one batch, so as many epochs
TASKS = ("action", "detection", "anomaly")


@dataclass(frozen=True)
class Variant:
    recipe: LatentRecipe
    family: Family
    sources: tuple[str, ...] = ("action",)
    everything: bool = False  # also detection and anomaly
    cross_sample: bool = False
    order: Order = "shuffled"  # of the rows that are sent through together, where that matters


def published(name: str, **changes: object) -> LatentRecipe:
    """A published recipe with the paper's number of steps at its learning rate, whatever the size of the batch.

    The loop scales the rate with the videos of a step, from 512; the action twin has 224 or so to learn from.
    """
    found = recipe(name)
    heads = HeadSettings(
        detection=registry.kind("detection").config("small", {}),  # type: ignore[arg-type]
        anomaly=registry.kind("anomaly").config("small", {}),  # type: ignore[arg-type]
    )
    return replace(found, epochs=STEPS, learning_rate=2e-4, heads=heads, **changes)  # type: ignore[arg-type]


def learned(*stages: StageConfig) -> LatentRecipe:
    """A mechanism trained for utility and consistency, no budget."""
    return replace(published("splavu-hmdb51"), name="mechanism", stages=stages, w_budget=0.0)


def closed(*stages: StageConfig) -> LatentRecipe:
    """A mechanism that takes its numbers from the features; nothing is trained."""
    return replace(recipe("veil"), name="mechanism", stages=stages)


RELEASED = published(
    "splavu-hmdb51",
    stages=(AttentionOnly(init="default", cross_sample=True),),
    identity=IdentitySettings(epochs=500, learning_rate=1e-4),
)
ERASE = Erase(share=1 / 8, source="both")


def floor(level: float) -> Noise:
    return Noise(floor=level, learned=False, basis="principal")


VARIANTS: dict[str, Variant] = {
    # the published objective, batch-invariant adapter
    "SPLAVU, action": Variant(published("splavu-hmdb51"), "published", everything=True),
    "SPLAVU, B+LC": Variant(published("table5/B+LC"), "published", everything=True),
    "SPLAVU, T+LC": Variant(published("table5/T+LC"), "published", everything=True),
    "SPLAVU, T+B": Variant(published("table5/T+B"), "published", everything=True),
    "SPLAVU, budget ×3": Variant(published("splavu-hmdb51", w_budget=3.0), "published"),
    "SPLAVU, moving pairs": Variant(published("splavu-hmdb51", pairs="moving"), "published"),
    "SPLAVU, mixed pairs": Variant(published("splavu-hmdb51", pairs="mixed"), "published"),
    "SPLAVU, adversaries": Variant(published("splavu-adversaries"), "mechanism", everything=True),
    # the published code's block, started as it was: from a random start, taught the identity
    "released, shuffled": Variant(RELEASED, "released", cross_sample=True),
    "released, label order": Variant(RELEASED, "released", cross_sample=True, order="label order"),
    # one irreversible mechanism each
    "rank 16": Variant(learned(Rank(16)), "mechanism"),
    "rank 32": Variant(learned(Rank(32)), "mechanism", everything=True),
    "rank 64": Variant(learned(Rank(64)), "mechanism"),
    "noise .3": Variant(learned(Noise(floor=0.3)), "mechanism"),
    "noise 1": Variant(learned(Noise(floor=1.0)), "mechanism"),
    "quantise 2": Variant(closed(Quantise(levels=2)), "mechanism"),
    "quantise 4": Variant(closed(Quantise(levels=4)), "mechanism"),
    "residual": Variant(closed(StaticResidual()), "mechanism"),
    "residual + noise": Variant(
        closed(StaticResidual(), Noise(floor=0.3, learned=False, basis="principal")), "mechanism"
    ),
    "motion": Variant(recipe("veil-motion"), "mechanism", everything=True),
    "motion, erase moving": Variant(closed(Motion(), Erase(share=1 / 8, source="moving")), "mechanism"),
    "erase static": Variant(recipe("veil-static"), "mechanism", everything=True),
    "erase moving": Variant(closed(Erase(share=1 / 8, source="moving")), "mechanism"),
    # ours
    "keep 1/32": Variant(closed(Keep(share=1 / 32)), "ours"),
    "keep 1/16": Variant(closed(Keep(share=1 / 16)), "ours", everything=True),
    "keep 3/32": Variant(closed(Keep(share=3 / 32)), "ours", everything=True),
    "keep 1/8": Variant(closed(Keep(share=1 / 8)), "ours", everything=True),
    "keep 3/16": Variant(closed(Keep(share=3 / 16)), "ours", everything=True),
    "keep 1/4": Variant(closed(Keep(share=1 / 4)), "ours"),
    "erase both 1/32": Variant(closed(Erase(share=1 / 32, source="both")), "ours"),
    "erase both 1/16": Variant(closed(Erase(share=1 / 16, source="both")), "ours", everything=True),
    "erase both 1/8": Variant(closed(Erase(share=1 / 8, source="both")), "ours", everything=True),
    "erase both 3/16": Variant(closed(Erase(share=3 / 16, source="both")), "ours", everything=True),
    "erase both 1/4": Variant(closed(Erase(share=1 / 4, source="both")), "ours"),
    "erase both 1/8, three tasks": Variant(
        closed(Erase(share=1 / 8, source="both")), "ours", TASKS, everything=True
    ),
    "erase 1/8 + noise .1": Variant(closed(ERASE, floor(0.1)), "ours"),
    "erase 1/8 + noise .3": Variant(closed(ERASE, floor(0.3)), "ours"),
    "erase 1/8 + quantise 4": Variant(closed(ERASE, Quantise(levels=4)), "ours"),
    "erase 1/8 + rank 64": Variant(replace(learned(ERASE, Rank(64)), name="mechanism"), "ours"),
    "erase 1/8, adversaries": Variant(
        replace(recipe("veil-adversaries"), epochs=STEPS, learning_rate=2e-4), "ours"
    ),
    "erase 1/8, tuned": Variant(replace(recipe("veil-tuned"), epochs=STEPS, learning_rate=2e-4), "ours"),
}
