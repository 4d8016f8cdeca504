"""Small videos whose people can be told apart, and simple anonymizers for them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.tasks.make_store import grey_video
from videoveil.data.records import Dataset, Item


def people(root: Path, *, train: int = 12, test: int = 8, frames: int = 20) -> Dataset:
    """Videos that are bright above (attribute "above") or below; "even" is noise: every other pair has it."""
    items = []
    for n in range(train + test):
        label, split = n % 2, "train" if n < train else "test"
        path = grey_video(root / f"p{n:02d}.mp4", label, n, frames=frames + n % 3)
        known = {"above": int(label == 0), "even": int(n // 2 % 2 == 0)}
        items.append(Item(path.stem, path, split, action=("above", "below")[label], attributes=known))
    return Dataset("people", root, tuple(items), classes=("above", "below"), attributes=("above", "even"))


def relabelled(dataset: Dataset, split: str, change: dict[str, int] | None) -> Dataset:
    """Other attributes for all items of a split; None: nothing is known of them."""
    items = tuple(
        dataclasses.replace(item, attributes=change) if item.split == split else item for item in dataset
    )
    return dataclasses.replace(dataset, items=items)


class Changed(nn.Module):
    """A real, tiny pixel anonymizer; each kind does one simple thing. It remembers what it was given."""

    exportable = True

    def __init__(self, kind: str, strength: float = 1.0):
        super().__init__()
        self.kind = kind
        self.strength = nn.Parameter(torch.tensor(strength))
        self.shapes: list[tuple[int, ...]] = []
        self.modes: list[tuple[bool, bool]] = []  # training, gradients

    def transform(self, x: Tensor) -> Tensor:
        self.shapes.append(tuple(x.shape))
        self.modes.append((self.training, torch.is_grad_enabled()))
        if self.kind == "constant":
            return torch.full_like(x, 0.5) * self.strength
        if self.kind == "upside down":
            return x.flip(-2)
        if self.kind == "average":
            return x.mean((-2, -1), keepdim=True).expand_as(x)
        if self.kind == "noise":
            return (x + self.strength * torch.randn_like(x)).clamp(0, 1)
        if self.kind == "broken":
            return x / 0 * 0
        if self.kind == "smaller":
            return x[..., ::2, ::2]
        return x * self.strength

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.uint8:
            return (self.transform(x.float() / 255).clamp(0, 1) * 255).round().to(torch.uint8)
        return self.transform(x)

    def content_hash(self) -> str:
        return f"{self.kind} {float(self.strength.detach()):.6f}".ljust(64, "0")
