"""What `veil extract` costs beside the encoder itself, and whether its memory grows with the video.

    python benchmarks/extract.py [--encoder r3d.18] [--videos 12] [--hour]

Prints clips/s of the whole pipeline ÷ clips/s of the bare encoder on tensors already in memory, both in this run, the
bare encoder measured before and after. With --hour also the peak memory of a one-hour file ÷ that of a one-minute file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from videoveil.data.records import Dataset, Item
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import MP4, shoot
from videoveil.encoders import Encoder, create
from videoveil.features.extract import extract, recipe_for

GOAL, MEMORY_GOAL = 0.85, 1.2
BATCH = 8


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
        report = extract(Dataset("bench", folder, items), store, encoder, recipe_for(encoder), batch=BATCH)
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
report = extract(dataset, sys.argv[2], encoder, recipe_for(encoder, static=10))
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


def main() -> int:
    """0 if every goal is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default="r3d.18")
    parser.add_argument("--videos", type=int, default=12)
    parser.add_argument("--frames", type=int, default=128)
    parser.add_argument("--hour", action="store_true")
    options = parser.parse_args()
    encoder = create(options.encoder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k in range(options.videos):
            play = trimmed(
                "bench", k, action="walk", person=identity(0, k), width=320, height=240, frames=options.frames
            )
            shoot(play, folder / f"{k}.mp4", MP4)
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
            minute = folder / "minute" / "v.mp4"
            shoot(
                trimmed("long", action="walk", person=identity(0, 0), width=160, height=120, frames=1500),
                minute,
                MP4,
            )
            hour = folder / "hour" / "v.mp4"
            hour.parent.mkdir()
            lengthen(minute, hour, 60)
            short, long = peak(minute, folder / "s1"), peak(hour, folder / "s2")
            for name, (clips, memory) in {"1 minute": short, "1 hour": long}.items():
                print(f"peak memory of {name}: {memory / 1024:.0f} MiB ({clips} clips)")
            print(f"1 hour ÷ 1 minute: {long[1] / short[1]:.3f} (goal ≤ {MEMORY_GOAL})")
            met = met and long[1] <= MEMORY_GOAL * short[1]
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
