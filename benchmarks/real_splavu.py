"""Latent anonymizers on real clips: what stays useful, what stays private.

    python benchmarks/real_splavu.py DATA OUT [--seeds 0 1 2] [--encoder-weights FILE FILE FILE] [--recipes veil …]
    python benchmarks/real_splavu.py DATA OUT --validate --recipes veil veil@0.0625 veil@0.25 …

DATA holds `hmdb51-12`, `pa-hmdb51`, `utkface` and `kth` (`benchmarks/real_data.py` says how they look).

1. Encoder: `tiny` trained on the training clips of hmdb51-12, split 1, one for each seed; `--encoder-weights` gives
   those that are trained already, in the order of the seeds (`benchmarks/real_tasks.py --only-network` makes them).
2. Features of all clips of hmdb51-12 and kth (moving, and six static ones of every video) and of every face.
3. Anonymizers, fitted and trained on the training videos of hmdb51-12 alone. A recipe is a name that `veil train`
   knows, `NAME@SHARE` (what it erases or keeps as another share of the width), `NAME+spare` (the directions of the
   action head are kept), `rank-R` (a bottleneck of R numbers, trained for actions and consistency; `rank-R~F` with a
   floor of F standard deviations of noise behind it) or `motion-K` (motion only, and K numbers of the still frames).
4. Scores on raw and on anonymized features. Utility: actions of hmdb51-12, and of KTH, which no anonymizer has seen.
   Attacks, each by the strongest of six attackers that are trained afresh on what would be published: gender, race and
   age group of faces (static clips); PA-HMDB51's attributes of labelled clips, static and moving, in two folds that
   share no film; which person of KTH, static and moving, from other actions.

Intervals are bootstraps over sources (films, people, pictures) and seeds, `leakage` is (value − chance)/(raw − chance).
`--validate` scores the same on held-out parts that no result is reported on (the clips that split 1 leaves unused, the
validation people of KTH, the validation part of the faces): that is where settings are chosen. A part that is done is
not done again, so seeds may be run one by one or side by side and put together by a last call with all of them.
`--groups` takes some of the scores only; `--limit N` about N items of every dataset, to see whether it runs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import real_data, real_scores, real_tasks
from benchmarks.real_data import Videos
from benchmarks.real_scores import Found
from videoveil import files
from videoveil.anonymizers import LatentAnonymizer
from videoveil.anonymizers.config import Erase, Keep, Motion, Noise, Rank, StageConfig
from videoveil.anonymizers.keys import NoiseKey
from videoveil.attacks import SUITE
from videoveil.audit.rules import Rules
from videoveil.data.records import Dataset
from videoveil.encoders import create
from videoveil.errors import UsageError
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.recipes import LatentRecipe, fit, recipe
from videoveil.tasks.action.network import ENCODER
from videoveil.tasks.base import Features

RECIPES = ("veil", "veil-erase", "veil-static", "veil-noise", "veil-tuned", "splavu-hmdb51", "rank-24")
STATIC = 6
VOID = "void"  # in place of a part of what raw features do not clearly tell
RANK = re.compile(r"rank-(\d+)(?:~([\d.]+))?")
MOTION = re.compile(r"motion-(\d+)")
QUICK = ("linear", "mlp2")  # attackers of the validation
UTILITY = {"hmdb51": "hmdb51-12 actions", "kth": "KTH actions (unseen)"}
ATTACKS = {
    "faces": "utkface, static",
    "people-static": "PA-HMDB51, static",
    "people-moving": "PA-HMDB51, moving",
    "identity-static": "KTH identity, static",
    "identity-moving": "KTH identity, moving",
}


def find_recipe(name: str) -> LatentRecipe:
    """A registered recipe, `rank-R[~FLOOR]` or `motion-K`; one that erases also with `@SHARE`, `+spare` or both."""
    if match := RANK.fullmatch(name):
        return bottleneck(name, int(match.group(1)), float(match.group(2) or 0))
    if match := MOTION.fullmatch(name):
        return replace(recipe("veil-motion"), name=name, stages=(Motion(int(match.group(1))),))
    rest, spare = name.removesuffix("+spare"), name.endswith("+spare")
    base, at, share = rest.partition("@")
    found = recipe(base)
    if not at and not spare:
        return found
    if not found.finds_directions:
        raise UsageError(
            f"{name}: {base} takes no directions from data, so there is no share to change and nothing to spare"
        )
    stages = found.stages
    if at:
        stages = tuple(
            replace(s, share=float(share), directions=0) if isinstance(s, Erase | Keep) else s for s in stages
        )
    return replace(found, name=name, stages=stages, spare=spare or found.spare)


def bottleneck(name: str, rank: int, floor: float) -> LatentRecipe:
    """Through `rank` numbers, trained for actions and consistency; with a floor of noise behind it where it has one."""
    stages: tuple[StageConfig, ...] = (Rank(rank),)
    if floor:
        stages = (*stages, Noise(floor=floor, learned=False, basis="principal"))
    return replace(recipe("splavu-hmdb51"), name=name, stages=stages, w_budget=0.0)


class Study:
    """One encoder: its features, its anonymizers and what they are worth."""

    def __init__(self, asked: argparse.Namespace, seed: int, weights: Path | None):
        self.asked, self.seed, self.given = asked, seed, weights
        self.folder: Path = asked.out / f"seed{seed}"
        self.labels = real_data.people(asked.data)
        self._raw: dict[str, Videos] = {}

    def datasets(self) -> tuple[Dataset, ...]:
        load = (real_data.actions, real_data.faces, real_data.kth)
        return tuple(one(self.asked.data, self.asked.limit) for one in load)

    def encoder(self) -> Path:
        """Weights that were given, or trained here as the real tasks train them."""
        if self.given is not None:
            return self.given
        run = self.asked.out / f"tiny-seed{self.seed}"
        settings = argparse.Namespace(
            encoder="tiny",
            epochs=self.asked.epochs,
            batch=16,
            workers=self.asked.workers,
            device=self.asked.device,
        )
        real_tasks.network(real_data.actions(self.asked.data, self.asked.limit), run, self.seed, settings)
        return run / ENCODER

    def store(self) -> FeatureStore:
        """Features of everything; what is there is not extracted again."""
        encoder = create("tiny", weights=self.encoder())
        how = recipe_for(encoder, clips="all", static=STATIC)
        root = self.folder / "features"
        for dataset in self.datasets():
            began = time.perf_counter()
            report = extract(
                dataset, root, encoder, how, workers=self.asked.workers, device=self.asked.device, batch=16
            )
            if report.extracted:
                self.took(f"extract {dataset.name}", time.perf_counter() - began)
        return FeatureStore.open(root)

    def took(self, what: str, seconds: float) -> None:
        path = self.folder / "seconds.json"
        there = json.loads(path.read_text()) if path.is_file() else {}
        files.write_json(path, {**there, what: round(there.get(what, 0.0) + seconds, 1)})
        print(f"seed {self.seed}: {what}: {seconds:.0f} s", flush=True)

    def raw(self, store: FeatureStore) -> dict[str, Videos]:
        if not self._raw:
            self._raw = {name: real_data.read(store, name) for name in store.datasets()}
        return self._raw

    def anonymizer(self, name: str, store: FeatureStore) -> LatentAnonymizer:
        began = time.perf_counter()
        run = self.folder / "anonymizers" / name.replace("/", "-")
        training = {"action": Features(store, "hmdb51", "train")}
        made = fit(find_recipe(name), training, run, seed=self.seed, device=self.asked.device)
        # no secret, so that the same call gives the same figures; no attacker here knows it
        made.key = NoiseKey(files.value_hash(["real_splavu", self.seed, name]).encode())
        self.took(f"anonymizer {name}", time.perf_counter() - began)
        return made.eval()

    def found(self, name: str, store: FeatureStore) -> dict[str, Found]:
        """Every group's test rows and what was found about them, for one recipe or for `raw`."""
        stage = "validation" if self.asked.validate else "test"
        folder = self.folder / stage / name.replace("/", "-")
        made = {
            "encoder": store.encoder["hash"],
            "recipe": None if name == "raw" else find_recipe(name).to_json(),
            "limit": self.asked.limit,
        }
        header = folder / "made.json"
        if header.is_file() and json.loads(header.read_text()) != json.loads(json.dumps(made)):
            raise UsageError(f"{folder}: made with another encoder, recipe or limit; use another OUT")
        groups = self.groups()
        if not all((folder / f"{group}.npz").is_file() for group in groups):
            files.write_json(header, made)
            videos = self.raw(store)
            if name != "raw":
                anonymizer = self.anonymizer(name, store)
                videos = {key: real_data.through(one, anonymizer) for key, one in videos.items()}
            for group, find in groups.items():
                if not (path := folder / f"{group}.npz").is_file():
                    began = time.perf_counter()
                    find(videos).save(path)
                    self.took(f"{stage} {group} {name}", time.perf_counter() - began)
        return {group: Found.load(folder / f"{group}.npz") for group in groups}

    def groups(self) -> dict[str, Callable[[Mapping[str, Videos]], Found]]:
        """What is scored, by name, of what was asked for."""
        every = self.every_group()
        return {group: every[group] for group in self.asked.groups if group in every}

    def every_group(self) -> dict[str, Callable[[Mapping[str, Videos]], Found]]:
        seed, device = self.seed, self.asked.device
        if self.asked.validate:
            return {
                "hmdb51": lambda v: real_scores.actions(v["hmdb51"], "unused", seed),
                "kth": lambda v: real_scores.actions(v["kth"], "val", seed),
                "faces": lambda v: real_scores.faces(v["utkface"], "val", QUICK, seed, device),
            }
        return {
            "hmdb51": lambda v: real_scores.actions(v["hmdb51"], "test", seed),
            "kth": lambda v: real_scores.actions(v["kth"], "test", seed),
            "people-static": lambda v: real_scores.people(
                v["hmdb51"], self.labels, False, SUITE, seed, device
            ),
            "people-moving": lambda v: real_scores.people(
                v["hmdb51"], self.labels, True, SUITE, seed, device
            ),
            "faces": lambda v: real_scores.faces(v["utkface"], "test", SUITE, seed, device),
            "identity-static": lambda v: real_scores.identity(v["kth"], False, SUITE, seed, device),
            "identity-moving": lambda v: real_scores.identity(v["kth"], True, SUITE, seed, device),
        }


