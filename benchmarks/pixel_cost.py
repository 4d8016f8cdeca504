"""What the networks of the pixel methods cost: operations, weights and memory.

python benchmarks/pixel_cost.py [--json] [--device cuda]

Operations are counted on the meta device, so nothing is computed and no memory is needed: a multiply-add (MAC) is one
operation or two FLOPs, of convolutions and matrix products only. "Kept" is what autograd keeps for the backward pass,
without weights, counted by saved-tensor hooks, float32. With a CUDA device the same steps are also run there, and
"peak" is the most memory they had allocated, weights and gradients included.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig, StageConfig, UNet, UNetPP
from videoveil.encoders import Classifier, create
from videoveil.objectives import clip_utility, local_temporal_contrast, temporal_triplet

CLASSES = 101
FRAMES, SIZE = 16, 224  # of a clip in TeD-SPAD
UTILITY_NETWORK = "i3d.resnet50"
UTILITY_NETWORKS = (
    "i3d.inception",
    "i3d.resnet50",
    "mvit.v2-s",
    "r3d.18",
    "r3d.18-spact",
    "r2plus1d.18",
    "r3d.50",
)
ANONYMIZERS: dict[str, StageConfig] = {"UNet": UNet(), "UNet++": UNetPP()}
PUBLISHED = {"triplet": 49.67, "LLTC": 132.45}  # G per video, TeD-SPAD
PER_NORMALISED = (
    4  # operations per batch-norm output in the counting that gives the published numbers: 2, twice if affine
)


@dataclass(frozen=True, slots=True)
class Cost:
    """One row; `peak_bytes` is None where nothing was run, or it did not fit."""

    name: str
    input: str
    parameters: int
    forward_macs: int
    normalised: int  # outputs of batch norms in the forward pass
    step_macs: int  # forward and backward
    kept_bytes: int
    peak_bytes: int | None


# --- counting -----------------------------------------------------------------------------------------------


def cost(
    name: str, build: Callable[[], nn.Module], shape: tuple[int, ...], device: torch.device | None
) -> Cost:
    """Of one step: `build` gives a module from a batch to a scalar (or to anything that is then added up)."""
    with torch.device("meta"):
        module = build()
    module = module.to("meta")  # buffers that insist on a device
    batch = torch.empty(shape, device="meta")
    with FlopCounterMode(display=False) as forward, _kept(module) as kept, _normalised(module) as normalised:
        out: Tensor = module(batch)
    counting = {torch.ops.aten.convolution_backward: convolution_backward}
    with FlopCounterMode(display=False, custom_mapping=counting) as backward:
        out.sum().backward()
    flops = forward.get_total_flops(), backward.get_total_flops()
    return Cost(
        name,
        "×".join(map(str, shape)),
        sum(parameter.numel() for parameter in module.parameters()),
        flops[0] // 2,
        sum(normalised),
        sum(flops) // 2,
        sum(kept.values()),
        None if device is None else _peak(build, shape, device),
    )


def convolution_backward(
    grad_out: Sequence[int], x: Sequence[int], weight: Sequence[int], *rest: Any, **_: Any
) -> int:
    """FLOPs from shapes. The gradients of input and weight each cost what the forward pass does, groups or not.

    The counter's own formula forgets groups, and counts a depthwise convolution as often as it has channels.
    """
    transposed, wanted = rest[4], rest[7]
    positions = math.prod(x if transposed else grad_out)
    once = 2 * positions * math.prod(weight[1:])
    return once * sum(bool(one) for one in wanted[:2])


@contextlib.contextmanager
def _kept(module: nn.Module) -> Iterator[dict[int, int]]:
    """Bytes of every storage that autograd keeps in the block, except those of weights; each counts once."""
    weights = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    found: dict[int, int] = {}
    alive = []  # an address must not be given to another storage while it stands for this one

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            found[storage._cdata] = storage.nbytes()
            alive.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield found


@contextlib.contextmanager
def _normalised(module: nn.Module) -> Iterator[list[int]]:
    found: list[int] = []

    def count(_: nn.Module, __: object, output: Tensor) -> None:
        found.append(output.numel())

    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    handles = [one.register_forward_hook(count) for one in module.modules() if isinstance(one, norms)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _peak(build: Callable[[], nn.Module], shape: tuple[int, ...], device: torch.device) -> int | None:
    """Bytes at the highest moment of a real step; None where the device is too small for it."""
    module, batch = build(), torch.rand(shape)
    try:
        module, batch = module.to(device), batch.to(device)
        torch.cuda.reset_peak_memory_stats(device)
        module(batch).sum().backward()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device)
    except torch.cuda.OutOfMemoryError as error:
        print(f"{shape}: {error}", file=sys.stderr)
        return None
    finally:
        del module, batch
        torch.cuda.empty_cache()


# --- what is counted ----------------------------------------------------------------------------------------


class Anonymizing(nn.Module):
    """An anonymizer in training, alone."""

    def __init__(self, stage: StageConfig):
        super().__init__()
        self.anonymizer = PixelAnonymizer(PixelConfig((stage,))).train()

    def forward(self, frames: Tensor) -> Tensor:
        return self.anonymizer.transform(frames)


class UtilityStep(nn.Module):
    """TeD-SPAD's utility of one video in step 1: f_A learns, f_T and its head are frozen and let the gradient through.

    Clips (3 or 8, 3, T, H, W): anchor, positive, negative; or four moments under two augmentations.
    """

    def __init__(self, stage: StageConfig | None, temporal: str):
        super().__init__()
        self.anonymizer = None if stage is None else PixelAnonymizer(PixelConfig((stage,))).train()
        encoder = create(UTILITY_NETWORK, weights="random", frames=FRAMES, size=SIZE)
        self.head = nn.Sequential(
            nn.Linear(encoder.width, 512), nn.BatchNorm1d(512), nn.ReLU(),
            nn.Linear(512, 128, bias=False), nn.BatchNorm1d(128),
        ).eval()  # fmt: skip
        self.network = Classifier(encoder, CLASSES).eval()
        if self.anonymizer is not None:
            self.network.requires_grad_(False)
            self.head.requires_grad_(False)
        self.temporal = temporal

    def forward(self, clips: Tensor) -> Tensor:
        seen = clips if self.anonymizer is None else self.anonymizer.transform(clips)
        logits, features = self.network.with_features(seen)
        z = F.normalize(self.head(features), dim=1)
        if self.temporal == "triplet":
            anchor, positive, negative = z.chunk(3)
            other = temporal_triplet(anchor, positive, negative)
        else:
            first, second = z.chunk(2)
            other = local_temporal_contrast(first[None], second[None])
        label = torch.zeros(1, dtype=torch.long, device=clips.device)
        return clip_utility(F.cross_entropy(logits[:1], label), other)


def utility_network(name: str) -> Callable[[], nn.Module]:
    return lambda: Classifier(create(name, weights="random"), CLASSES).train()


def utility_steps(device: torch.device | None, stage: StageConfig | None) -> list[Cost]:
    return [
        cost(temporal, partial(UtilityStep, stage, temporal), (clips, 3, FRAMES, SIZE, SIZE), device)
        for temporal, clips in (("triplet", 3), ("LLTC", 8))
    ]


def anonymizers(device: torch.device | None) -> list[Cost]:
    return [
        cost(name, partial(Anonymizing, stage), (FRAMES, 3, size, size), device)
        for size in (112, SIZE)
        for name, stage in ANONYMIZERS.items()
    ]


def utility_networks(device: torch.device | None) -> list[Cost]:
    found = []
    for name in UTILITY_NETWORKS:
        spec = create(name, weights="random").input
        shape = (1, 3, FRAMES, spec.size, spec.size)
        found.append(cost(name, utility_network(name), shape, device))
    return found


# --- the table ----------------------------------------------------------------------------------------------


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def row(one: Cost) -> list[str]:
    cells = [one.name, one.input, f"{one.parameters / 1e6:.2f}", f"{one.forward_macs / 1e9:.2f}"]
    cells += [
        f"{2 * one.forward_macs / 1e9:.2f}",
        f"{2 * one.step_macs / 1e9:.2f}",
        f"{one.kept_bytes / 2**30:.2f}",
    ]
    return [*cells, "–" if one.peak_bytes is None else f"{one.peak_bytes / 2**30:.2f}"]


HEADER = (
    "", "input", "weights M", "forward GMAC", "forward GFLOP", "step GFLOP", "kept GiB", "peak GiB"
)  # fmt: skip


def published(alone: Sequence[Cost]) -> str:
    """f_T's forward pass for one video in three countings, beside what the paper prints."""
    rows = []
    for one in alone:
        counted = one.forward_macs + PER_NORMALISED * one.normalised
        cells = (2 * one.forward_macs, one.forward_macs, counted)
        rows.append([one.name, *(f"{cell / 1e9:.2f}" for cell in cells), f"{PUBLISHED[one.name]:.2f}"])
    ratio = alone[1].forward_macs / alone[0].forward_macs
    table = markdown(
        ("G per video", "FLOPs", "MACs", f"MACs + {PER_NORMALISED} per batch-norm output", "published"), rows
    )
    return (
        f"{table}\n\nThe ratio is {ratio:.3f} in every counting (published {132.45 / 49.67:.3f}): eight clips against "
        "three. The published numbers themselves are MACs of one forward pass of I3D-ResNet-50 without the anonymizer, "
        "with batch norms counted; in FLOPs they would be twice as much."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print records instead of tables")
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "", help="'' counts only"
    )
    options = parser.parse_args()
    device = torch.device(options.device) if options.device else None
    if device is not None and device.type != "cuda":
        parser.error(f"--device {options.device}: peak memory is measured on CUDA devices only")
    alone = utility_steps(None, None)
    tables = {
        "Utility of one video: f_A (UNet++, learning) and f_T (I3D-ResNet-50, frozen), step 1": utility_steps(
            device, UNetPP()
        ),
        "Anonymizers: one clip of 16 frames, training": anonymizers(device),
        "Utility networks f_T: one clip, training": utility_networks(device),
    }
    if options.json:
        records = {title: [asdict(one) for one in costs] for title, costs in tables.items()}
        records["f_T alone, forward"] = [asdict(one) for one in alone]
        print(json.dumps(records, indent=1, ensure_ascii=False))
        return 0
    print(
        f"torch {torch.__version__}, {'counted only' if device is None else torch.cuda.get_device_name(device)}"
    )
    print(f"\n## Triplet against LLTC: f_T's forward pass\n\n{published(alone)}")
    for title, costs in tables.items():
        print(f"\n## {title}\n\n{markdown(HEADER, [row(one) for one in costs])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
