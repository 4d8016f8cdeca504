"""Pixel anonymizers on real clips and faces: what fresh networks still see.

    python benchmarks/real_pixels.py DATA OUT [--scale gpu|cpu] [--rows NAME =MODEL …] [--parts NAME …] [--seeds 0]
                                     [--jobs 3] [--missing FILE.json] [--show]
    python benchmarks/real_pixels.py DATA OUT --validate --rows candidates --parts action faces

DATA holds `hmdb51-12` (12 classes of HMDB51 in the official layout, 15 frames per second), `utkface` (faces) and, for
the rows that cover people, `weights` with the detectors FastestDet and YuNet: what either finds is covered.
Every anonymizer is trained on the training clips of HMDB51 split 1 alone, at 112² (`--scale cpu`: 64²), without a
private label ("VITA, told" also on the training faces and what is known of them, for as many steps as the others), and
then judged by networks that are trained afresh on what it gives out: a video network on the clips (top-1 on the test
clips; R3D-18 from scratch, with `--scale cpu` `tiny` from weights that know the theatre), and image networks from
scratch on the faces (gender, race, age group; the best counts; epochs chosen on a part of the training faces). Faces
fill the frame, which no face in a clip does: they are an easy target. Who has pairs of
raw and published frames trains a UNet to draw the raw ones: of clips in decibels, of faces with attackers who look at
what was drawn. `--validate` scores the same on the clips that split 1 leaves unused and on the validation part of the
faces: that is where settings are chosen.
`--missing` does of every row only what results that were stored before lack, and of raw videos what that is held
against; parts are done in the order in which they are named. `--limit` takes a few items only, to try the script; its
numbers mean nothing.
Finished parts are not done again. Every part keeps what was said of each test item; intervals are 95 % of a bootstrap
over films (with all of their test clips), faces and seeds, those of shares paired. Writes OUT/results.json, where the
rows of earlier calls stay, and prints Markdown; `--show` does that with the parts that are there, of all rows that have
any unless rows are named, and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import intervals, pixel_rows, processes
from benchmarks.pixel_rows import RAW, Row, Scale, candidates, model, rows
from benchmarks.real_data import actions, faces, thinned
from videoveil import files
from videoveil.attacks.reconstruction import ReconstructionAttack, ReconstructionConfig
from videoveil.data import hmdb51
from videoveil.data.records import Item
from videoveil.recipes import veil_pixel
from videoveil.tasks import outcomes
from videoveil.tasks.base import Clips
from videoveil.tasks.outcomes import Outcome
from videoveil.training.minimax_settings import MinimaxSettings, Start

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
SMALL = replace(  # what two cores can train; UNets of width 4 in place of UNet++ too
    pixel_rows.SCALES["cpu"],
    twin="",
    surveillance="",
    attackers=("resnet.18",),
    clip_attackers=(),
    start=replace(
        pixel_rows.SCALES["cpu"].start,
        identity_epochs=2,
        identity_warmup=0,
        utility_epochs=1,
        budget_epochs=1,
    ),
    epochs=2,  # of 53 steps each; the study on twins has 48 in all
    attack_epochs=4,
    precision="bf16-mixed",
)
FACES = {  # rows of real pictures alone, where a detector looks for faces
    "blacken faces": Row("classical", method="blacken", only_faces=True),
    "blacken faces, then veil-pixel": Row("ours", veil_pixel(), method="blacken", only_faces=True),
    "blacken faces, then veil-unet": Row("ours", method="blacken", only_faces=True, shipped="veil-unet"),
}
FEW = 4  # one clip of so many, for an anonymizer whose f_T is larger than the scale's
SIZES = {"gpu": REAL, "cpu": SMALL}
DRAWING_WIDTH = {"gpu": 32, "cpu": 8}  # of the UNet that draws raw pictures again
DRAWING_EPOCHS = {"gpu": 12, "cpu": 6}
CACHE = 12.0  # GiB of decoded frames
STRIDE = 1  # the clips have half the frame rate of the originals
ABOUT = {
    "action": "",
    "faces": "",
    "drawn": "psnr_unet",
    "drawn_faces": "attributes",
}  # how their figures begin
PARTS = tuple(ABOUT)
LOOK, MAKE = "look", "make"  # what may have to be done before: find whom to cover, make the anonymizer
SPLITS = {False: ("test", "test"), True: ("unused", "val")}  # of clips and of faces; True: to choose by
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
    parts: tuple[str, ...] = PARTS
    validate: bool = False
    scale: str = "gpu"
    what: str = MAKE  # or LOOK, or a part
    share: tuple[int, int] = (0, 1)  # of LOOK: every how manieth item, from which on

    @property
    def size(self) -> Scale:
        return SIZES[self.scale]

    @property
    def place(self) -> Path:
        stage = "validation" if self.validate else ""
        return self.out / stage / f"seed{self.seed}" / place(self.row)

    @property
    def entry(self) -> Row | None:
        return None if self.row == RAW or model(self.row) else known(self.size)[self.row]

    @property
    def title(self) -> str:
        if self.what == LOOK:
            kind = "faces" if self.only_faces else "people and faces"
            return f"{kind}, share {self.share[0] + 1} of {self.share[1]}"
        return f"seed {self.seed} {self.row} {self.what}"

    @property
    def covers(self) -> bool:
        """Whether somebody has to look for people first."""
        return self.entry is not None and bool(self.entry.method)

    @property
    def only_faces(self) -> bool:
        return self.entry is not None and self.entry.only_faces

    @property
    def makes(self) -> bool:
        """Whether there is an anonymizer to be made first."""
        return self.entry is not None and self.entry.recipe is not None

    def clips(self) -> tuple[Any, str]:
        """The clips, and what the part is called that networks are scored on."""
        return actions(self.data, self.limit), SPLITS[self.validate][0]

    def faces(self) -> tuple[Any, str]:
        return faces(self.data, self.limit), SPLITS[self.validate][1]


def known(scale: Scale = REAL) -> dict[str, Row]:
    """Every row by name."""
    return {**pixel_rows.known(scale), **FACES}


def learns(row: str) -> bool:
    """Whether its anonymizer is trained here."""
    entry = known().get(row)
    return entry is not None and entry.recipe is not None and entry.recipe.settings.epochs > 0


def work(job: Job) -> str:
    """Do one thing and say what came of it."""
    import torch

    torch.set_num_threads(max(1, job.workers))
    began = time.perf_counter()
    said = {LOOK: look_for_people, MAKE: make}.get(job.what, judge)(job)
    return f"{job.title}: {said} ({time.perf_counter() - began:.0f} s)"


def judge(job: Job) -> str:
    """Train and ask everybody who has a say in a part."""
    path = job.place / f"{job.what}.json"
    if not path.is_file():
        parts = {"action": action, "faces": attack, "drawn": drawn_clips, "drawn_faces": drawn_faces}
        keep(path, parts[job.what](job, Seen(anonymizer(job), painter(job))))
    value = json.loads(path.read_text())["value"]
    return f"{value if job.what == 'drawn' else 100 * value:.1f}"


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

    if job.entry is None or not job.covers:
        return None
    cover = Obfuscator(job.entry.method, None, margin=MARGIN)  # type: ignore[arg-type]
    names = "YuNet" if job.only_faces else "FastestDet and YuNet"
    return BoxPainter(cover, lambda item: found_boxes(job, item), names)


def boxes_file(job: Job, item: Any) -> Path:
    folder = "boxes-of-faces" if job.only_faces else "boxes"
    return job.out / folder / f"{files.value_hash(item.id)[:24]}.npz"


def found_boxes(job: Job, item: Any) -> list[np.ndarray]:
    """Boxes (n, 5) of every frame."""
    with np.load(boxes_file(job, item)) as kept:
        return [kept[name] for name in sorted(kept.files)]


def look_for_people(job: Job) -> str:
    """Find everybody in a share of the items and keep where they are; boxes of people and faces alike, or of faces."""
    import cv2
    import torch

    from videoveil.anonymizers.obfuscate import YoloOnnx, YuNet
    from videoveil.training.clip_batches import Frames

    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    weights, frames = job.data / "weights", Frames()
    detectors: list[Any] = [YuNet(weights / "yunet_n_640_640.onnx")]
    if not job.only_faces:
        detectors = [YoloOnnx(weights / "FastestDet.onnx"), *detectors]
    first, step = job.share
    everything = [*actions(job.data, job.limit), *faces(job.data, job.limit)]
    missing = [item for item in everything[first::step] if not boxes_file(job, item).is_file()]
    for item in missing:
        images = frames.read(item, range(frames.count(item))).numpy()
        found = [np.concatenate([one.boxes(image) for one in detectors]) for image in images]
        with files.atomic_path(boxes_file(job, item)) as temporary:
            np.savez_compressed(temporary, **{f"{number:05}": boxes for number, boxes in enumerate(found)})
    return f"looked for in {len(missing)} items"


def anonymizer(job: Job) -> Any:
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.anonymizers.pixel import PixelAnonymizer

    shipped = model(job.row) or (job.entry.shipped if job.entry else "")
    if shipped:
        return open_anonymizer(shipped)
    return PixelAnonymizer.from_pretrained(job.place / "run") if job.makes else None


def make(job: Job) -> str:
    """Train the anonymizer of a row, or find that it is there."""
    from videoveil.recipes import fit_pixel

    entry = job.entry
    assert entry is not None
    assert entry.recipe is not None
    own, images = entry.recipe.settings, None
    if entry.told:  # of the clips nothing private is known
        assert own.budget is not None
        own = replace(own, budget=replace(own.budget, source="images"))
        images = Clips(job.faces()[0], "train")
        own = as_many_steps(own, len(Clips(job.clips()[0], "train").items()), len(images.items()))
    clips = job.clips()[0]
    if own.utility.encoder != job.size.utility:
        # Noisy-Features looks into R3D-18, which two cores can only teach with a quarter of the clips; and not in
        # bfloat16, in which its gradients are wrong on some (`devices.require_right_gradients`)
        clips, own = thinned(clips, len(clips) // FEW), replace(own, precision="32-true")
    own = replace(own, utility=replace(own.utility, stride=STRIDE), workers=job.workers, cache_gib=CACHE)
    recipe = replace(entry.recipe, settings=own)
    source = Clips(clips, "train")
    fit_pixel(recipe, source, job.place / "run", images=images, seed=job.seed, device=job.device)
    return "ready"


def as_many_steps(own: MinimaxSettings, clips: int, images: int) -> MinimaxSettings:
    """Fewer epochs where one is a pass of the images, which are more than the clips: no row has more steps for it."""

    def fewer(epochs: int) -> int:
        return math.ceil(epochs * min(1.0, clips / images))

    start = own.start
    start = replace(
        start, utility_epochs=fewer(start.utility_epochs), budget_epochs=fewer(start.budget_epochs)
    )
    return replace(own, epochs=fewer(own.epochs), start=start)


def action(job: Job, seen: Seen) -> Said:
    from videoveil.audit import utilities
    from videoveil.tasks.action.network import NetworkConfig

    config = NetworkConfig(
        encoder=job.size.utility,
        weights="" if job.size.own_weights else "random",
        size=job.size.size,
        stride=STRIDE,
        augment=job.size.augment,
        clips=job.size.target_clips,
        epochs=job.size.target_epochs,
        batch=job.size.target_batch,
        learning_rate=job.size.target_rate,
        precision=job.size.precision,
        workers=job.workers,
        cache_gib=CACHE,
        checkpoint_every=1000,
    )
    clips, split = job.clips()
    source = seen.of(clips)
    sides = source, source.with_split(split)
    return {job.size.utility: utilities.network(*sides, config, seed=job.seed, device=job.device)}


def attack(job: Job, seen: Seen) -> Said:
    from videoveil.attacks.frames import FrameAttack, FrameConfig

    config = FrameConfig(
        networks=job.size.attackers,
        size=job.size.size,
        epochs=job.size.attack_epochs,
        per_video=1,
        batch=64,
        test="spact-test-image",
        precision=job.size.precision,
        workers=job.workers,
        checkpoint_every=1000,
    )
    pictures, split = job.faces()
    source = seen.of(pictures)
    fitted = FrameAttack(config).fit(source, seed=job.seed, device=job.device)
    return fitted.outcomes(source.with_split(split))


def drawing(job: Job) -> ReconstructionConfig:
    """How somebody with pairs learns to draw the raw pictures, and who looks at what is drawn."""
    size = job.size
    return ReconstructionConfig(
        width=DRAWING_WIDTH[job.scale],
        size=size.size,
        epochs=DRAWING_EPOCHS[job.scale],
        per_video=2,
        network_epochs=size.attack_epochs,
        networks=size.attackers[:1],
        precision=size.precision,
        checkpoint_every=1000,
    )


def drawn_clips(job: Job, seen: Seen) -> Said:
    """How near to raw clips somebody comes who learns from pairs of raw and published ones, in decibels."""
    clips, split = job.clips()
    return drawn(job, seen.of(clips), split, replace(drawing(job), networks=()))


def drawn_faces(job: Job, seen: Seen) -> Said:
    """The same with faces, and what attackers find in what was drawn."""
    pictures, split = job.faces()
    config = replace(drawing(job), frames=1)  # a picture has one: more of it would be the same again
    if job.size is not REAL:
        config = replace(config, per_video=1)
    return drawn(job, seen.of(pictures), split, config)


def drawn(job: Job, source: Clips, split: str, config: ReconstructionConfig) -> Said:
    config = replace(config, workers=job.workers)
    fitted = ReconstructionAttack(config).fit(source, seed=job.seed, device=job.device)
    return fitted.outcomes(source.with_split(split))


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


def film(name: str) -> str:
    """The film that a clip was cut from, by its name in the dataset; photographs are by themselves."""
    return hmdb51.film(Item(name, Path(), "test", action=name.partition("/")[0]))


def read(places: Sequence[Path], part: str) -> intervals.Drawn | None:
    """A part over its seeds, by whoever does best in the mean of them; None where a seed lacks it."""
    paths = [place / f"{part}.npz" for place in places]
    if not all(path.is_file() for path in paths):
        return None
    said = [outcomes.load(path) for path in paths]
    means = {name: sum(one[name].measure().value or 0.0 for one in said) / len(said) for name in said[0]}
    best = best_of(part, means)
    chosen = [one[best] for one in said]
    return intervals.drawn(chosen, {name: film(name) for name in chosen[0].items})


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


@dataclass
class Work:
    """Rows and what is done of them: people are found and anonymizers made first, then parts, each by itself."""

    rows: Sequence[Job]
    shares: int  # of looking for people
    done: set[Job] = field(default_factory=set)

    def possible(self) -> list[Job]:
        """What can be done now or was done before, in the order in which it is wanted."""
        return list(dict.fromkeys(job for row in self.rows for job in self._of(row)))

    def _of(self, row: Job) -> list[Job]:
        first = []
        if row.covers:  # the same for all rows that cover the same
            first += [replace(self._looker(row), share=(n, self.shares)) for n in range(self.shares)]
        if row.makes:
            first.append(replace(row, what=MAKE))
        left = [job for job in first if job not in self.done]
        return left or [replace(row, what=part) for part in row.parts]

    def _looker(self, row: Job) -> Job:
        return next(
            replace(one, what=LOOK) for one in self.rows if one.covers and one.only_faces == row.only_faces
        )

    def after(self, job: Job) -> list[Job]:
        self.done.add(job)
        return self.possible()

    def urgency(self, job: Job) -> tuple[bool, int, int]:
        """What parts wait for, then in the order of rows and parts."""
        places = [(row.row, row.seed) for row in self.rows]
        part = job.parts.index(job.what) if job.what in job.parts else -1
        return part >= 0, places.index((job.row, job.seed)), part


def run(jobs: Sequence[Job], count: int) -> list[str]:
    """Everything that is wanted, in processes of their own. What failed."""
    todo = Work(jobs, count)
    return processes.run(todo.possible(), work, count, after=todo.after, urgency=todo.urgency)


def lacking(
    rows: Sequence[str], parts: Sequence[str], stored: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """Row → the parts that stored results have no figure for; raw videos: all that some row lacks.

    A row that learns lacks all or none: trained again it is another anonymizer.
    """
    found = {
        row: tuple(part for part in parts if not stored.get(row, {}).get(part)) for row in rows if row != RAW
    }
    found |= {row: tuple(parts) for row, lost in found.items() if lost and learns(row)}
    needed = {part for lost in found.values() for part in lost}
    return {RAW: tuple(part for part in parts if part in needed), **found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--rows",
        nargs="+",
        help="names; 'candidates' for what may be chosen from; =MODEL; begun in this order",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--missing", type=Path, help="stored results: only what they lack is done")
    parser.add_argument(
        "--validate", action="store_true", help="score what settings are chosen by, not the test items"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--show", action="store_true", help="what is there; nothing is run")
    parser.add_argument("--scale", choices=list(SIZES), default="gpu")
    asked = parser.parse_args()
    scale = SIZES[asked.scale]
    chosen, there = asked.rows or list(rows(scale)), known(scale)
    if asked.show and not asked.rows:
        first_seed = asked.out / f"seed{asked.seeds[0]}"
        chosen = [name for name in there if (first_seed / place(name)).is_dir()]
    chosen = [n for word in chosen for n in (candidates(scale) if word == "candidates" else [word])]
    if unknown := [name for name in chosen if name not in there and not model(name)]:
        raise SystemExit(f"no rows {', '.join(unknown)}; there are {', '.join(there)}")
    names = (RAW, *chosen)
    first = Job(asked.data, asked.out, RAW, 0, asked.device, asked.workers, asked.limit, tuple(asked.parts))
    first = replace(first, validate=asked.validate, scale=asked.scale)
    stored = json.loads(asked.missing.read_text("utf-8"))["rows"] if asked.missing else {}
    wanted = {} if asked.show else lacking(names, asked.parts, stored)
    jobs = [
        replace(first, row=n, seed=seed, parts=parts)
        for n, parts in wanted.items()
        if parts
        for seed in asked.seeds
    ]
    failed = run(jobs, asked.jobs) if jobs else []
    text, found = table(names, asked.seeds, first)
    told = {"seeds": asked.seeds, "limit": asked.limit, "scale": asked.scale, "rows": found}
    write(asked.out / ("validation.json" if asked.validate else "results.json"), told)
    print(text)
    if failed:
        raise SystemExit("\n".join(failed))


def write(path: Path, told: dict[str, Any]) -> None:
    """With what earlier calls found on the same seeds and items; a cell that is not known now stays."""
    before = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    same = all(before.get(key) == told[key] for key in ("seeds", "limit", "scale"))
    rows: dict[str, Any] = before["rows"] if same else {}
    for name, cells in told["rows"].items():
        new = {key: cell for key, cell in cells.items() if cell is not None or key not in rows.get(name, {})}
        rows[name] = {**rows.get(name, {}), **new}
    files.write_json(path, {**told, "rows": rows})


if __name__ == "__main__":
    main()
