from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from videoveil.anonymizers import MissingStatic, ShapeMismatch, StaticResidual
from videoveil.anonymizers.stage import Context, FitData
from videoveil.anonymizers.static_residual import StaticResidualMap, ridge

from .pipelines import WIDTH, features, normal

STATIC = features(300)
MOTION = normal(300, WIDTH, seed=4)
MOVING = STATIC @ normal(WIDTH, WIDTH, seed=3) * 0.2 + MOTION + 1


def stage(**options: float | bool) -> StaticResidualMap:
    found = StaticResidualMap(WIDTH, StaticResidual(**options))  # type: ignore[arg-type]
    found.fit_from(FitData(MOVING, STATIC))
    return found


@pytest.mark.parametrize("strength", [1e-3, 0.1, 10.0])
def test_the_map_is_scikit_learns_ridge(strength: float) -> None:
    source, target = STATIC.double(), MOVING.double()
    penalty = strength * float(source.var(0, correction=0).mean()) * len(source)
    expected = Ridge(alpha=penalty).fit(source.numpy(), target.numpy())
    assert np.allclose(ridge(source, target, strength).numpy(), expected.coef_.T, atol=1e-8)


def test_what_static_features_predict_is_gone_and_motion_and_mean_stay() -> None:
    out = stage(ridge=1e-7)(MOVING[:, None], Context(static=STATIC))[:, 0]
    assert torch.allclose(out.mean(0), MOVING.mean(0), atol=1e-3)
    left = ridge(STATIC.double(), out.double(), 1e-9)
    assert float((STATIC.double() - STATIC.double().mean(0)).matmul(left).std()) < 0.01
    correlation = torch.corrcoef(
        torch.stack(((out - out.mean(0)).flatten(), (MOTION - MOTION.mean(0)).flatten()))
    )
    assert float(correlation[0, 1]) > 0.9


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_alpha_says_how_much_of_it_is_subtracted(alpha: float) -> None:
    context = Context(static=STATIC[:5])
    full = MOVING[:5, None] - stage()(MOVING[:5, None], context)
    part = MOVING[:5, None] - stage(alpha=alpha)(MOVING[:5, None], context)
    assert torch.allclose(part, alpha * full, atol=1e-4)


def test_all_tokens_of_a_clip_lose_the_same() -> None:
    one = StaticResidualMap(WIDTH, StaticResidual())
    tokens = MOVING[:, None] + normal(300, 4, WIDTH, seed=7)
    one.fit_from(FitData(tokens, STATIC))
    lost = tokens - one(tokens, Context(static=STATIC))
    assert torch.allclose(lost, lost[:, :1].expand_as(lost), atol=1e-4)


def test_without_static_features_nothing_comes_out_unless_that_was_asked_for() -> None:
    with pytest.raises(MissingStatic, match=r"pass static= \(N, d\)"):
        stage()(MOVING[:, None])
    assert torch.equal(stage(required=False)(MOVING[:, None]), MOVING[:, None])
    with pytest.raises(MissingStatic, match="fit_from needs static="):
        StaticResidualMap(WIDTH, StaticResidual()).fit_from(FitData(MOVING))
    with pytest.raises(ShapeMismatch, match="299 features and 300 static"):
        StaticResidualMap(WIDTH, StaticResidual()).fit_from(FitData(MOVING[1:], STATIC))
