"""What `veil extract` costs beside the encoder itself, whether its memory grows with the video, its speed on a GPU.

    python benchmarks/extract.py [--encoder r3d.18] [--videos 12] [--hour]
    python benchmarks/extract.py --device cuda [--batch 64] [--seconds 4] [--variants] [--profile] [--json FILE]

Without a device, from files, on the CPU: clips/s of the whole pipeline ÷ clips/s of the bare encoder on tensors already
in memory, both in this run, the bare encoder measured before and after. With --hour also the peak memory of a one-hour
file ÷ that of a one-minute file.

With a device, VideoMAE-B (16 frames of 224², random weights), nothing decoded: clips/s of the loop people write around
the transformers library, in float32 as it comes and in its faster variants, and of ours (`features.batches`), all in
this run. "network": clips are on the device already, floats for theirs, bytes for ours. "end to end": from frames as a
decoder leaves them, bytes in the host's memory, to features in the host's memory. Share of the peak: the products the
network asks for (361 GFLOP per clip) against 790 TFLOP/s of an H200 in bfloat16. How far features of ours in bf16 are
from theirs in float32 is told as a share of how far clips are from each other, beside what autocast costs theirs: more
than half as much again is a failure. Rows in brackets (--variants) change one thing of ours to see what it is worth.
--profile tells which kernels the time goes into. --small runs the same with a toy network, to see whether it works.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from videoveil import devices
from videoveil.data.records import Dataset, Item
from videoveil.encoders import Encoder, create, fused_videomae
from videoveil.features import precision
from videoveil.features.batches import Flow, Forward
from videoveil.features.extract import extract, recipe_for

GOAL, MEMORY_GOAL = 0.85, 1.2
BATCH = 8
FASTER, RATE = 1.25, 1250  # goals on an H200: times their fastest loop in bf16, clips/s
AWAY = 1.5  # times what autocast costs: no farther from float32
PARTS = ("network", "end to end")
PEAK_FLOPS = 790e12
SMALL = {"frames": 4, "size": 32, "width": 48, "depth": 2, "heads": 2, "mlp": 96, "patch": 16}


def bare(encoder: Encoder, clips: int) -> float:
    """Clips per second of the encoder alone."""
    spec = encoder.input
    x = torch.rand(BATCH, 3, spec.frames, spec.size, spec.size)
    with torch.inference_mode():
        encoder(x)
        began = time.perf_counter()
        for _ in range(max(1, clips // BATCH)):
            encoder(x)
    return max(1, clips // BATCH) * BATCH / (time.perf_counter() - began)


def pipeline(encoder: Encoder, folder: Path, clips: int) -> tuple[float, str]:
    """Clips per second of an extraction from files, and its bottleneck. The check of the encoder is part of it."""
    items = tuple(Item(p.stem, p, "train") for p in sorted(folder.glob("*.mp4")))
    with tempfile.TemporaryDirectory() as store:
        report = extract(
            Dataset("bench", folder, items), store, encoder, recipe_for(encoder), batch=BATCH, device="cpu"
        )
    assert report.clips == clips
    return report.clips_per_second, report.bottleneck


def lengthen(source: Path, destination: Path, times: int) -> None:
    """The same packets again and again: a long video without encoding it."""
    import av

    with av.open(str(source)) as reader, av.open(str(destination), "w") as writer:
        stream = reader.streams.video[0]
        out = writer.add_stream_from_template(stream)
        packets = [(bytes(p), p.pts, p.dts, p.is_keyframe) for p in reader.demux(stream) if p.pts is not None]
        step = max(p[1] for p in packets) + int(1 / (stream.average_rate * stream.time_base))
        for turn in range(times):
            for data, pts, dts, key in packets:
                packet = av.Packet(data)
                packet.stream, packet.time_base = out, stream.time_base
                packet.pts, packet.dts, packet.is_keyframe = pts + turn * step, dts + turn * step, key
                writer.mux(packet)


PEAK = """
import sys
from pathlib import Path
from videoveil.data.records import Dataset, Item
from videoveil.encoders import create
from videoveil.features.extract import extract, recipe_for
path = Path(sys.argv[1]); encoder = create("tiny")
dataset = Dataset("long", path.parent, (Item("v", path, "train"),))
report = extract(dataset, sys.argv[2], encoder, recipe_for(encoder, static=10), device="cpu")
print(report.clips, int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]))
"""


def peak(path: Path, store: Path) -> tuple[int, int]:
    """Clips and peak memory (KiB) of extracting one file in a process of its own.

    From /proc, since getrusage's peak is inherited from the process that started it.
    """
    done = subprocess.run(
        [sys.executable, "-c", PEAK, path, store], capture_output=True, text=True, check=True
    )
    clips, memory = done.stdout.split()
    return int(clips), int(memory)


def film(path: Path, name: str, k: int, **shape: int) -> None:
    """One walk of one actor as a file."""
    from videoveil.data.theatre.cast import identity
    from videoveil.data.theatre.playwright import trimmed
    from videoveil.data.twins.film import MP4, shoot

    shoot(trimmed(name, k, action="walk", person=identity(0, k), **shape), path, MP4)


def from_files(options: argparse.Namespace) -> int:
    """0 if the pipeline costs little and, where asked, its memory does not grow."""
    encoder = create(options.encoder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k in range(options.videos):
            film(folder / f"{k}.mp4", "bench", k, width=320, height=240, frames=options.frames)
        clips = options.videos * (options.frames // encoder.input.frames)
        before = bare(encoder, clips)
        through, bottleneck = pipeline(encoder, folder, clips)
        after = bare(encoder, clips)
        ratio = through / ((before + after) / 2)
        print(
            f"{options.encoder}, {clips} clips of 320×240 video, batch {BATCH}, {torch.get_num_threads()} threads"
        )
        print(
            f"bare encoder {before:.2f} and {after:.2f} clips/s, extract {through:.2f} clips/s ({bottleneck}-bound)"
        )
        print(f"extract ÷ bare encoder: {ratio:.3f} (goal ≥ {GOAL})")
        met = ratio >= GOAL
        if options.hour:
            met = memory_of_an_hour(folder) and met
    return 0 if met else 1


def memory_of_an_hour(folder: Path) -> bool:
    minute, hour = folder / "minute" / "v.mp4", folder / "hour" / "v.mp4"
    film(minute, "long", 0, width=160, height=120, frames=1500)
    hour.parent.mkdir()
    lengthen(minute, hour, 60)
    short, long = peak(minute, folder / "s1"), peak(hour, folder / "s2")
    for name, (clips, memory) in {"1 minute": short, "1 hour": long}.items():
        print(f"peak memory of {name}: {memory / 1024:.0f} MiB ({clips} clips)")
    print(f"1 hour ÷ 1 minute: {long[1] / short[1]:.3f} (goal ≤ {MEMORY_GOAL})")
    return long[1] <= MEMORY_GOAL * short[1]


# --- on a device --------------------------------------------------------------------------------------------


def flops(encoder: Encoder) -> float:
    """Of the products that a VideoMAE asks for, for one clip; an addition and a multiplication are two."""
    own, spec = encoder.options, encoder.input
    width, mlp = own["width"], own["mlp"]
    tokens = (spec.frames // 2) * (spec.size // own["patch"]) ** 2
    layer = 2 * tokens * (4 * width**2 + 2 * width * mlp) + 4 * tokens**2 * width
    return float(own["depth"] * layer + 2 * tokens * width * 3 * 2 * own["patch"] ** 2)


class Theirs:
    """The library's network and the loop people write around it: normalise on the device, average the tokens."""

    def __init__(self, encoder: Encoder, device: torch.device):
        from videoveil import _torchvision  # noqa: F401
        from transformers import VideoMAEConfig, VideoMAEForVideoClassification  # isort: skip

        own, spec = encoder.options, encoder.input
        config = VideoMAEConfig(
            image_size=spec.size,
            num_frames=spec.frames,
            patch_size=own["patch"],
            hidden_size=own["width"],
            num_hidden_layers=own["depth"],
            num_attention_heads=own["heads"],
            intermediate_size=own["mlp"],
            layer_norm_eps=own["eps"],
        )
        self.model = VideoMAEForVideoClassification(config)
        weights = {k: v for k, v in encoder.network.state_dict().items() if not encoder.is_head(k)}
        missing, unexpected = self.model.load_state_dict(weights, strict=False)
        assert not unexpected, unexpected
        assert all("key.bias" in name or name.startswith("classifier") for name in missing), missing
        self.model.eval().to(device)
        self.mean, self.std = (t.to(device).transpose(1, 2) for t in (encoder.mean, encoder.std))
        self.device = device

    def pixels(self, clips: Tensor) -> Tensor:
        """(B, 3, T, s, s) uint8 → (B, T, 3, s, s) as the library wants it."""
        return (clips.to(self.device).transpose(1, 2).float() / 255 - self.mean) / self.std

    @torch.no_grad()
    def features(self, pixels: Tensor) -> Tensor:
        hidden = self.model.videomae(pixels).last_hidden_state
        return self.model.fc_norm(hidden.mean(1))


