"""Five lines of Python: an anonymizer behind an encoder, with nothing raw in between."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from tests.encoders.helpers import small
from videoveil.anonymizers import (
    MLP,
    Attention,
    EncoderMismatch,
    EncoderReference,
    LatentAnonymizer,
    LatentConfig,
    Noise,
    NoiseKey,
    NotExportable,
    Rank,
    ShapeMismatch,
    StageConfig,
    StaticResidual,
    Veiled,
    Withheld,
    latent,
    wrap,
)
from videoveil.encoders import Encoder, create
from videoveil.errors import UsageError
from videoveil.features.tokens import NotMeanPooled


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return create("tiny", weights="random", frames=4, size=32)


@pytest.fixture(scope="module")
def clips() -> Tensor:
    return torch.rand(3, 3, 4, 32, 32, generator=torch.Generator().manual_seed(0))


def anonymizer(encoder: Encoder, *stages: StageConfig, **options: object) -> LatentAnonymizer:
    reference = EncoderReference(encoder.name, encoder.content_hash())
    config = LatentConfig(encoder.width, stages or (Rank(4),), encoder=reference, **options)  # type: ignore[arg-type]
    return LatentAnonymizer(config).eval()


class Own(nn.Module):
    """Somebody's encoder: no name, no hash, no width."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 8)

    def forward(self, clips: Tensor) -> Tensor:
        features: Tensor = self.layer(clips.mean((2, 3, 4)))
        return features


