from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from videoveil.anonymizers import Rank
from videoveil.anonymizers.rank import RankBottleneck, principal
from videoveil.anonymizers.stage import FitData
from videoveil.errors import UsageError

from .pipelines import WIDTH, features, normal


def rank_of(x: torch.Tensor) -> int:
    return int(torch.linalg.matrix_rank((x - x.mean(0)).double(), rtol=1e-5))


@pytest.mark.parametrize("rank", [1, 5, WIDTH - 1])
def test_whatever_is_learned_only_rank_directions_pass(rank: int) -> None:
    stage = RankBottleneck(WIDTH, Rank(rank))
    stage.fit_from(FitData(features(100)))
    with torch.no_grad():
        for parameter in stage.parameters():
            parameter.add_(normal(*parameter.shape, seed=rank))
        assert rank_of(stage(features(100, seed=2)[:, None])[:, 0]) == rank


def test_fitted_it_is_the_pca_of_scikit_learn() -> None:
    x, other = features(200), features(50, seed=3)
    stage = RankBottleneck(WIDTH, Rank(4))
    stage.fit_from(FitData(x))
    pca = PCA(4).fit(x.double().numpy())
    expected = pca.inverse_transform(pca.transform(other.double().numpy()))
    found = stage(other[:, None])[:, 0].detach().numpy()
    assert np.abs(found - expected).max() < 1e-4


def test_before_fitting_its_directions_are_orthonormal() -> None:
    stage = RankBottleneck(WIDTH, Rank(7))
    assert torch.allclose(stage.down @ stage.up, torch.eye(7), atol=1e-5)
    x = features(5)[:, None]
    assert torch.allclose(stage(stage(x)), stage(x), atol=1e-4)  # a projection


def test_principal_directions_have_a_fixed_sign_and_falling_spread() -> None:
    centre, directions, spread = principal(features(100).double())
    assert torch.allclose(directions.T @ directions, torch.eye(WIDTH, dtype=torch.float64), atol=1e-9)
    assert bool((directions.gather(0, directions.abs().argmax(0, keepdim=True)) > 0).all())
    assert bool((spread.diff() <= 0).all())
    projected = (features(100).double() - centre) @ directions
    assert torch.allclose(projected.std(0, correction=0), spread, atol=1e-8)


def test_tokens_count_as_vectors() -> None:
    one, other = RankBottleneck(WIDTH, Rank(3)), RankBottleneck(WIDTH, Rank(3))
    one.fit_from(FitData(features(60)))
    other.fit_from(FitData(features(60).view(20, 3, WIDTH)))
    assert torch.equal(one.down, other.down)


def test_too_few_or_broken_features_are_refused() -> None:
    stage = RankBottleneck(WIDTH, Rank(8))
    with pytest.raises(UsageError, match="8 vectors are too few"):
        stage.fit_from(FitData(features(8)))
    with pytest.raises(UsageError, match="NaN"):
        stage.fit_from(FitData(features(20).index_fill(0, torch.tensor([3]), float("nan"))))
