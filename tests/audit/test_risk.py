from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tasks.make_store import write_store
from videoveil.attacks.retrieval import hits
from videoveil.audit import registry, risk
from videoveil.audit.draws import Draws
from videoveil.audit.rules import Rules
from videoveil.audit.subject import Side, Stores, Subject
from videoveil.data.records import Dataset, Item
from videoveil.tasks.outcomes import AttributeOutcome

RULES = Rules(resamples=200)
DRAWS = Draws(RULES)  # nobody is known: every video is of somebody else
WIDTH, PEOPLE = 12, 6


def stores(tmp_path: Path, change: str) -> tuple[Subject, Stores]:
    """Raw and anonymized features: of every person four videos for training and four for test."""
    rng = np.random.default_rng(0)
    faces = rng.normal(0, 3, (PEOPLE, WIDTH))
    mixer = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    items, raw, veiled = [], [], []
    for n in range(8 * PEOPLE):
        person, split = n % PEOPLE, "train" if n < 4 * PEOPLE else "test"
        items.append(Item(f"v{n:02d}", tmp_path / "none", split, subject=f"p{person}"))
        rows = faces[person] + rng.normal(0, 1, WIDTH) + rng.normal(0, 0.1, (2, WIDTH))
        raw.append(rows.astype(np.float32))
        changed = {"rotated": rows @ mixer, "noise": rng.normal(0, 1, rows.shape)}[change]
        veiled.append(changed.astype(np.float32))
    write_store(tmp_path / "raw", items, raw)
    write_store(tmp_path / "own", items, veiled, salt="other")
    data = Dataset("made-up", tmp_path, tuple(items))
    subject = Subject("made-up", "x", Side("raw", data), Side("anonymized", data))
    return subject, Stores(subject, tmp_path / "raw", tmp_path / "own")


def test_the_original_is_found_through_a_rotation_that_can_be_learnt(tmp_path: Path) -> None:
    found = risk._singling_out(*stores(tmp_path, "rotated"), DRAWS)
    assert found.attacker == "a learnt way back to raw features"
    assert (found.main or 0) > 0.7
    assert found.baseline == pytest.approx(1 / 24)
    assert (found.control or 1) < 0.2
    assert (found.low or 0) > 0.4


def test_a_person_is_linked_where_videos_of_them_are_alike(tmp_path: Path) -> None:
    found = risk._linkability(*stores(tmp_path, "rotated"), DRAWS)
    assert (found.main or 0) > 0.9
    assert found.baseline == pytest.approx(3 / 23)
    assert (found.low or 0) > 0.5


@pytest.mark.parametrize("measure", [risk._singling_out, risk._linkability])
def test_noise_is_no_risk(measure: object, tmp_path: Path) -> None:
    found = measure(*stores(tmp_path, "noise"), DRAWS)  # type: ignore[operator]
    assert (found.risk or 0) < 0.15
    assert found.low == 0.0


def test_the_control_is_the_attack_on_videos_that_stand_in_for_others_by_hand() -> None:
    """Neither the video that is asked about nor the one that stands in for it is anybody's answer."""
    rng = np.random.default_rng(1)
    people = np.array([*"aaabbcc"])
    likeness = rng.normal(size=(7, 7)).round(1)  # some are equally alike
    np.fill_diagonal(likeness, 9.0)
    same, other = people[:, None] == people[None, :], ~np.eye(7, dtype=bool)
    orders = risk.exchanges(np.arange(7), 5)[:20]
    for alone in (other, np.ones_like(other)):
        slow = []
        for order in orders:
            hit = []
            for asked, stand_in in enumerate(order):
                there = [n for n in range(7) if alone[asked, n] and alone[stand_in, n]]
                most = max(likeness[stand_in, n] for n in there)
                best = [n for n in there if likeness[stand_in, n] == most]
                hit.append(np.mean([same[asked, n] for n in best]))
            slow.append(np.mean(hit))
        assert risk.exchanged(likeness, same & alone, alone, orders) == pytest.approx(slow)


def test_where_everything_may_be_compared_the_control_is_as_it_always_was() -> None:
    likeness, same = np.random.default_rng(2).random((9, 9)), np.eye(9, dtype=bool)
    orders = risk.exchanges(np.arange(9), 5)
    before = np.array([hits(likeness[order], same).mean() for order in orders])
    assert np.array_equal(risk.exchanged(likeness, same, np.ones_like(same), orders), before)