class Layers(nn.Module):
    """Products whose last bits depend on how many rows there are, as in every real network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 32))

    def forward(self, clips: Tensor) -> Tensor:
        features: Tensor = self.layers(clips.flatten(1))
        return features


@pytest.fixture
def noisy() -> Veiled:
    hidden = latent(32, Noise(0.3, learned=False), key=NoiseKey(b"only for the tests of wrapping"))
    hidden.fit_from(torch.randn(64, 32, generator=torch.Generator().manual_seed(0)))
    return wrap(Layers(), hidden)


def test_noise_does_not_depend_on_the_batch_and_cannot_be_averaged_off(noisy: Veiled) -> None:
    clips = torch.rand(40, 3, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    alone = noisy(clips[:1])[0]
    assert (alone - noisy.encoder(clips[:1])[0]).norm() > 0.1  # there is noise
    others = torch.randperm(39, generator=torch.Generator().manual_seed(2)) + 1
    for size in range(2, 41):
        assert torch.allclose(noisy(clips[:size])[0], alone, rtol=0, atol=1e-6), size
        mixed = torch.cat((clips[others[: size - 1]], clips[:1]))  # in another place, beside others
        assert torch.allclose(noisy(mixed)[-1], alone, rtol=0, atol=1e-6), size


def test_noise_is_named_by_the_pixels_or_by_what_the_caller_says(noisy: Veiled) -> None:
    clips = torch.rand(2, 3, 4, 8, 8, generator=torch.Generator().manual_seed(1))

    def noise(clips: Tensor, content: list[str] | None = None) -> Tensor:
        return noisy(clips, content=content) - noisy.encoder(clips)

    first, second = noise(clips)
    assert not torch.allclose(first, second, atol=1e-3)
    rounded = (clips * 255).round() / 255
    assert torch.allclose(noise(rounded), noise(clips), atol=1e-5)  # the same bytes are the same clip
    assert not torch.allclose(noise(clips + 4.0)[0], first, atol=1e-3)
    named = noise(clips, ["one video", "one video"])
    assert torch.allclose(named[0], named[1], atol=1e-5)
    assert not torch.allclose(named[0], first, atol=1e-3)


def test_clips_in_anonymized_features_out(encoder: Encoder, clips: Tensor) -> None:
    hidden = anonymizer(encoder)
    veiled = wrap(encoder, hidden)
    found = veiled(clips)
    with torch.no_grad():
        assert torch.equal(found, hidden(encoder(clips)))
    assert not found.requires_grad
    assert found.shape == (3, encoder.width)


def test_it_stays_in_eval_mode_inside_a_model_that_trains(encoder: Encoder, clips: Tensor) -> None:
    veiled = wrap(encoder, anonymizer(encoder, MLP()))
    model = nn.Sequential(veiled, nn.Linear(encoder.width, 2))
    before = veiled(clips)
    model.train()
    assert not any(module.training for module in veiled.modules())
    assert torch.equal(veiled(clips), before)
    model(clips).sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is not None] == ["1.weight", "1.bias"]


def test_temporal_tokens_are_anonymized_one_by_one_and_averaged(encoder: Encoder, clips: Tensor) -> None:
    hidden = anonymizer(encoder, tokens="temporal")
    veiled = wrap(encoder, hidden)
    with torch.no_grad():
        expected = hidden(encoder.temporal_tokens(clips))
    assert torch.equal(veiled.temporal_tokens(clips), expected)
    assert torch.equal(veiled(clips), expected.mean(1))
    with pytest.raises(UsageError, match="made for clip vectors"):
        wrap(encoder, anonymizer(encoder)).temporal_tokens(clips)


@torch.no_grad()
def test_static_features_are_made_from_the_clips_own_frames(encoder: Encoder, clips: Tensor) -> None:
    hidden = anonymizer(encoder, StaticResidual())
    rows = torch.randn(400, encoder.width, generator=torch.Generator().manual_seed(1))
    hidden.fit_from(rows + 0.1, static=rows)
    veiled = wrap(encoder, hidden, static_frames=2)
    still = [encoder(clips[:, :, place : place + 1].repeat(1, 1, 4, 1, 1)) for place in (1, 3)]
    expected = hidden(encoder(clips), static=torch.stack(still).mean(0))
    assert torch.allclose(veiled(clips), expected, atol=1e-5)


def test_another_width_is_refused(encoder: Encoder) -> None:
    with pytest.raises(ShapeMismatch, match=r"tiny gives features of width 256, the anonymizer takes 64"):
        wrap(encoder, latent(64, Rank(4)))


@pytest.mark.parametrize("name", ["videomae.b", "mvit.v2-s"])
def test_temporal_tokens_of_an_encoder_whose_vector_is_not_their_mean_are_refused(name: str) -> None:
    other = small(name)
    with pytest.raises(NotMeanPooled, match=r"vector is not the mean of its tokens .*tokens='clip'"):
        wrap(other, latent(other.width, Rank(4), tokens="temporal"))
    wrap(other, latent(other.width, Rank(4)))
    wrap(small(name, pool="mean"), latent(other.width, Rank(4), tokens="temporal"))


def test_another_encoder_is_refused_unless_insisted_on(encoder: Encoder, clips: Tensor) -> None:
    other = create("tiny", weights="random", frames=4, size=32, seed=1)
    hidden = anonymizer(encoder)
    with pytest.raises(EncoderMismatch, match=r"trained for tiny .*other_encoder=True"):
        wrap(other, hidden)
    with pytest.warns(UserWarning, match="what was measured does not hold"):
        wrap(other, hidden, other_encoder=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrap(encoder, hidden)


def test_an_encoder_of_ones_own_works_and_is_warned_about_where_a_hash_is_expected(encoder: Encoder) -> None:
    own, clips = Own(), torch.rand(5, 3, 4, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wrap(own, latent(8, Rank(2)))(clips).shape == (5, 8)
    reference = EncoderReference("somebody's", "00" * 32)
    with pytest.warns(UserWarning, match=r"has no content_hash\(\)"):
        wrap(own, latent(8, Rank(2), encoder=reference))
    with pytest.raises(ShapeMismatch, match=r"not \(5, 8\)"):
        wrap(own, latent(16, Rank(2)))(clips)
    with pytest.raises(UsageError, match="no temporal_tokens"):
        wrap(own, latent(8, Rank(2), tokens="temporal"))


def test_nothing_raw_comes_out_when_the_encoder_fails(encoder: Encoder) -> None:
    own = Own()
    nn.init.constant_(own.layer.bias, float("nan"))
    with pytest.raises(Withheld):
        wrap(own, latent(8, Rank(2)))(torch.rand(2, 3, 4, 8, 8))


def test_what_may_not_export_is_not_wrapped(encoder: Encoder) -> None:
    with pytest.raises(NotExportable, match="across the batch"):
        wrap(encoder, latent(256, Attention(cross_sample=True)))
    with pytest.raises(UsageError, match="static_frames=0"):
        wrap(encoder, latent(256, Rank(2)), static_frames=0)
