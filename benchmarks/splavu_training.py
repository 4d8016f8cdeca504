"""How fast SPLAVU trains and its adapter runs, on features of the size of HMDB51's.

    python benchmarks/splavu_training.py [--device cuda] [--videos 3570] [--width 768] [--epochs 100] [--json FILE]

Trains the published recipe for actions (adapter of 3 layers and 8 heads, batch 512, float32). "ours" is the loop of
`videoveil.training.latent`, capture of the step included; "plain" is the same mathematics as most people would write
it: a DataLoader over arrays in host memory, three passes through PyTorch's own encoder layers, a loss that is read
every step. Both are timed from features in host memory to the last epoch. Prints seconds, ours ÷ plain, and features
per second of the trained adapter in its exact (float64) export mode. Features are random: what they are has no
influence on the time.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from videoveil.anonymizers import LatentAnonymizer, LatentConfig
from videoveil.recipes import splavu_hmdb51
from videoveil.recipes.fitting import make_loop
from videoveil.training.latent_data import ClipPool, LatentData

CLASSES, CLIPS, STATIC = 51, 6, 10
GOAL_SECONDS, PAPER_SECONDS, GOAL_FEATURES = 5.0, 84.0, 1e6


def features(videos: int, width: int) -> ClipPool:
    """Random features, clips and labels of `videos` videos."""
    draw = torch.Generator().manual_seed(0)
    return ClipPool(
        ids=tuple(f"{i:05d}" for i in range(videos)),
        rows=torch.randn(videos * CLIPS, width, generator=draw),
        offsets=torch.arange(videos + 1) * CLIPS,
        static=torch.randn(videos, STATIC, width, generator=draw),
        labels=torch.randint(CLASSES, (videos,), generator=draw),
        classes=tuple(f"class {i}" for i in range(CLASSES)),
    )


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def ours(
    pool: ClipPool, epochs: int, device: torch.device, precision: str, capture: bool
) -> tuple[float, LatentAnonymizer]:
    """Seconds of the whole loop: features to the device, capture, training."""
    recipe = replace(splavu_hmdb51(), epochs=epochs, precision=precision)
    anonymizer = LatentAnonymizer(LatentConfig(pool.width, recipe.stages), seed=0)
    head = nn.Linear(pool.width, CLASSES)
    wait(device)
    began = time.perf_counter()
    loop = make_loop(anonymizer, recipe, LatentData(action=pool), {"action": head}, device=device)
    loop.capture = capture
    loop.run()
    wait(device)
    return time.perf_counter() - began, anonymizer


class Videos(Dataset[tuple[Tensor, Tensor, Tensor, Tensor]]):
    """A random clip, two random static clips and the label of a video."""

    def __init__(self, pool: ClipPool):
        assert pool.static is not None
        assert pool.labels is not None
        self.clips = pool.rows.view(len(pool), CLIPS, -1)
        self.static, self.labels = pool.static, pool.labels

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        first, second = torch.randperm(STATIC)[:2]
        clip = self.clips[i, int(torch.randint(CLIPS, ()))]
        return clip, self.static[i, first], self.static[i, second], self.labels[i]


def contrast(first: Tensor, second: Tensor, temperature: float = 0.1) -> Tensor:
    """NT-Xent over 2N views."""
    views = F.normalize(torch.cat((first, second)), dim=1)
    logits = (views @ views.T / temperature).fill_diagonal_(float("-inf"))
    partner = torch.arange(len(views), device=views.device).roll(len(first))
    return F.cross_entropy(logits, partner)


def plain(pool: ClipPool, epochs: int, device: torch.device, batch: int = 512) -> float:
    """Seconds of the loop as it is usually written."""
    width = pool.width
    layer = nn.TransformerEncoderLayer(width, 8, 2 * width, 0.1, norm_first=True, batch_first=True)
    wait(device)
    began = time.perf_counter()
    adapter = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).to(device)
    head = nn.Linear(width, CLASSES).to(device)
    optimizer = torch.optim.AdamW([*adapter.parameters(), *head.parameters()], lr=1e-4)
    loader = DataLoader(Videos(pool), batch, shuffle=True, pin_memory=device.type == "cuda")
    for _ in range(epochs):
        for given in loader:
            clip, first, second, labels = (part.to(device, non_blocking=True) for part in given)
            out, one, two = (adapter(x[:, None])[:, 0] for x in (clip, first, second))
            loss = 100 * F.mse_loss(out, clip) + F.cross_entropy(head(out), labels) - contrast(one, two)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([*adapter.parameters(), *head.parameters()], 1.0)
            optimizer.step()
            loss.item()
    wait(device)
    return time.perf_counter() - began


@torch.no_grad()
def throughput(anonymizer: LatentAnonymizer, device: torch.device, rows: int, repeats: int = 5) -> float:
    """Features per second through the exact export mode, device to device."""
    anonymizer = anonymizer.to(device).eval()
    x = torch.randn(rows, anonymizer.config.width, device=device)
    anonymizer(x)
    wait(device)
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        anonymizer(x)
        wait(device)
        took.append(time.perf_counter() - began)
    return rows / min(took)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(asked.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    pool = features(asked.videos, asked.width)
    ours(features(64, asked.width), 1, device, "32-true", False)  # libraries load
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "videos": asked.videos,
        "width": asked.width,
        "epochs": asked.epochs,
    }
    found["ours"], anonymizer = ours(pool, asked.epochs, device, "32-true", True)
    if device.type == "cuda":
        found["ours, bf16"], _ = ours(pool, asked.epochs, device, "bf16-mixed", True)
        found["ours, not captured"], _ = ours(pool, asked.epochs, device, "32-true", False)
    found["plain"] = plain(pool, asked.epochs, device)
    found["features_per_second"] = throughput(anonymizer, device, asked.rows)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device")
    parser.add_argument("--videos", type=int, default=3570)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1 << 16, help="features sent through the adapter at once")
    parser.add_argument("--json", type=Path)
    found = measure(parser.parse_args())
    print(
        f"{found['device']}: {found['videos']} videos, width {found['width']}, {found['epochs']} epochs, batch 512"
    )
    for name in ("ours", "ours, bf16", "ours, not captured", "plain"):
        if name in found:
            print(f"  {name:20} {found[name]:8.2f} s   {found[name] / found['plain']:.3f} of plain")
    print(f"  goal {GOAL_SECONDS} s (one H200), the paper says {PAPER_SECONDS} s")
    print(
        f"  adapter, exact: {found['features_per_second']:,.0f} features/s (goal {GOAL_FEATURES:,.0f}, one H200)"
    )
    if path := parser.parse_args().json:
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
