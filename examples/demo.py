"""The demo: make data, learn an anonymizer twice, and measure what features keep and what they still tell about people.

python examples/demo.py FOLDER [SEED]

1  twins      render synthetic versions of three datasets (actions, untrimmed actions, surveillance)
2  features   run the embedded encoder over them: moving clips, and single frames as still clips
3  anonymize  make two anonymizers from the training features of the action set: `veil`, our default, a closed form,
              and `splavu`, the published objective; send all features through them
4  measure    on raw and on anonymized features alike: train three useful tasks and a suite of attackers from scratch
5  report     a table, and FOLDER/report.html
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from demo_page import Story, tell, write_page
from rich.console import Console

from videoveil import files
from videoveil.anonymizers import LatentAnonymizer
from videoveil.attacks.attributes import AttackConfig, AttributeAttack, Input, Rows, rows
from videoveil.attacks.features import SUITE, attacker, split
from videoveil.attacks.metrics import AttributeReport, ClassReport
from videoveil.data import registry as data
from videoveil.data import twins
from videoveil.data.records import Item
from videoveil.data.twins.people import PathLabels, lead_attributes
from videoveil.encoders import create
from videoveil.features.anonymize import anonymize
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.recipes import Evaluate, LatentRecipe, fit, splavu_hmdb51, veil
from videoveil.tasks import registry, runs
from videoveil.tasks.base import Features, Score
from videoveil.tasks.mgfn.sources import make_video


@dataclass(frozen=True)
class Work:
    """A useful task: its twin, how clips are cut from it, and how the task learns."""

    twin: str
    size: str
    clips: str
    static: int
    preset: str
    changes: Mapping[str, str] = field(default_factory=dict)


# TriDet: the whole set of six training videos in every step, windows as short as the videos
SHORT = {"max_seq_len": "64", "batch_size": "6", "learning_rate": "1e-3", "ema_decay": "0.95"}
WORKS = {
    "action": Work("vphmdb", "small", "3", 2, "recommended"),
    "detection": Work("thumos14", "tiny", "dense:4", 0, "small", {**SHORT, "cosine_epochs": "57"}),
    "anomaly": Work("ucf-crime", "tiny", "all", 0, "small", {"epochs": "30"}),
}
# The twin's 192 training videos make one step per epoch where the paper has seven: a faster rate makes up for it
SPLAVU = replace(splavu_hmdb51(), epochs=120, learning_rate=5e-4, evaluate_every=12)
RECIPES = {"splavu": SPLAVU, "veil": veil()}
OURS = (".demo", "report.html")  # by either of them a folder is known as that of an earlier demo
ATTACKS: dict[str, Input] = {
    "static": "static",
    "moving": "clip",
}  # what the attackers see → what the store calls it


@dataclass(frozen=True)
class Demo:
    """Where everything goes and what is done; sent to other processes, so it holds settings only."""

    folder: Path
    seed: int = 0
    works: Mapping[str, Work] = field(default_factory=lambda: WORKS)
    recipes: Mapping[str, LatentRecipe] = field(default_factory=lambda: RECIPES)
    attackers: tuple[str, ...] = SUITE
    processes: int = 2  # that render

    def store(self, task: str, variant: str) -> FeatureStore:
        return FeatureStore.open(self.folder / variant / f"{self.works[task].twin}-features")

    def train(self, task: str, variant: str = "raw") -> Features:
        return Features(self.store(task, variant), split="train")

    def people(self) -> PathLabels:
        """Who leads in a video of the action twin: known from its plan, and given to attackers only."""
        work = self.works["action"]
        return lead_attributes(work.twin, self.folder / work.twin, seed=self.seed, size=work.size)


# --- 1 and 2: videos and features ---------------------------------------------------------------------------


def prepare(demo: Demo, task: str) -> str:
    """Render the task's twin and extract its features."""
    work, began = demo.works[task], time.perf_counter()
    root, encoder = demo.folder / work.twin, create("tiny")
    made = twins.make(work.twin, root, seed=demo.seed, size=work.size, processes=demo.processes)
    used = data.load(work.twin, root).where(lambda item: item.split in ("train", "test"))
    recipe = recipe_for(encoder, clips=work.clips, static=work.static)
    report = extract(used, demo.folder / "raw" / f"{work.twin}-features", encoder, recipe)
    return (
        f"{made.frames} frames rendered in {made.seconds:.0f} s, {report.clips} clips encoded in "
        f"{time.perf_counter() - began - made.seconds:.0f} s"
    )


# --- 3: anonymizers -----------------------------------------------------------------------------------------


def make(demo: Demo, variant: str) -> tuple[str, float]:
    """Make an anonymizer and send all features through it; its hash and the seconds it took to make."""
    began, recipe, source = time.perf_counter(), demo.recipes[variant], demo.train("action")
    watch = watcher(demo, source) if recipe.epochs else None
    made = fit(recipe, {"action": source}, demo.folder / variant / "run", seed=demo.seed, evaluate=watch)
    seconds = time.perf_counter() - began
    for task in demo.works:
        raw = demo.store(task, "raw").root
        anonymize(raw, demo.folder / variant / raw.name, made, labels=True)  # attackers are told who is who
    return made.content_hash(), seconds


