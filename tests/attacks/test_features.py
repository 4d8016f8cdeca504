"""What every attacker must do: find what is there, be blind to scale, choose on validation only, say when it fails."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from videoveil.anonymizers import MLP, Attention, Noise, NoiseKey, Rank, StageConfig, latent
from videoveil.attacks import ATTACKERS, SUITE, Attacker, attacker, fit, split, suite
from videoveil.attacks.networks import MLPAttacker
from videoveil.errors import UsageError

from .synthetic import HELD_OUT, TEST, TRAIN, VALIDATION, WIDTH

SMALL_MLP5 = dataclasses.replace(ATTACKERS["mlp5"], hidden=(64, 32, 32, 16), rate=1e-3)  # type: ignore[type-var]
QUICK: dict[str, Attacker] = {**ATTACKERS, "mlp5": SMALL_MLP5}
every = pytest.mark.parametrize("kind", ATTACKERS)
of_classes = pytest.mark.parametrize("kind", SUITE)


def ap(
    kind: str, x_train: np.ndarray, y: np.ndarray, x_test: np.ndarray, *, held_out: bool = True
) -> list[float]:
    validation = HELD_OUT if held_out else None
    report = QUICK[kind].fit(x_train, y, validation).report(x_test, TEST.y)
    return [a.ap for a in report.attributes]  # type: ignore[union-attr, misc]


@every
def test_an_attribute_that_is_there_is_found(kind: str) -> None:
    fitted = QUICK[kind].fit(TRAIN.x, TRAIN.y, HELD_OUT)
    scores = fitted.scores(TEST.x)
    assert scores.shape == (400, 2)
    assert scores.min() >= 0
    assert scores.max() <= 1
    found = fitted.report(TEST.x, TEST.y)
    assert found.attributes[0].ap > found.attributes[0].chance + 0.2  # type: ignore[union-attr, operator]


@pytest.mark.parametrize("kind", ["mlp2", "mlp5", "knn"])
def test_what_no_line_can_tell_is_found_by_those_that_can_bend(kind: str) -> None:
    chance = TEST.y[:, 1].mean()
    assert ap("linear", TRAIN.x, TRAIN.y, TEST.x)[1] < chance + 0.1
    assert ap(kind, TRAIN.x, TRAIN.y, TEST.x)[1] > chance + 0.2


@of_classes
def test_a_class_that_is_there_is_found(kind: str) -> None:
    fitted = QUICK[kind].fit(TRAIN.x, TRAIN.identity, (VALIDATION.x, VALIDATION.identity))
    scores = fitted.scores(TEST.x)
    assert scores.shape == (400, 5)
    assert np.allclose(scores.sum(1), 1)
    report = fitted.report(TEST.x, TEST.identity)
    assert report.score > report.chance + 0.25  # type: ignore[operator]


@every
def test_random_labels_are_not_found(kind: str) -> None:
    rng = np.random.default_rng(5)
    y, y_val, y_test = ((rng.random((n, 1)) < 0.3).astype(float) for n in (500, 200, 400))
    report = QUICK[kind].fit(TRAIN.x, y, (VALIDATION.x, y_val)).report(TEST.x, y_test)
    assert abs(report.score - report.chance) < 0.09  # type: ignore[operator]


@every
def test_an_affine_rescaling_of_channels_does_not_blind_an_attacker(kind: str) -> None:
    rng = np.random.default_rng(3)
    scale, shift = 10 ** rng.uniform(-6, 6, WIDTH), rng.normal(size=WIDTH) * 100
    scaled = [x * scale + shift * scale for x in (TRAIN.x, VALIDATION.x, TEST.x)]
    plain = QUICK[kind].fit(TRAIN.x, TRAIN.y, HELD_OUT).report(TEST.x, TEST.y).score
    found = QUICK[kind].fit(scaled[0], TRAIN.y, (scaled[1], VALIDATION.y)).report(scaled[2], TEST.y).score
    assert found == pytest.approx(plain, abs=0.02)


def test_a_direction_shrunk_across_channels_does_not_blind_the_linear_attacker() -> None:
    """The attribute is along a direction of all channels, a thousand times smaller than what else is in each."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    data = []
    for count in (500, 200, 400):
        loud, quiet = rng.normal(size=(count, WIDTH - 1)), rng.normal(size=(count, 1))
        data.append((np.concatenate((loud, 1e-3 * quiet), 1) @ basis.T, (quiet > 0.5).astype(float)))
    plain = attacker("linear").fit(*data[0]).report(*data[2])
    chosen = attacker("linear").fit(*data[0], data[1])
    assert plain.score < plain.chance + 0.15  # type: ignore[operator]
    assert chosen.report(*data[2]).score > 0.95  # type: ignore[operator]
    assert chosen.facts["inputs"] == ["whitened"]


