"""Whether a clip's vector is the mean of its temporal tokens.

An anonymizer of temporal tokens learns from tokens, and what it gives out as the vector of a clip is the mean of what
it makes of them. Where the encoder's own vector is something else (a class token, or a mean that is normalised
afterwards) vectors and static clips lie in another space than the tokens: the anonymizer would be put on features that
it was never made for, and a store would hold both kinds under one name.
"""

from __future__ import annotations

import numpy as np
from torch import nn

from videoveil.errors import StoreError, UsageError
from videoveil.features.store import FeatureStore, VideoFeatures

# of the vectors' length: in bfloat16 they are .002 apart, vectors of another making .7 and more
TOLERANCE = 0.05
WHY = "temporal tokens need an encoder whose vector is the mean of its tokens"


class NotMeanPooled(UsageError):
    """Temporal tokens of an encoder whose vector is not their mean."""


def require_mean_pooled(encoder: nn.Module) -> None:
    """Refuse an encoder that says of itself that its vector is not the mean of its tokens."""
    if not getattr(encoder, "mean_pooled", True):
        name = getattr(encoder, "name", type(encoder).__name__)
        pool = getattr(encoder, "options", {}).get("pool")
        raise NotMeanPooled(
            f"{name}: its vector is not the mean of its tokens{f' (pool={pool!r})' if pool else ''}; {WHY}: "
            "create it with another pool, or use an anonymizer with tokens='clip'"
        )


def require_mean_of_tokens(features: VideoFeatures, name: str) -> None:
    """Refuse a video with temporal tokens whose mean is not the vector of their clip."""
    if features.tokens is None:
        return
    vectors = features.clip.astype(np.float64)
    apart = np.linalg.norm(features.tokens.astype(np.float64).mean(1) - vectors)
    if apart > TOLERANCE * np.linalg.norm(vectors):
        raise NotMeanPooled(
            f"{name}: its vectors are not the means of their tokens; {WHY}: extract with another pool of the encoder, "
            "or use tokens='clip'"
        )


def require_mean_tokens(store: FeatureStore) -> None:
    """The same of a store, by its first video that can be read: all are of one encoder."""
    for dataset in store.datasets():
        for entry in store.items(dataset):
            try:
                features = store.read(entry)
            except StoreError:  # whoever reads all of them says so
                continue
            return require_mean_of_tokens(features, f"{store.root} ({store.encoder['name']})")
