"""Five lines of Python: an anonymizer behind an encoder, with nothing raw in between."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from videoveil.anonymizers import (
    MLP,
    Attention,
    EncoderMismatch,
    EncoderReference,
    LatentAnonymizer,
    LatentConfig,
    NotExportable,
    Rank,
    ShapeMismatch,
    StageConfig,
    StaticResidual,
    Withheld,
    latent,
    wrap,
)
from videoveil.encoders import Encoder, create
from videoveil.errors import UsageError


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