# --- tables -------------------------------------------------------------------------------------------------


def percent(figures: list[float]) -> str:
    value, low, high = (100 * one for one in figures)
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def ratio(figures: list[float]) -> str:
    value, low, high = figures
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def shows(raw: Mapping[str, Any]) -> bool:
    """Whether raw features clearly beat chance; what is a part of less than that means nothing."""
    return bool(raw["value"][1] - raw["chance"] > Rules().margin)


def tables(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Utility, then every attack with its leakage or that it is void, then the parts of the attacks."""
    groups = list(next(iter(rows.values())))
    lines = []
    for title, names in (("utility", UTILITY), ("attack", ATTACKS)):
        here = [group for group in names if group in groups]
        if not here:
            continue
        share = "kept" if title == "utility" else "leakage"

        def part(found: Mapping[str, Any], group: str, share: str = share) -> str:
            return ratio(found[group]["all"][share]) if shows(rows["raw"][group]["all"]) else VOID

        heads = [f"{names[g]} (chance {100 * rows['raw'][g]['all']['chance']:.1f}) | {share}" for g in here]
        lines += ["", f"| features | {' | '.join(heads)} |", "|---" * (1 + 2 * len(here)) + "|"]
        for recipe_name, found in rows.items():
            cells = [f"{percent(found[g]['all']['value'])} | {part(found, g)}" for g in here]
            lines.append(f"| {recipe_name} | {' | '.join(cells)} |")
    for group in [g for g in groups if g in ATTACKS and len(rows["raw"][g]) > 1]:
        parts = [part for part in rows["raw"][group] if part != "all"]
        heads = [f"{part} ({100 * rows['raw'][group][part]['chance']:.0f})" for part in parts]
        lines += ["", f"{ATTACKS[group]}: average precision of each (chance)", ""]
        lines += [f"| features | {' | '.join(heads)} |", "|---" * (1 + len(parts)) + "|"]
        for recipe_name, found in rows.items():
            cells = [f"{100 * found[group][part]['value'][0]:.1f}" for part in parts]
            lines.append(f"| {recipe_name} | {' | '.join(cells)} |")
    return lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--encoder-weights", type=Path, nargs="+", default=[])
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--groups", nargs="+", choices=[*UTILITY, *ATTACKS], default=[*UTILITY, *ATTACKS])
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--epochs", type=int, default=40, help="of the encoder, where it is trained here")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None)
    asked = parser.parse_args()
    if asked.encoder_weights and len(asked.encoder_weights) != len(asked.seeds):
        parser.error("--encoder-weights: give one file for each seed, in the order of the seeds")
    return asked


def main() -> None:
    asked = arguments()
    if asked.device == "cpu":
        torch.set_num_threads(1)
    for name in asked.recipes:
        find_recipe(name)  # a name that is wrong is better known before the first extraction
    weights = asked.encoder_weights or [None] * len(asked.seeds)
    found: dict[str, dict[int, dict[str, Found]]] = {name: {} for name in ("raw", *asked.recipes)}
    for seed, given in zip(asked.seeds, weights):
        study = Study(asked, seed, given)
        store = study.store()
        for name in found:
            found[name][seed] = study.found(name, store)
    raw = found["raw"]
    rows = {
        name: {
            group: real_scores.compare(
                {seed: by_seed[seed][group] for seed in asked.seeds},
                {seed: raw[seed][group] for seed in asked.seeds},
                group,
            )
            for group in raw[asked.seeds[0]]
        }
        for name, by_seed in found.items()
    }
    result = {"seeds": asked.seeds, "limit": asked.limit, "rows": rows}
    files.write_json(asked.out / ("validation.json" if asked.validate else "results.json"), result)
    print("\n".join(tables(rows)))


if __name__ == "__main__":
    main()
