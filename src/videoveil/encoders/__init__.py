"""Encoders: clips in, feature vectors or temporal tokens out, behind one interface."""

from videoveil.encoders.base import Classifier, Encoder, InputSpec
from videoveil.encoders.checkpoints import save
from videoveil.encoders.convert import ConversionReport, convert
from videoveil.encoders.own import own_encoder
from videoveil.encoders.registry import EncoderInfo, create, describe, info, names

__all__ = [
    "Classifier",
    "ConversionReport",
    "Encoder",
    "EncoderInfo",
    "InputSpec",
    "convert",
    "create",
    "describe",
    "info",
    "names",
    "own_encoder",
    "save",
]
