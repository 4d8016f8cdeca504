from __future__ import annotations

from typing import cast

import pytest
import torch
from sklearn.linear_model import LinearRegression

from videoveil.anonymizers import Erase, LatentConfig, NotFitted, ShapeMismatch, latent
from videoveil.anonymizers.erase import (
    Eraser,
    label_directions,
    moving_directions,
    orthonormal,
    outside,
    static_directions,
)
from videoveil.anonymizers.stage import FitData
from videoveil.attacks import suite
from videoveil.errors import UsageError

from .films import FILMS
from .pipelines import WIDTH, features, normal


def stage(room: int, directions: torch.Tensor, centre: torch.Tensor | None = None) -> Eraser:
    found = Eraser(WIDTH, Erase(room))
    found.erase(directions, torch.zeros(WIDTH) if centre is None else centre)
    return found


def test_given_directions_are_gone_and_the_others_untouched() -> None:
    directions = normal(3, WIDTH)
    x = features(50)
    one = stage(5, directions, x.mean(0))
    out = one(x[:, None])[:, 0]
    assert float(((out - x.mean(0)) @ directions.T).abs().max()) < 1e-3
    kept = outside(directions, WIDTH).float()
    assert torch.allclose(out @ kept, x @ kept, atol=1e-3)
    assert torch.allclose(out.mean(0), x.mean(0), atol=1e-4)
    assert torch.allclose(one(out[:, None])[:, 0], out, atol=1e-4)  # a projection
    assert int(torch.linalg.matrix_rank((out - out.mean(0)).double(), rtol=1e-5)) == WIDTH - 3


def test_directions_that_depend_on_others_add_nothing() -> None:
    base = normal(2, WIDTH)
    twice = torch.cat((base, base.sum(0, keepdim=True), 3 * base))
    assert orthonormal(twice.double()).shape == (WIDTH, 2)
    x = features(4)[:, None]
    assert torch.allclose(stage(2, twice)(x), stage(2, base)(x), atol=1e-4)
    with pytest.raises(UsageError, match="2 directions, this stage has room for 1"):
        stage(1, base)


