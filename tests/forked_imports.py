"""What takes long to import and what most processes of tests need; see `tests.forked`."""

from __future__ import annotations

import torch
import torch.distributed

from videoveil import _torchvision

import lightning.fabric  # isort: skip
import torchmetrics  # isort: skip
import videoveil.features.extract
import videoveil.media.reader
import videoveil.recipes
import videoveil.tasks.registry

__all__ = ["_torchvision", "lightning", "torch", "torchmetrics", "videoveil"]
