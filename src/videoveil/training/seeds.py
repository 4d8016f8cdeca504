"""Random numbers that depend on nothing but what is written beside them.

A draw belongs to a seed, a purpose, an epoch, an item. So nothing of it has to be stored to resume a run, and neither
the order of the items nor the number of workers or processes changes it.
"""

from __future__ import annotations

import numpy as np
import torch

from videoveil import files


def number(*parts: int | str) -> int:
    """A seed made of the parts alone."""
    return int(files.value_hash(list(parts))[:15], 16)


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator for these parts."""
    return torch.Generator().manual_seed(number(*parts))


def rng(*parts: int | str) -> np.random.Generator:
    """A numpy generator for these parts."""
    return np.random.default_rng(number(*parts))
