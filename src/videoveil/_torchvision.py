"""Import this before torchvision, lightning, torchmetrics or transformers.

A torchvision built for CUDA beside a CPU torch cannot load its operator library, and then even `import torchvision`
fails, because two of its operators have no schema. Nothing here needs those operators: declaring the schemas lets all
models and transforms run. With a torchvision that loads, this module does nothing.
"""

from __future__ import annotations

import sys

import torch

_LIBRARY: torch.library.Library | None = None  # kept alive: the schemas vanish with the object


def _forget(package: str) -> None:
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]


try:
    import torchvision
except RuntimeError as error:
    if "torchvision::" not in str(error):
        raise
    _forget("torchvision")
    _LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms"):
        _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

__all__ = ["torchvision"]