@every
def test_a_constant_channel_is_harmless(kind: str) -> None:
    """Also when it is not constant in the test data, where it would be infinitely many deviations away."""
    dead = [
        np.concatenate((x, np.full((len(x), 1), value)), 1) for x, value in ((TRAIN.x, 1 / 3), (TEST.x, 9e9))
    ]
    found = QUICK[kind].fit(dead[0], TRAIN.y).report(dead[1], TEST.y)
    assert found.attributes[0].ap > found.attributes[0].chance + 0.2  # type: ignore[union-attr, operator]


@every
def test_unknown_targets_are_as_if_they_were_not_there(kind: str) -> None:
    """Rows that know only attribute 0 add nothing about attribute 1, whatever is written there."""
    y = TRAIN.y.copy()
    y[250:, 1] = np.nan
    y_val = VALIDATION.y.copy()
    y_val[100:, 1] = np.nan
    report = QUICK[kind].fit(TRAIN.x, y, (VALIDATION.x, y_val)).report(TEST.x, TEST.y)
    assert report.attributes[0].ap > report.attributes[0].chance + 0.2  # type: ignore[union-attr, operator]
    assert np.isfinite(report.score)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["linear", "knn", "trees"])
def test_rows_that_know_nothing_are_exactly_absent(kind: str) -> None:
    """Each row twice, with its values and without: the inputs have the same statistics, so the answers are the same."""
    x, y = np.concatenate((TRAIN.x, TRAIN.x)), np.concatenate((TRAIN.y, np.full_like(TRAIN.y, np.nan)))
    twice, once = QUICK[kind].fit(x, y), QUICK[kind].fit(TRAIN.x, TRAIN.y)
    assert np.allclose(twice.scores(TEST.x), once.scores(TEST.x), atol=1e-3)


@every
def test_the_same_seed_gives_the_same_scores_and_the_random_state_stays(kind: str) -> None:
    short = QUICK[kind]
    if isinstance(short, MLPAttacker):
        short = dataclasses.replace(short, epochs=3)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    first = short.fit(TRAIN.x, TRAIN.y, seed=1).scores(TEST.x)
    assert torch.equal(torch.rand(1), expected)
    assert np.array_equal(short.fit(TRAIN.x, TRAIN.y, seed=1).scores(TEST.x), first)
    if isinstance(short, MLPAttacker):
        assert not np.array_equal(short.fit(TRAIN.x, TRAIN.y, seed=2).scores(TEST.x), first)


@every
def test_scores_of_a_row_do_not_depend_on_its_company(kind: str) -> None:
    fitted = (QUICK[kind]).fit(TRAIN.x[:100], TRAIN.y[:100])
    together = fitted.scores(TEST.x[:20])
    alone = np.concatenate([fitted.scores(row[None]) for row in TEST.x[:20]])
    assert np.allclose(together, alone, atol=1e-5)


@every
def test_tensors_are_as_good_as_arrays(kind: str) -> None:
    short = QUICK[kind]
    if isinstance(short, MLPAttacker):
        short = dataclasses.replace(short, epochs=2)
    x, y = torch.from_numpy(TRAIN.x[:100]), torch.from_numpy(TRAIN.y[:100])
    arrays = short.fit(x.numpy(), y.numpy()).scores(TEST.x)
    assert np.array_equal(short.fit(x, y).scores(torch.from_numpy(TEST.x)), arrays)


@every
def test_what_cannot_be_attacked_is_named(kind: str) -> None:
    x, y = TRAIN.x[:20], TRAIN.y[:20]
    bad = x.copy()
    bad[7, 0] = np.inf
    one = QUICK[kind]
    for call, message in (
        (lambda: one.fit(x[0], y), r"features must be \(n, d\)"),
        (lambda: one.fit(bad, y), "1 rows are NaN or infinite, the first is row 7"),
        (lambda: one.fit(x, y[:5]), "20 features need targets"),
        (lambda: one.fit(x, y * 2), "0, 1 or NaN"),
        (lambda: one.fit(x, y * np.nan), "no training row knows attribute 0"),
        (lambda: one.fit(x, np.zeros(20)), "all training rows are of one class"),
        (lambda: one.fit(x, np.full(20, np.nan)), "no row has a known class"),
        (lambda: one.fit(x, y, (x[:, :3], y)), f"must be .n, {WIDTH}., not"),
        (lambda: one.fit(x, y, (x, y[:, 0])), "both be attributes or both be classes"),
        (lambda: one.fit(x, y, (x, y[:, :1])), "wrong number of attributes"),
    ):
        with pytest.raises(UsageError, match=message):
            call()