def watcher(demo: Demo, source: Features) -> Evaluate:
    """Action accuracy and cMAP on a fifth of the training videos that two linear models have not seen (Eq. 14)."""
    classes = source.records().classes
    people, actions = demo.people(), {name: number for number, name in enumerate(classes)}

    def action(item: Item) -> dict[str, int]:
        return {"action": actions[str(item.action)]}

    names = tuple(people(source.items()[0].item) or {})
    still = rows(source, names, AttackConfig(input="static"), people)
    clips = rows(source, ("action",), AttackConfig(input="clip"), action)

    def held_out(anonymizer: LatentAnonymizer, part: Rows, y: np.ndarray) -> AttributeReport | ClassReport:
        where = next(anonymizer.parameters()).device
        with torch.inference_mode():
            x = anonymizer(torch.from_numpy(part.x).to(where)).cpu().numpy()
        learn, ask = split(len(x), 0.2, demo.seed, part.videos)
        return attacker("linear").fit(x[learn], y[learn]).report(x[ask], y[ask])

    def evaluate(anonymizer: LatentAnonymizer, epoch: int) -> tuple[float, float]:
        doing, being = held_out(anonymizer, clips, clips.y[:, 0]), held_out(anonymizer, still, still.y)
        assert isinstance(doing, ClassReport)
        assert isinstance(being, AttributeReport)
        return doing.accuracy, being.cmap or 0.0

    return evaluate


# --- 4: measuring -------------------------------------------------------------------------------------------


def measure(demo: Demo, variant: str, what: str) -> Score:
    """Train a task or a suite of attackers on the training features of a variant and score it on the test features."""
    if what in demo.works:
        work, kind, folder = demo.works[what], registry.kind(what), demo.folder / variant / what
        task = kind.make(kind.config(work.preset, work.changes))
        runs.train(task, demo.train(what, variant), folder, seed=demo.seed)
        return runs.score(runs.Run.open(folder))
    config = AttackConfig(input=ATTACKS[what], kinds=demo.attackers)
    source = demo.train("action", variant)
    attack = AttributeAttack(config, demo.people()).fit(source, seed=demo.seed)
    return attack.score(source.with_split("test"))


def watched(demo: Demo, variant: str) -> tuple[Item, list[float]]:
    """The first anomalous test video and the score of each of its clips."""
    store = demo.store("anomaly", variant)
    entry = next(one for one in store.items(split="test") if one.item.anomaly)
    clip = store.recipe.frames * store.recipe.stride
    video = make_video(entry.item, store.read(entry).clip, clip)
    fitted = runs.Run.open(demo.folder / variant / "anomaly").fitted()
    return entry.item, fitted.model.scores([video])[entry.item.id].tolist()


# --- the story ----------------------------------------------------------------------------------------------


def run(demo: Demo, pool: Executor, console: Console) -> Story:
    """All of it. Anonymizers and measurements go to the pool, what takes longest first."""
    began, seconds = time.perf_counter(), {}
    for task in demo.works:
        start = time.perf_counter()
        console.print(f"{demo.works[task].twin:10} {prepare(demo, task)}")
        seconds[f"data for {task}"] = time.perf_counter() - start
    start, jobs = time.perf_counter(), {}
    made = {variant: pool.submit(make, demo, variant) for variant in demo.recipes}
    jobs["raw"] = submit(demo, pool, "raw")
    hashes = {}
    for variant, maker in made.items():
        hashes[variant], seconds[f"anonymizer {variant}"] = maker.result()
        console.print(f"{variant:10} made in {seconds[f'anonymizer {variant}']:.0f} s")
        jobs[variant] = submit(demo, pool, variant)
    scores = {variant: {what: job.result() for what, job in each.items()} for variant, each in jobs.items()}
    seconds["anonymizers and all measurements"] = time.perf_counter() - start
    timeline = {variant: watched(demo, variant) for variant in scores}
    seconds["in all"] = time.perf_counter() - began
    return Story(demo.folder, demo.seed, scores, demo.recipes, hashes, demo.attackers, timeline, seconds)


def submit(demo: Demo, pool: Executor, variant: str) -> dict[str, Future[Score]]:
    return {
        what: pool.submit(measure, demo, variant, what)
        for what in ("detection", *ATTACKS, "action", "anomaly")
    }


def clear(demo: Demo) -> None:
    """Remove what an earlier demo left, and nothing else; a folder that is somebody else's is refused."""
    folder = demo.folder
    if folder.exists() and any(folder.iterdir()) and not any((folder / name).exists() for name in OURS):
        raise SystemExit(f"{folder}: is not empty and not of an earlier demo; choose another folder")
    files.write_text(folder / OURS[0], "What is in this folder is made anew by every demo.\n")
    for old in ("raw", *demo.recipes, *(work.twin for work in demo.works.values())):
        shutil.rmtree(demo.folder / old, ignore_errors=True)


def main(folder: Path, seed: int) -> None:
    console = Console(width=110, highlight=False)
    demo = Demo(folder, seed)
    clear(demo)
    # two processes of one thread each: small networks gain nothing from more
    with ProcessPoolExecutor(2, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        story = run(demo, pool, console)
    console.print()
    console.print(tell(story))
    write_page(story, folder / "report.html")
    console.print(f"Synthetic data (twins, seed {seed}), {story.seconds['in all']:.0f} s in all.")
    console.print(f"The whole story with plots: {folder / 'report.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
