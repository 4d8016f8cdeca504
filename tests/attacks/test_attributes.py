"""The attribute attack as a task: the attacker that does best counts, on moving clips and on static ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tasks.make_store import features, recipe, write_store
from videoveil.attacks import attributes
from videoveil.attacks.attributes import AttackConfig, AttributeAttack, leakage
from videoveil.attacks.features import split
from videoveil.data.owners import together
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, BadItems, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks.base import Features

QUICK = AttackConfig(kinds=("linear", "knn"))


def store(root: Path, *, signal: float = 3.0, static: int = 3, known: bool = True) -> FeatureStore:
    """Sixty videos; `signal` of "tall" is in the first dimension of clips, of "old" in the second of static clips."""
    made = FeatureStore.create(
        root, {"name": "made-up", "hash": "0" * 64, "width": 8}, replace(recipe(), static=static)
    )
    rng = np.random.default_rng(0)
    items, keys = [], {}
    for n in range(60):
        tall, old = int(n % 2 == 0), int(n % 3 == 0)
        clip, still = rng.standard_normal((3, 8)), rng.standard_normal((static, 8))
        clip[:, 0] += signal * tall
        still[:, 1] += signal * old
        item = Item(
            f"v{n}",
            Path(f"v{n}.mp4"),
            "train" if n < 40 else "test",
            attributes={"tall": tall, "old": old} if known else None,
        )
        value = features(clip)
        if static:
            value = replace(
                value, static=still.astype(np.float32), static_frames=np.arange(static, dtype=np.int64)
            )
        keys[item.id] = made.key(item.id)
        made.write(keys[item.id], value, {"id": item.id})
        items.append(item)
    made.write_index(Dataset("made-up", root, tuple(items), attributes=("old", "tall")), keys)
    return made


def test_each_input_gives_away_what_is_in_it_and_no_more(tmp_path: Path) -> None:
    made = store(tmp_path / "s", signal=5.0)
    for kind, told, hidden in (("clip", "tall", "old"), ("static", "old", "tall")):
        task = AttributeAttack(replace(QUICK, input=kind))  # type: ignore[arg-type]
        score = task.fit(Features(made, split="train"), device="cpu").score(Features(made, split="test"))
        assert score.per_class[told]["ap"] > 0.9  # type: ignore[operator]
        assert score.per_class[hidden]["ap"] < 0.75  # type: ignore[operator]
        assert score.per_class[told]["chance"] == pytest.approx(0.5 if told == "tall" else 6 / 20, abs=0.06)


def test_the_attacker_that_does_best_counts(tmp_path: Path) -> None:
    made = store(tmp_path / "s")
    fitted = AttributeAttack(QUICK).fit(Features(made, split="train"), device="cpu")
    score = fitted.score(Features(made, split="test"))
    each = [score[f"cmap_{kind}"].value for kind in QUICK.kinds]
    assert score.headline.value == max(each)  # type: ignore[type-var]
    reports = fitted.reports(Features(made, split="test"))
    assert [reports[kind].cmap for kind in QUICK.kinds] == each
    assert score.headline.chance == pytest.approx((0.5 + 6 / 20) / 2, abs=0.06)


def test_who_has_learnt_from_raw_features_only_is_fooled_by_what_a_fresh_attacker_finds(
    tmp_path: Path,
) -> None:
    """Published features with the sign of the telling dimension turned."""
    raw = store(tmp_path / "raw", signal=5.0)
    turned = store(tmp_path / "turned", signal=-5.0)
    train, test = Features(turned, split="train"), Features(turned, split="test")
    fresh = AttributeAttack(QUICK).fit(train, device="cpu").score(test)
    config = replace(QUICK, knowledge="raw")
    knowing = AttributeAttack(config, raw=Features(raw, split="train"))
    fooled = knowing.fit(train, device="cpu").score(test)
    seeing = knowing.fit(train, device="cpu").score(Features(raw, split="test"))
    assert fresh.per_class["tall"]["ap"] > 0.9  # type: ignore[operator]
    assert fooled.per_class["tall"]["ap"] < 0.6  # type: ignore[operator]
    assert seeing.per_class["tall"]["ap"] > 0.9  # type: ignore[operator]
    with pytest.raises(UsageError, match="give the raw features"):
        AttributeAttack(config).fit(train, device="cpu")


def test_features_without_a_signal_are_near_chance(tmp_path: Path) -> None:
    made = store(tmp_path / "s", signal=0.0)
    score = (
        AttributeAttack(QUICK)
        .fit(Features(made, split="train"), device="cpu")
        .score(Features(made, split="test"))
    )
    assert score.headline.value < score.headline.chance + 0.25  # type: ignore[operator]


def test_the_same_seed_finds_the_same(tmp_path: Path) -> None:
    made = store(tmp_path / "s")
    one, two = (
        AttributeAttack(QUICK)
        .fit(Features(made, split="train"), seed=3, device="cpu")
        .score(Features(made, split="test"))
        for _ in range(2)
    )
    assert one == two


class Listening:
    """In the place of an attacker: what it learns from and what it chooses on, by the first feature."""

    def __init__(self) -> None:
        self.learnt: list[set[float]] = []
        self.chosen: list[set[float]] = []

    def fit(self, x: Any, y: Any, held_out: Any, seed: int, device: str) -> None:
        self.learnt.append(set(x[:, 0].tolist()))
        self.chosen.append(set(held_out[0][:, 0].tolist()))


@pytest.mark.parametrize("known", ["subject", "source", "group"])
def test_nobody_who_is_learnt_from_helps_to_choose(
    known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every person, or film, there are four videos; the first feature says whose they are."""
    items, rows = [], []
    for n in range(24):
        told: dict[str, Any] = (
            {"subject": f"p{n % 6}"} if known == "subject" else {"extra": {known: f"f{n % 6}"}}
        )
        items.append(
            Item(f"v{n:02d}", Path("v.mp4"), "train", action="a", attributes={"tall": n % 2}, **told)
        )
        rows.append(np.full((3, 4), n % 6, np.float32))
    made = write_store(tmp_path / "s", items, rows)
    listening = Listening()
    monkeypatch.setattr(attributes, "attacker", lambda kind: listening)
    for seed in range(4):
        AttributeAttack(QUICK).fit(Features(made, split="train"), seed=seed)
    for learnt, chosen in zip(listening.learnt, listening.chosen, strict=True):
        assert chosen
        assert len(learnt) + len(chosen) == 6
        assert not learnt & chosen


