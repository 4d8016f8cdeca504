from __future__ import annotations

import json

import pytest
import yaml

from videoveil.anonymizers import (
    Attention,
    EncoderReference,
    Measurement,
    ModelCard,
    Noise,
    NoiseKey,
    Rank,
    latent,
)
from videoveil.anonymizers.card import render
from videoveil.errors import UsageError

from .pipelines import WIDTH, fitted

CARD = ModelCard(
    "the training split of our set",
    (
        Measurement("action recognition", "utility", "top-1", 0.5512, raw=0.5561, chance=0.08),
        Measurement("gender from static clips, best of 5 attackers", "attack", "AP", 0.664, chance=0.5),
    ),
    "Made on a Tuesday.",
    "mit",
)


def test_the_card_says_what_it_is_for_whom_and_what_was_measured() -> None:
    reference = EncoderReference("videomae.b", "c0ffee" * 10)
    anonymizer = latent(WIDTH, Attention(), Rank(4), encoder=reference, card=CARD)
    text = render(anonymizer)
    for part in (
        "`videomae.b`, hash `" + "c0ffee" * 10,
        "the training split of our set",
        anonymizer.content_hash(),
        "| utility | action recognition | top-1 | 0.5512 | 0.5561 | 0.08 |",
        "| attack | gender from static clips, best of 5 attackers | AP | 0.664 | – | 0.5 |",
        "1. **attention** (depth=3",
        "2. **rank** (rank=4): throws information away",
        "measured risk under the named attackers",
        "not anonymous data",
        "Made on a Tuesday.",
    ):
        assert part in text
    front = yaml.safe_load(text.split("---")[1])
    assert front["library_name"] == "videoveil"
    assert front["license"] == "mit"


def test_a_pipeline_that_can_be_undone_says_so_and_one_that_cannot_does_not() -> None:
    warning = "Every stage can be undone in principle"
    assert warning in render(latent(WIDTH, Attention()))
    assert warning not in render(latent(WIDTH, Attention(), Rank(4)))


def test_without_measurements_the_card_promises_nothing() -> None:
    text = render(latent(WIDTH, Rank(4)))
    assert "Treat its features as if they were raw" in text
    assert "Encoder it was trained for: not recorded" in text


def test_the_key_is_named_where_it_is_needed_and_never_shown() -> None:
    key = NoiseKey(b"0123456789abcdef")
    anonymizer = fitted((Noise(),))
    anonymizer.key = key
    text = render(anonymizer)
    assert "NoiseKey.load" in text
    assert "as long as its key is secret" in text
    assert "0123456789abcdef" not in text
    assert "NoiseKey" not in render(latent(WIDTH, Rank(4)))


def test_attention_across_the_batch_is_marked() -> None:
    assert "for comparison only" in render(latent(WIDTH, Attention(cross_sample=True)))


def test_a_card_survives_json_and_strange_fields_are_refused() -> None:
    assert ModelCard.from_json(json.loads(json.dumps(CARD.to_json()))) == CARD
    with pytest.raises(UsageError, match="unknown fields author"):
        ModelCard.from_json({"author": "x"})
    with pytest.raises(UsageError, match="kind='risk'"):
        Measurement("x", "risk", "AP", 0.1)  # type: ignore[arg-type]
