"""What latent anonymizers keep and what they hide, on twins: every mechanism against fresh attackers.

    python benchmarks/latent_study.py OUT [--seeds 20 21 22] [--jobs 2] [--variants NAME …] [--parts NAME …]
        [--plot PNG] [--also JSON]
    python benchmarks/latent_study.py FILE.json [--plot PNG] [--also JSON]      # shows what was measured before

A seed is another cast, other films and another training. Per seed: render twins of VP-HMDB51 (actions; the leading
person's gender, skin, age, build and hair), THUMOS14 and UCF-Crime, extract with `tiny`, make every anonymizer from the
training videos of the action twin alone (unless its name says otherwise), send all features through it, and train
everything afresh on what comes out: linear probe, TriDet, MGFN, and six attackers on static and on moving clips, of
which the best counts. Leakage is (cMAP − chance) / (raw − chance). The attackers are asked of single rows, as in the
paper, and of whole videos (by the mean of a video's rows, or by the one that says most), and so are the same six who
have learnt from raw features only. Nothing is chosen here: seeds 10 and 11 were used to choose recipes, others to
report. Finished parts are not done again. Writes OUT/results.json, prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import processes
from benchmarks.intervals import interval
from benchmarks.latent_variants import VARIANTS
from videoveil import devices, files
from videoveil.attacks.attributes import leakage

TWINS = {"action": "vphmdb", "detection": "thumos14", "anomaly": "ucf-crime"}
STATIC = 6  # static clips of every video
SCORES = {"action": "top1", "detection": "map", "anomaly": "roc_auc", "static": "cmap", "moving": "cmap"}
UTILITIES, ATTACKS = ("action", "detection", "anomaly"), ("static", "moving")
RAW = "raw"
REPEATS = {"anomaly": 3}  # trainings per score


@dataclass(frozen=True)
class Job:
    """One thing to do in a process of its own: `what` is render, extract, fit, or the name of a score."""

    folder: Path  # of the seed
    seed: int
    size: str
    what: str
    variant: str = RAW
    twin: str = ""
    processes: int = 1
    twins: tuple[str, ...] = tuple(TWINS.values())  # that are asked

    @property
    def place(self) -> Path:
        return self.folder / self.variant.replace("/", "-").replace(" ", "-")

    @property
    def result(self) -> Path:
        return self.place / f"{self.what}.json"

    @property
    def title(self) -> str:
        return " ".join(str(part) for part in ("seed", self.seed, self.variant, self.what, self.twin) if part)


# --- what a process does ------------------------------------------------------------------------------------


def work(job: Job) -> str:
    """Do a job and say what came of it."""
    import torch

    torch.set_num_threads(1)
    began = time.perf_counter()
    said = {"render": render, "extract": extract, "fit": fit}.get(job.what, score)(job)
    return f"{job.title}: {said} ({time.perf_counter() - began:.0f} s)"


def render(job: Job) -> str:
    from videoveil.data import twins

    twins.make(job.twin, job.folder / job.twin, seed=job.seed, size=job.size, processes=job.processes)
    return "rendered"


def extract(job: Job) -> str:
    """Several processes may extract one store at the same time."""
    from videoveil.data import registry as data
    from videoveil.encoders import create
    from videoveil.features.extract import extract as run
    from videoveil.features.extract import recipe_for

    clips = "dense:4" if job.twin == "thumos14" else "all"
    encoder = create("tiny")
    recipe = recipe_for(encoder, clips=clips, static=STATIC)
    report = run(data.load(job.twin, job.folder / job.twin), raw_store(job, job.twin), encoder, recipe)
    return f"{report.clips} clips"


def raw_store(job: Job, twin: str) -> Path:
    return job.folder / RAW / f"{twin}-features"


def store_of(job: Job, task: str) -> Any:
    from videoveil.features.store import FeatureStore

    return FeatureStore.open(job.place / f"{TWINS[task]}-features")


def fit(job: Job) -> str:
    """Make the anonymizer and send the features through it."""
    from videoveil.anonymizers import LatentAnonymizer
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.features.anonymize import anonymize
    from videoveil.features.store import FeatureStore
    from videoveil.recipes import fit as fit_recipe
    from videoveil.tasks.base import Features

    if name := model(job.variant):
        anonymizer = open_anonymizer(name)
    else:
        variant = VARIANTS[job.variant]
        sources = {
            task: Features(FeatureStore.open(raw_store(job, TWINS[task])), split="train")
            for task in variant.sources
        }
        fit_recipe(variant.recipe, sources, job.place / "run", seed=job.seed, device="cpu")
        if variant.cross_sample:
            return "trained; its output depends on the batch and is not stored"
        anonymizer = LatentAnonymizer.from_pretrained(job.place / "run")
    keyed(anonymizer, job.seed)
    for twin in job.twins:
        out = job.place / f"{twin}-features"
        anonymize(raw_store(job, twin), out, anonymizer, labels=True, device="cpu")
    return "anonymized"


def keyed(anonymizer: Any, seed: int) -> Any:
    """With a key for its noise, where it adds any: the same for the same seed."""
    from videoveil.anonymizers import NoiseKey

    if anonymizer.wants_noise:
        anonymizer.key = NoiseKey(bytes([seed % 256]) * 32)
    return anonymizer


def score(job: Job) -> str:
    """Train and score one task or attack on the features of a variant."""
    if job.variant in VARIANTS and VARIANTS[job.variant].cross_sample:
        from benchmarks.latent_cross_sample import measure

        found = measure(
            job.place / "run",
            raw_store(job, TWINS["action"]),
            job.what,
            VARIANTS[job.variant].order,
            job.seed,
            labels_of(job),
        )
    elif job.what in ATTACKS:
        found = attack(job)
    else:
        found = utility(job)
    files.write_json(job.result, found)
    return f"{100 * found['value']:.1f}"


def labels_of(job: Job) -> Any:
    from videoveil.data.twins.people import lead_attributes
    from videoveil.features.store import FeatureStore

    twin = TWINS["action"]
    root = FeatureStore.open(raw_store(job, twin)).dataset().root
    return lead_attributes(twin, root, seed=job.seed, size=job.size)


def attack(job: Job) -> dict[str, Any]:
    from videoveil.attacks.attributes import AttackConfig, AttributeAttack
    from videoveil.features.store import FeatureStore
    from videoveil.tasks.base import Features

    store, labels = store_of(job, "action"), labels_of(job)
    config = AttackConfig(input="static" if job.what == "static" else "clip")
    device, test = str(devices.choose("auto")), Features(store, split="test")
    fitted = AttributeAttack(config, labels).fit(Features(store, split="train"), seed=job.seed, device=device)
    found = headline(fitted.score(test)) | {"videos": of_videos(fitted.outcomes(test))}
    if job.variant != RAW:
        raw = Features(FeatureStore.open(raw_store(job, TWINS["action"])), split="train")
        knowing = AttributeAttack(replace(config, knowledge="raw"), labels, raw=raw).fit(
            raw, seed=job.seed, device=device
        )
        found["raw_trained"] = headline(knowing.score(test))
    return found


def of_videos(outcomes: Any) -> dict[str, Any]:
    """The best that is found of whole videos, by mean or by peak of their rows, and by whom."""
    from videoveil.attacks.pooling import PEAK, VIDEO, with_videos

    asked = {
        name: one.measure() for name, one in with_videos(outcomes).items() if name.endswith((VIDEO, PEAK))
    }
    best = max(asked, key=lambda name: asked[name].value or 0.0)
    return {"value": asked[best].value, "chance": asked[best].chance, "by": best}


def utility(job: Job) -> dict[str, Any]:
    """The score; of MGFN, which now and then fails to start on so few videos, the mean of three trainings."""
    from videoveil.tasks import registry
    from videoveil.tasks.base import Features

    kind = registry.kind(job.what)
    store = store_of(job, job.what)
    config = kind.config("recommended" if job.what == "action" else "small", {})
    found = []
    for again in range(REPEATS.get(job.what, 1)):
        seed = job.seed + 1000 * again
        fitted = kind.make(config).fit(Features(store, split="train"), seed=seed, device="cpu")
        found.append(headline(fitted.score(Features(store, split="test"))))
    values = [one["value"] for one in found]
    return {**found[0], "value": sum(values) / len(values), "trainings": values}


def headline(found: Any) -> dict[str, Any]:
    value = found.to_json()
    best = found.headline
    return {"value": best.value, "chance": best.chance, **value}


# --- the study ----------------------------------------------------------------------------------------------


@dataclass
class Study:
    out: Path
    seeds: Sequence[int]
    size: str = "small"
    jobs: int = 2
    variants: Sequence[str] = field(default_factory=lambda: tuple(VARIANTS))
    until: float = float("inf")  # no job is begun after this moment
    only: Sequence[str] = (*UTILITIES, *ATTACKS)  # the scores that are asked

    def run(self) -> None:
        """Everything that is not there yet; what a variant is worth is asked as soon as it has been made."""
        self.features()
        fits, scores = [], []
        for seed in self.seeds:
            for variant in (RAW, *self.variants):
                if variant == RAW or self.fitted(seed, variant):
                    scores += self.scores(seed, variant)
                else:
                    fits.append(self.job(seed, "fit", variant))
        fits.sort(key=lambda job: -tasks_of(job.variant))  # the longest first
        self.each([*fits, *scores])

    def scores(self, seed: int, variant: str) -> list[Job]:
        """What is not known yet about a variant, the longest first."""
        wanted = [self.job(seed, what, variant) for what in self.parts(variant)]
        return sorted(
            (job for job in wanted if not job.result.is_file()), key=lambda j: j.what != "detection"
        )

    def features(self) -> None:
        missing = [
            self.job(seed, "render", twin=twin)
            for seed in self.seeds
            for twin in self.twins()
            if not any((self.out / f"seed{seed}" / RAW / f"{twin}-features" / "index").glob("*"))
        ]
        for job in missing:
            print(work(replace(job, processes=self.jobs)), flush=True)
        extracting = [replace(job, what="extract") for job in missing]
        self.each(sorted(extracting * 3, key=lambda j: j.twin != "thumos14"))

    def job(self, seed: int, what: str, variant: str = RAW, twin: str = "") -> Job:
        return Job(self.out / f"seed{seed}", seed, self.size, what, variant, twin, twins=self.twins())

    def parts(self, variant: str) -> tuple[str, ...]:
        """Which scores a variant gets here."""
        return tuple(what for what in parts(variant) if what in self.only)

    def twins(self) -> tuple[str, ...]:
        """Those that the scores are asked of, and those that anonymizers are made from."""
        made = [VARIANTS[variant].sources for variant in self.variants if variant in VARIANTS]
        asked = {
            "action" if what in ATTACKS else what for what in (*self.only, *(s for one in made for s in one))
        }
        return tuple(twin for task, twin in TWINS.items() if task in asked)

    def fitted(self, seed: int, variant: str) -> bool:
        return self.job(seed, "fit", variant).place.joinpath("fitted").is_file()

    def each(self, jobs: Iterable[Job]) -> None:
        """In processes of their own, in this order; a job that fails stops the study when the others are done."""
        if failed := processes.run(jobs, work, self.jobs, after=self.after, until=self.until):
            raise SystemExit("\n".join(failed))

    def after(self, job: Job) -> list[Job]:
        """What a job makes possible."""
        if job.what != "fit":
            return []
        files.write_text(job.place / "fitted", "")
        return self.scores(job.seed, job.variant)


def model(variant: str) -> str:
    """Of a variant `=NAME`, the anonymizer's name, folder or hub id; empty for others."""
    return variant[1:] if variant.startswith("=") else ""