@given(
    st.lists(st.text("ab/é9", min_size=1, max_size=4), min_size=2, max_size=20, unique=True),
    st.integers(0, 99),
    st.integers(1, 3),
)
def test_where_nobody_is_named_the_split_is_by_video_as_it_always_was(
    ids: list[str], seed: int, each: int
) -> None:
    items = [Item(id_, Path(f"{id_}.mp4"), "train") for id_ in sorted(ids)]
    videos = np.repeat(np.arange(len(items)), each)
    now = split(len(videos), 0.2, seed, np.array(together(items))[videos])
    before = split(len(videos), 0.2, seed, videos)
    assert all(np.array_equal(*parts) for parts in zip(now, before, strict=True))


def test_what_cannot_be_attacked_is_said(tmp_path: Path) -> None:
    bare = store(tmp_path / "bare", static=0)
    with pytest.raises(BadItems, match="40 items cannot be attacked") as caught:
        AttributeAttack(replace(QUICK, input="static")).fit(Features(bare, split="train"))
    assert len(caught.value.offenders) == 40
    silent = store(tmp_path / "silent", known=False)
    with pytest.raises(AnnotationError, match="no item has attributes"):
        AttributeAttack(QUICK).fit(Features(silent, split="train"))
    with pytest.raises(UsageError, match="no attacker 'oracle'"):
        AttackConfig(kinds=("oracle",))
    with pytest.raises(UsageError, match="choose one of clip, static"):
        AttackConfig(input="smell")  # type: ignore[arg-type]


def test_leakage_is_the_part_above_chance_that_is_left() -> None:
    assert leakage(0.6, 0.8, 0.4) == pytest.approx(0.5)
    assert leakage(0.8, 0.8, 0.4) == pytest.approx(1.0)
    assert leakage(0.4, 0.8, 0.4) == 0
    with pytest.raises(UsageError, match="does not beat chance"):
        leakage(0.5, 0.3, 0.3)


def test_outcomes_are_what_the_score_is_made_of(tmp_path: Path) -> None:
    made = store(tmp_path / "s", signal=2.0)
    fitted = AttributeAttack(QUICK).fit(Features(made, split="train"), device="cpu")
    test = Features(made, split="test")
    outcomes, score = fitted.outcomes(test), fitted.score(test)
    for kind in QUICK.kinds:
        assert outcomes[kind].measure().value == pytest.approx(score[f"cmap_{kind}"].value)
        assert outcomes[kind].measure().chance == pytest.approx(score["cmap"].chance)
        assert outcomes[kind].items == tuple(sorted(f"v{n}" for n in range(40, 60)))
