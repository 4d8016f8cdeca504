from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from videoveil.anonymizers import Keep, LatentConfig, NotFitted, latent
from videoveil.anonymizers.erase import orthonormal
from videoveil.anonymizers.keep import Keeper, standing_out, what, who
from videoveil.anonymizers.scatter import MovingClips
from videoveil.anonymizers.stage import FitData
from videoveil.attacks import suite
from videoveil.errors import UsageError

from .films import FILMS
from .pipelines import WIDTH, features, normal


def kept(count: int = 3, ridge: float = 0.01, **changes: object) -> torch.Tensor:
    """Directions (k, d) that a keeper made from the films keeps."""
    one = latent(WIDTH, Keep(count, ridge=ridge))
    given = {"videos": FILMS.videos, "owners": FILMS.owners, "actions": FILMS.actions} | changes
    one.fit_from(FILMS.clips, **given)  # type: ignore[arg-type]
    return one.state_dict()["stages.0.directions"].T.float()


def test_what_happens_is_kept_and_who_is_not() -> None:
    """Three actions have means that differ in two directions."""
    found = kept(2, ridge=0.1)
    differences = torch.stack((FILMS.action[0] - FILMS.action[1], FILMS.action[1] - FILMS.action[2])) / 2**0.5
    assert FILMS.found(found, differences) > 0.99
    assert FILMS.touched(found, FILMS.looks) < 0.1
    assert FILMS.touched(found, FILMS.gait) < 0.1


def test_what_training_videos_do_not_show_is_thrown_away() -> None:
    """The point of keeping instead of erasing: a new way to tell people apart does not come through."""
    one = latent(WIDTH, Keep(2, ridge=0.1))
    one.fit_from(FILMS.clips, videos=FILMS.videos, owners=FILMS.owners, actions=FILMS.actions)
    axes = torch.linalg.qr(normal(WIDTH, WIDTH, seed=11))[0].T
    unseen = 5 * normal(300, 1, seed=21) @ axes[20:21]  # in no training video
    out = one.eval()(unseen)
    assert float((out - out.mean(0)).std()) < 0.02 * float(unseen.std())


def test_without_actions_what_changes_inside_a_video_is_kept() -> None:
    turn = torch.arange(len(FILMS.clips)) % 3
    clips = FILMS.clips - 6 * FILMS.action[FILMS.actions] + 6 * FILMS.action[turn]
    one = latent(WIDTH, Keep(2, ridge=0.1)).fit_from(clips, videos=FILMS.videos, owners=FILMS.owners)
    found = one.state_dict()["stages.0.directions"].T.float()
    differences = torch.stack((FILMS.action[0] - FILMS.action[1], FILMS.action[1] - FILMS.action[2])) / 2**0.5
    assert FILMS.found(found, differences) > 0.95
    assert FILMS.touched(found, FILMS.looks) < 0.2


@pytest.mark.parametrize("ridge", [0.001, 0.1])
def test_the_directions_are_those_of_the_generalised_eigenproblem(ridge: float) -> None:
    moving = MovingClips(FILMS.clips, FILMS.owners, FILMS.actions)
    happens, private = what(moving).numpy(), who(moving, FILMS.videos).numpy()
    values, vectors = np.linalg.eigh(private)
    positive = vectors @ np.diag(values.clip(0)) @ vectors.T
    shrunk = positive + ridge * values.clip(0).mean() * np.eye(WIDTH)
    expected = scipy.linalg.eigh(happens, shrunk)[1][:, ::-1][:, :4]
    found = standing_out(torch.from_numpy(happens), torch.from_numpy(private), 4, ridge=ridge)
    overlap = torch.linalg.svdvals(found.T @ orthonormal(torch.from_numpy(expected.T.copy())))
    assert float(overlap.min()) == pytest.approx(1, abs=1e-8)


