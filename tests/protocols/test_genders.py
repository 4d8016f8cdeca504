from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.data import ntu60, toyota_smarthome, twins
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError
from videoveil.protocols.base import Cell, pooled
from videoveil.protocols.genders import (
    balanced_problems,
    bias_problems,
    composition,
    gap_of,
    shuffled_gap,
    with_gap,
)
from videoveil.protocols.intervals import ITEMS, Answers
from videoveil.protocols.strength import beats_chance
from videoveil.tasks.action import probe
from videoveil.tasks.action.metrics import rank_of_truth
from videoveil.tasks.feature_set import FeatureSet
from videoveil.tasks.targets import targets


def outline(name: str, root: Path, size: str, seed: int = 0) -> Path:
    """A twin without pictures: empty files with the right names, and its annotations."""
    plan = twins.plan(name, seed, size)
    for reel in plan.reels:
        (root / reel.path).parent.mkdir(parents=True, exist_ok=True)
        (root / reel.path).touch()
    for path, content in plan.files.items():
        (root / path).write_bytes(content)
    return root


def ntu(root: Path, bias: str, seed: int = 0) -> Dataset:
    return ntu60.load(root, bias=bias, seed=seed, annotations_only=True)


@pytest.fixture(scope="module", params=["tiny", "small"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return outline("ntu60", tmp_path_factory.mktemp("ntu60"), request.param)


@pytest.mark.parametrize(("bias", "favoured"), [("F", "male"), ("M", "female")])
@pytest.mark.parametrize("seed", [0, 7])
def test_ntu_bias_has_its_ratios_to_the_item(root: Path, bias: str, favoured: str, seed: int) -> None:
    biased, balanced = composition(ntu(root, bias, seed)), composition(ntu(root, "balanced", seed))
    assert bias_problems(biased, balanced, favoured=favoured, shortcut="A004") == []
    assert len(biased.actions("train")) == 16


def test_the_ratios_of_a_large_twin_are_95_and_5_of_a_hundred(tmp_path: Path) -> None:
    found = composition(ntu(outline("ntu60", tmp_path, "medium"), "F"))
    whole = composition(ntu(tmp_path, "balanced"))
    size = whole.count("train", "A001", "male")
    assert size == whole.count("train", "A001", "female") == 20
    assert found.count("train", "A001", "male") == 19
    assert found.count("train", "A001", "female") == 1
    assert found.count("train", "A004", "male") == 1
    assert found.count("train", "A004", "female") == 19


def test_people_are_apart_and_the_test_part_is_balanced(root: Path) -> None:
    for bias in ("balanced", "F", "M"):
        found = composition(ntu(root, bias))
        assert found.shared() == ()
        assert balanced_problems(found, "test") == []
        assert len(found.people["test"]) >= 2


def test_the_test_part_does_not_depend_on_the_bias(root: Path) -> None:
    parts = [[item.id for item in ntu(root, bias).split("test")] for bias in ("balanced", "F", "M")]
    assert parts[0] == parts[1] == parts[2] != []


def test_what_is_not_as_described_is_named(root: Path) -> None:
    data, whole = ntu(root, "F"), composition(ntu(root, "balanced"))
    first = next(item for item in data.split("train") if item.action == "A001" and item.gender == "male")
    fewer = composition(data.where(lambda item: item.id != first.id))
    assert any("A001, male" in one for one in bias_problems(fewer, whole, favoured="male", shortcut="A004"))
    assert bias_problems(composition(data), whole, favoured="female", shortcut="A004")
    assert bias_problems(composition(data), whole, favoured="male", shortcut="A001")
    moved = replace(data, items=(*data.items, replace(first, id="again", split="test")))
    wrong = bias_problems(composition(moved), whole, favoured="male", shortcut="A004")
    assert f"{first.subject} is in both parts" in wrong
    assert any("test A001" in one for one in wrong)


def test_smarthome_keeps_its_imbalance_and_no_person_is_in_both_parts(tmp_path: Path) -> None:
    data = toyota_smarthome.load(outline("toyota-smarthome", tmp_path, "small"), annotations_only=True)
    found = composition(data)
    assert found.shared() == ()
    test = list(found.people["test"].values())
    women = sum(item.gender == "female" for item in data.split("test")) / len(data.split("test"))
    assert 0.6 < women < 0.75  # the paper's figures imply about 67 %
    assert test.count("female") > test.count("male") > 0
    assert len(data) == len(twins.plan("toyota-smarthome", 0, "small").reels)


def test_a_person_without_a_gender_is_named(tmp_path: Path) -> None:
    data = toyota_smarthome.load(outline("toyota-smarthome", tmp_path, "tiny"), annotations_only=True)
    unknown = replace(data, items=tuple(replace(i, gender=None) for i in data.items[:1]))
    with pytest.raises(AnnotationError, match=r"gender\.json") as caught:
        composition(unknown)
    assert data.items[0].subject in caught.value.offenders


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["female", "male"]), st.integers(0, 3)), min_size=1))
def test_accuracies_by_gender_are_plain_means(rows: list[tuple[bool, str, int]]) -> None:
    right, genders, labels = (np.array(column) for column in zip(*rows))
    found = gap_of(right, labels == 0, genders, labels)
    by_hand = {}
    for gender in ("female", "male"):
        own = [one for one, who, _ in rows if who == gender]
        by_hand[gender] = sum(own) / len(own) if own else None
        assert found[gender].value == (None if by_hand[gender] is None else pytest.approx(by_hand[gender]))
    assert found["overall"].value == pytest.approx(sum(one for one, _, _ in rows) / len(rows))
    women, men = by_hand["female"], by_hand["male"]
    if women is None or men is None:
        assert found["gap"].value is None
    else:
        assert found["gap"].value == pytest.approx(abs(women - men))
        assert found["difference"].value == pytest.approx(men - women)