def in_many_videos(tmp_path: Path, recognised: bool) -> tuple[Subject, Stores]:
    """One person in 24 of 60 test videos, 18 others in two each, of whom nothing is known.

    Everybody is more like the one than like themselves; recognised: the one is like nobody else.
    """
    rng, width = np.random.default_rng(0), 256
    who = ["one"] * 24 + [f"p{n % 18}" for n in range(36)]
    items = [Item(f"v{n:02d}", tmp_path / "none", "test", subject=name) for n, name in enumerate(who)]
    items += [
        Item(f"w{n}", tmp_path / "none", "train") for n in range(4)
    ]  # nobody is named: nothing is learnt
    rows = []
    for n in range(64):
        common, own = np.eye(1, width)[0], rng.normal(0, width**-0.5, width)
        if n < 24:
            own *= 0.01
        elif recognised:
            common = -common
        rows.append(np.stack([common + own]).astype(np.float32))
    for side in ("raw", "own"):
        write_store(tmp_path / side, items, rows, salt=side)
    data = Dataset("made-up", tmp_path, tuple(items))
    subject = Subject("made-up", "x", Side("raw", data), Side("anonymized", data))
    return subject, Stores(subject, tmp_path / "raw", tmp_path / "own")


def test_who_always_names_the_person_with_most_videos_knows_nothing(tmp_path: Path) -> None:
    found = risk._linkability(*in_many_videos(tmp_path, recognised=False), DRAWS)
    assert found.main == pytest.approx(24 / 60)
    assert found.control == pytest.approx(24 / 60, abs=0.01)
    assert (found.risk or 0.0) < 0.01
    assert (found.baseline or 1.0) < 0.2  # so much more than a blind guess gets is no risk


def test_a_person_with_most_videos_who_is_told_from_others_is_one(tmp_path: Path) -> None:
    found = risk._linkability(*in_many_videos(tmp_path, recognised=True), DRAWS)
    assert (found.main or 0.0) >= 24 / 60
    assert (found.risk or 0.0) > 0.2


def test_without_features_it_is_said_where_networks_find_people_again(tmp_path: Path) -> None:
    subject, both = stores(tmp_path, "rotated")
    found = {one.kind: one for one in risk.of(subject, both, {}, DRAWS, featured=False)}
    assert f"asked under '{registry.IDENTITY}'" in found["linkability"].reason
    assert "who it is" not in found["singling out"].reason
    for kind in ("singling out", "linkability"):
        assert "features of a frozen encoder alone" in risk.WORDS[kind]  # type: ignore[index]


def test_risk_is_what_the_attack_closes_of_what_the_control_leaves_open() -> None:
    assert risk.above(0.8, 0.6) == pytest.approx(0.5)
    assert risk.above(0.4, 0.6) == 0.0
    assert risk.above(1.0, 1.0) == 0.0


@pytest.mark.parametrize(("rate", "trials"), [(0.0, 20), (1.0, 20), (0.35, 40)])
def test_wilson_by_its_definition(rate: float, trials: int) -> None:
    """Both ends are rates p whose distance to the observed one is 1.96 of their own standard errors."""
    for end in risk.wilson(rate, trials):
        if 0 < end < 1:
            assert abs(rate - end) == pytest.approx(1.959964 * np.sqrt(end * (1 - end) / trials), rel=1e-4)
    low, high = risk.wilson(rate, trials)
    assert 0 <= low <= rate <= high <= 1
    assert low < high


def outcome(knows: float, seed: int = 0, n: int = 60, k: int = 4) -> AttributeOutcome:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (n, k)).astype(float).repeat(3, 0)
    scores = rng.random(truth.shape)
    scores[:, 0] = knows * truth[:, 0] + (1 - knows) * rng.random(len(truth))
    return AttributeOutcome(
        tuple("abcd"), truth, scores, np.arange(n).repeat(3), tuple(f"v{i}" for i in range(n))
    )


def test_pairs_told_apart_by_hand() -> None:
    truth, ranks = np.array([[1.0, 0, 1, 0]]), np.array([4.0, 1.0, 2.0, 2.0])
    slow = np.mean([[1.0 if p > q else 0.5 if p == q else 0.0 for q in (1, 2)] for p in (4, 2)])
    assert risk.pairs_right(truth, ranks)[0] == pytest.approx(slow)