def test_a_feature_is_its_numbers_and_nothing_else() -> None:
    """Whatever is added outside of the kept directions changes nothing, and the output has their rank."""
    one = latent(WIDTH, Keep(4))
    one.fit_from(FILMS.clips, videos=FILMS.videos, owners=FILMS.owners, actions=FILMS.actions)
    one.eval()
    x = features(60)
    directions = one.state_dict()["stages.0.directions"].float()
    added = 10 * normal(60, WIDTH, seed=9)
    added = added - added @ directions @ directions.T
    assert torch.allclose(one(x + added), one(x), atol=1e-3)
    assert int(torch.linalg.matrix_rank((one(x) - one(x).mean(0)).double(), rtol=1e-5)) == 4
    assert torch.allclose(one(one(x)), one(x), atol=1e-4)  # a projection


def test_an_attacker_who_whitens_finds_nothing_outside_of_what_is_kept() -> None:
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (3000, 1), generator=draw)
    x = FILMS.clips[torch.randint(len(FILMS.clips), (3000,), generator=draw)] + 8 * (
        labels - 0.5
    ) @ FILMS.looks.sum(0, keepdim=True)
    one = latent(WIDTH, Keep(2))
    one.fit_from(FILMS.clips, videos=FILMS.videos, owners=FILMS.owners, actions=FILMS.actions)
    one.eval()

    def found(of: torch.Tensor) -> float:
        rows, truth = of.double().numpy(), labels.double().numpy()
        parts = [slice(0, 2000), slice(2000, 2500), slice(2500, 3000)]
        train, validation, test = ((rows[part], truth[part]) for part in parts)
        return float(suite(train, test, validation, kinds=("linear", "kernel")).worst.score or 0)

    assert found(x) > 0.99
    assert found(one(x)) < 0.75  # what little of the looks is in the kept directions


def test_a_heads_rows_are_kept_first() -> None:
    head = torch.cat((FILMS.looks[:1] + FILMS.action[:1], normal(1, WIDTH, seed=6)))
    one = latent(WIDTH, Keep(4))
    one.fit_from(
        FILMS.clips, videos=FILMS.videos, owners=FILMS.owners, actions=FILMS.actions, spare=head
    ).eval()
    centre = one.state_dict()["stages.0.centre"]
    x = features(30)
    assert torch.allclose((one(x) - centre) @ head.T, (x - centre) @ head.T, atol=1e-3)
    assert one.state_dict()["stages.0.directions"].abs().sum(0).gt(0).sum() == 4
    with pytest.raises(UsageError, match="2 directions of a head to spare, room for 1"):
        kept(1, spare=head)


def test_the_directions_are_the_same_bytes_on_any_number_of_threads() -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            found.append(kept())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_share_is_a_number_of_directions_of_the_width() -> None:
    assert Keep(share=1 / 16).count(256) == 16
    assert Keep(share=0.001).count(64) == 1
    for wrong in ({}, {"directions": 3, "share": 0.1}, {"share": 1.5}, {"directions": 2, "ridge": 0.0}):
        with pytest.raises(UsageError, match="keep"):
            Keep(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="keep: directions=32 must be below the width 32"):
        LatentConfig(32, (Keep(32),))
    config = LatentConfig(64, (Keep(share=0.25, ridge=0.1),))
    assert LatentConfig.from_json(config.to_json()) == config


def test_misuse_is_named() -> None:
    with pytest.raises(NotFitted, match="Keeper"):
        Keeper(WIDTH, Keep(2))(features(2)[:, None])
    with pytest.raises(UsageError, match=r"keep: fit_from needs videos= .* owners="):
        Keeper(WIDTH, Keep(2)).fit_from(FitData(features(5)))
    same = torch.zeros(4, 3, WIDTH)
    with pytest.raises(UsageError, match="do not differ in anything"):
        Keeper(WIDTH, Keep(2)).fit_from(FitData(torch.zeros(4, WIDTH), videos=same, owners=torch.arange(4)))
