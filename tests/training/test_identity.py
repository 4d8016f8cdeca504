from __future__ import annotations

import pytest
import torch

from videoveil.anonymizers import MLP, Attention, Erase, latent
from videoveil.errors import Diverged, UsageError
from videoveil.training.identity import IdentitySettings, learn_identity, relative_error, shortfall

from .latent_world import ACTIONS, WIDTH, accuracy, linear, world

FAST = IdentitySettings(epochs=200, batch=64, learning_rate=3e-3, weight_decay=0.0)


def test_an_adapter_learns_to_give_back_what_it_gets() -> None:
    home = world(128)
    rows, owners = home.pool.rows, home.pool.owners()
    anonymizer = latent(WIDTH, Attention(1, 4, init="default"))
    before = relative_error(anonymizer, rows)
    left = learn_identity(anonymizer, rows, FAST)
    assert before > 0.3
    assert left < 0.05
    assert left == pytest.approx(relative_error(anonymizer, rows))
    assert not anonymizer.training
    probe = linear(rows, home.actions[owners], ACTIONS)
    with torch.no_grad():
        kept = accuracy(probe, anonymizer(rows), home.actions[owners])
    assert kept >= accuracy(probe, rows, home.actions[owners]) - 0.003


def test_batch_norm_counts_its_statistics_meanwhile() -> None:
    anonymizer = latent(WIDTH, MLP(1))
    norm = next(m for m in anonymizer.modules() if isinstance(m, torch.nn.BatchNorm1d))
    before = relative_error(anonymizer, world(64).pool.rows)
    left = learn_identity(anonymizer, world(64).pool.rows, FAST)
    assert not torch.equal(norm.running_mean, torch.zeros(WIDTH))
    assert left < 0.6 * before


def test_equal_seeds_give_equal_weights() -> None:
    rows = world(32).pool.rows
    found = []
    for seed in (0, 0, 1):
        anonymizer = latent(WIDTH, Attention(1, 4, init="default"))
        learn_identity(anonymizer, rows, IdentitySettings(epochs=2, batch=16), seed=seed)
        found.append(anonymizer.content_hash())
    assert found[0] == found[1] != found[2]


def test_what_cannot_learn_or_diverges_is_said() -> None:
    assert learn_identity(latent(WIDTH, Erase(4)), world(8).pool.rows) == 0.0
    rows = world(16).pool.rows.clone()
    rows[0] = float("nan")
    with pytest.raises(Diverged, match="identity start diverged in epoch 1"):
        learn_identity(latent(WIDTH, Attention(1, 4, init="default")), rows, IdentitySettings(epochs=2))
    with pytest.raises(UsageError, match="learning_rate=0"):
        IdentitySettings(learning_rate=0)


def test_a_start_that_falls_short_is_told_with_what_to_do() -> None:
    rows = world(64).pool.rows
    left = learn_identity(latent(WIDTH, Attention(1, 4, init="default")), rows)  # as published, on few videos
    said = shortfall(left, IdentitySettings())
    assert f"relative error of {left:.3f}" in said
    assert "identity.epochs=100" in said
    assert "init='zero'" in said
    assert shortfall(0.05, IdentitySettings()) == ""
