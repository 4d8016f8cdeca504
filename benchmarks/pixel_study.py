"""What pixel anonymizers keep and what they hide, on twins: every method against models trained afresh.

    python benchmarks/pixel_study.py OUT [--scale gpu|cpu] [--seeds 20 21 22] [--jobs 8] [--rows NAME …] [--plot PNG]
                                         [--strips PNG]
    python benchmarks/pixel_study.py FILE.json [--plot PNG]      # shows what was measured before

A seed is another cast, other films and another training. Per seed: render a twin of VP-HMDB51 (actions; the leading
person's gender, skin, age, build and hair), train every anonymizer on its training videos, and train afresh on what
comes out: an action network (top-1), and attackers on single frames and on moving clips, from weights that know the
theatre and from what the attacker on raw videos of the same people had learnt, of which the best counts (cMAP; by views
or by videos, whichever tells more). Somebody with pairs of raw and published frames trains a network to draw the raw
ones, and attackers look at what it draws. The auxiliary nets of a training never score anything. Blur and blackening
get the theatre's own boxes: a detector without mistakes.
Where asked for, anomalies too: a twin of UCF-Crime, seen through the anonymizer by the f_T that was trained with it
(for the others by their fresh action network), MGFN, frame ROC-AUC. Leakage is (cMAP − chance) / (raw − chance).

Nothing is chosen here: seeds 10 and 11 were used to choose, others to report. Finished parts are not done again, so a
killed study goes on. OUT/results.json is there from the first part on: what all seeds have by then, and for every call
on these seeds the minutes that it took, its rows and how many parts it did. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import processes
from benchmarks.intervals import interval
from benchmarks.pixel_rows import RAW, SCALES, Row, Scale, candidates, known, model, rows
from videoveil import files
from videoveil.attacks.attributes import leakage

ACTIONS, ANOMALIES = "vphmdb", "ucf-crime"
SCORES = ("action", "frames", "clips", "reconstruction", "anomaly")
TRAININGS = 3  # of MGFN, which now and then fails to start on so few videos


@dataclass(frozen=True)
class Job:
    """One thing to do in a process of its own: `what` is render, surveillance, fit, or the name of a score."""

    folder: Path  # of the seed
    seed: int
    scale: str
    what: str
    row: str = RAW
    device: str = "auto"
    workers: int = 2

    @property
    def size(self) -> Scale:
        return SCALES[self.scale]

    @property
    def entry(self) -> Row | None:
        return None if self.row == RAW else entry_of(self.row, self.size)

    @property
    def place(self) -> Path:
        return self.folder / self.row.replace("/", "-").replace(" ", "-").replace("×", "x")

    @property
    def result(self) -> Path:
        return self.place / f"{self.what}.json"

    @property
    def ready(self) -> bool:
        """Whether what its pictures go through is there."""
        return self.entry is None or self.entry.recipe is None or (self.place / "ready").is_file()

    @property
    def title(self) -> str:
        return f"seed {self.seed} {self.row} {self.what}"

    def twin(self, name: str) -> Path:
        """Where the videos are."""
        return self.folder / name


def entry_of(row: str, scale: Scale) -> Row:
    """A row by name; `=NAME` is an anonymizer that exists, such as one that comes with the package."""
    return Row("ours", anomaly=True) if model(row) else known(scale)[row]


# --- what a process does ------------------------------------------------------------------------------------


def work(job: Job) -> str:
    """Do a job and say what came of it."""
    import torch

    torch.set_num_threads(max(1, job.workers))
    began = time.perf_counter()
    kinds: dict[str, Any] = {"render": render, "surveillance": surveillance, "fit": fit}
    said = kinds.get(job.what, score)(job)
    return f"{job.title}: {said} ({time.perf_counter() - began:.0f} s)"


def render(job: Job) -> str:
    from videoveil.data import twins

    twins.make(ACTIONS, job.twin(ACTIONS), seed=job.seed, size=job.size.twin, processes=job.workers)
    return "rendered"


def surveillance(job: Job) -> str:
    """The twin with anomalies, which is long and which little waits for."""
    from videoveil.data import twins

    size = job.size.surveillance
    twins.make(ANOMALIES, job.twin(ANOMALIES), seed=job.seed, size=size, processes=job.workers)
    files.write_json(job.result, {"size": size})
    return "rendered"


def dataset(job: Job, name: str = ACTIONS) -> Any:
    from videoveil.data import registry

    return registry.load(name, job.twin(name))


def labels(job: Job) -> Any:
    """What is private about the leading person."""
    from videoveil.data.twins.people import lead_attributes

    return lead_attributes(ACTIONS, job.twin(ACTIONS), seed=job.seed, size=job.size.twin)


def fit(job: Job) -> str:
    from videoveil.recipes import fit_pixel
    from videoveil.tasks.base import Clips

    entry = job.entry
    assert entry is not None
    assert entry.recipe is not None
    recipe = entry.recipe
    own = replace(recipe.settings, workers=job.workers)
    recipe = replace(recipe, settings=own)
    told = labels(job) if entry.told else None
    made = fit_pixel(
        recipe,
        Clips(dataset(job), split="train"),
        job.place / "run",
        labels=told,
        seed=job.seed,
        device=job.device,
    )
    (job.place / "run" / "checkpoint.safetensors").unlink(missing_ok=True)
    last = made.history[-1] if made.history else {}
    shown = ", ".join(
        f"{k} {last[k]:.2f}" for k in ("utility", "budget", "chance", "rms", "right", "sure") if k in last
    )
    return shown or "ready"


def anonymizer(job: Job) -> Any:
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.anonymizers.pixel import PixelAnonymizer

    entry = job.entry
    if model(job.row):
        return open_anonymizer(model(job.row))
    if entry is None or entry.recipe is None:
        return None
    return PixelAnonymizer.from_pretrained(job.place / "run")


def score(job: Job) -> str:
    kinds = {"frames": attack, "clips": attack, "reconstruction": reconstruction}
    found = {"action": action, "anomaly": anomaly, **kinds}[job.what](job)
    files.write_json(job.result, found)
    return f"{100 * found['value']:.1f} (chance {100 * found['chance']:.1f})"


def sources(job: Job) -> tuple[Any, Any]:
    from videoveil.tasks.base import Clips

    data, seen, paint = dataset(job), anonymizer(job), painter(job)
    return Clips(data, "train", seen, paint=paint), Clips(data, "test", seen, paint=paint)


def painter(job: Job) -> Any:
    """People covered in whole frames, by boxes without mistakes."""
    from videoveil.anonymizers.obfuscate import BoxPainter, Obfuscator
    from videoveil.data.twins.people import lead_boxes

    entry = job.entry
    if entry is None or not entry.method:
        return None
    boxes = lead_boxes(ACTIONS, job.twin(ACTIONS), seed=job.seed, size=job.size.twin)
    return BoxPainter(Obfuscator(entry.method, None), boxes, f"theatre, seed {job.seed}")


def action(job: Job) -> dict[str, Any]:
    """A fresh action network."""
    from videoveil.tasks.action.network import ActionNetwork

    config = job.size.target(job.workers)
    train, test = sources(job)
    fitted = ActionNetwork(config).fit(train, run=job.place / "target", seed=job.seed, device=job.device)
    (job.place / "target" / "checkpoint.safetensors").unlink(missing_ok=True)
    found = fitted.score(test)
    return {"value": found.headline.value, "chance": found.headline.chance, **found.to_json()}


def attack(job: Job) -> dict[str, Any]:
    """Fresh attackers; of view by view and video by video, what tells more."""
    from videoveil.attacks.frames import ClipAttack, FrameAttack

    own, experienced = job.size, from_raw(job)
    config: Any = (own.frame_attack if job.what == "frames" else own.clip_attack)(job.workers)
    config = replace(config, networks=(*config.networks, *experienced))
    task = (FrameAttack if job.what == "frames" else ClipAttack)(config, labels(job))
    train, test = sources(job)
    run = job.place / job.what if job.row == RAW else None
    found = task.fit(train, run=run, seed=job.seed, device=job.device).score(test)
    best = max((m for m in found.metrics if m.name in ("cmap", "cmap_video")), key=lambda m: m.value or 0.0)
    text = json.dumps({"value": best.value, "chance": best.chance, **found.to_json()})
    for title in experienced:
        text = text.replace(json.dumps(title)[1:-1], f"{title.partition('@')[0]}@raw")
    return dict(json.loads(text))


def from_raw(job: Job) -> tuple[str, ...]:
    """Attackers that begin with what the first attacker on raw videos had learnt."""
    if job.row == RAW:
        return ()
    first = (job.size.attackers if job.what == "frames" else job.size.clip_attackers)[0]
    folder = replace(job, row=RAW).place / job.what
    (weights,) = folder.glob(f"{first.replace('@', '-')}*/encoder.safetensors")
    return (f"{first.partition('@')[0]}@{weights}",)


def reconstruction(job: Job) -> dict[str, Any]:
    """What attackers find in frames that were drawn again from published ones; how near these are to the raw ones."""
    from videoveil.attacks.reconstruction import ReconstructionAttack

    train, test = sources(job)
    task = ReconstructionAttack(job.size.reconstruction(job.workers), labels(job))
    found = task.fit(train, seed=job.seed, device=job.device).outcomes(test)
    measures = {name: one.measure() for name, one in found.items()}
    shown = {name: {"value": one.value, "chance": one.chance} for name, one in measures.items()}
    best = max(
        (one for name, one in measures.items() if name.startswith("attributes")), key=lambda m: m.value or 0.0
    )
    return {"value": best.value, "chance": best.chance, "measures": shown}


def anomaly(job: Job) -> dict[str, Any]:
    """Anomalies from features that the row's own video network extracts behind its anonymizer."""
    from videoveil.encoders import create
    from videoveil.features.extract import extract, recipe_for
    from videoveil.features.store import FeatureStore
    from videoveil.tasks import registry
    from videoveil.tasks.base import Features

    own, learnt = job.size, job.place / "run" / "utility.safetensors"
    weights = learnt if learnt.is_file() else job.place / "target" / "encoder.safetensors"
    encoder = create(own.utility, weights=weights)
    store = job.place / f"{ANOMALIES}-features"
    extract(
        dataset(replace(job, row=RAW), ANOMALIES),
        store,
        encoder,
        recipe_for(encoder, clips="all"),
        workers=job.workers,
        device=job.device,
        anonymizer=anonymizer(job),
    )
    kind = registry.kind("anomaly")
    opened, found = FeatureStore.open(store), []
    for again in range(TRAININGS):
        seed = job.seed + 1000 * again
        fitted = kind.make(kind.config("small", {})).fit(
            Features(opened, split="train"), seed=seed, device="cpu"
        )
        found.append(fitted.score(Features(opened, split="test")))
    values = [one.headline.value for one in found]
    return {"value": sum(values) / len(values), "chance": found[0].headline.chance, "trainings": values}


