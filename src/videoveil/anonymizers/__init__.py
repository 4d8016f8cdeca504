"""Anonymizers: features in, features out, or frames in, frames out; one clip or frame at a time, whatever the batch.

anonymizer = latent(768, Attention(), Rank(24), Noise(floor=0.3), key=NoiseKey.generate())
anonymizer.fit_from(training_features)
safe = anonymizer(features)
"""

from videoveil.anonymizers.card import Measurement, ModelCard
from videoveil.anonymizers.config import (
    MLP,
    Attention,
    AttentionOnly,
    EncoderReference,
    Erase,
    Keep,
    LatentConfig,
    Motion,
    Noise,
    Quantise,
    Rank,
    StageConfig,
    StaticResidual,
)
from videoveil.anonymizers.errors import (
    EncoderMismatch,
    MissingKey,
    MissingStatic,
    NotExportable,
    NotFitted,
    ShapeMismatch,
    Unchanged,
    Withheld,
)
from videoveil.anonymizers.keys import NoiseKey
from videoveil.anonymizers.latent import LatentAnonymizer, build_stage, latent, require_exportable
from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer, pixel
from videoveil.anonymizers.pixel.config import PixelConfig
from videoveil.anonymizers.wrap import Veiled, wrap

__all__ = [
    "MLP",
    "Attention",
    "AttentionOnly",
    "EncoderMismatch",
    "EncoderReference",
    "Erase",
    "Keep",
    "LatentAnonymizer",
    "LatentConfig",
    "Measurement",
    "MissingKey",
    "MissingStatic",
    "ModelCard",
    "Motion",
    "Noise",
    "NoiseKey",
    "NotExportable",
    "NotFitted",
    "PixelAnonymizer",
    "PixelConfig",
    "Quantise",
    "Rank",
    "ShapeMismatch",
    "StageConfig",
    "StaticResidual",
    "Unchanged",
    "Veiled",
    "Withheld",
    "build_stage",
    "latent",
    "pixel",
    "require_exportable",
    "wrap",
]
