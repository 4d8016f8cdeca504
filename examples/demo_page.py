"""What the demo found, as a table and as a page. All figures come from the story; nothing is decided here."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from rich.table import Table as RichTable

import videoveil
from videoveil.attacks.attributes import leakage
from videoveil.data.records import Item
from videoveil.features.store import FeatureStore
from videoveil.recipes import LatentRecipe, recipe
from videoveil.report.page import Beside, Facts, Page, Plot, Points, Section, Table, write
from videoveil.report.plots import Group, Level, Line, Point, Stretch, bars, curves, svg, tradeoff
from videoveil.tasks.base import Score

UTILITIES = {"action": "actions", "detection": "actions in time", "anomaly": "anomalies"}
ATTACKS = {"static": "still clips", "moving": "moving clips"}
METRICS = {"top1": "top-1", "roc_auc": "ROC-AUC"}
NOT_HIDDEN = 0.8  # leakage from which on the page says that an anonymizer does not hide


@dataclass(frozen=True)
class Story:
    """Everything the demo measured: variant → task or attack → score, and how it came about."""

    folder: Path
    seed: int
    scores: Mapping[str, Mapping[str, Score]]  # "raw" is first
    recipes: Mapping[str, LatentRecipe]
    hashes: Mapping[str, str]
    attackers: tuple[str, ...]
    timeline: Mapping[str, tuple[Item, list[float]]]
    seconds: Mapping[str, float]

    def value(self, variant: str, what: str) -> float:
        found = self.scores[variant][what].headline.value
        return math.nan if found is None else found

    def chance(self, what: str) -> float:
        found = self.scores["raw"][what].headline.chance
        return math.nan if found is None else found

    def useful(self) -> list[str]:
        """Tasks that raw features are good for; of the others nothing can be kept."""
        return [task for task in UTILITIES if self.value("raw", task) > self.chance(task)]

    def kept(self, variant: str) -> list[float]:
        """What is left of every utility, as a share of the raw value."""
        return [self.value(variant, task) / self.value("raw", task) for task in self.useful()] or [math.nan]

    def leaks(self, variant: str, attack: str) -> float:
        return leakage(self.value(variant, attack), self.value("raw", attack), self.chance(attack))

    def worst(self, variant: str) -> float:
        return max(self.leaks(variant, attack) for attack in ATTACKS)

    def history(self, variant: str) -> list[dict[str, Any]]:
        path = self.folder / variant / "run" / "history.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []

    def blind_budget(self, variant: str) -> float:
        """NT-Xent where no clip tells its video: log(2N − 1) with N videos in a step."""
        return math.log(2 * self.in_a_step(variant) - 1)

    def in_a_step(self, variant: str) -> int:
        used = json.loads((self.folder / variant / "run" / "run.json").read_text("utf-8"))["sources"][
            "action"
        ]
        return min(self.recipes[variant].batch, len(FeatureStore.open(used["store"]).items(split="train")))


# --- the table ----------------------------------------------------------------------------------------------


def figures(story: Story) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: utilities and leakage of every variant, then what a blind guess gives."""
    metrics = [METRICS.get(name := story.scores["raw"][task].headline.name, name) for task in UTILITIES]
    header = ["features", *(f"{words}, {metric}" for words, metric in zip(UTILITIES.values(), metrics))]
    header += [f"{words.split()[0]}, cMAP (leakage)" for words in ATTACKS.values()]
    found = []
    for variant in story.scores:
        cells = [f"{100 * story.value(variant, task):.1f}" for task in UTILITIES]
        for attack in ATTACKS:
            cells.append(f"{100 * story.value(variant, attack):.1f} ({story.leaks(variant, attack):.2f})")
        found.append((variant, *cells))
    blind = [f"{100 * story.chance(task):.1f}" for task in UTILITIES]
    blind += [f"{100 * story.chance(attack):.1f} (0.00)" for attack in ATTACKS]
    return tuple(header), [*found, ("blind guess", *blind)]


def tell(story: Story) -> RichTable:
    """The figures for a terminal."""
    header, found = figures(story)
    table = RichTable(box=None, title="what features tell: what happens, and to whom", title_justify="left")
    for place, name in enumerate(header):
        table.add_column(name.replace(", ", "\n"), justify="right" if place else "left")
    for row in found:
        table.add_row(*row)
    return table