# --- the study ----------------------------------------------------------------------------------------------


@dataclass
class Study:
    out: Path
    seeds: Sequence[int]
    scale: str = "cpu"
    jobs: int = 1
    device: str = "auto"
    chosen: Sequence[str] = ()
    workers: int = 2
    until: float = float("inf")  # no job is begun after this moment
    without: frozenset[str] = field(default_factory=frozenset)
    done: int = 0  # parts in this call: rendering, trainings and scores
    failed: Sequence[str] = ()
    began: float = field(default_factory=time.perf_counter)
    calls: Sequence[dict[str, Any]] = field(init=False)  # before this one, as they told it

    def __post_init__(self) -> None:
        told = json.loads(self.results.read_text("utf-8")) if self.results.is_file() else {}
        same = told.get("seeds") == list(self.seeds) and told.get("scale") == self.scale
        self.calls = told["clock"] if same else []

    @property
    def results(self) -> Path:
        return self.out / "results.json"

    def job(self, seed: int, what: str, row: str = RAW) -> Job:
        return Job(self.out / f"seed{seed}", seed, self.scale, what, row, self.device, self.workers)

    def parts(self, row: str) -> list[str]:
        whole = row == RAW or entry_of(row, SCALES[self.scale]).anomaly
        return [s for s in SCORES if s not in self.without and (whole or s != "anomaly")]

    def missing(self, seed: int, row: str) -> list[Job]:
        """What a row still needs, and can have now."""
        if not self.job(seed, "", row).ready:
            return [self.job(seed, "fit", row)]
        also = ["surveillance"] if row == RAW and "anomaly" in self.parts(row) else []
        wanted = [self.job(seed, what, row) for what in (*also, *self.parts(row))]
        left = [job for job in wanted if not job.result.is_file()]
        return [job for job in left if self._can(job)]

    def _can(self, job: Job) -> bool:
        """Anomalies may need the row's action network, attackers begin with what those on raw videos learnt."""
        raw = replace(job, row=RAW)
        if job.what == "anomaly":
            needed = [replace(job, what="action"), replace(raw, what="surveillance")]
            return all(one.result.is_file() for one in needed)
        return job.row == RAW or job.what in ("action", "reconstruction") or raw.result.is_file()

    def run(self) -> None:
        for seed in self.seeds:
            if not any(self.missing(seed, row) for row in (RAW, *self.chosen)):
                continue
            print(work(replace(self.job(seed, "render"), workers=os.cpu_count() or 1)), flush=True)
            self.done += 1
        self.failed = processes.run(
            [job for row in (RAW, *self.chosen) for seed in self.seeds for job in self.missing(seed, row)],
            work,
            self.jobs,
            after=self.after,
            urgency=urgency,
            until=self.until,
        )

    def after(self, job: Job) -> list[Job]:
        """Keep what there is; what a job makes possible."""
        if job.what == "fit":
            files.write_text(job.place / "ready", "")
        self.done += 1
        self.write()
        rows = (RAW, *self.chosen) if job.row == RAW else (job.row,)
        return [later for row in rows for later in self.missing(job.seed, row)]

    @property
    def minutes(self) -> float:
        return (time.perf_counter() - self.began) / 60

    def write(self) -> Any:
        """What there is by now; somebody who stops the study has it."""
        found = collect(self)
        now = {"minutes": self.minutes, "parts": self.done, "rows": len(self.chosen)}
        clock = [*self.calls, *([now] if self.done else [])]
        told = {"seeds": list(self.seeds), "scale": self.scale, "clock": clock, "rows": found}
        files.write_json(self.results, told)
        return found


