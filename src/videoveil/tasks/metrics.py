"""Areas under the ROC and precision–recall curves of frame scores, exact, ties handled as one threshold.

All take `truth` (F,) of 0 and 1 and `scores` (F,), and answer None where the curve is not defined.
"""

from __future__ import annotations

import numpy as np


def _counts(truth: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True and false positives (m,) when all scores ≥ each distinct threshold count, from the highest one down."""
    if truth.shape != scores.shape or truth.ndim != 1:
        raise ValueError(f"truth {truth.shape} and scores {scores.shape} must be two rows of one length")
    if not np.isfinite(scores).all():
        raise ValueError("a score is not finite")
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last_of_tie = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    true = np.cumsum(truth[order] != 0)[last_of_tie]
    return true, last_of_tie + 1 - true


def _defined(truth: np.ndarray) -> bool:
    """Whether both a 0 and a 1 are there."""
    return len(truth) > 0 and bool((truth != 0).any()) and bool((truth == 0).any())


def roc_auc(truth: np.ndarray, scores: np.ndarray) -> float | None:
    """Trapezoidal area under the ROC curve; 0.5 is chance. None unless both kinds of frames are there."""
    if not _defined(truth):
        return None
    true, false = (np.concatenate(([0], counts)).astype(np.float64) for counts in _counts(truth, scores))
    return float(np.trapezoid(true / true[-1], false / false[-1]))


def _precision_recall(truth: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Precision and recall from the highest threshold down, beginning at precision 1, recall 0."""
    true, false = _counts(truth, scores)
    precision = np.concatenate(([1.0], true / (true + false)))
    return precision, np.concatenate(([0.0], true / true[-1]))


def pr_auc(truth: np.ndarray, scores: np.ndarray) -> float | None:
    """Trapezoidal area under the precision–recall curve: what is printed as "AP" on XD-Violence. None without a 1."""
    if not (truth != 0).any():
        return None
    precision, recall = _precision_recall(truth, scores)
    return float(np.trapezoid(precision, recall))


def average_precision(truth: np.ndarray, scores: np.ndarray) -> float | None:
    """Step-wise average precision Σ (R_i − R_{i−1})·P_i; chance is the share of ones. None without a 1."""
    if not (truth != 0).any():
        return None
    precision, recall = _precision_recall(truth, scores)
    return float(np.sum(np.diff(recall) * precision[1:]))
