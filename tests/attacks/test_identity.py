"""Re-identification and verification: who is found, who may not be looked for, and what is worth nothing."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.attacks.persons import person_store, person_videos
from tests.attacks.pictures import Changed
from videoveil.attacks.identity import FittedIdentity, IdentityAttack, IdentityConfig
from videoveil.data.records import Dataset
from videoveil.errors import AnnotationError, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks.base import Clips, Features, Score

QUICK = IdentityConfig(networks=("tiny",), size=32, clips=2, epochs=3, batch=8, per_video=2, validation=0.3)


def attack(made: FeatureStore, raw: FeatureStore | None = None, **changes: object) -> Score:
    task = IdentityAttack(
        IdentityConfig(**changes),  # type: ignore[arg-type]
        raw=None if raw is None else Features(raw),
    )
    return task.fit(Features(made, split="train")).score(Features(made, split="test"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return person_store(tmp_path_factory.mktemp("people") / "s")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return person_videos(tmp_path_factory.mktemp("films"))


# --- features -----------------------------------------------------------------------------------------------


def test_strangers_are_found_by_what_was_learnt_on_others(plain: FeatureStore) -> None:
    score = attack(plain)
    assert score.items == 8 * 4
    assert score["rank1_lda"].value > 0.9  # type: ignore[operator]
    assert score["rank1_lda"].chance == pytest.approx(3 / 31)
    assert score["auc_lda"].value > 0.95  # type: ignore[operator]
    assert score["eer_lda"].value < 0.1  # type: ignore[operator]
    assert score["map_lda"].value > score["map_cosine"].value  # type: ignore[operator]
    assert score.headline == replace(score["rank1_lda"], name="rank1")
    assert score["eer"].value == min(score["eer_lda"].value, score["eer_cosine"].value)  # type: ignore[type-var]


def test_features_that_are_all_the_same_are_worth_exactly_chance(tmp_path: Path) -> None:
    score = attack(person_store(tmp_path / "s", change=np.ones_like))
    assert len(score.metrics) == 12
    for metric in score.metrics:
        assert metric.value == pytest.approx(metric.chance), metric


def test_a_raw_gallery_is_linked_where_the_anonymizer_only_moves_everybody(
    plain: FeatureStore, tmp_path: Path
) -> None:
    """Mirrored features blind cosine against raw pictures; what was learnt on both finds people again."""
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(16, 16)))[0]
    moved = person_store(tmp_path / "moved", change=lambda x: x @ turn * 0.2 + 3.0)
    score = attack(moved, plain)
    assert score["rank1_cosine_raw"].value < 0.3  # type: ignore[operator]
    assert score["rank1_bridge_raw"].value > 0.9  # type: ignore[operator]
    assert score["rank1_lda"].value > 0.9  # type: ignore[operator]
    same = attack(plain, plain)
    assert same["rank1_lda_raw"].value > 0.9  # type: ignore[operator]
    shifted = person_store(tmp_path / "shifted", change=lambda x: x + 5.0)
    assert attack(shifted, plain)["rank1_lda_raw"].value > 0.9  # type: ignore[operator]


def test_the_probes_own_video_is_never_in_its_gallery(tmp_path: Path) -> None:
    """Features that tell videos apart and say nothing of people: the raw copy of a probe would be found at once."""
    noise = person_store(tmp_path / "noise", signal=0.0)
    found = IdentityAttack(IdentityConfig(), raw=Features(noise)).fit(Features(noise, split="train"))
    for one in found.found(Features(noise, split="test")).values():
        assert (one.allowed.sum(1) == 31).all()
    score = found.score(Features(noise, split="test"))
    assert score["rank1_cosine_raw"].value < 0.4  # type: ignore[operator]


def test_nobody_who_was_learnt_from_is_looked_for(tmp_path: Path) -> None:
    """A set with a gallery and probes of the same people: half of them teach, the others are looked for."""
    made = person_store(tmp_path / "s", people=12, splits=("gallery", "gallery"))
    items = tuple(
        replace(item, split="probe" if item.extra["camera"] == "1" else "gallery") for item in made.dataset()
    )
    made.write_index(Dataset("made-up", made.root, items), {e.item.id: e.key for e in made.items()})
    fitted = IdentityAttack().fit(Features(made, split="gallery"), seed=1)
    assert len(fitted.known) == 6
    found = fitted.found(Features(made, split="probe"))["lda"]
    assert len(found.probes) == 6 * 2
    assert found.same.shape[1] == 6 * 2
    assert not {id_[:3] for id_ in found.probes} & fitted.known
    assert fitted.found(Features(made))["lda"].probes == found.probes


@pytest.mark.parametrize("splits", [("gallery", "probe"), ("train", "test")])
def test_the_same_people_are_looked_for_with_every_seed(tmp_path: Path, splits: tuple[str, str]) -> None:
    """Who is asked about decides the figures; trainings that ask about others cannot be put together."""
    made = person_store(tmp_path / "s", people=8, each=6)
    items = tuple(replace(item, split=splits[int(item.id[-1]) % 2]) for item in made.dataset())
    made.write_index(Dataset("made-up", made.root, items), {e.item.id: e.key for e in made.items()})
    first, *others = (IdentityAttack().fit(Features(made, split=splits[0]), seed=seed) for seed in range(4))
    test = Features(made, split=splits[1])
    assert len(first.known) == 4
    for other in others:
        assert other.known == first.known
        for name, one in other.outcomes(test).items():
            assert one.items == first.outcomes(test)[name].items


def test_a_camera_can_be_forbidden(plain: FeatureStore) -> None:
    fitted = IdentityAttack(IdentityConfig(apart=("camera",))).fit(Features(plain, split="train"))
    found = fitted.found(Features(plain, split="test"))["cosine"]
    assert (found.allowed.sum(1) == 16).all()


def test_outcomes_are_what_the_score_is_made_of(plain: FeatureStore) -> None:
    fitted = IdentityAttack(IdentityConfig(trained=False)).fit(Features(plain, split="train"))
    test = Features(plain, split="test")
    outcomes, score = fitted.outcomes(test), fitted.score(test)
    assert set(outcomes) == {"rank1_cosine", "map_cosine", "auc_cosine"}
    for name, one in outcomes.items():
        assert one.measure().value == pytest.approx(score[name].value)
        assert one.measure().chance == pytest.approx(score[name].chance)


def test_bad_input_is_named(plain: FeatureStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name published, raw or both"):
        IdentityConfig(galleries=("secret",))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no raw videos"):
        attack(plain, galleries=("raw",))
    few = person_store(tmp_path / "few", people=2)
    with pytest.raises(UsageError, match="1 people to learn from, at least 2"):
        attack(few)
    assert attack(few, trained=False).items == 4
    single = person_store(tmp_path / "single", each=1)
    with pytest.raises(UsageError, match="seen once only"):
        attack(single, trained=False)
    nobody = IdentityAttack(people=lambda item: None)
    with pytest.raises(AnnotationError, match="nobody is named"):
        nobody.fit(Features(plain, split="train"))
    with pytest.raises(UsageError, match="run the attack again"):
        nobody.load("x")


# --- clips --------------------------------------------------------------------------------------------------


def test_people_are_found_in_raw_clips_and_not_in_black_ones(films: Dataset) -> None:
    config = dataclasses.replace(QUICK, networks=("tiny@own",))
    fitted = IdentityAttack(config).fit(Clips(films, "train"), device="cpu")
    score = fitted.score(Clips(films, "test"))
    assert list(fitted.eyes) == ["tiny@own", "tiny@own-people"]
    assert score["rank1"].value > 0.8  # type: ignore[operator]
    assert score["rank1"].chance == pytest.approx(2 / 11)
    black = Changed("constant", 0.0)
    blind = IdentityAttack(dataclasses.replace(QUICK, galleries=("published",), epochs=1)).fit(
        Clips(films, "train", black), device="cpu"
    )
    for metric in blind.score(Clips(films, "test", black)).metrics:
        assert metric.value == pytest.approx(metric.chance), metric


def test_published_probes_are_compared_with_raw_galleries_of_the_same_videos(films: Dataset) -> None:
    turned = Changed("upside down")
    config = dataclasses.replace(QUICK, epochs=1)
    fitted = IdentityAttack(config).fit(Clips(films, "train", turned), device="cpu")
    found = fitted.found(Clips(films, "test", turned))
    assert set(found) == {
        "tiny_cosine",
        "tiny_lda",
        "tiny_cosine_raw",
        "tiny_lda_raw",
        "tiny_bridge_raw",
        "tiny-people_cosine",
        "tiny-people_cosine_raw",
    }
    apart = IdentityAttack(config, raw=Clips(films)).fit(Clips(films, "train"), device="cpu")
    own = apart.found(Clips(films, "test"))
    assert np.allclose(own["tiny_cosine"].likeness, own["tiny_cosine_raw"].likeness)


def test_the_same_seed_gives_the_same_likeness(films: Dataset, tmp_path: Path) -> None:
    def likeness(seed: int, run: Path | None = None) -> np.ndarray:
        fitted: FittedIdentity = IdentityAttack(dataclasses.replace(QUICK, epochs=1)).fit(
            Clips(films, "train"), device="cpu", seed=seed, run=run
        )
        return fitted.found(Clips(films, "test"))["tiny-people_cosine"].likeness

    first = likeness(0, tmp_path)
    assert np.array_equal(first, likeness(0))
    assert np.array_equal(first, likeness(0, tmp_path))
    assert not np.array_equal(first, likeness(1))


def test_networks_that_learn_people_look_for_the_same_ones_with_every_seed(tmp_path: Path) -> None:
    films = person_videos(tmp_path, people=6, each=4)
    items = tuple(replace(item, split=("train", "test")[int(item.id[-1]) % 2]) for item in films)
    mixed = replace(films, items=items)
    config = dataclasses.replace(QUICK, epochs=1, per_video=1, clips=1)
    probes = []
    for seed in (0, 1):
        fitted = IdentityAttack(config).fit(Clips(mixed, "train"), device="cpu", seed=seed)
        probes.append({name: one.items for name, one in fitted.outcomes(Clips(mixed, "test")).items()})
    assert probes[0] == probes[1]
    assert set(map(len, probes[0].values())) == {3 * 2}
