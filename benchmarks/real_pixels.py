"""Pixel anonymizers on real clips and faces: what fresh networks still see.

    python benchmarks/real_pixels.py DATA OUT [--rows NAME =MODEL …] [--seeds 0] [--jobs 3] [--device cuda] [--limit N]

DATA holds `hmdb51-12` (12 classes of HMDB51 in the official layout, 15 frames per second), `utkface` (faces) and, for
the rows that cover people, `weights` with the detectors FastestDet and YuNet: what either finds is covered.
Every anonymizer is trained on the training clips of HMDB51 split 1 alone, at 112², without a private label ("VITA,
told" also on the training faces and what is known of them), and then judged by networks that are trained afresh on what
it gives out: R3D-18 from scratch on the clips (top-1 on the test clips), and image networks from scratch on the faces
(gender, race, age group; the best counts; epochs chosen on a part of the training faces). Faces at 112² fill the frame,
which no face in a clip does: they are an easy target. Who has pairs of raw and published frames trains a UNet to draw
the raw ones: of clips in decibels, of faces with attackers who look at what was drawn. `--limit` takes a few items
only, to try the script; its numbers mean nothing.
Finished parts are not done again. Every part keeps what was said of each test item; intervals are 95 % of a bootstrap
over test items and seeds, those of shares paired by item. Writes OUT/results.json, prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import intervals
from benchmarks.pixel_rows import RAW, Row, Scale, model, rows
from benchmarks.real_data import actions, faces
from videoveil import files
from videoveil.attacks.reconstruction import ReconstructionAttack, ReconstructionConfig
from videoveil.tasks import outcomes
from videoveil.tasks.base import Clips
from videoveil.tasks.outcomes import Outcome
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
ABOUT = {
    "action": "",
    "faces": "",
    "drawn": "psnr_unet",
    "drawn_faces": "attributes",
}  # how their figures begin
PARTS = tuple(ABOUT)
Said = Mapping[str, Outcome]


def place(row: str) -> str:
    """The folder of a row, which may be called by the folder of a model."""
    return row.replace("/", "-").replace(" ", "-").replace("×", "x")


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
        return self.out / f"seed{self.seed}" / place(self.row)

    @property
    def entry(self) -> Row | None:
        return None if self.row == RAW or model(self.row) else rows(REAL)[self.row]


def work(job: Job) -> str:
    """Train the anonymizer of a row and everything that judges it."""
    import torch

    torch.set_num_threads(max(1, job.workers))
    began, said = time.perf_counter(), []
    seen = Seen(anonymizer(job), painter(job))
    for part in PARTS:
        path = job.place / f"{part}.json"
        if not path.is_file():
            parts = {"action": action, "faces": attack, "drawn": drawn_clips, "drawn_faces": drawn_faces}
            keep(path, parts[part](job, seen))
        value = json.loads(path.read_text())["value"]
        said.append(f"{part} {value if part == 'drawn' else 100 * value:.1f}")
    return f"seed {job.seed} {job.row}: {', '.join(said)} ({time.perf_counter() - began:.0f} s)"


@dataclass(frozen=True)
class Seen:
    """What pictures go through: an anonymizer, a painter of boxes, or neither."""

    anonymizer: Any = None
    paint: Any = None

    def of(self, dataset: Any) -> Clips:
        return Clips(dataset, "train", self.anonymizer, paint=self.paint)


def painter(job: Job) -> Any:
    """Covers whom the detectors found."""
    from videoveil.anonymizers.named import MARGIN
    from videoveil.anonymizers.obfuscate import BoxPainter, Obfuscator

    if job.entry is None or not job.entry.method:
        return None
    cover = Obfuscator(job.entry.method, None, margin=MARGIN)  # type: ignore[arg-type]
    return BoxPainter(cover, lambda item: found_boxes(job, item), "FastestDet and YuNet")


def boxes_file(job: Job, item: Any) -> Path:
    return job.out / "boxes" / f"{files.value_hash(item.id)[:24]}.npz"


def found_boxes(job: Job, item: Any) -> list[np.ndarray]:
    """Boxes (n, 5) of every frame."""
    with np.load(boxes_file(job, item)) as kept:
        return [kept[name] for name in sorted(kept.files)]


def look_for_people(job: Job, first: int, step: int) -> int:
    """Find everybody in every step-th item and keep where they are; boxes of people and of faces alike."""
    import cv2

    from videoveil.anonymizers.obfuscate import YoloOnnx, YuNet
    from videoveil.training.clip_batches import Frames

    cv2.setNumThreads(1)
    weights, frames = job.data / "weights", Frames()
    detectors = (YoloOnnx(weights / "FastestDet.onnx"), YuNet(weights / "yunet_n_640_640.onnx"))
    everything = [*actions(job.data, job.limit), *faces(job.data, job.limit)]
    missing = [item for item in everything[first::step] if not boxes_file(job, item).is_file()]
    for item in missing:
        images = frames.read(item, range(frames.count(item))).numpy()
        found = [np.concatenate([one.boxes(image) for one in detectors]) for image in images]
        with files.atomic_path(boxes_file(job, item)) as temporary:
            np.savez_compressed(temporary, **{f"{number:05}": boxes for number, boxes in enumerate(found)})
    return len(missing)


def anonymizer(job: Job) -> Any:
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.recipes import fit_pixel

    if model(job.row):
        return open_anonymizer(model(job.row))
    entry = job.entry
    if entry is None or entry.recipe is None:
        return None
    own, images = entry.recipe.settings, None
    if entry.told:  # of the clips nothing private is known
        assert own.budget is not None
        own = replace(own, budget=replace(own.budget, source="images"))
        images = Clips(faces(job.data, job.limit), "train")
    own = replace(own, utility=replace(own.utility, stride=STRIDE), workers=job.workers, cache_gib=12.0)
    recipe = replace(entry.recipe, settings=own)
    source = Clips(actions(job.data, job.limit), "train")
    place = job.place / "run"
    return fit_pixel(recipe, source, place, images=images, seed=job.seed, device=job.device).anonymizer


def action(job: Job, seen: Seen) -> Said:
    from videoveil.audit import utilities
    from videoveil.tasks.action.network import NetworkConfig

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
    source = seen.of(actions(job.data, job.limit))
    sides = source, source.with_split("test")
    return {"r3d.18": utilities.network(*sides, config, seed=job.seed, device=job.device)}


def attack(job: Job, seen: Seen) -> Said:
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
    source = seen.of(faces(job.data, job.limit))
    fitted = FrameAttack(config).fit(source, seed=job.seed, device=job.device)
    return fitted.outcomes(source.with_split("test"))


def drawn_clips(job: Job, seen: Seen) -> Said:
    """How near to raw clips somebody comes who learns from pairs of raw and published ones, in decibels."""
    return drawn(job, seen.of(actions(job.data, job.limit)), replace(DRAWING, networks=()))


def drawn_faces(job: Job, seen: Seen) -> Said:
    """The same with faces, and what attackers find in what was drawn."""
    return drawn(job, seen.of(faces(job.data, job.limit)), DRAWING)


def drawn(job: Job, source: Clips, config: ReconstructionConfig) -> Said:
    config = replace(config, workers=job.workers)
    fitted = ReconstructionAttack(config).fit(source, seed=job.seed, device=job.device)
    return fitted.outcomes(source.with_split("test"))


def keep(path: Path, said: Said) -> None:
    """What was said of every test item, and the figures; the JSON file is last: where it is, everything is."""
    measures = {name: one.measure() for name, one in said.items()}
    best = best_of(path.stem, {name: one.value or 0.0 for name, one in measures.items()})
    outcomes.save(path.with_suffix(".npz"), dict(said))
    shown = {name: {"value": one.value, "chance": one.chance} for name, one in measures.items()}
    files.write_json(path, {"best": best, **shown[best], "measures": shown})


def best_of(part: str, values: Mapping[str, float]) -> str:
    """Whose figure counts: the highest of those that the part is about, single views before whole videos."""
    asked = {name: value for name, value in values.items() if name.startswith(ABOUT[part])}
    return max(sorted(asked, key=len), key=lambda name: asked[name])


def read(places: Sequence[Path], part: str) -> intervals.Drawn | None:
    """A part over its seeds, by whoever does best in the mean of them; None where a seed lacks it."""
    paths = [place / f"{part}.npz" for place in places]
    if not all(path.is_file() for path in paths):
        return None
    said = [outcomes.load(path) for path in paths]
    means = {name: sum(one[name].measure().value or 0.0 for one in said) / len(said) for name in said[0]}
    best = best_of(part, means)
    return intervals.drawn([one[best] for one in said])


def table(names: Sequence[str], seeds: Sequence[int], job: Job) -> tuple[str, dict[str, Any]]:
    """Markdown, and the same as JSON."""
    found: dict[str, dict[str, Any]] = {}
    raw = {part: read([replace(job, seed=seed).place for seed in seeds], part) for part in PARTS}
    lines = [
        "| anonymizer | action top-1 | kept, % | faces, cMAP | leakage | clips drawn again, dB |"
        " faces drawn again, cMAP | leakage |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        places = [replace(job, row=name, seed=seed).place for seed in seeds]
        cells: dict[str, Any] = {}
        chances: dict[str, Any] = {}
        for part in PARTS:
            mine = read(places, part)
            cells |= _cells(part, mine, raw[part])
            chances[part] = {} if mine is None or math.isnan(mine.chance) else {"chance": mine.chance}
        found[name] = {
            key: None if one is None else {**asdict(one), **chances.get(key, {})}
            for key, one in cells.items()
        }
        lines.append(f"| {name} | {' | '.join(_shown(key, one) for key, one in cells.items())} |")
    return "\n".join(lines), found


def _cells(part: str, mine: intervals.Drawn | None, raw: intervals.Drawn | None) -> dict[str, Any]:
    """The figure of a part and, but for decibels, what that is of raw."""
    share = {"action": "kept", "faces": "leakage", "drawn_faces": "drawn_leakage"}.get(part)
    if mine is None or raw is None:
        return {part: None, **({share: None} if share else {})}
    value = intervals.estimate(mine.value, mine.values)
    if share is None:
        return {part: value}
    if share == "kept":
        kept = intervals.estimate(mine.value / raw.value, mine.values / raw.values)
        return {part: value, share: kept}
    above = (mine.value - raw.chance) / (raw.value - raw.chance)
    many = (mine.values - raw.chances) / (raw.values - raw.chances)
    return {part: value, share: intervals.estimate(above, many)}


def _shown(key: str, one: Any) -> str:
    if one is None:
        return "–"
    scale, digits = (1, 2) if key.endswith("leakage") else (1, 1) if key == "drawn" else (100, 1)
    low, high = (f"{scale * end:.{digits}f}" for end in (one.low, one.high))
    return f"{scale * one.value:.{digits}f} [{low}, {high}]"


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
    known = list(rows(REAL))
    chosen = asked.rows or known
    if unknown := [name for name in chosen if name not in known and not model(name)]:
        raise SystemExit(f"no rows {', '.join(unknown)}; there are {', '.join(known)}")
    names = (RAW, *chosen)
    first = Job(asked.data, asked.out, RAW, 0, asked.device, asked.workers, asked.limit)
    jobs = [replace(first, row=name, seed=seed) for name in names for seed in asked.seeds]
    with ProcessPoolExecutor(asked.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        if any(job.entry is not None and job.entry.method for job in jobs):
            shares = [pool.submit(look_for_people, first, n, asked.jobs) for n in range(asked.jobs)]
            looked = sum(share.result() for share in shares)
            print(f"people and faces looked for in {looked} items", flush=True)
        for future in as_completed([pool.submit(work, job) for job in jobs]):
            print(future.result() if not future.exception() else f"FAILED {future.exception()!r}", flush=True)
    text, found = table(names, asked.seeds, first)
    files.write_json(asked.out / "results.json", {"seeds": asked.seeds, "limit": asked.limit, "rows": found})
    print(text)


if __name__ == "__main__":
    main()