def crowd(
    women: list[float], men: list[float], videos: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers about people who are recognised in these shares of their videos, with their genders and names."""
    shares, genders = [*women, *men], ["female"] * len(women) + ["male"] * len(men)
    right = np.concatenate([np.arange(videos) < round(share * videos) for share in shares])
    people = np.repeat([f"P{n:02d}" for n in range(len(shares))], videos)
    return right, np.repeat(genders, videos), people


def test_the_chance_level_of_a_gap_is_that_of_shuffled_people() -> None:
    """One of four is never recognised: whoever it falls to, some gender is half as good. By hand: always 50 points."""
    right, genders, people = crowd([1.0, 0.0], [1.0, 1.0])
    assert shuffled_gap(right, genders, people) == pytest.approx(0.5)
    videos = shuffled_gap(right, genders, np.arange(len(right)))  # as if every video were of somebody else
    assert videos is not None
    assert videos < 0.2
    assert shuffled_gap(right, genders, people) == shuffled_gap(right, genders, people)
    assert shuffled_gap(right, np.full(len(right), "male"), people) is None
    assert shuffled_gap(np.ones(40), genders, people) == 0.0


def gap_cell(right: np.ndarray, genders: np.ndarray, people: np.ndarray) -> Cell:
    """The gap of two seeds that say the same, as a protocol reports it."""
    ids = [f"v{n:03d}" for n in range(len(right))]
    gap = with_gap(gap_of(right, right, genders, np.arange(len(right)) % 3, people, ids))["gap"]
    assert gap.value is not None
    assert gap.chance is not None
    assert gap.outcome is not None
    assert gap.outcome.measure().value == pytest.approx(gap.value)
    said = Answers(gap.outcome, 100.0, dict(zip(ids, people.tolist())))
    value = 100 * gap.value
    cell = Cell("x", "Raw", "gap", value, 100 * gap.chance, "twin", (), (value,), answers=said)
    return pooled([[cell], [cell]])[0]


def test_a_gap_is_as_sure_as_its_people_allow() -> None:
    """Seeds that agree would call it exact; other people of the same genders would make another gap."""
    few = gap_cell(*crowd([1.0, 0.2, 0.6], [0.4, 0.9, 0.1]))
    assert few.interval_over == ITEMS
    assert few.interval is not None
    assert few.interval[1] - few.interval[0] > 20
    assert beats_chance(few) is False
    many = gap_cell(*crowd([0.9, 0.8, 1.0, 0.9] * 3, [0.3, 0.4, 0.2, 0.3] * 3))
    assert many.interval is not None
    assert many.interval[1] - many.interval[0] < 20
    assert beats_chance(many) is True


def test_a_gap_whose_answers_were_not_kept_stays_as_it_was_read() -> None:
    right, genders, people = crowd([1.0], [0.5])
    found = gap_of(right, right, genders, np.zeros(len(right)), people)
    assert with_gap(found) == found
    assert with_gap(found)["gap"].outcome is None


def synthetic_gap(bias: str, *, erase: bool) -> float:
    """Male − female accuracy of a probe on made-up features: one direction is gender, the others are actions.

    The training set is biased by the dataset's own code; `erase` takes the gender direction away from all features.
    """
    rng = np.random.default_rng(0)
    names = [f"A{n:03d}" for n in range(1, 7)]
    people = [
        (f"P{n:03d}", "male" if n % 2 else "female", "train" if n <= 20 else "test") for n in range(1, 41)
    ]
    items = [
        Item(f"{who}{action}R{again}", Path("x"), split, action=action, subject=who, gender=gender)
        for who, gender, split in people
        for action in names
        for again in range(5)
    ]
    items = ntu60.balance(items)
    if bias != "balanced":
        items = ntu60.skew(items, favoured="male" if bias == "F" else "female", shortcut="A004", seed=0)

    def features(part: list[Item]) -> FeatureSet:
        rows = rng.normal(size=(len(part), 8)).astype(np.float32)
        for row, item in zip(rows, part):
            row[names.index(str(item.action))] += 1.5
            row[7] += 0 if erase else (3 if item.gender == "female" else -3)
        if erase:
            rows[:, 7] = 0
        return FeatureSet(tuple(part), rows, np.arange(len(part) + 1))

    train, test = (features([item for item in items if item.split == split]) for split in ("train", "test"))
    fitted = probe.fit(train, targets(train.items, names, "action"), seed=0, device="cpu")
    truth = targets(test.items, names, "action").values
    right = rank_of_truth(fitted.probabilities(test), truth) == 0
    found = gap_of(right, truth == 0, np.array([item.gender for item in test.items]), truth)
    assert found["difference"].value is not None
    return found["difference"].value


def test_an_injected_bias_shows_in_the_difference_and_goes_with_what_it_rests_on() -> None:
    biased = {bias: synthetic_gap(bias, erase=False) for bias in ("F", "M")}
    assert biased["F"] > 0.05  # favours men
    assert biased["M"] < -0.05
    for bias in ("F", "M"):
        assert abs(synthetic_gap(bias, erase=True)) < abs(biased[bias]) / 2
    assert abs(synthetic_gap("balanced", erase=False)) < min(abs(one) for one in biased.values()) / 2
