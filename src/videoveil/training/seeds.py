"""Random numbers that depend on nothing but what is written beside them.

A draw belongs to a seed, a purpose, an epoch, an item. So nothing of it has to be stored to resume a run, and neither
the order of the items nor the number of workers or processes changes it.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch

# Thousands of seeds are made in an epoch: `json.dumps` with options would make an encoder for each of them.
_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def number(*parts: int | str) -> int:
    """A seed made of the parts alone: the first 60 bits of `files.value_hash` of their list."""
    return int(hashlib.sha256(_ENCODE(parts).encode()).hexdigest()[:15], 16)


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator for these parts."""
    return torch.Generator().manual_seed(number(*parts))


def rng(*parts: int | str) -> np.random.Generator:
    """A numpy generator for these parts."""
    return np.random.default_rng(number(*parts))
