"""How fast clips are augmented: all at once ÷ one by one, clips per second in one run.

    python benchmarks/augment.py [--preset weak] [--seconds 2] [--threads 1] [--json FILE]

Decoded frames of 120×160 lie where the result is wanted, as they do in training; the two ways take turns, so that what
else the machine does meets both. "one by one" is `transforms.apply`, "at once" `batched.apply_batch`. On a CPU one by
one is what training uses: there the work is in the pixels, and its resize is made of whole numbers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from videoveil.media.batched import apply_batch
from videoveil.media.transforms import apply, preset

HEIGHT, WIDTH = 120, 160
SHAPES = ((16, 112), (8, 64))  # frames, side
BATCHES = (24, 72)
TURNS = 4


def devices() -> list[torch.device]:
    names = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return [torch.device(name) for name in names]


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def rates(
    ways: dict[str, Callable[[], Any]], count: int, seconds: float, device: torch.device
) -> dict[str, float]:
    """Clips per second of every way, the best of its turns."""
    best = dict.fromkeys(ways, 0.0)
    for work in ways.values():
        work()
    for _ in range(TURNS):
        for name, work in ways.items():
            wait(device)
            began, done = time.perf_counter(), 0
            while not done or time.perf_counter() - began < seconds / TURNS:
                work()
                wait(device)
                done += count
            best[name] = max(best[name], done / (time.perf_counter() - began))
    return best


def rows(name: str, seconds: float) -> Iterator[dict[str, Any]]:
    for device in devices():
        for frames, side in SHAPES:
            for count in BATCHES:
                generator = torch.Generator().manual_seed(0)
                shape = (count, frames, HEIGHT, WIDTH, 3)
                clips = list(torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator).to(device))
                draws = preset(name, side).draw(count, HEIGHT, WIDTH, generator)
                ways: dict[str, Callable[[], Any]] = {
                    "one_by_one": partial(apply, clips, draws),
                    "at_once": partial(apply_batch, clips, draws),
                }
                found = rates(ways, count, seconds, device)
                ratio = found["at_once"] / found["one_by_one"]
                yield {
                    "device": str(device),
                    "frames": frames,
                    "side": side,
                    "batch": count,
                    **found,
                    "ratio": ratio,
                }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="weak")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each way in each row")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{asked.preset}, {HEIGHT}×{WIDTH} frames, {asked.threads} CPU threads, {card}")
    found = []
    for row in rows(asked.preset, asked.seconds):
        found.append(row)
        what = f"{row['device']:5} {row['batch']:3} × {row['frames']:2} × {row['side']}²"
        print(
            f"  {what:22} one by one {row['one_by_one']:8.0f} clips/s   at once {row['at_once']:8.0f} clips/s   "
            f"{row['ratio']:6.2f} ×",
            flush=True,
        )
    if asked.json:
        facts = {"preset": asked.preset, "threads": asked.threads, "gpu": card, "torch": torch.__version__}
        asked.json.write_text(json.dumps({**facts, "rows": found}, indent=1))


if __name__ == "__main__":
    main()
