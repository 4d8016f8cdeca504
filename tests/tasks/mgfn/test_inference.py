"""Whole videos in pieces: the same scores as in one pass, for any length, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.speed import cpu_seconds, slower
from videoveil.tasks.mgfn.config import MGFNConfig, small
from videoveil.tasks.mgfn.inference import _pieces, snippet_scores
from videoveil.tasks.mgfn.network import MGFN
from videoveil.tasks.mgfn.segments import with_magnitude


def ran_in(net: MGFN) -> MGFN:
    """With batch-norm statistics and a head as after some training."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    return net.eval()


@pytest.fixture(scope="module")
def network() -> MGFN:
    torch.manual_seed(0)
    return ran_in(MGFN(8, small()))


def whole(net: MGFN, features: np.ndarray) -> np.ndarray:
    """One pass, crops averaged."""
    with torch.inference_mode():
        x = with_magnitude(torch.from_numpy(features)).transpose(0, 1)[None]  # (1, n, T, C+1)
        return net(x).scores[0].mean(0).numpy()


def noise(length: int, crops: int = 1, width: int = 8) -> np.ndarray:
    return np.random.default_rng(length).standard_normal((length, crops, width)).astype(np.float32)


@pytest.mark.parametrize("length", [1, 2, 3, 15, 63, 64, 65, 200])
@pytest.mark.parametrize("piece", [1, 16, 64, 4096])
def test_pieces_give_what_one_pass_gives(network: MGFN, length: int, piece: int) -> None:
    features = noise(length)
    found = snippet_scores(network, features, piece)
    assert found.dtype == np.float32
    assert np.abs(found - whole(network, features)).max() < 1e-5
    if length > 10:
        assert found.std() > 1e-4  # scores that could differ


def test_the_published_depth_in_pieces_gives_what_one_pass_gives() -> None:
    """The same stages as published, narrower at the end: halo 15."""
    torch.manual_seed(1)
    stages = tuple(type(s)(min(s.width, 128), s.depth, s.attention) for s in MGFNConfig().stages)
    net = ran_in(MGFN(8, MGFNConfig(stages=stages)))
    assert net.halo == 15
    features = noise(150)
    assert np.abs(snippet_scores(net, features, 40) - whole(net, features)).max() < 1e-5


def test_a_smaller_halo_would_be_seen(network: MGFN, monkeypatch: pytest.MonkeyPatch) -> None:
    """The halo is needed: without it the borders of the pieces differ."""
    features = noise(200)
    monkeypatch.setattr(MGFN, "halo", property(lambda _: 0))
    assert np.abs(snippet_scores(network, features, 16) - whole(network, features)).max() > 1e-4


def test_ten_crops_are_averaged(network: MGFN) -> None:
    features = noise(90, crops=10)
    found = snippet_scores(network, features, 200)
    apart = [snippet_scores(network, features[:, c : c + 1]) for c in range(10)]
    assert np.abs(found - np.mean(apart, axis=0)).max() < 1e-5


def test_pieces_cover_every_snippet_once() -> None:
    for length, step, halo in ((1, 4, 3), (10, 4, 3), (12, 4, 0), (5, 9, 2)):
        parts = list(_pieces(length, step, halo))
        assert [t for middle, _ in parts for t in middle] == list(range(length))
        for middle, around in parts:
            assert around.start == max(0, middle.start - halo)
            assert around.stop == min(length, middle.stop + halo)


def test_training_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="training mode"):
        snippet_scores(MGFN(8, small()).train(), noise(5))


def test_attention_never_holds_all_pairs_of_snippets(network: MGFN) -> None:
    """The kernel that works in tiles must fit what the network gives it; any other one is forbidden here."""
    features = noise(300)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        tiled = snippet_scores(network, features)
    with sdpa_kernel(SDPBackend.MATH):
        plain = snippet_scores(network, features)
    assert np.abs(tiled - plain).max() < 1e-5


def test_the_published_network_is_two_hundred_times_faster_than_real_time() -> None:
    """Ten minutes at 30 frames per second and 16 frames per snippet, in CPU seconds of two cores."""
    torch.manual_seed(0)
    net = MGFN(256).eval()
    features = noise(600 * 30 // 16, width=256)
    assert snippet_scores(net, features).shape == (1125,)
    assert cpu_seconds(lambda: snippet_scores(net, features)) < 2 * 600 / 200 * slower()