def tasks_of(variant: str) -> int:
    return len(VARIANTS[variant].recipe.tasks) if variant in VARIANTS else 0


def parts(variant: str) -> tuple[str, ...]:
    """Which scores a variant gets; the temporal tasks take minutes and are kept for the rows that need them."""
    if variant not in VARIANTS or VARIANTS[variant].everything:
        return (*UTILITIES, *ATTACKS)
    return ("action", *ATTACKS)


# --- tables -------------------------------------------------------------------------------------------------


def collect(study: Study) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """variant → score → one record per seed; a score that some seed lacks is left out."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for variant in (RAW, *study.variants):
        rows[variant] = {}
        for what in study.parts(variant):
            results = [study.job(seed, what, variant).result for seed in study.seeds]
            if all(path.is_file() for path in results):
                rows[variant][what] = [json.loads(path.read_text()) for path in results]
    return rows


def kept(rows: Any, variant: str, what: str) -> list[float] | None:
    """Utility: value ÷ raw value, per seed. Attack: leakage above chance."""
    mine, raw = rows[variant].get(what), rows[RAW].get(what)
    if mine is None or raw is None:
        return None
    if what in UTILITIES:
        return [one["value"] / other["value"] for one, other in zip(mine, raw)]
    return [leakage(one["value"], other["value"], other["chance"]) for one, other in zip(mine, raw)]


def cell(values: Sequence[float] | None, percent: bool) -> str:
    if values is None:
        return "–"
    mean, low, high = interval(values)
    scale, digits = (100, 1) if percent else (1, 2)
    text = f"{scale * mean:.{digits}f}"
    return text if len(values) < 2 else f"{text} [{scale * low:.{digits}f}, {scale * high:.{digits}f}]"


def table(rows: Any) -> str:
    """Markdown: first the raw values, then what every variant keeps and leaks."""
    lines = [
        "| variant | action kept, % | detection kept, % | anomaly kept, % | leakage, static | leakage, moving |",
        "|---|---|---|---|---|---|",
    ]
    for variant in rows:
        cells = [cell(kept(rows, variant, what), what in UTILITIES) for what in (*UTILITIES, *ATTACKS)]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    raw = ", ".join(
        f"{what} {cell([one['value'] for one in found], True)} (guess {100 * mean(one['chance'] for one in found):.1f})"
        for what, found in rows[RAW].items()
    )
    return "\n".join([f"Raw: {raw}", "", *lines])


def whole_videos(rows: Any) -> str:
    """Markdown: leakage by rows, by whole videos, and to attackers who have learnt from raw features only."""
    lines = [
        "| variant | static, by frame | static, by video | static, knows raw | moving, by clip | moving, by video |"
        " moving, knows raw |",
        "|---|---|---|---|---|---|---|",
    ]
    for variant, found in rows.items():
        if not all("videos" in one for what in ATTACKS for one in found.get(what, [{}])):
            continue
        cells = [cell(of_kind(rows, variant, what, kind), False) for what in ATTACKS for kind in KINDS]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


KINDS = ("", "videos", "raw_trained")  # of what is found: by rows, by videos, by who knows raw features only


def of_kind(rows: Any, variant: str, what: str, kind: str) -> list[float] | None:
    """Leakage by seed, beside what fresh attackers find in raw features in the same way."""
    beside = kind if kind == "videos" else ""
    both = list(zip(rows[variant][what], rows[RAW][what]))
    if kind and any(kind not in mine for mine, _ in both):
        return None
    found = []
    for mine, raw in both:
        one, other = (mine[kind] if kind else mine), (raw[beside] if beside else raw)
        found.append(leakage(one["value"], other["value"], other["chance"]))
    return found


STYLES = {  # family → colour, marker
    "published": ("#d55e00", "s"),
    "released": ("#cc79a7", "X"),
    "mechanism": ("#0072b2", "o"),
    "ours": ("#009e73", "D"),
}


def draw(runs: Sequence[Any], path: Path) -> None:
    """The frontier: action kept against the worse of the two leakages, mean over seeds with intervals.

    Rows of several runs, each against the raw features of its own; of a row that is in two of them, the first counts.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(11, 6.5), layout="constrained")
    shown: dict[str, Any] = {}
    for rows in runs:
        for name, found in rows.items():
            if name != RAW and {"action", *ATTACKS} <= set(found):
                shown.setdefault(name, rows)
    for number, (variant, rows) in enumerate(shown.items(), 1):
        colour, marker = STYLES[VARIANTS[variant].family if variant in VARIANTS else "ours"]
        pairs = zip(kept(rows, variant, "static") or (), kept(rows, variant, "moving") or ())
        x, y = interval([max(pair) for pair in pairs]), interval(kept(rows, variant, "action") or ())
        mx, my = x[0], 100 * y[0]
        axes.plot(x[1:], (my, my), color=colour, alpha=0.25, linewidth=1)
        axes.plot((mx, mx), [100 * end for end in y[1:]], color=colour, alpha=0.25, linewidth=1)
        axes.plot(mx, my, marker, color=colour, markersize=7, label=f"{number}  {variant}", linestyle="none")
        turn = 2.4 * number  # every label lies on another side of its point
        place = (11 * math.cos(turn), 11 * math.sin(turn))
        axes.annotate(
            str(number), (mx, my), place, textcoords="offset points", fontsize=8, ha="center", va="center"
        )
    axes.plot(1, 100, "k*", markersize=13, label="raw features", linestyle="none")
    axes.axhline(97, color="#888888", linewidth=1, linestyle="--")
    axes.text(0.01, 97.2, "97 % of raw", fontsize=8, color="#666666")
    axes.set(
        xlabel="leakage above chance: worse of static and moving clips, best of six fresh attackers (1 = raw)",
        ylabel="action accuracy kept, % of raw",
        title="Twins, encoder tiny, three seeds: left and up is better",
        xlim=(0, 1.1),
        ylim=(84, 118),
    )
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a folder; of a file with results, what is in it is shown")
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--size", default="small")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--variants", nargs="+", metavar="NAME", default=list(VARIANTS), help="or =MODEL")
    parser.add_argument(
        "--parts", nargs="+", choices=list(SCORES), default=list(SCORES), help="scores to ask"
    )
    parser.add_argument("--only-features", action="store_true", help="render and extract, nothing else")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after that long")
    parser.add_argument("--plot", type=Path)
    parser.add_argument(
        "--also", type=Path, nargs="+", default=[], help="stored results to be drawn with these"
    )
    asked = parser.parse_args()
    if asked.out.is_file():
        show(json.loads(asked.out.read_text("utf-8"))["rows"], asked.plot, asked.also)
        return
    if unknown := [name for name in asked.variants if name not in VARIANTS and not model(name)]:
        parser.error(f"no variants {', '.join(unknown)}; there are {', '.join(VARIANTS)}, and =MODEL")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    study = Study(
        asked.out,
        asked.seeds,
        asked.size,
        asked.jobs,
        asked.variants,
        time.time() + 60 * asked.minutes,
        asked.parts,
    )
    if asked.only_features:
        study.features()
        return
    study.run()
    rows = collect(study)
    files.write_json(
        asked.out / "results.json", {"seeds": list(asked.seeds), "size": asked.size, "rows": rows}
    )
    show(rows, asked.plot, asked.also)


def show(rows: Any, plot: Path | None, also: Sequence[Path]) -> None:
    """Print the tables, and draw where a name for the picture is given."""
    print(f"{table(rows)}\n\n{whole_videos(rows)}")
    if plot:
        draw([rows, *(json.loads(path.read_text("utf-8"))["rows"] for path in also)], plot)


if __name__ == "__main__":
    main()