def test_an_attribute_that_is_known_is_a_risk_and_named() -> None:
    found = risk.inference({"blind": [outcome(0.0)] * 2, "knowing": [outcome(0.8)] * 2}, DRAWS)
    assert found.attacker == "knowing, a"
    assert (found.low or 0) > 0.8
    assert found.baseline == 0.5


def test_the_control_knows_that_the_best_of_many_was_chosen() -> None:
    found = risk.inference({f"blind {i}": [outcome(0.0, i)] for i in range(8)}, DRAWS)
    assert (found.main or 0) > 0.55  # by luck, out of 32
    assert (found.control or 0) > 0.55
    assert (found.risk or 0) < 0.15


def test_without_attributes_there_is_no_figure() -> None:
    found = risk.inference({}, DRAWS)
    assert found.risk is None
    assert "no attacker" in found.reason


# --- people who are in several videos -----------------------------------------------------------------------

FEW, EACH = 12, 10  # people, videos of each
IDS = tuple(f"v{i:03d}" for i in range(FEW * EACH))
WHOSE = {item: f"p{i // EACH}" for i, item in enumerate(IDS)}


def told(trial: int, among: int = FEW) -> AttributeOutcome:
    """Every other person has it; people look as they do, whether they have it or not, and alike in all their videos."""
    rng = np.random.default_rng([7, trial])
    looks = rng.normal(0, 1, FEW).repeat(EACH) + rng.normal(0, 0.3, len(IDS))
    truth = (np.arange(FEW) % 2).astype(float).repeat(EACH)
    truth[among * EACH :] = np.nan
    return AttributeOutcome(("a",), truth[:, None], looks[:, None], np.arange(len(IDS)), IDS)


def test_what_many_videos_of_few_people_seem_to_tell_is_no_risk() -> None:
    """Nothing is told: most of 100 intervals of the risk must begin at 0."""
    none = {"people": 0, "videos": 0}
    for trial in range(100):
        for kind, known in (("people", WHOSE), ("videos", {})):
            found = risk.inference({"luck": [told(trial)]}, Draws(Rules(resamples=100), trial, known))
            none[kind] += found.low == 0
    assert none["people"] >= 85
    assert none["videos"] <= 75  # what it would be if videos were drawn


def test_the_interval_of_a_rate_covers_it_where_people_are_in_several_videos() -> None:
    rng = np.random.default_rng(0)
    covered = {"people": 0, "videos": 0}
    for trial in range(100):
        hit = np.repeat(rng.integers(0, 2, FEW), EACH).astype(float)
        for kind, known in (("people", WHOSE), ("videos", {})):
            low, high = risk.ends(hit, IDS, Draws(RULES, trial, known))
            covered[kind] += (low or 0) <= 0.5 <= (high or 0)
    assert covered["people"] >= 85
    assert covered["videos"] <= 70


def test_the_draws_of_a_rate_take_people_with_all_of_their_videos() -> None:
    hit = np.random.default_rng(3).random(len(IDS))
    draws = Draws(RULES, 5, WHOSE)
    slow = []
    for often in draws.counts(IDS):
        slow.append(np.mean(np.repeat(hit, often.astype(int))))
    assert risk.ends(hit, IDS, draws) == pytest.approx(tuple(np.percentile(slow, (2.5, 97.5))))


def test_each_person_in_one_video_is_wilsons_interval_of_the_videos() -> None:
    hit = (np.arange(40) < 14).astype(float)
    assert risk.ends(hit, [f"v{i}" for i in range(40)], DRAWS) == risk.wilson(14 / 40, 40)


def test_that_nobody_was_hit_is_as_sure_as_there_are_people_not_videos() -> None:
    draws = Draws(RULES, 0, WHOSE)
    assert risk.ends(np.zeros(len(IDS)), IDS, draws) == (0.0, risk.wilson(0.0, FEW)[1])
    assert risk.ends(np.ones(len(IDS)), IDS, draws) == (risk.wilson(1.0, FEW)[0], 1.0)
    assert risk.wilson(0.0, FEW)[1] > 5 * risk.wilson(0.0, len(IDS))[1]


