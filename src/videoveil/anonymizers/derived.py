"""What is computed from a module's tensors, and computed again as soon as one of them changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from torch import nn


class Derived:
    """Kept by name until a tensor of the module changes; copies of the module start anew."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, Any]] = {}

    def get(self, name: str, module: nn.Module, compute: Callable[[], Any]) -> Any:
        """What `compute()` gives, or gave for the same tensors."""
        tensors = itertools.chain(module.parameters(), module.buffers())
        versions = tuple((id(t), t.data_ptr(), -1 if t.is_inference() else t._version) for t in tensors)
        if name not in self._kept or self._kept[name][0] != versions:
            self._kept[name] = (versions, compute())
        return self._kept[name][1]

    def forget(self) -> None:
        """Nothing is kept: tensors have changed in a way that their versions do not tell, such as a replayed graph."""
        self._kept.clear()

    def __reduce__(self) -> tuple[type[Derived], tuple[()]]:
        return Derived, ()