def sizes(story: Story) -> str:
    counts = [f"{story.scores['raw'][task].items} for {words}" for task, words in UTILITIES.items()]
    return f"Test videos: {', '.join(counts)}."


# --- the page -----------------------------------------------------------------------------------------------


def summary(story: Story) -> str:
    parts = [
        f"{variant} leaves {100 * story.worst(variant):.0f}\u00a0% of what attackers read and "
        f"{100 * mean(story.kept(variant)):.0f}\u00a0% of what the tasks score"
        for variant in story.recipes
    ]
    return (
        "The features of a video encoder tell three useful tasks what happens in a video, and they tell attackers who "
        f"is in it: {'; '.join(parts)} (synthetic data, one run)."
    )


def verdicts(story: Story) -> list[str]:
    """Plain words for what is not as one would wish."""
    found = [
        f"Raw features do no better than a blind guess at {words}: it does not count in what is kept."
        for task, words in UTILITIES.items()
        if task not in story.useful()
    ]
    for variant, used in story.recipes.items():
        if story.worst(variant) >= NOT_HIDDEN and used.epochs:
            first, last = (story.history(variant)[place]["budget"] for place in (0, -1))
            found.append(
                f"{variant} hides next to nothing from attackers that are trained on its output: "
                f"{100 * story.worst(variant):.0f} % of the leakage is still there. Its own loss says otherwise: the "
                f"budget rose from {first:.2f} to {last:.2f}, where {story.blind_budget(variant):.2f} would mean that "
                "clips of one video are no closer to each other than to those of other videos. But that is about "
                "angles in a space which is only rearranged: what can be turned back is not lost, and consistency "
                "with the raw features keeps the map close to one that can. A new attacker finds it again."
            )
        elif story.worst(variant) >= NOT_HIDDEN:
            found.append(
                f"{variant} hides next to nothing here: {story.worst(variant):.2f} of the leakage is left."
            )
        else:
            gap = story.leaks(variant, "moving") - story.leaks(variant, "static")
            found.append(
                f"{variant} leaves {story.leaks(variant, 'static'):.2f} of the leakage on still clips and "
                f"{story.leaks(variant, 'moving'):.2f} on moving ones ({gap:+.2f}). What is left can be "
                "read by whoever has labelled examples; it is less, not nothing."
            )
    return found


def frontier(story: Story) -> Plot:
    points = [
        Point(v, words, story.leaks(v, attack), mean(story.kept(v)), min(story.kept(v)), max(story.kept(v)))
        for v in story.scores
        for attack, words in ATTACKS.items()
    ]
    drawn = tradeoff(
        points,
        "leakage above chance",
        "utility kept",
        (Level("blind guess", 0.0), Level("raw features", 1.0)),
    )
    return Plot(
        svg(drawn, "frontier"),
        "Utility kept against leakage above chance",
        "Up and to the left is better. Markers: mean of the three tasks; lines: from the worst to the best of them.",
    )


def training(story: Story, variant: str) -> list[Plot]:
    """Loss terms of a trained anonymizer, and the curve of Eq. 14."""
    history = story.history(variant)
    if not history:
        return []
    epochs = [record["epoch"] + 1 for record in history]
    levels = (Level(f"chance, log(2·{story.in_a_step(variant)} − 1)", story.blind_budget(variant)),)
    texts = {
        "budget": "Budget (pairs of still clips, maximised): at chance, a video's clips are not closer than others.",
        "consistency": "Consistency: how far anonymized clips are from raw ones.",
        "utility": "Utility: loss of the action head.",
    }
    plots = []
    for term, caption in texts.items():
        line = Line(term, epochs, [record[term] for record in history])
        drawn = curves([line], "epoch", term, levels if term == "budget" else ())
        plots.append(Plot(svg(drawn, f"{variant}-{term}"), f"{term} of {variant} by epoch", caption))
    if seen := [record for record in history if "score" in record]:
        seconds = [record["seconds"] for record in seen]
        names = {"action accuracy": "accuracy", "cMAP": "leakage", "score": "score"}
        lines = [Line(name, seconds, [record[key] for record in seen]) for name, key in names.items()]
        caption = "Eq. 14 of the paper: score = ½·(accuracy + 1 − cMAP), by linear models on held-out training videos."
        plots.append(
            Plot(svg(curves(lines, "seconds of training", ""), f"{variant}-score"), caption, caption)
        )
    return plots


