from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from videoveil.anonymizers import LatentAnonymizer, MissingStatic, Motion, NotFitted, ShapeMismatch, latent
from videoveil.anonymizers.motion import MotionOnly, discriminants
from videoveil.anonymizers.stage import Context, FitData
from videoveil.errors import UsageError

from .pipelines import WIDTH, features, normal

ACTIONS = torch.arange(300) % 6
WHERE = normal(6, WIDTH, seed=11) * 10  # what the still frames of an action have in common
STATIC = features(300) + WHERE[ACTIONS]
MOVING = STATIC + normal(300, WIDTH, seed=4)


def stage(keep: int = 0) -> MotionOnly:
    found = MotionOnly(WIDTH, Motion(keep))
    found.fit_from(FitData(MOVING, STATIC, actions=ACTIONS))
    return found


def test_of_still_pictures_nothing_is_left_to_the_last_bit() -> None:
    anonymizer = latent(WIDTH, Motion()).fit_from(MOVING, static=STATIC, actions=ACTIONS).eval()
    pictures = features(50, seed=9)
    assert torch.equal(anonymizer(pictures, static=pictures), torch.zeros(50, WIDTH))


def test_what_moves_stays_as_it_is() -> None:
    out = stage()(MOVING[:, None], Context(static=STATIC))[:, 0]
    assert torch.allclose(out, MOVING - STATIC)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_of_still_pictures_only_so_many_numbers_are_left(keep: int) -> None:
    pictures = features(400, seed=9)[:, None]
    out = stage(keep)(pictures, Context(static=pictures[:, 0]))[:, 0].double()
    spread = torch.linalg.svdvals(out - out.mean(0))
    assert int((spread > 1e-4 * spread[0]).sum()) == keep


def test_the_numbers_that_are_left_tell_actions_apart() -> None:
    out = stage(5)(STATIC[:, None], Context(static=STATIC))[:, 0].numpy()
    half = LinearDiscriminantAnalysis().fit(out[:150], ACTIONS[:150].numpy())
    assert half.score(out[150:], ACTIONS[150:].numpy()) > 0.9


def test_discriminants_are_those_of_scikit_learn() -> None:
    x, classes = STATIC.double(), ACTIONS
    _, found = discriminants(x, classes, 5)
    inner = x - torch.stack([x[classes == c].mean(0) for c in range(6)])[classes]
    within = (inner.T @ inner / (len(x) - 6)).numpy()
    size = float(np.trace(within)) / WIDTH
    shrunk = LinearDiscriminantAnalysis(solver="eigen", covariance_estimator=Shrunk(0.3 * size)).fit(
        x.numpy(), classes.numpy()
    )
    mine = np.linalg.qr(found.numpy())[0]
    theirs = np.linalg.qr(shrunk.scalings_[:, :5])[0]
    assert np.linalg.svd(mine.T @ theirs)[1].min() > 0.999


class Shrunk:
    """Covariance within a class, plus so much on the diagonal."""

    def __init__(self, more: float):
        self.more = more

    def fit(self, x: np.ndarray) -> Shrunk:
        self.covariance_ = np.cov(x.T) + self.more * np.eye(x.shape[1])
        return self


def test_what_is_kept_has_the_spread_of_the_features() -> None:
    out = stage(3)(STATIC[:, None], Context(static=STATIC))[:, 0].double()
    spread = float(out.var(0).sum() / 3) ** 0.5
    assert spread == pytest.approx(float(MOVING.double().var(0).mean()) ** 0.5, rel=0.5)


def test_all_tokens_of_a_clip_lose_the_same() -> None:
    tokens = MOVING[:20, None] + normal(20, 4, WIDTH, seed=7)
    lost = tokens - stage(2)(tokens, Context(static=STATIC[:20]))
    assert torch.allclose(lost, lost[:, :1].expand_as(lost), atol=1e-4)


def test_nothing_comes_out_without_static_features_or_before_fitting() -> None:
    with pytest.raises(MissingStatic, match="static="):
        stage()(MOVING[:, None], Context())
    with pytest.raises(NotFitted):
        MotionOnly(WIDTH, Motion())(MOVING[:, None], Context(static=STATIC))
    with pytest.raises(MissingStatic):
        MotionOnly(WIDTH, Motion()).fit_from(FitData(MOVING))


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(UsageError, match="keep=0"):
        MotionOnly(WIDTH, Motion(2)).fit_from(FitData(MOVING, STATIC))
    with pytest.raises(UsageError, match="6 actions"):
        MotionOnly(WIDTH, Motion(6)).fit_from(FitData(MOVING, STATIC, actions=ACTIONS))
    with pytest.raises(ShapeMismatch):
        MotionOnly(WIDTH, Motion(2)).fit_from(FitData(MOVING, STATIC, actions=ACTIONS[:9]))


@pytest.mark.parametrize("keep", [0, 2])
def test_it_comes_back_from_disk(tmp_path, keep: int) -> None:  # type: ignore[no-untyped-def]
    made = latent(WIDTH, Motion(keep)).fit_from(MOVING, static=STATIC, actions=ACTIONS).eval()
    made.save_pretrained(tmp_path)
    again = LatentAnonymizer.from_pretrained(tmp_path)
    assert torch.equal(again(MOVING, static=STATIC), made(MOVING, static=STATIC))
