"""Which encoders' temporal tokens an anonymizer can be made for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.encoders.helpers import moving, small
from tests.training.latent_world import store_of, world
from videoveil.encoders import Encoder
from videoveil.features.batches import Forward
from videoveil.features.store import Precision, VideoFeatures
from videoveil.features.tokens import (
    NotMeanPooled,
    require_mean_of_tokens,
    require_mean_pooled,
    require_mean_tokens,
)


def seen(encoder: Encoder, precision: Precision) -> VideoFeatures:
    """What an extraction would store of two clips."""
    forward = Forward(encoder, torch.device("cpu"), precision=precision, tokens=True)
    vectors, tokens = forward((moving(encoder, count=2) * 255).round().to(torch.uint8))
    assert tokens is not None
    at = np.zeros(2, np.int64)
    return VideoFeatures(
        vectors.numpy(), at, np.stack([at, at], 1), Fraction(1, 25), 16, Fraction(25), tokens.numpy()
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("name", "pool"),
    [("tiny", "mean"), ("swin3d.t", "mean"), ("videomae.b", "layernorm+mean"), ("mvit.v2-s", "mean")],
)
def test_means_of_tokens_are_accepted_in_every_arithmetic(name: str, pool: str, precision: Precision) -> None:
    encoder = small(name, pool=pool)
    require_mean_pooled(encoder)
    require_mean_of_tokens(seen(encoder, precision), "film")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("name", "pool"), [("videomae.b", "mean+fc_norm"), ("mvit.v2-s", "cls"), ("timesformer.b", "cls")]
)
def test_other_vectors_are_refused_by_what_the_encoder_says_and_by_what_it_gave(
    name: str, pool: str, precision: Precision
) -> None:
    encoder = small(name, pool=pool)
    with pytest.raises(NotMeanPooled, match=rf"{name}: .*pool='{pool.replace('+', '.')}'.*tokens='clip'"):
        require_mean_pooled(encoder)
    with pytest.raises(NotMeanPooled, match="film: its vectors are not the means"):
        require_mean_of_tokens(seen(encoder, precision), "film")


def test_a_store_is_judged_by_its_first_video_that_can_be_read(tmp_path: Path) -> None:
    store = store_of(tmp_path / "raw", world(3).pool, tokens=2)
    store.path(store.items()[0].key).write_bytes(b"broken")
    require_mean_tokens(store)
    entry = store.items()[1]
    old = store.read(entry)
    changed = VideoFeatures(
        -old.clip,
        old.starts,
        old.pts,
        old.time_base,
        old.frames,
        old.rate,
        old.tokens,
        old.static,
        old.static_frames,
    )
    store.write(entry.key, changed, {})
    with pytest.raises(NotMeanPooled, match=r"raw \(made-up\): its vectors"):
        require_mean_tokens(store)