def rate(work: Callable[[], object], clips: int, seconds: float, device: torch.device) -> float:
    """Clips per second of `work`, which does `clips` of them; three turns to warm up."""
    for _ in range(3):
        work()
    wait(device)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(4):  # without waiting after each
            work()
            done += clips
        wait(device)
    return done / (time.perf_counter() - began)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Board:
    """Rows as they are measured."""

    def __init__(self, encoder: Encoder, options: argparse.Namespace, device: torch.device):
        self.flops, self.options, self.device = flops(encoder), options, device
        self.rows: dict[str, float] = {}
        self.facts: dict[str, object] = {}

    def measure(self, name: str, work: Callable[[], object], clips: int) -> float:
        try:
            found = rate(work, clips, self.options.seconds, self.device)
        except (
            RuntimeError,
            AssertionError,
        ) as error:  # a kernel that this GPU does not have, or not for this
            print(f"{name:58} not possible here: {(str(error) or repr(error)).splitlines()[0]}", flush=True)
            return 0.0
        self.rows[name] = found
        self.keep()
        share = found * self.flops / PEAK_FLOPS
        print(f"{name:58} {found:9.1f} clips/s {share:7.1%} of the peak", flush=True)
        return found

    def best(self, start: str, but: str = "nothing") -> float:
        """The fastest row whose name begins like that; 0 where there is none."""
        return max((v for k, v in self.rows.items() if k.startswith(start) and but not in k), default=0.0)

    def keep(self) -> None:
        """What is known so far, so that nothing is lost with a run that ends early."""
        if self.options.json:
            value = {**self.facts, "clips_per_second": self.rows}
            self.options.json.write_text(json.dumps(value, indent=1) + "\n", "utf-8")


