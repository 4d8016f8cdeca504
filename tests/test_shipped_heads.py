"""The trained tasks that come with the package: whole, small, described, and worth what their cards say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from videoveil import shipped
from videoveil.data import twins
from videoveil.data.records import Dataset
from videoveil.data.twins.plan import render
from videoveil.encoders import create
from videoveil.errors import UsageError
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.tasks import heads, suits
from videoveil.tasks import registry as tasks
from videoveil.tasks.base import Features
from videoveil.tasks.predict import predict_store
from videoveil.tasks.runs import Run, score

STRANGERS = 77  # a cast that nothing was trained on, chosen on or reported on


def test_there_is_a_head_for_every_task_on_features() -> None:
    found = {Run.open(shipped.head_place(name)).task for name in shipped.heads()}
    assert found == {name for name in tasks.names() if tasks.kind(name).reads == "features"}


@pytest.mark.parametrize("name", shipped.heads())
def test_a_head_is_for_the_embedded_encoder_and_for_what_comes_with_the_package(name: str) -> None:
    head, encoder = Run.open(shipped.head_place(name)), create("tiny")
    assert head.name == name
    hidden = head.source["encoder"].get("anonymizer")
    assert (hidden is not None) == name.endswith("-veil-tiny")
    assert hidden is None or hidden["hash"] == shipped.facts("veil-tiny")["content_hash"]
    assert suits.network(head.source["encoder"])["hash"] == encoder.content_hash()
    assert head.source["recipe"]["clips"] == tasks.kind(head.task).clips
    assert "store" not in head.source
    head.fitted()


@pytest.mark.parametrize("name", shipped.heads())
def test_its_card_says_what_it_is_worth_raw_and_behind_the_shipped_anonymizer(name: str) -> None:
    card = heads.card_of(shipped.head_place(name))
    kinds = ["features through `veil-tiny`"]
    assert sorted(one.name for one in card.measurements) == [
        *kinds,
        *(["raw features"] if not name.endswith("-veil-tiny") else []),
    ]
    for one in card.measurements:
        assert one.chance is not None
        assert one.value > one.chance
        if one.low is None or one.high is None:
            assert "a single seed" in card.notes
        else:
            assert one.low <= one.value <= one.high
    assert "--seed 5 " in card.training_data
    assert card.license == "mit"
    assert "Known failures" in card.notes
    text = shipped.card(name)
    assert f"scripts/models.py {name} OUT" in text
    assert heads.render(Run.open(shipped.head_place(name)), card) == text


def test_a_name_becomes_a_folder_and_anything_else_is_a_path() -> None:
    name = shipped.heads()[0]
    assert shipped.head_place(name) == shipped.HEADS / name
    assert shipped.head_place("my/run") == Path("my/run")
    with pytest.raises(UsageError, match="veil-pixel"):
        shipped.card("nobody")


def test_a_summary_is_the_figures_of_the_card() -> None:
    for name in shipped.heads():
        told, card = shipped.head_summary(name), heads.card_of(shipped.head_place(name))
        assert told["task"] in name
        assert told["parameters"] > 1000
        for one in card.measurements:
            assert f"{one.metric} {one.value:.2f}" in told["figures"]


def test_an_anonymizer_is_found_by_its_hash() -> None:
    assert shipped.anonymizer_of(shipped.facts("veil-tiny")["content_hash"]) == "veil-tiny"
    assert shipped.anonymizer_of("0" * 64) is None


def test_the_action_head_knows_what_strangers_do_in_films_rendered_now(tmp_path: Path) -> None:
    """One film of each of 16 actions by people whom nothing has seen: rendered, extracted, recognised."""
    twin, root = twins.plan("vphmdb", STRANGERS, "tiny"), tmp_path / "twin"
    chosen = [item for item in twin.truth if item.split == "test"]
    paths = {str(item.path) for item in chosen}
    render(replace(twin, reels=tuple(reel for reel in twin.reels if reel.path in paths)), root)
    items = tuple(replace(item, path=root / item.path) for item in chosen)
    dataset = Dataset("strangers", root, items, classes=tuple(sorted({str(item.action) for item in items})))
    encoder = create("tiny")
    extract(dataset, tmp_path / "store", encoder, recipe_for(encoder), device="cpu")
    store = FeatureStore.open(tmp_path / "store")
    head = Run.open(shipped.head_place("action-tiny"))
    found = score(head, Features(store, split="test"))
    assert found.items == 16
    assert found["top1"].value is not None
    assert found["top1"].value >= 0.6  # a blind guess is right once in 16
    said = {one.video: one.answer for one in predict_store(store, head)}
    right = [said[entry.item.id][0][0] == entry.item.action for entry in store.items()]
    assert sum(right) / 16 == found["top1"].value
    assert all(len(answer) == 5 and re.fullmatch(r"\w+", answer[0][0]) for answer in said.values())