def hidden(count: int, clips: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Static clips (V, K, d) whose videos differ in three known directions, and clips among themselves in all."""
    secret = torch.linalg.qr(normal(WIDTH, 3, seed=1))[0].T  # (3, d)
    of_video = 4 * normal(count, 1, 3, seed=2) @ secret
    return of_video + normal(count, clips, WIDTH, seed=3), secret


def test_what_static_clips_of_a_video_share_is_found() -> None:
    videos, secret = hidden(400, 4)
    found = static_directions(videos, 3)
    assert float(torch.linalg.svdvals(found.float() @ secret.T).min()) > 0.99


def test_what_only_chance_shares_is_not_erased() -> None:
    """Videos that differ in nothing: about half of the directions look shared by chance, none by much."""
    videos, _ = hidden(400, 4)
    all_directions = static_directions(videos, WIDTH)
    assert len(all_directions) < WIDTH


def test_a_heads_outputs_do_not_change_when_its_rows_are_spared() -> None:
    videos, secret = hidden(400, 4)
    head = torch.cat((secret[:1] + normal(1, WIDTH, seed=5), normal(4, WIDTH, seed=6)))
    one = Eraser(WIDTH, Erase(6))
    one.fit_from(FitData(videos.mean(1), videos=videos, spare=head))
    x = features(30)[:, None]
    assert float((one(x) @ head.T - x @ head.T).abs().max()) < 1e-3
    assert not torch.allclose(one(x), x, atol=0.1)


def test_without_the_directions_of_labels_no_linear_predictor_is_better_than_a_constant() -> None:
    x = features(500).double()
    labels = torch.stack((x[:, 3] + x[:, 7] > 4, x[:, 5] > 2), 1).double()
    one = Eraser(WIDTH, Erase(2))
    one.erase(label_directions(x, labels), x.mean(0))
    clean = one(x.float()[:, None])[:, 0].double().numpy()
    before = LinearRegression().fit(x.numpy(), labels.numpy()).score(x.numpy(), labels.numpy())
    after = LinearRegression().fit(clean, labels.numpy()).score(clean, labels.numpy())
    assert before > 0.5
    assert after < 1e-3


def test_unknown_labels_do_not_count() -> None:
    x = features(100).double()
    labels = (x[:, :2] > 2).double()
    gaps = labels.clone()
    gaps[50:, 1] = float("nan")
    both = torch.cat((label_directions(x, labels[:, :1]), label_directions(x[:50], labels[:50, 1:])))
    mine, theirs = orthonormal(label_directions(x, gaps)), orthonormal(both)
    assert float(torch.linalg.svdvals(mine.T @ theirs).min()) == pytest.approx(1, abs=1e-6)
    with pytest.raises(UsageError, match="no label is known"):
        label_directions(x, torch.full((100, 1), float("nan")))


def test_misuse_is_named() -> None:
    with pytest.raises(NotFitted, match="Eraser"):
        Eraser(WIDTH, Erase(2))(features(2)[:, None])
    with pytest.raises(UsageError, match=r"needs videos= \(V, K, d\)"):
        Eraser(WIDTH, Erase(2)).fit_from(FitData(features(5)))
    with pytest.raises(UsageError, match=r"K ≥ 2"):
        static_directions(features(5)[:, None], 2)


# --- moving clips -------------------------------------------------------------------------------------------


def test_videos_of_one_action_differ_in_who_and_not_in_what() -> None:
    found = moving_directions(FILMS.clips, FILMS.owners, 5, FILMS.actions)
    assert FILMS.found(found, FILMS.looks) > 0.99
    assert FILMS.found(found, FILMS.gait) > 0.99
    assert FILMS.touched(found, FILMS.action) < 0.1


def test_without_actions_what_static_clips_predict_is_found_and_the_action_is_left_alone() -> None:
    found = moving_directions(FILMS.clips, FILMS.owners, 3, videos=FILMS.videos)
    assert FILMS.found(found, FILMS.looks) > 0.98
    assert FILMS.touched(found, FILMS.action) < 0.25


def test_with_neither_what_changes_inside_a_video_is_left_alone() -> None:
    """Untrimmed videos: every action happens in every video, so the action is within them."""
    clips = (
        FILMS.clips - 6 * FILMS.action[FILMS.actions] + 6 * FILMS.action[torch.arange(len(FILMS.clips)) % 3]
    )
    found = moving_directions(clips, FILMS.owners, WIDTH)
    assert FILMS.found(found, FILMS.looks) > 0.95
    assert FILMS.found(found, FILMS.gait) > 0.95
    assert FILMS.touched(found, FILMS.action) < 0.9
    assert FILMS.touched(moving_directions(clips, FILMS.owners, 5), FILMS.action) < 0.1


def test_videos_of_unknown_action_do_not_count() -> None:
    actions = FILMS.actions.clone()
    actions[FILMS.owners >= 120] = -1
    some = moving_directions(FILMS.clips, FILMS.owners, 5, actions)
    half = FILMS.owners < 120
    only = moving_directions(FILMS.clips[half], FILMS.owners[half], 5, FILMS.actions[half])
    assert torch.allclose(some.abs(), only.abs(), atol=1e-9)
    with pytest.raises(UsageError, match="no video's action is known"):
        moving_directions(FILMS.clips, FILMS.owners, 5, torch.full_like(FILMS.actions, -1))


def erased(source: str, **given: object) -> torch.Tensor:
    one = latent(WIDTH, Erase(5, source))  # type: ignore[arg-type]
    one.fit_from(FILMS.clips, videos=FILMS.videos, owners=FILMS.owners, actions=FILMS.actions, **given)  # type: ignore[arg-type]
    return one.state_dict()["stages.0.directions"].T.float()


def test_either_source_alone_leaves_something_and_both_leave_nothing() -> None:
    static, moving, both = (erased(source) for source in ("static", "moving", "both"))
    assert FILMS.found(static, FILMS.looks) > 0.98
    assert FILMS.touched(static, FILMS.gait) < 0.7
    assert FILMS.found(moving, FILMS.gait) > 0.98
    assert both.shape == (10, WIDTH)
    for axes in (FILMS.looks, FILMS.gait):
        assert FILMS.found(both[both.abs().sum(1) > 0], axes) > 0.98
    for part in (static, moving):  # the union holds both
        assert FILMS.found(both[both.abs().sum(1) > 0], part[part.abs().sum(1) > 0]) > 0.9999


def test_a_heads_rows_are_spared_by_both_sources() -> None:
    head = FILMS.looks[:1] + FILMS.action[:1]
    directions = erased("both", spare=head)
    assert float((directions @ head.T).abs().max()) < 1e-5


def test_the_directions_are_the_same_bytes_on_any_number_of_threads() -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            found.append(erased("both"))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_share_is_a_number_of_directions_of_the_width() -> None:
    assert Erase(share=1 / 8, source="both").count(256) == 32
    assert Erase(share=1 / 8, source="both").room(256) == 64
    assert Erase(share=0.001).count(64) == 1
    for wrong in ({}, {"directions": 3, "share": 0.1}, {"share": 1.5}, {"directions": 2, "source": "all"}):
        with pytest.raises(UsageError, match="erase"):
            Erase(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="directions=32 must be below the width 32"):
        LatentConfig(32, (Erase(16, "both"),))


def test_the_configuration_of_an_erasure_comes_back() -> None:
    config = LatentConfig(64, (Erase(share=0.25, source="moving"),))
    assert LatentConfig.from_json(config.to_json()) == config


def test_moving_clips_that_cannot_be_used_are_named() -> None:
    with pytest.raises(UsageError, match=r"needs owners= \(n,\)"):
        Eraser(WIDTH, Erase(2, "moving")).fit_from(FitData(features(5)))
    with pytest.raises(UsageError, match="different actions"):
        moving_directions(FILMS.clips, FILMS.owners, 2, torch.arange(len(FILMS.clips)))
    with pytest.raises(UsageError, match="some action needs at least two videos"):
        moving_directions(FILMS.clips[:8], FILMS.owners[:8], 2, FILMS.owners[:8])
    with pytest.raises(UsageError, match="1 video"):
        moving_directions(FILMS.clips[:4], FILMS.owners[:4], 2)
    with pytest.raises(UsageError, match="belongs to video 239"):
        moving_directions(FILMS.clips, FILMS.owners, 2, videos=FILMS.videos[:10])
    with pytest.raises(ShapeMismatch, match="owners must be"):
        latent(WIDTH, Erase(2, "moving")).fit_from(FILMS.clips, owners=FILMS.owners[:3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_erased_is_not_left_in_the_last_bits(dtype: torch.dtype) -> None:
    """A whitening attacker sees directions however small: a label that only erased directions carry is at chance."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (3000, 1), generator=draw)
    x = torch.randn(3000, WIDTH, generator=draw, dtype=torch.float64)
    x[:, :3] += 20 * (labels - 0.5)
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=draw, dtype=torch.float64))[0]
    x = (x @ turn).to(dtype)
    anonymizer = latent(WIDTH, Erase(directions=3))
    cast(Eraser, anonymizer.stages[0]).erase(turn[:3], x.mean(0))
    y = anonymizer(x)
    erased = ((y - y.mean(0)).double() @ turn[:3].T).abs().max() / x.abs().max()
    assert erased < 4 * torch.finfo(dtype).eps

    def found(of: torch.Tensor) -> float:
        rows, truth = of.double().numpy(), labels.double().numpy()
        parts = [slice(0, 2000), slice(2000, 2500), slice(2500, 3000)]
        train, validation, test = ((rows[part], truth[part]) for part in parts)
        report = suite(train, test, validation, kinds=("linear", "trees")).worst
        return float(report.score or 0)

    assert found(x) > 0.99
    assert found(y) < 0.6