def network_only(board: Board, encoder: Encoder, theirs: Theirs, clips: Tensor) -> None:
    """Theirs and ours with clips on the device."""
    device, count = board.device, len(clips)
    pixels, resident = theirs.pixels(clips), clips.to(device)
    board.measure("network: transformers, float32 as it comes", lambda: theirs.features(pixels), count)

    def autocast() -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return theirs.features(pixels)

    board.measure("network: transformers, bf16 autocast", autocast, count)
    theirs.model.to(torch.bfloat16)
    low = pixels.bfloat16()
    board.measure("network: transformers, model and clips in bf16", lambda: theirs.features(low), count)
    theirs.model.float()  # rounded weights from here on: only its speed is looked at
    single = Forward(encoder, device)
    board.measure("network: ours, fp32", lambda: single(resident), count)
    for compiled in (False, True):
        name = "network: ours, bf16" + (", compiled" if compiled else "")
        forward = Forward(encoder, device, precision="bf16", compiled=compiled)
        board.measure(name, lambda run=forward: run(resident), count)
        if board.options.profile:
            print(kernels(lambda run=forward: run(resident), device), flush=True)
        if board.options.variants:
            variants(board, encoder, resident, compiled)


def kernels(work: Callable[[], object], device: torch.device, count: int = 8) -> str:
    """What takes most of the time: share and name of the first few kernels, on a CPU of operators."""
    from torch.profiler import ProfilerActivity, profile

    kind = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    with profile(activities=[kind]) as seen:
        for _ in range(3):
            work()
        wait(device)
    own = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    times = {one.key: float(getattr(one, own)) for one in seen.key_averages()}
    whole = sum(times.values()) or 1.0
    first = sorted(times, key=times.__getitem__, reverse=True)[:count]
    return "\n".join(f"    {times[name] / whole:6.1%} {name[:100]}" for name in first)


def variants(board: Board, encoder: Encoder, resident: Tensor, compiled: bool) -> None:
    """What the choice of the attention kernel is worth, and the GELU inside its product."""
    suffix = ", compiled" if compiled else ""
    order, hidden = precision.attention_order, fused_videomae.FusedLayer.hidden

    def apart(self: fused_videomae.FusedLayer, x: Tensor) -> Tensor:
        normed = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=self.eps)
        return torch.nn.functional.gelu(torch.nn.functional.linear(normed, self.wide, self.wide_bias))

    from torch._functorch import config as functorch

    cached = functorch.enable_autograd_cache
    try:
        functorch.enable_autograd_cache = False  # its key does not name the attention kernel
        for kernel in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            precision.attention_order = lambda device, kernel=kernel: [kernel]
            torch._dynamo.reset()
            forward = Forward(encoder, board.device, precision="bf16", compiled=compiled)
            name = f"  [network: ours, bf16{suffix}, {kernel.name.lower()} only]"
            board.measure(name, lambda run=forward: run(resident), len(resident))
        precision.attention_order = order
        fused_videomae.FusedLayer.hidden = apart  # type: ignore[method-assign]
        torch._dynamo.reset()
        forward = Forward(encoder, board.device, precision="bf16", compiled=compiled)
        name = f"  [network: ours, bf16{suffix}, exact GELU, in a pass of its own]"
        board.measure(name, lambda run=forward: run(resident), len(resident))
    finally:
        functorch.enable_autograd_cache = cached
        precision.attention_order, fused_videomae.FusedLayer.hidden = order, hidden  # type: ignore[method-assign]
        torch._dynamo.reset()


