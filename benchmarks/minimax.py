"""How fast the minimax trains: our loop ÷ the published one written plainly, clips per second in one run.

    python benchmarks/minimax.py [--device cuda] [--width 64] [--size 112] [--batch 24] [--frames 16] [--json FILE]

f_A a UNet, f_T R3D-18 (SPAct's), f_B ResNet-50 with projection head, two frames of every video as the budget's pair. A
cycle is step 1 on one batch and step 2 on the next. "plain" is a transcription of the published loop: float32, the
default memory layout, three separate passes through f_A, networks that are only looked through keep their gradients,
a loss that is read in every step. "ours" is `training.minimax`: bf16 where there is a GPU, channels last, one pass,
frozen networks without gradients; then the same compiled. Clips are random and already on the device: what they show
has no influence on the time. Also prints the losses of one step of both, which must agree.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil import devices
from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig
from videoveil.anonymizers.pixel.config import UNet
from videoveil.training.minimax import MinimaxLoop
from videoveil.training.minimax_data import MinimaxBatch
from videoveil.training.minimax_nets import BudgetNet, UtilityNet
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Utility

CLASSES = 101


def settings(asked: argparse.Namespace, **changes: Any) -> MinimaxSettings:
    return MinimaxSettings(
        utility=Utility(encoder="r3d.18-spact", frames=asked.frames),
        budget=Budget(members=("resnet.50",)),
        size=asked.size,
        batch=asked.batch,
        privacy_batch=asked.batch,
        **changes,
    )


def players(own: MinimaxSettings, width: int) -> tuple[PixelAnonymizer, UtilityNet, BudgetNet]:
    assert own.budget is not None
    return (
        PixelAnonymizer(PixelConfig((UNet(width=width),))),
        UtilityNet(own.utility, own.size, CLASSES),
        BudgetNet(own.budget, own.budget.members[0], own.size, own.utility, 0),
    )


def batch(asked: argparse.Namespace, device: torch.device) -> MinimaxBatch:
    torch.manual_seed(0)
    clips = torch.rand(asked.batch, 1, 3, asked.frames, asked.size, asked.size, device=device)
    targets = torch.randint(CLASSES, (asked.batch,), device=device)
    return MinimaxBatch(
        clips, targets, torch.rand(asked.batch, 2, 3, asked.size, asked.size, device=device), None
    )


def ours(
    asked: argparse.Namespace, *, precision: str, compiled: bool = False, repeatable: bool = False
) -> Callable[[MinimaxBatch], list[float]]:
    torch.backends.cudnn.deterministic = repeatable
    own = settings(asked, precision=precision, compile=compiled)
    f_a, f_t, f_b = players(own, asked.width)
    fabric = devices.make_fabric(asked.device, precision)
    made = MinimaxLoop(f_a, f_t, [f_b], None, own, 0, fabric)  # type: ignore[arg-type]
    made.set_up()

    def cycle(given: MinimaxBatch) -> list[float]:
        one = made.step.take("anonymizer", given)
        two = made.step.take("auxiliary", given)
        return (
            [float(one["utility"]), float(one["budget"]), float(two["utility_learning"])]
            if asked.read
            else []
        )

    return cycle


def plain(asked: argparse.Namespace) -> Callable[[MinimaxBatch], list[float]]:
    """The published loop, as most people would write it."""
    device = devices.choose(asked.device)
    own = settings(asked)
    f_a, f_t, f_b = (network.to(device) for network in players(own, asked.width))
    network = f_a.stages[0]
    adam = [torch.optim.Adam(n.parameters(), lr=1e-4) for n in (f_a, f_t, f_b)]

    def anonymize(clips: Tensor) -> Tensor:
        count, _, time_, high, wide = clips.shape
        frames = clips.permute(0, 2, 1, 3, 4).reshape(-1, 3, high, wide)
        return network(frames).reshape(count, time_, 3, high, wide).permute(0, 2, 1, 3, 4).contiguous()

    def project(frames: Tensor) -> Tensor:
        return F.normalize(f_b.head(f_b.encoder(frames)), dim=1)

    def contrast(a: Tensor, b: Tensor) -> Tensor:
        views = torch.cat((a, b))
        alike = views @ views.T / 0.1
        alike.fill_diagonal_(float("-inf"))
        partner = torch.arange(len(views), device=views.device).roll(len(a))
        return F.cross_entropy(alike, partner)

    def cycle(given: MinimaxBatch) -> list[float]:
        assert given.views is not None
        clips, (first, second) = given.clips[:, 0], given.views.unbind(1)
        for optimizer in adam:
            optimizer.zero_grad()
        f_a.train(), f_t.eval(), f_b.eval()
        budget = contrast(project(network(first)), project(network(second)))
        utility = F.cross_entropy(f_t.classifier(anonymize(clips)), given.targets)
        (utility - budget).backward()
        adam[0].step()
        found = [utility.item(), budget.item()]
        for optimizer in adam:
            optimizer.zero_grad()
        f_a.eval(), f_t.train(), f_b.train()
        with torch.no_grad():
            one, two, shown = network(first), network(second), anonymize(clips)
        budget = contrast(project(one), project(two))
        budget.backward()
        adam[2].step()
        learning = F.cross_entropy(f_t.classifier(shown), given.targets)
        learning.backward()
        adam[1].step()
        return [*found, learning.item()]

    return cycle


def rate(
    cycle: Callable[[MinimaxBatch], list[float]], given: MinimaxBatch, seconds: float, device: torch.device
) -> float:
    """Clips per second, both steps' batches counted."""
    for _ in range(3):
        cycle(given)
    _wait(device)
    began, cycles = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        cycle(given)
        _wait(device)
        cycles += 1
    return 2 * len(given.clips) * cycles / (time.perf_counter() - began)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--compile", action="store_true", help="also compiled")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    asked.read = False
    device = devices.choose(asked.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(
        f"{name}: UNet-{asked.width}, R3D-18, ResNet-50, {asked.batch} clips of {asked.frames} × {asked.size}²"
    )
    given, found = batch(asked, device), {}
    precision = "bf16-mixed" if device.type == "cuda" else "32-true"
    rows: dict[str, Callable[[], Callable[[MinimaxBatch], list[float]]]] = {
        "plain": lambda: plain(asked),
        "ours, fp32": lambda: ours(asked, precision="32-true"),
        "ours": lambda: ours(asked, precision=precision),
    }
    if device.type == "cuda":
        rows["ours, repeatable"] = lambda: ours(asked, precision=precision, repeatable=True)
    if asked.compile:
        rows["ours, compiled"] = lambda: ours(asked, precision=precision, compiled=True)
    asked.read = True
    apart = [cycle(given) for cycle in (plain(asked), ours(asked, precision="32-true"))]
    print("  first losses, plain:", " ".join(f"{v:.4f}" for v in apart[0]))
    print("  first losses, ours: ", " ".join(f"{v:.4f}" for v in apart[1]))
    asked.read = False
    for row, make in rows.items():
        found[row] = rate(make(), given, asked.seconds, device)
        print(f"  {row:16} {found[row]:8.1f} clips/s   {found[row] / found['plain']:.2f} × plain", flush=True)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    if asked.json:
        asked.json.write_text(
            json.dumps({"device": name, **vars(asked), "clips_per_s": found}, default=str, indent=1)
        )


if __name__ == "__main__":
    main()
