"""TriDet: temporal action detection (Shi et al., CVPR 2023), on features of any width.

features (T, D) ── random window ──▶ network ──▶ label assignment ──▶ losses               (training)
features (T, D) ──────────────────▶ network ──▶ candidates ──▶ soft-NMS ──▶ seconds ──▶ mAP (testing)
"""

from videoveil.tasks.tridet.baseline import uniform_detections
from videoveil.tasks.tridet.config import TriDetConfig
from videoveil.tasks.tridet.evaluation import DetectionScores, evaluate, truth_of
from videoveil.tasks.tridet.fitted import FittedTriDet
from videoveil.tasks.tridet.losses import Losses, Normaliser, losses
from videoveil.tasks.tridet.network import TriDet, build
from videoveil.tasks.tridet.records import Detection, Detections, DetectionVideo
from videoveil.tasks.tridet.sources import from_files, from_store
from videoveil.tasks.tridet.training import fit

__all__ = [
    "Detection",
    "DetectionScores",
    "DetectionVideo",
    "Detections",
    "FittedTriDet",
    "Losses",
    "Normaliser",
    "TriDet",
    "TriDetConfig",
    "build",
    "evaluate",
    "fit",
    "from_files",
    "from_store",
    "losses",
    "truth_of",
    "uniform_detections",
]