def end_to_end(board: Board, encoder: Encoder, theirs: Theirs, clips: Tensor) -> None:
    """Theirs and ours from bytes on the host to features on the host; every batch has other clips."""
    size, spec = board.options.batch, encoder.input
    frames = [*clips]
    groups = [frames[i : i + size] for i in range(0, len(frames), size)]

    def loop() -> None:
        for group in groups:
            theirs.features(theirs.pixels(torch.stack(group))).cpu()

    def half() -> None:
        with torch.autocast(board.device.type, torch.bfloat16):
            loop()

    board.measure("end to end: transformers, float32 as it comes", loop, len(clips))
    board.measure("end to end: transformers, bf16 autocast", half, len(clips))
    for compiled in (False, True):
        forward = Forward(encoder, board.device, precision="bf16", compiled=compiled)
        flow = Flow(forward, size, (3, spec.frames, spec.size, spec.size))
        name = "end to end: ours, bf16" + (", compiled" if compiled else "")
        board.measure(name, flowing(flow, groups), len(clips))


def flowing(flow: Flow, groups: Sequence[list[Tensor]]) -> Callable[[], None]:
    """Batches without a pause from one call to the next, as in an extraction; who measures waits for the last ones."""
    flying = 0

    def turn() -> None:
        nonlocal flying
        for group in groups:
            if flying == flow.depth:
                flow.collect()
            else:
                flying += 1
            flow.submit(group, [""] * len(group), full=True)

    return turn


def agreement(
    encoder: Encoder, theirs: Theirs, clips: Tensor, device: torch.device
) -> tuple[float, float, float]:
    """How far features in bf16 are from theirs in float32; 1: as far as clips are from their mean.

    Ours, ours compiled, and theirs by autocast. What is timed is what is looked at here.
    """
    wanted = theirs.features(theirs.pixels(clips))
    spread = (wanted - wanted.mean(0)).norm()
    found = [
        Forward(encoder, device, precision="bf16", compiled=compiled)(clips)[0] for compiled in (False, True)
    ]
    with torch.autocast(device.type, torch.bfloat16):
        found.append(theirs.features(theirs.pixels(clips)).float())
    mine, compiled, usual = (float((one - wanted).norm() / spread) for one in found)
    return mine, compiled, usual


def on_device(options: argparse.Namespace) -> int:
    """0 if ours is as fast as it should be."""
    device = devices.choose(options.device)
    encoder = create("videomae.b", weights="random", **(SMALL if options.small else {})).to(device)
    spec, where = encoder.input, torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    shape = (4 * options.batch, 3, spec.frames, spec.size, spec.size)
    clips = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    print(
        f"{encoder.name}, {spec.frames} frames of {spec.size}², {flops(encoder) / 1e9:.1f} GFLOP per clip, "
        f"batch {options.batch}, {where}, torch {torch.__version__}"
    )
    theirs, board = Theirs(encoder, device), Board(encoder, options, device)
    mine, compiled, usual = agreement(encoder, theirs, clips[: options.batch], device)
    print(
        f"features in bf16, away from float32: ours {mine:.4f}, compiled {compiled:.4f}, autocast {usual:.4f} of the "
        "spread of clips"
    )
    cudnn = torch.backends.cudnn.version() if device.type == "cuda" else None
    board.facts = {"device": where, "torch": torch.__version__, "cudnn": cudnn, "batch": options.batch}
    board.facts |= {"away": mine, "away_compiled": compiled, "away_autocast": usual}
    end_to_end(board, encoder, theirs, clips)
    network_only(board, encoder, theirs, clips[: options.batch])
    fast = True
    for part in PARTS:
        ours, peer = board.best(f"{part}: ours"), board.best(f"{part}: transformers, ", but="float32")
        plain = board.best(f"{part}: transformers, float32")
        print(
            f"{part}: {ours:.0f} clips/s (goal ≥ {RATE} on an H200), ÷ theirs in bf16 {_over(ours, peer)} (goal ≥ "
            f"{FASTER}), ÷ theirs in float32 {_over(ours, plain)}"
        )
        fast = fast and ours >= RATE and ours >= FASTER * peer > 0
    board.keep()
    return 0 if fast and max(mine, compiled) <= AWAY * usual else 1


def _over(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f}" if theirs else "unknown"


def main() -> int:
    """0 if every goal is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default="r3d.18")
    parser.add_argument("--videos", type=int, default=12)
    parser.add_argument("--frames", type=int, default=128)
    parser.add_argument("--hour", action="store_true")
    parser.add_argument("--device", default="")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    return on_device(options) if options.device else from_files(options)


if __name__ == "__main__":
    sys.exit(main())