def test_there_is_no_attacker_by_another_name() -> None:
    with pytest.raises(
        UsageError, match="no attacker 'svm'; there are linear, mlp2, mlp5, knn, trees, kernel, released"
    ):
        fit("svm", TRAIN.x, TRAIN.y)


# --- on anonymized features ----------------------------------------------------------------------------------


def best_of(stages: tuple[StageConfig, ...]) -> float:
    """Average precision for the linear attribute of the better of two attackers trained on anonymized features."""
    anonymizer = latent(WIDTH, *stages, key=NoiseKey(b"for this test only"))
    raw = [torch.from_numpy(part.x).float() for part in (TRAIN, VALIDATION, TEST)]
    with torch.no_grad():
        train, held_out, test = map(anonymizer.fit_from(raw[0]), raw)
    reports = suite((train, TRAIN.y), (test, TEST.y), (held_out, VALIDATION.y), kinds=("linear", "mlp2"))
    found = reports.worst_by_attribute()[0]
    assert found is not None
    return found


def test_what_can_be_undone_hides_nothing_and_what_cannot_does() -> None:
    chance, raw = float(TEST.y[:, 0].mean()), ap("linear", TRAIN.x, TRAIN.y, TEST.x)[0]
    assert best_of((Attention(1, 4, init="default"), MLP(1, residual=True))) > raw - 0.08
    assert best_of((Noise(4.0, basis="principal", learned=False),)) < chance + 0.25
    assert best_of((Rank(1),)) < raw - 0.2
    assert best_of((Noise(0.05),)) > best_of((Noise(1.0),)) > best_of((Noise(8.0),))


# --- the suite -----------------------------------------------------------------------------------------------


def test_the_suite_reports_the_strongest_attacker_and_does_not_depend_on_workers() -> None:
    kinds = [one if one != "mlp5" else SMALL_MLP5 for one in SUITE]
    threads = torch.get_num_threads()
    train, test = (TRAIN.x, TRAIN.y), (TEST.x, TEST.y)
    one, two = (suite(train, test, HELD_OUT, kinds=kinds, workers=workers) for workers in (1, 3))
    assert torch.get_num_threads() == threads
    assert list(one.reports) == list(SUITE)
    assert one.reports == two.reports
    scores = {kind: report.score for kind, report in one.reports.items()}
    assert one.worst.score == max(scores.values())  # type: ignore[type-var]
    assert scores[one.strongest] == one.worst.score
    best = one.worst_by_attribute()
    for report in one.reports.values():
        assert all(a.ap <= b for a, b in zip(report.attributes, best))  # type: ignore[union-attr, operator]
    assert one.to_json()["strongest"] == one.strongest


def test_a_suite_of_nothing_or_of_twins_is_refused() -> None:
    for kinds in ([], ["linear", "linear"]):
        with pytest.raises(UsageError, match="a name of its own"):
            suite((TRAIN.x, TRAIN.y), (TEST.x, TEST.y), kinds=kinds)


# --- split ---------------------------------------------------------------------------------------------------


def test_a_split_keeps_groups_together_and_every_row_once() -> None:
    groups = np.repeat(np.arange(20), 5)
    train, held_out = split(100, 0.25, seed=1, groups=groups)
    assert sorted(np.concatenate((train, held_out)).tolist()) == list(range(100))
    assert not set(groups[train]) & set(groups[held_out])
    assert len(held_out) == 25
    assert all(len(part) for part in split(2, 0.01))
    assert not np.array_equal(split(100, seed=1)[1], split(100, seed=2)[1])
    bad = (((10, 1.0), "share=1.0"), ((3, 0.5, 0, [1, 1, 1]), "two groups"), ((3, 0.5, 0, [1]), "1 groups"))
    for arguments, message in bad:
        with pytest.raises(UsageError, match=message):
            split(*arguments)  # type: ignore[arg-type]
