"""Pixel anonymizers at full speed: batch norm folded into convolutions, half precision, channels last, compiled.

    fast = engine(anonymizer, 224, "cuda")
    frames = fast(frames)                          # as anonymizer(frames)
    fast.accuracy(frames)                          # how far from it

An engine is made for one size of frames and always runs whole batches of one size, filled up where frames are missing:
that is what compilers want, and it keeps a frame's output from depending on how many others came with it. All checks
are the anonymizer's own.

With `hands`, several threads may call it at the same time and each computes on its share of the cores. A network split
over cores makes them wait for each other at every layer, for as long as anything else runs on one of them; frames that
are each computed by one core do not.

How far off it is depends on the network; `accuracy` measures it. On UNets with random weights, whose output reaches
from black to white, "fp32" is off in the last bits, "fp16" by a third of a grey level on average (6 at most) and "bf16"
by two or three (50 at most); where levels are cut out of a network's output, a value near a step can land on its other
side.
"""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from videoveil.anonymizers.errors import ShapeMismatch
from videoveil.anonymizers.latent import require_exportable
from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer
from videoveil.anonymizers.pixel.stage import Context, PixelStage, check_size
from videoveil.devices import choose, fast_layout
from videoveil.errors import UsageError

Precision = Literal["auto", "fp16", "bf16", "fp32"]
Backend = Literal["torch", "openvino"]
PIXELS = {"cuda": 2**22, "cpu": 2**18}  # of a batch: enough to fill a GPU; little enough for a CPU's caches
HALF_A_BYTE = 0.5 / 255
NUMBERS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}

Run = Callable[[Tensor], Tensor]  # (batch, 3, H, W) float32 → the same


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far an engine is from its anonymizer, of which 1 is white."""

    maximum: float
    mean: float
    changed: float  # share of values that differ by more than half a byte: visible in a stored frame


class Engine:
    """Frames or clips, as the anonymizer takes them → the same shape and type, on the device they came on."""

    def __init__(
        self,
        anonymizer: PixelAnonymizer,
        size: tuple[int, int],
        device: torch.device,
        precision: Precision,
        compiled: bool,
        backend: Backend,
        batch: int,
        hands: int = 1,
    ):
        require_exportable(anonymizer)
        self.anonymizer = copy.deepcopy(anonymizer).requires_grad_(False).eval().to(device)
        self.size, self.device, self.batch, self.hands = size, device, batch, hands
        self.precision, self.compiled, self.backend = precision, compiled, backend
        self.stages: list[Any] = [
            _Fast(_runner(stage, self), batch) if stage.network else stage
            for stage in self.anonymizer.parts()
        ]

    def __call__(self, frames: Tensor, *, content: Sequence[str | bytes] | None = None) -> Tensor:
        if tuple(frames.shape[-2:]) != self.size:
            raise ShapeMismatch(
                f"this engine was made for frames of {self.size[0]}×{self.size[1]}, not {tuple(frames.shape[-2:])}; "
                "make another with engine(anonymizer, size)"
            )
        with torch.autocast(self.device.type, enabled=False):
            done = self.anonymizer.export(frames.to(self.device), self.stages, self.batch, content)
        return done.to(frames.device)

    def accuracy(self, frames: Tensor, *, content: Sequence[str | bytes] | None = None) -> Accuracy:
        """Its output against the anonymizer's own, on the same device: frames as floats in [0, 1]."""
        wanted = self.anonymizer(frames.to(self.device), content=content)
        apart = (self(frames, content=content).to(self.device) - wanted).abs()
        changed = (apart > HALF_A_BYTE).float().mean()
        return Accuracy(float(apart.max()), float(apart.mean()), float(changed))


