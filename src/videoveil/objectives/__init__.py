"""Objectives: one equation is one function; its docstring names the paper, the equation and the shapes."""

from videoveil.objectives.consistency import l1_reconstruction, latent_consistency
from videoveil.objectives.contrastive import budget_ceiling, budget_guard, nt_xent
from videoveil.objectives.splavu import SplavuLoss, SplavuWeights, splavu_total, utility
from videoveil.objectives.temporal import moving_residual, temporal_budget

__all__ = [
    "SplavuLoss",
    "SplavuWeights",
    "budget_ceiling",
    "budget_guard",
    "l1_reconstruction",
    "latent_consistency",
    "moving_residual",
    "nt_xent",
    "splavu_total",
    "temporal_budget",
    "utility",
]
