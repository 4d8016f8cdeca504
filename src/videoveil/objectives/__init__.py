"""Objectives: one equation is one function; its docstring names the paper, the equation and the shapes."""

from videoveil.objectives.attributes import attribute_loss, negative_entropy, strongest, uniform_target
from videoveil.objectives.consistency import l1_reconstruction, latent_consistency
from videoveil.objectives.contrastive import budget_ceiling, budget_guard, nt_xent
from videoveil.objectives.invariance import temporal_invariance
from videoveil.objectives.local_contrast import local_temporal_contrast
from videoveil.objectives.penalty import above_bound, feature_penalty, rms, rms_penalty
from videoveil.objectives.pixel import PixelLoss, PixelWeights, anonymizer_total, clip_utility
from videoveil.objectives.rotation import ROTATION_CHANCE, quarter_labels, rotate_quarters, rotation_loss
from videoveil.objectives.splavu import SplavuLoss, SplavuWeights, splavu_total, utility
from videoveil.objectives.style import StyleLoss, gram, noisy_features
from videoveil.objectives.temporal import moving_residual, temporal_budget
from videoveil.objectives.triplet import temporal_triplet

__all__ = [
    "ROTATION_CHANCE",
    "PixelLoss",
    "PixelWeights",
    "SplavuLoss",
    "SplavuWeights",
    "StyleLoss",
    "above_bound",
    "anonymizer_total",
    "attribute_loss",
    "budget_ceiling",
    "budget_guard",
    "clip_utility",
    "feature_penalty",
    "gram",
    "l1_reconstruction",
    "latent_consistency",
    "local_temporal_contrast",
    "moving_residual",
    "negative_entropy",
    "noisy_features",
    "nt_xent",
    "quarter_labels",
    "rms",
    "rms_penalty",
    "rotate_quarters",
    "rotation_loss",
    "splavu_total",
    "strongest",
    "temporal_budget",
    "temporal_invariance",
    "temporal_triplet",
    "uniform_target",
    "utility",
]