def urgency(job: Job) -> tuple[bool, int, str]:
    """What others wait for comes first, then what takes long."""
    long = ("surveillance", "anomaly", "fit")
    return job.row != RAW, long.index(job.what) if job.what in long else len(long), job.title


# --- tables -------------------------------------------------------------------------------------------------


def collect(study: Study) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """row → score → one record per seed; a score that some seed lacks is left out."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in (RAW, *study.chosen):
        found[row] = {}
        for what in SCORES:  # also what this call goes without
            results = [study.job(seed, what, row).result for seed in study.seeds]
            if all(path.is_file() for path in results):
                found[row][what] = [json.loads(path.read_text()) for path in results]
    return found


def cell(values: Sequence[float] | None, digits: int = 1) -> str:
    if not values:
        return "–"
    middle, low, high = interval(list(values))
    return f"{middle:.{digits}f}" + ("" if len(values) < 2 else f" [{low:.{digits}f}, {high:.{digits}f}]")


def values(found: Any, row: str, what: str) -> list[float] | None:
    records = found[row].get(what)
    return None if records is None else [100 * record["value"] for record in records]


def leaks(found: Any, row: str, what: str) -> list[float] | None:
    """What is left above chance, by seed."""
    mine, raw = found[row].get(what), found[RAW].get(what)
    if mine is None or raw is None:
        return None
    return [leakage(one["value"], other["value"], other["chance"]) for one, other in zip(mine, raw)]


def kept(found: Any, row: str) -> list[float] | None:
    mine, raw = found[row].get("action"), found[RAW].get("action")
    if mine is None or raw is None or not all(other["value"] for other in raw):
        return None
    return [100 * one["value"] / other["value"] for one, other in zip(mine, raw)]


def table(found: Any) -> str:
    """Markdown."""
    lines = [
        "| anonymizer | action top-1 | kept, % | cMAP, frames | leakage | cMAP, clips | leakage | anomaly AUC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        cells = [
            cell(values(found, row, "action")),
            cell(kept(found, row)),
            cell(values(found, row, "frames")),
            cell(leaks(found, row, "frames"), 2),
            cell(values(found, row, "clips")),
            cell(leaks(found, row, "clips"), 2),
            cell(values(found, row, "anomaly")),
        ]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    chances = {what: mean(one["chance"] for one in records) for what, records in found[RAW].items()}
    guess = ", ".join(f"{what} {100 * value:.1f}" for what, value in chances.items())
    return "\n".join([f"A blind guess: {guess}", "", *lines])


def drawn_again(found: Any) -> str:
    """Markdown: what a network makes of published frames that learnt from pairs, and what is found in that."""
    lines = [
        "| anonymizer | PSNR, dB, published | drawn again | SSIM, published | drawn again | cMAP in drawn | leakage |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        records = found[row].get("reconstruction")
        if row == RAW or records is None:
            continue
        cells = [
            cell([one["measures"][f"{kind}_{of}"]["value"] for one in records], digits)
            for kind, digits in (("psnr", 1), ("ssim", 3))
            for of in ("published", "unet")
        ]
        cells += [cell(values(found, row, "reconstruction")), cell(leaks(found, row, "reconstruction"), 2)]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    raw = found[RAW].get("reconstruction")
    if raw is None or len(lines) < 3:
        return ""
    psnr, ssim = (
        cell([one["measures"][f"{kind}_unet"]["chance"] for one in raw], 2) for kind in ("psnr", "ssim")
    )
    seen = cell(values(found, RAW, "reconstruction"))
    said = f"The mean training frame: PSNR {psnr}, SSIM {ssim}; cMAP on raw frames {seen}"
    return "\n".join([said, "", *lines])


def together(names: Sequence[str]) -> str:
    """Rows at one point under one name: `penalty, B=0.5` and `penalty, B=0.7` are `penalty, B=0.5, 0.7`."""
    first, *others = names
    setting = first.rpartition("=")[0] + "="
    return ", ".join([first, *(name.removeprefix(setting) for name in others)])


def draw(found: Any, path: Path, scale: Scale) -> None:
    """Action accuracy kept against the worse of the two leakages."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from videoveil.report.labels import Named, place

    styles = {"classical": ("#666666", "o"), "published": ("#d55e00", "s"), "ours": ("#009e73", "D")}
    figure, axes = pyplot.subplots(figsize=(10, 6), layout="constrained")
    seen: set[str] = set()
    where: dict[tuple[float, float], list[str]] = {}  # rows by their point: some share one
    strokes: list[tuple[tuple[float, float, float, float], float]] = []
    for row in found:
        frames, clips, mine = leaks(found, row, "frames"), leaks(found, row, "clips"), kept(found, row)
        if row == RAW or not frames or not clips or not mine:
            continue
        family = entry_of(row, scale).family
        colour, marker = styles[family]
        x, y = interval([max(pair) for pair in zip(frames, clips)]), interval(mine)
        axes.plot(x[1:], (y[0], y[0]), color=colour, alpha=0.3, linewidth=1)
        axes.plot((x[0], x[0]), y[1:], color=colour, alpha=0.3, linewidth=1)
        label = None if family in seen else family
        seen.add(family)
        axes.plot(x[0], y[0], marker, color=colour, label=label, linestyle="none", markersize=7)
        where.setdefault((round(x[0], 4), round(y[0], 2)), []).append(row)
        strokes += [((x[1], y[0], x[2], y[0]), 1.0), ((x[0], y[1], x[0], y[2]), 1.0)]
    named = [Named("", 1, 100, 13), *(Named(together(names), *at, 7) for at, names in where.items())]
    axes.plot(1, 100, "k*", markersize=13, label="raw video", linestyle="none")
    axes.axhline(90, color="#888888", linewidth=1, linestyle="--")
    axes.axvline(0.5, color="#888888", linewidth=1, linestyle="--")
    axes.set(
        xlabel="leakage above chance: worse of frames and clips, best of all attackers (1 = raw)",
        ylabel="action accuracy kept, % of raw",
        title="Twins, pixel anonymizers: left and up is better",
    )
    axes.legend(loc="lower right", frameon=False)
    place(figure, axes, named, strokes)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def strips(study: Study, destination: Path) -> None:
    """A clip of a test video of the first seed as every row publishes it: the theatre's, which everybody may see."""
    from videoveil.media.reader import open_video
    from videoveil.report.strips import progression

    job = study.job(study.seeds[0], "")
    item = next(item for item in dataset(job) if item.split == "test")
    with open_video(item.path) as video:
        images = video.read(list(range(min(16, video.count()))))  # (T, H, W, 3)
    made = [study.job(job.seed, "", row) for row in study.chosen]
    ready = [one for one in made if one.ready]
    shown = {model(one.row) or one.row: published(one, item, images) for one in ready}
    progression(images, shown, every=4).write(destination)