def test_one_hit_never_makes_the_upper_end_lower_than_none() -> None:
    draws = Draws(RULES, 0, WHOSE)
    highs = [risk.ends((np.arange(len(IDS)) < hit).astype(float), IDS, draws)[1] for hit in range(40)]
    assert all(one is not None for one in highs)
    assert (np.diff(np.array(highs, dtype=float)) >= 0).all()


def test_an_attribute_told_of_everybody_is_as_sure_as_there_are_people() -> None:
    one = told(0)
    known = AttributeOutcome(one.names, one.truth, one.truth, one.rows, one.items)
    found = risk.inference({"knowing": [known]}, Draws(RULES, 0, WHOSE))
    assert (found.main, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(risk.above(risk.wilson(1.0, FEW)[0], found.control or 0))


def test_people_of_whom_the_attribute_is_not_known_add_no_certainty() -> None:
    one = told(0, among=6)
    known = AttributeOutcome(one.names, one.truth, np.nan_to_num(one.truth), one.rows, one.items)
    found = risk.inference({"knowing": [known]}, Draws(RULES, 0, WHOSE))
    assert found.trials == 6 * EACH
    assert found.low == pytest.approx(risk.above(risk.wilson(1.0, 6)[0], found.control or 0))


def test_all_three_are_measured_with_the_draws_of_the_audit(tmp_path: Path) -> None:
    subject, both = stores(tmp_path, "rotated")
    whose = {item.id: str(item.subject) for item in subject.dataset.items}
    ids = tuple(item.id for item in subject.items("test"))
    rng = np.random.default_rng(0)
    truth = np.array([float(whose[item] < "p3") for item in ids])[:, None]
    attack = AttributeOutcome(("a",), truth, truth + rng.normal(0, 0.8, truth.shape), np.arange(24), ids)
    sides = {"looking": ([attack], [attack])}
    by_people, by_videos = (
        {one.kind: one for one in risk.of(subject, both, sides, Draws(RULES, 0, known))}
        for known in (whose, {})
    )
    assert set(by_people) == {"singling out", "linkability", "inference"}
    for kind, one in by_people.items():
        other = by_videos[kind]
        assert one.main == other.main
        assert (one.control == other.control) == (kind != "inference")
        assert (one.low, one.high) != (other.low, other.high), kind


def test_attackers_who_know_nothing_of_few_people_in_many_videos_have_little_risk() -> None:
    """The best of six attributes by luck: what the control gets, too, when people keep all of their videos."""
    found: dict[str, list[float]] = {"people": [], "videos": []}
    for trial in range(30):
        asked = {f"luck {i}": [told(100 * trial + i)] for i in range(6)}
        for kind, known in (("people", WHOSE), ("videos", {})):
            found[kind].append(risk.inference(asked, Draws(Rules(resamples=100), trial, known)).risk or 0.0)
    assert np.mean(found["people"]) < 0.2
    assert np.mean(found["videos"]) > 0.3  # what it would seem to be if videos were exchanged


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(0, 3))
def test_people_are_exchanged_with_all_of_their_videos(owners: list[int], seed: int) -> None:
    whose = np.array(owners)
    orders = risk.exchanges(whose, seed)
    assert orders.shape == (risk.EXCHANGES, len(whose))
    for order in orders[:20]:
        stand_ins = set()
        for person in set(owners):
            mine = order[whose == person]
            stand_ins.add(int(whose[mine[0]]))
            theirs = np.flatnonzero(whose == whose[mine[0]])
            assert list(mine) == [theirs[i % len(theirs)] for i in range(len(mine))]
        assert stand_ins == set(owners)


def test_everybody_in_one_video_is_an_exchange_of_videos() -> None:
    orders = risk.exchanges(np.arange(30), 4)
    assert (np.sort(orders, axis=1) == np.arange(30)).all()
    assert len(np.unique(orders, axis=0)) == risk.EXCHANGES


def test_where_all_are_of_one_kind_there_is_nothing_to_tell_apart() -> None:
    truth = np.array([[0, 0, 0], [1, 1, 1], [0, 0, 1]])
    assert list(risk.pairs_right(truth, np.array([1.0, 2.0, 3.0]))) == [0.5, 0.5, 1.0]