def engine(
    anonymizer: PixelAnonymizer,
    size: int | tuple[int, int],
    device: str | torch.device = "auto",
    *,
    precision: Precision = "auto",
    compile: bool = True,
    backend: Backend = "torch",
    batch: int | None = None,
    hands: int = 1,
) -> Engine:
    """An engine for frames of `size` (height, width; one number: square).

    Later changes of the anonymizer do not reach it. `precision="auto"` is fp16 on a GPU (as fast as bf16 and eight
    times as exact), bf16 on a CPU that has instructions for it, and fp32 on any other. `compile` takes half a minute at
    the first call and pays off with thousands of frames; without it start-up is free. "openvino" is for CPUs and needs
    the extra of that name. `hands`: threads that will call it together, on a CPU; one that calls alone is better served
    with 1, where all cores compute its batch.
    """
    high, wide = (size, size) if isinstance(size, int) else size
    place = choose(str(device))
    for name, value, known in (("precision", precision, Precision), ("backend", backend, Backend)):
        if value not in get_args(known):
            raise UsageError(f"engine: {name}={value!r} must be one of {', '.join(get_args(known))}")
    if backend == "openvino" and place.type != "cpu":
        raise UsageError(f"engine: backend='openvino' is for CPUs, not for {place}")
    if precision == "auto":
        precision = _suited(place)
    if backend == "openvino" and precision == "fp16":
        raise UsageError("engine: backend='openvino' computes in bf16 or fp32, not in fp16")
    if batch is None:
        batch = 2 ** (max(1, PIXELS.get(place.type, 2**18) // (high * wide)).bit_length() - 1)
    if batch < 1:
        raise UsageError(f"engine: batch={batch} must be at least 1")
    if hands < 1 or (hands > 1 and (place.type != "cpu" or (compile and backend == "torch"))):
        raise UsageError(
            f"engine: hands={hands} must be at least 1, and is 1 where the network is compiled or on {place.type}"
        )
    if anonymizer.networks:
        check_size(torch.empty(0, 3, high, wide), "engine")
    return Engine(anonymizer, (high, wide), place, precision, compile, backend, batch, hands)


def _suited(device: torch.device) -> Precision:
    """What is fast there."""
    if device.type == "cuda":
        return "fp16"
    if device.type == "cpu" and (torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()):
        return "bf16"
    return "fp32"


def folded(network: nn.Module) -> nn.Module:
    """A copy in eval mode whose batch norms are part of the convolutions before them: the same, up to rounding.

    A norm right behind a convolution, in the order in which a module names its parts, is that convolution's.
    """
    network = copy.deepcopy(network).eval()
    for module in list(network.modules()):
        before: tuple[str, nn.Conv2d] | None = None
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d) and before is not None:
                fused = fuse_conv_bn_eval(before[1].double(), child.double()).float()  # rounded once
                setattr(module, before[0], fused)
                setattr(module, name, nn.Identity())
            before = (name, child) if isinstance(child, nn.Conv2d) else None
    return network


class _Fast:
    """Stands for a network: fills a batch up, runs it and cuts the filling off."""

    def __init__(self, run: Run, batch: int):
        self.run, self.batch = run, batch

    def __call__(self, x: Tensor, context: Context | None = None) -> Tensor:
        missing = self.batch - len(x)
        if not missing:
            return self.run(x)
        whole = torch.cat((x, x.new_zeros(missing, *x.shape[1:])))
        return self.run(whole)[: len(x)]


def _runner(network: PixelStage, made: Engine) -> Run:
    plain = folded(network).requires_grad_(False)
    if made.backend == "openvino":
        return _openvino(plain, made)
    number = NUMBERS[made.precision]
    fast: Any = plain.to(device=made.device, dtype=number)
    fast_layout(fast)
    if made.compiled:
        fast = torch.compile(fast, dynamic=False, fullgraph=True)

    def run(x: Tensor) -> Tensor:
        out: Tensor = fast(x.to(number, memory_format=torch.channels_last))
        return out.float()

    return run


def _openvino(network: nn.Module, made: Engine) -> Run:
    try:
        import openvino
    except ImportError as error:
        raise UsageError(
            "engine: backend='openvino' needs the extra: pip install 'videoveil[openvino]'"
        ) from error
    # Looked at on a small picture, which takes a tenth of the time: all that a network decides by the size of a picture
    # is where halving loses a line, and that is the same for a picture that is smaller by a multiple of 64.
    example = torch.zeros(made.batch, 3, *(side if side < 128 else 64 + side % 64 for side in made.size))
    shape = (made.batch, 3, *made.size)
    graph = openvino.convert_model(network.float(), example_input=example, input=[shape])
    threads = max(torch.get_num_threads(), made.hands)
    hints = {
        "INFERENCE_PRECISION_HINT": "bf16" if made.precision == "bf16" else "f32",
        "INFERENCE_NUM_THREADS": threads,
        # one request on all cores, or as many requests at a time as there are hands, each on its share of the cores
        **({"PERFORMANCE_HINT": "LATENCY"} if made.hands == 1 else {"NUM_STREAMS": made.hands}),
    }
    compiled = openvino.Core().compile_model(graph, "CPU", hints)
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for _ in range(made.hands):
        free.put(compiled.create_infer_request())

    def run(x: Tensor) -> Tensor:
        request = free.get()
        try:
            request.infer({0: x.contiguous().numpy()}, share_inputs=True)
            return torch.from_numpy(request.get_output_tensor(0).data.copy())
        finally:
            free.put(request)

    return run
