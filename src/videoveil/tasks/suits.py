"""Whether stored features are of the kind that a model was trained on.

Features of another encoder, another arithmetic or other clips may have the very same shape and mean something else: a
model would answer, and nobody would see that the answer is worth nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from videoveil.errors import StoreError
from videoveil.features.store import FeatureRecipe, FeatureStore

SAME = ("frames", "stride", "resize", "size", "crop", "precision")  # how a clip becomes a vector


def require_encoder(trained: Mapping[str, Any], store: FeatureStore, who: str) -> None:
    """The network in front is the one of the training, whatever anonymizers are between; so is the making of clips.

    `trained` is the source of a run (`Features.describe`), `who` its name in messages.
    """
    wanted, there = network(trained["encoder"]), network(store.encoder)
    if wanted["hash"] != there["hash"]:
        raise StoreError(
            f"{store.root}: features of {_named(there)}, and {who} was trained on those of {_named(wanted)}; "
            "extract with that encoder, or train on these features (`veil train-task`)"
        )
    recipe = FeatureRecipe(**trained["recipe"])
    for name in SAME:
        mine, theirs = getattr(store.recipe, name), getattr(recipe, name)
        if mine != theirs:
            raise StoreError(
                f"{store.root}: extracted with {name}={mine}, and {who} was trained on features with {name}={theirs}; "
                f"extract again with {name}={theirs}"
            )


def require_grid(trained: Mapping[str, Any], store: FeatureStore, who: str) -> None:
    """Clips at the same distances: for models that look at how a video goes on."""
    clips = FeatureRecipe(**trained["recipe"]).clips
    if store.recipe.clips != clips:
        raise StoreError(
            f"{store.root}: extracted with clips={store.recipe.clips!r}, and {who} was trained on clips={clips!r}; "
            f"extract again with --clips {clips}"
        )


def require_veil(trained: Mapping[str, Any], store: FeatureStore, who: str) -> None:
    """The features went through the very anonymizer of the training, or are as raw as those were."""
    wanted, there = trained["encoder"], store.encoder
    if wanted["hash"] == there["hash"]:
        return
    how = (
        "give it with --anonymizer" if there["hash"] == network(there)["hash"] else "begin with the raw store"
    )
    if "anonymizer" not in wanted:
        how = "use a model that was trained on such features"
    raise StoreError(
        f"{store.root}: its features {_went(there)}, and {who} was trained on some that {_went(wanted)}; {how}"
    )


def network(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The encoder itself, from what a store says of encoder and anonymizers."""
    while "encoder" in facts:
        facts = facts["encoder"]
    return facts


def _named(facts: Mapping[str, Any]) -> str:
    return f"{facts['name']} ({facts['hash'][:12]})"


def _went(facts: Mapping[str, Any]) -> str:
    """`are raw`, or what they went through."""
    if "anonymizer" in facts:
        return f"went through anonymizer {facts['anonymizer']['hash'][:12]}"
    if "pixels" in facts:
        return f"were made from pictures of anonymizer {facts['pixels']['hash'][:12]}"
    return "are raw"
