"""The gait attack: the published protocol beside attackers that learn, on walks that are known through and through."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tasks.make_store import features, recipe
from videoveil.attacks.gait import FittedGait, GaitAttack, GaitConfig, _halves, load
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks.base import Clips, Features, Score

WIDTH, PEOPLE = 24, 10
SEQUENCES = [("nm", n) for n in range(1, 7)] + [("bg", 1), ("cl", 1)]
VIEWS = ("000", "090")
Change = Callable[[np.ndarray], np.ndarray]


def store(
    root: Path, *, gait: float = 1.0, looks: float = 1.0, static: int = 3, change: Change | None = None
) -> FeatureStore:
    """Everybody's walks. Looks (6 channels) are in all clips, changed by a coat; gait (6 channels) in moving ones.

    Loud noise, shared by the clips of a walk, is in the last 6 channels; the view is in channel 12.
    """
    made = FeatureStore.create(
        root, {"name": "made-up", "hash": "0" * 64, "width": WIDTH}, replace(recipe(), static=static)
    )
    rng = np.random.default_rng(0)
    people = rng.normal(size=(PEOPLE, 3, 6))
    change = change or (lambda x: x)
    items, keys = [], {}
    for person, (condition, number), view in (
        (p, s, v) for p in range(PEOPLE) for s in SEQUENCES for v in VIEWS
    ):
        still = np.zeros(WIDTH)
        still[:6] = looks * people[person, 1 if condition == "cl" else 0]
        still[12] = 3.0 * (view == "090")
        still[18:] = 0.3 * rng.normal(size=6)
        moving = still.copy()
        moving[6:12] = gait * people[person, 2]
        rows = moving + 0.2 * rng.normal(size=(3, WIDTH))
        frames = still + 0.2 * rng.normal(size=(max(static, 1), WIDTH))
        value = features(change(rows))
        if static:
            value = replace(
                value,
                static=change(frames).astype(np.float32),
                static_frames=np.arange(static, dtype=np.int64),
            )
        item = Item(
            f"{person:03d}-{condition}-{number:02d}-{view}",
            Path(f"{person:03d}-{condition}-{number:02d}-{view}.avi"),
            "gallery" if condition == "nm" and number <= 4 else "probe",
            subject=f"{person:03d}",
            extra={"condition": condition, "view": view},
        )
        keys[item.id] = made.key(item.id)
        made.write(keys[item.id], value, {"id": item.id})
        items.append(item)
    made.write_index(Dataset("walks", root, tuple(items)), keys)
    return made


def relabel(made: FeatureStore, root: Path, change: Callable[[Item], Item | None]) -> FeatureStore:
    """The same walks with other labels."""
    out = FeatureStore.create(root, made.encoder, made.recipe)
    items, keys = [], {}
    for entry in made.items():
        if (item := change(entry.item)) is not None:
            keys[item.id] = out.key(item.id)
            out.write(keys[item.id], made.read(entry), {"id": item.id})
            items.append(item)
    out.write_index(Dataset("walks", root, tuple(items)), keys)
    return out


def attack(made: FeatureStore, *, seed: int = 0, **changes: object) -> Score:
    fitted = GaitAttack(GaitConfig(**changes)).fit(Features(made, split="gallery"), seed=seed, device="cpu")  # type: ignore[arg-type]
    return fitted.score(Features(made, split="probe"))


def value(score: Score, name: str) -> float:
    found = score[name].value
    assert found is not None
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return store(tmp_path_factory.mktemp("walks") / "s")


def slow_protocol(
    made: FeatureStore, condition: str, *, exclude_same_view: bool = False
) -> tuple[float, float]:
    """The published protocol and its chance level, one walk at a time."""
    walks = {
        entry.item.id: (entry.item, made.read(entry).clip.astype(float).mean(0)) for entry in made.items()
    }
    right, chances = [], []
    for item, x in walks.values():
        if item.split != "probe" or item.extra["condition"] != condition:
            continue
        best, nearest, same, count = -math.inf, "", 0, 0
        for other, y in walks.values():
            if other.split != "gallery":
                continue
            if exclude_same_view and other.extra["view"] == item.extra["view"]:
                continue
            count += 1
            same += other.subject == item.subject
            likeness = float(x @ y) / (math.sqrt(float(x @ x)) * math.sqrt(float(y @ y)))
            if likeness > best:
                best, nearest = likeness, str(other.subject)
        right.append(nearest == item.subject)
        chances.append(same / count)
    return sum(right) / len(right), sum(chances) / len(chances)


@pytest.mark.parametrize("exclude", [False, True])
def test_the_published_protocol_is_that_of_the_slow_search(tmp_path: Path, exclude: bool) -> None:
    made = store(tmp_path / "s", gait=0.15, looks=0.15)
    score = attack(made, trained=False, exclude_same_view=exclude)
    for condition in ("nm", "bg", "cl"):
        found, chance = slow_protocol(made, condition, exclude_same_view=exclude)
        assert value(score, f"cosine_{condition}") == pytest.approx(found)
        assert score[f"cosine_{condition}"].chance == pytest.approx(chance)
    assert 0.15 < value(score, "cosine_nm") < 0.95
    assert score.headline.name == "top1"
    assert value(score, "top1") == value(score, "cosine_nm")
    assert score.items == PEOPLE * 4 * len(VIEWS)


def test_walks_from_the_probes_own_side_are_no_candidates_if_asked_for(plain: FeatureStore) -> None:
    fitted = GaitAttack(GaitConfig(exclude_same_view=True)).fit(Features(plain, split="gallery"))
    found = fitted.score(Features(plain, split="probe"))
    assert set(fitted.classifiers) == {"", *VIEWS}  # one learnt from all sides is for probes from yet another
    assert value(found, "enrolled_linear_nm") > 0.9
    assert found["cosine_nm"].chance == pytest.approx(1 / PEOPLE)


def test_what_is_seen_decides_what_is_found(plain: FeatureStore, tmp_path: Path) -> None:
    """Looks are gone with another coat; gait stays, and is in moving clips only."""
    by_input = {kind: attack(plain, input=kind, trained=False) for kind in ("clip", "static", "residual")}
    assert value(by_input["clip"], "cosine_nm") > 0.9
    assert value(by_input["static"], "cosine_nm") > 0.9
    assert value(by_input["static"], "cosine_cl") < 0.4
    assert value(by_input["residual"], "cosine_cl") > 0.9
    still = store(tmp_path / "still", gait=0.0)
    assert value(attack(still, input="residual", kinds=()), "top1") < 0.45
    assert value(attack(still, input="static", trained=False), "top1") > 0.9


def test_an_anonymizer_that_only_rearranges_blinds_cosine_and_not_what_learns(tmp_path: Path) -> None:
    def rearrange(x: np.ndarray) -> np.ndarray:
        loud = np.ones(WIDTH)
        loud[18:] = 100.0
        turn = np.linalg.qr(np.random.default_rng(3).normal(size=(WIDTH, WIDTH)))[0]
        return (x * loud) @ turn

    score = attack(store(tmp_path / "s", change=rearrange))
    assert value(score, "cosine_nm") < 0.4
    assert value(score, "open_cosine_nm") < 0.5
    for name in ("enrolled_lda_nm", "enrolled_linear_nm", "open_lda_nm", "open_lda_bg"):
        assert value(score, name) > 0.9, name
    assert value(score, "top1") == max(value(score, n) for n in ("enrolled_lda_nm", "enrolled_linear_nm"))
    assert score["open_lda_nm"].chance == pytest.approx(2 / PEOPLE)
    assert score["enrolled_lda_nm"].chance == pytest.approx(1 / PEOPLE)


def test_features_without_anybody_in_them_are_near_chance(tmp_path: Path) -> None:
    score = attack(store(tmp_path / "s", gait=0.0, looks=0.0))
    for metric in score.metrics:
        assert metric.value is not None
        assert metric.chance is not None
        assert metric.value < metric.chance + 0.25, metric


def test_the_people_that_are_found_are_not_those_that_were_learnt_on(plain: FeatureStore) -> None:
    fitted = GaitAttack(GaitConfig(kinds=())).fit(Features(plain, split="gallery"))
    one, two = (set(half.people) for half in fitted.halves)
    assert not one & two
    assert len(one | two) == PEOPLE
    walks = load(Features(plain, split="probe"), GaitConfig())
    only = walks.where(np.isin(walks.people, list(one)))
    assert fitted.hits(only)[1]["open_lda"] == pytest.approx(np.full(len(only), 1 / len(one)))
    gallery, known = load(Features(plain, split="gallery"), GaitConfig()), load(Features(plain), GaitConfig())
    hidden = np.isin(known.people, list(one))
    disturbed = replace(known, x=np.where(hidden[:, None], 99.0, known.x))
    before, after = (next(iter(_halves(gallery, k, GaitConfig(), 0))) for k in (known, disturbed))
    assert set(before.people) == one
    assert np.array_equal(before.projection.matrix, after.projection.matrix)


def test_equal_seeds_find_the_same_and_other_seeds_other_halves(plain: FeatureStore) -> None:
    assert attack(plain, seed=3, kinds=()) == attack(plain, seed=3, kinds=())
    fits = [GaitAttack(GaitConfig(kinds=())).fit(Features(plain), seed=s) for s in (3, 4)]
    assert set(fits[0].halves[0].people) != set(fits[1].halves[0].people)


def test_a_set_without_conditions_and_views_has_plain_names(plain: FeatureStore, tmp_path: Path) -> None:
    bare = relabel(plain, tmp_path / "s", lambda item: replace(item, extra={}))
    names = [metric.name for metric in attack(bare).metrics]
    assert names == ["top1", "cosine", "enrolled_lda", "enrolled_linear", "open_cosine", "open_lda"]


def test_how_the_attackers_came_to_be_is_kept(plain: FeatureStore, tmp_path: Path) -> None:
    GaitAttack().fit(Features(plain), run=tmp_path)
    facts = json.loads((tmp_path / "attack.json").read_text())
    assert len(facts["open"]) == 2
    assert {"shrinkage", "directions"} == set(facts["enrolled"])
    assert len(facts["people"]) == PEOPLE
    with pytest.raises(UsageError, match="run the attack again"):
        GaitAttack().load(tmp_path / "attack.json")


def test_bad_input_is_named(plain: FeatureStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose one of clip, static, residual"):
        GaitConfig(input="smell")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no attacker 'oracle'"):
        GaitConfig(kinds=("oracle",))
    with pytest.raises(UsageError, match="extract them first"):
        GaitAttack().fit(Clips(plain.dataset()))  # type: ignore[arg-type]
    nobody = relabel(plain, tmp_path / "nobody", lambda item: replace(item, subject=None))
    with pytest.raises(BadItems, match="80 problems with 80 walks") as caught:
        attack(nobody)
    assert "nobody is named in it" in caught.value.offenders[0]
    bare = store(tmp_path / "bare", static=0)
    with pytest.raises(BadItems, match="80 problems") as caught:
        attack(bare, input="static")
    assert "extract with static=4" in caught.value.offenders[0]
    viewless = relabel(plain, tmp_path / "viewless", lambda item: replace(item, extra={}))
    with pytest.raises(BadItems, match="80 problems") as caught:
        attack(viewless, exclude_same_view=True)
    assert "no view is named" in caught.value.offenders[0]
    train = relabel(plain, tmp_path / "train", lambda item: item.with_split("train"))
    with pytest.raises(BadItems, match="no walks in split 'gallery'; there are train 160"):
        attack(train)


def test_probes_from_a_side_the_gallery_does_not_have_are_classified_too(
    plain: FeatureStore, tmp_path: Path
) -> None:
    def side(item: Item) -> Item:
        extra = {**item.extra, "view": "045"} if item.split == "probe" else item.extra
        return replace(item, extra=extra)

    moved = relabel(plain, tmp_path / "moved", side)
    score = attack(moved, exclude_same_view=True)
    assert value(score, "enrolled_linear_nm") > 0.8


def test_people_who_cannot_be_found_are_named(plain: FeatureStore, tmp_path: Path) -> None:
    def drop(item: Item) -> Item | None:
        return None if item.subject == "003" and item.split == "gallery" else item

    without = relabel(plain, tmp_path / "without", drop)
    with pytest.raises(BadItems, match="1 people of the probes are not in the gallery") as caught:
        attack(without, trained=False)
    assert list(caught.value.offenders) == ["003"]
    one_side = relabel(
        plain,
        tmp_path / "side",
        lambda item: None if item.split == "gallery" and item.extra["view"] == "000" else item,
    )
    with pytest.raises(BadItems, match="no gallery walk of their person from another side"):
        attack(one_side, trained=False, exclude_same_view=True)
    few = relabel(plain, tmp_path / "few", lambda item: item if int(item.subject or 0) < 7 else None)
    with pytest.raises(UsageError, match="7 people; at least 8"):
        attack(few)
    assert isinstance(GaitAttack(GaitConfig(trained=False)).fit(Features(few)), FittedGait)


def test_outcomes_are_what_the_score_is_made_of(plain: FeatureStore) -> None:
    fitted = GaitAttack(GaitConfig(kinds=())).fit(Features(plain))
    outcomes, score = fitted.outcomes(Features(plain, split="probe")), fitted.score(Features(plain))
    assert set(outcomes) == {metric.name for metric in score.metrics[1:]}
    for name, one in outcomes.items():
        assert one.measure().value == pytest.approx(score[name].value)
        assert one.measure().chance == pytest.approx(score[name].chance)
    assert len(outcomes["cosine_nm"].items) == PEOPLE * 2 * len(VIEWS)
    only = next(i for i, id_ in enumerate(outcomes["cosine_nm"].items) if id_.startswith("003"))
    assert outcomes["cosine_nm"].measure(np.array([only, only])).chance == pytest.approx(1 / PEOPLE)