def attributes(story: Story, attack: str) -> Plot:
    """What the best attacker reads of every attribute."""
    known = story.scores["raw"][attack].per_class
    groups = [
        Group(
            name, {v: s[attack].per_class[name]["ap"] for v, s in story.scores.items()}, known[name]["chance"]
        )
        for name in sorted(known)
    ]
    drawn = bars(groups, "average precision of the best attacker", "share of people who have it")
    words = ATTACKS[attack]
    return Plot(svg(drawn, f"attributes-{attack}"), f"Private attributes, {words}", f"Attackers see {words}.")


def watch(story: Story) -> Plot:
    """Anomaly scores of one test video, with the truth."""
    item, scores = story.timeline["raw"]
    rate = 25  # frames per second of twins
    clip = FeatureStore.open(story.folder / "raw" / "ucf-crime-features").recipe
    step = clip.frames * clip.stride / rate
    times = [step * (place + 0.5) for place in range(len(scores))]
    lines = [Line(variant, times, found) for variant, (_, found) in story.timeline.items()]
    truth = [Stretch(span.first / rate, span.stop / rate, "truth") for span in item.anomaly_spans]
    drawn = curves(lines, "seconds", "anomaly score", stretches=truth)
    return Plot(
        svg(drawn, "timeline"), f"Anomaly scores of {item.id}", f"{item.id}: every model was trained anew."
    )


def changed(used: LatentRecipe) -> str:
    """How a recipe differs from the one of that name."""
    base = recipe(used.name)
    names = [one.name for one in fields(used) if getattr(used, one.name) != getattr(base, one.name)]
    told = [f"{name} {getattr(base, name)} → {getattr(used, name)}" for name in names]
    return f"{used.name}, changed: {', '.join(told)}" if told else f"{used.name}, unchanged"


def facts(story: Story) -> Facts:
    encoder = FeatureStore.open(next((story.folder / "raw").glob("*-features"))).encoder
    pairs = [("seed", str(story.seed)), (f"encoder {encoder['name']}", encoder["hash"])]
    pairs += [
        (f"anonymizer {v}", f"{changed(story.recipes[v])}; {hash_}") for v, hash_ in story.hashes.items()
    ]
    pairs += [
        (
            "attackers",
            f"{', '.join(story.attackers)}; trained anew on every kind of features, the best counts",
        )
    ]
    versions = (
        f"videoveil {videoveil.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    )
    pairs += [("versions", versions)]
    pairs += [(f"seconds: {name}", f"{value:.0f}") for name, value in story.seconds.items()]
    return Facts(tuple(pairs))


READING = (
    "Actions: share of videos whose action a linear probe names (top-1). Actions in time: mean average precision of "
    "TriDet at overlaps of .3 to .7. Anomalies: area under the frame-level ROC curve of MGFN.",
    "cMAP: mean average precision over the private attributes of the leading person. A blind guess reaches the "
    "share of people who have an attribute.",
    "Leakage above chance: (cMAP − blind guess) / (raw cMAP − blind guess). 1: as much as raw features tell; "
    "0: nothing.",
    "Still clips repeat one frame, as in the paper; moving clips are what a video store holds. The worse of the two "
    "counts.",
)
LIMITS = (
    "Synthetic data: rendered actors, an encoder that was trained on such actors. Figures on real video differ.",
    "One seed and few test videos (six for actions in time, twelve for anomalies), so that the table's smaller "
    "differences mean nothing. Studies with several seeds and intervals are in docs/results.md.",
    "Leakage is what the named attackers found. A stronger one may find more: none of this proves that people cannot "
    "be recognised.",
)


def write_page(story: Story, destination: Path) -> None:
    header, found = figures(story)
    trained = [plot for variant in story.recipes for plot in training(story, variant)]
    sections = [
        Section(
            "What is kept and what leaks",
            [
                Table(
                    header, tuple(found), f"Per cent; in brackets the leakage above chance. {sizes(story)}"
                ),
                Points(tuple(verdicts(story))),
                frontier(story),
            ],
        ),
        Section("What attackers read", [Beside(tuple(attributes(story, attack) for attack in ATTACKS))]),
        Section("How the published objective was trained", [Beside(tuple(trained))]),
        Section("One video", [watch(story)]),
        Section("How to read this", [Points(READING)]),
        Section("Limits", [Points(LIMITS)]),
        Section("What was run", [facts(story)]),
    ]
    write(Page("Who is in the features?", summary(story), sections), destination)
