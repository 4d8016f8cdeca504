"""MGFN: anomaly detection from video-level labels (Chen et al., AAAI 2023), on features of any width.

videos (T, C) ── 32 segments + magnitude ──▶ network ──▶ k loudest segments ──▶ objective      (training)
videos (T, C) ── magnitude ────────────────▶ network ──▶ score per snippet ──▶ score per frame (testing)
"""

from videoveil.tasks.mgfn.config import MGFNConfig, recommended, released, small, ted_spad
from videoveil.tasks.mgfn.evaluation import AnomalyReport, evaluate
from videoveil.tasks.mgfn.fitted import FittedMGFN
from videoveil.tasks.mgfn.network import MGFN, from_state
from videoveil.tasks.mgfn.objective import Losses, losses
from videoveil.tasks.mgfn.sources import from_npy, from_store
from videoveil.tasks.mgfn.training import fit
from videoveil.tasks.mgfn.videos import AnomalyVideo

__all__ = [
    "MGFN",
    "AnomalyReport",
    "AnomalyVideo",
    "FittedMGFN",
    "Losses",
    "MGFNConfig",
    "evaluate",
    "fit",
    "from_npy",
    "from_state",
    "from_store",
    "losses",
    "recommended",
    "released",
    "small",
    "ted_spad",
]
