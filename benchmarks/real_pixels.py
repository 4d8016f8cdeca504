"""Pixel anonymizers on real clips and faces: what fresh networks still see.

    python benchmarks/real_pixels.py DATA OUT [--rows NAME …] [--seeds 0] [--jobs 3] [--device cuda] [--limit N]

DATA holds `hmdb51-12` (12 classes of HMDB51 in the official layout, 15 frames per second) and `utkface` (faces).
Every anonymizer is trained on the training clips of HMDB51 split 1 alone, at 112², without a private label, and then
judged by networks that are trained afresh on what it gives out: R3D-18 from scratch on the clips (top-1 on the test
clips), and image networks from scratch on the faces (gender, race, age group; the best counts; epochs chosen on a part
of the training faces). Faces at 112² fill the frame, which no face in a
clip does: they are an easy target. Who has pairs of raw and published frames trains a UNet to draw the raw ones:
of clips in decibels, of faces with attackers who look at what was drawn. `--limit` takes a few items only, to try the
script; its numbers mean nothing.
Finished parts are not done again. Writes OUT/results.json, prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.intervals import interval
from benchmarks.pixel_rows import RAW, Row, Scale, rows
from benchmarks.real_data import actions, faces
from videoveil import files
from videoveil.attacks.attributes import leakage
from videoveil.attacks.reconstruction import ReconstructionAttack, ReconstructionConfig
from videoveil.tasks.base import Clips
from videoveil.training.minimax_settings import Start

REAL = Scale(
    name="gpu",
    twin="",
    surveillance="",
    size=112,
    frames=16,
    width=32,
    own_width=32,
    utility="r3d.18",
    budget="resnet.18",
    attackers=("resnet.18", "resnet.50"),
    clip_attackers=(),
    start=Start(identity_epochs=6, identity_goal=0.02, utility_epochs=12, budget_epochs=6, rate=1e-3),
    epochs=10,
    target_epochs=30,
    attack_epochs=12,
    batch=24,
    precision="bf16-mixed",
)
DRAWING = ReconstructionConfig(
    width=32,
    size=REAL.size,
    epochs=12,
    per_video=2,
    network_epochs=REAL.attack_epochs,
    networks=("resnet.18",),
    precision=REAL.precision,
    checkpoint_every=1000,
)
STRIDE = 1  # the clips have half the frame rate of the originals
PARTS = ("action", "faces", "drawn", "drawn_faces")
LEFT_OUT = ("blacken", "strong blur", "weak blur", "VITA, told")  # they need boxes, or labels of the clips


@dataclass(frozen=True)
class Job:
    data: Path
    out: Path
    row: str
    seed: int
    device: str
    workers: int
    limit: int | None

    @property
    def place(self) -> Path:
        return self.out / f"seed{self.seed}" / self.row.replace(" ", "-").replace("×", "x")

    @property
    def entry(self) -> Row | None:
        return None if self.row == RAW else rows(REAL)[self.row]


def work(job: Job) -> str:
    """Train the anonymizer of a row and everything that judges it."""
    import torch

    torch.set_num_threads(max(1, job.workers))
    began, said = time.perf_counter(), []
    seen = anonymizer(job)
    for part in PARTS:
        path = job.place / f"{part}.json"
        if not path.is_file():
            parts = {"action": action, "faces": attack, "drawn": drawn_clips, "drawn_faces": drawn_faces}
            files.write_json(path, parts[part](job, seen))
        value = json.loads(path.read_text())["value"]
        said.append(f"{part} {value if part == 'drawn' else 100 * value:.1f}")
    return f"seed {job.seed} {job.row}: {', '.join(said)} ({time.perf_counter() - began:.0f} s)"


def anonymizer(job: Job) -> Any:
    from videoveil.recipes import fit_pixel

    entry = job.entry
    if entry is None:
        return None
    assert entry.recipe is not None
    own = entry.recipe.settings
    own = replace(own, utility=replace(own.utility, stride=STRIDE), workers=job.workers, cache_gib=12.0)
    recipe = replace(entry.recipe, settings=own)
    source = Clips(actions(job.data, job.limit), "train")
    return fit_pixel(recipe, source, job.place / "run", seed=job.seed, device=job.device).anonymizer


def action(job: Job, seen: Any) -> dict[str, Any]:
    from videoveil.tasks.action.network import ActionNetwork, NetworkConfig

    config = NetworkConfig(
        encoder=REAL.utility,
        weights="random",
        size=REAL.size,
        stride=STRIDE,
        epochs=REAL.target_epochs,
        precision=REAL.precision,
        workers=job.workers,
        cache_gib=12.0,
        checkpoint_every=1000,
    )
    source = Clips(actions(job.data, job.limit), "train", seen)
    fitted = ActionNetwork(config).fit(source, seed=job.seed, device=job.device)
    found = fitted.score(source.with_split("test"))
    return {"value": found.headline.value, "chance": found.headline.chance, **found.to_json()}


def attack(job: Job, seen: Any) -> dict[str, Any]:
    from videoveil.attacks.frames import FrameAttack, FrameConfig

    config = FrameConfig(
        networks=REAL.attackers,
        size=REAL.size,
        epochs=REAL.attack_epochs,
        per_video=1,
        batch=64,
        test="spact-test-image",
        precision=REAL.precision,
        workers=job.workers,
        checkpoint_every=1000,
    )
    source = Clips(faces(job.data, job.limit), "train", seen)
    fitted = FrameAttack(config).fit(source, seed=job.seed, device=job.device)
    found = fitted.score(source.with_split("test"))
    return {"value": found.headline.value, "chance": found.headline.chance, **found.to_json()}


def drawn_clips(job: Job, seen: Any) -> dict[str, Any]:
    """How near to raw clips somebody comes who learns from pairs of raw and published ones, in decibels."""
    return drawn(
        job, Clips(actions(job.data, job.limit), "train", seen), replace(DRAWING, networks=()), "psnr_unet"
    )


def drawn_faces(job: Job, seen: Any) -> dict[str, Any]:
    """The same with faces, and what attackers find in what was drawn."""
    return drawn(job, Clips(faces(job.data, job.limit), "train", seen), DRAWING, "attributes")


def drawn(job: Job, source: Clips, config: ReconstructionConfig, first: str) -> dict[str, Any]:
    config = replace(config, workers=job.workers)
    fitted = ReconstructionAttack(config).fit(source, seed=job.seed, device=job.device)
    measures = {name: one.measure() for name, one in fitted.outcomes(source.with_split("test")).items()}
    best = max((m for name, m in measures.items() if name.startswith(first)), key=lambda m: m.value or 0.0)
    shown = {name: {"value": one.value, "chance": one.chance} for name, one in measures.items()}
    return {"value": best.value, "chance": best.chance, "measures": shown}


def table(out: Path, names: Sequence[str], seeds: Sequence[int], job: Job) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {}
    for name in names:
        places = [replace(job, row=name, seed=seed).place for seed in seeds]
        for part in PARTS:
            paths = [place / f"{part}.json" for place in places]
            if all(path.is_file() for path in paths):
                found.setdefault(name, {})[part] = [json.loads(path.read_text()) for path in paths]
    lines = [
        "| anonymizer | action top-1 | kept, % | faces, cMAP | leakage | clips drawn again, dB |"
        " faces drawn again, cMAP | leakage |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, parts in found.items():
        cells = [
            cell for part in PARTS for cell in _cells(part, parts.get(part), found.get(RAW, {}).get(part))
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines), found


def _cells(part: str, mine: Any, raw: Any) -> list[str]:
    """The figure of a part and, but for decibels, what that is of raw."""
    if mine is None or raw is None:
        return ["–"] if part == "drawn" else ["–", "–"]
    if part == "drawn":
        return [_cell([one["value"] for one in mine], 1)]
    pairs = [(one["value"], other["value"], other["chance"]) for one, other in zip(mine, raw)]
    beside = (
        _cell([100 * value / of for value, of, _ in pairs], 1)
        if part == "action"
        else _cell([leakage(*pair) for pair in pairs], 2)
    )
    return [_cell([100 * one["value"] for one in mine], 1), beside]


def _cell(values: Sequence[float], digits: int) -> str:
    mean, low, high = interval(list(values))
    return f"{mean:.{digits}f}" + ("" if len(values) < 2 else f" [{low:.{digits}f}, {high:.{digits}f}]")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=int)
    asked = parser.parse_args()
    known = [name for name in rows(REAL) if name not in LEFT_OUT]
    chosen = asked.rows or known
    if unknown := [name for name in chosen if name not in known]:
        raise SystemExit(f"no rows {', '.join(unknown)}; there are {', '.join(known)}")
    names = (RAW, *chosen)
    first = Job(asked.data, asked.out, RAW, 0, asked.device, asked.workers, asked.limit)
    jobs = [replace(first, row=name, seed=seed) for name in names for seed in asked.seeds]
    with ProcessPoolExecutor(asked.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(work, job) for job in jobs]):
            print(future.result() if not future.exception() else f"FAILED {future.exception()!r}", flush=True)
    text, found = table(asked.out, names, asked.seeds, first)
    files.write_json(asked.out / "results.json", {"seeds": asked.seeds, "limit": asked.limit, "rows": found})
    print(text)


if __name__ == "__main__":
    main()