def published(job: Job, item: Any, images: Any) -> Any:
    """(T, H, W, 3), whole frames."""
    import torch

    if (paint := painter(job)) is not None:
        images = paint(item, range(len(images)), images)
    if (seen := anonymizer(job)) is None:
        return images
    clip = torch.from_numpy(images).permute(3, 0, 1, 2)[None].float() / 255
    with torch.no_grad():
        return seen.eval()(clip)[0].permute(1, 2, 3, 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a folder; of a file with results, what is in it is shown")
    parser.add_argument("--scale", choices=list(SCALES), default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="threads of a job")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--rows", nargs="+", help="names; 'candidates' for what the default was chosen from; =MODEL"
    )
    parser.add_argument("--without", nargs="+", default=[], choices=SCORES)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after that long")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--strips", type=Path, help="a picture of what every row publishes")
    asked = parser.parse_args()
    if asked.out.is_file():
        stored = json.loads(asked.out.read_text("utf-8"))
        show(stored["rows"], SCALES[stored["scale"]], asked.plot)
        return
    scale = SCALES[asked.scale]
    chosen = asked.rows or list(rows(scale))
    chosen = [n for word in chosen for n in (candidates(scale) if word == "candidates" else [word])]
    if unknown := [name for name in chosen if name not in known(scale) and not model(name)]:
        raise SystemExit(f"no rows {', '.join(unknown)}; there are {', '.join(known(scale))}")
    study = Study(
        asked.out,
        asked.seeds,
        asked.scale,
        asked.jobs,
        asked.device,
        chosen,
        asked.workers,
        time.time() + 60 * asked.minutes,
        frozenset(asked.without),
    )
    study.run()
    found = study.write()
    print(f"{study.done} parts in {study.minutes:.1f} minutes\n")
    if asked.strips:
        strips(study, asked.strips)
    show(found, scale, asked.plot)
    if study.failed:
        raise SystemExit("\n".join(study.failed))


def show(found: Any, scale: Scale, plot: Path | None) -> None:
    """Print the tables, and draw where a name for the picture is given."""
    print(table(found))
    print(f"\n{drawn_again(found)}")
    if plot:
        draw(found, plot, scale)


if __name__ == "__main__":
    main()
