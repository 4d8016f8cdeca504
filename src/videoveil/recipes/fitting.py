"""From a recipe and stored features to an anonymizer in a run folder: the one entry for the command line.

RUN/run.json               recipe, seed, where the features were and what made them
RUN/recipe.yaml            the recipe, for people
RUN/heads/TASK/            task heads taught on raw features
RUN/identity.safetensors   the adapter after its identity start, where it has one
RUN/checkpoint.safetensors what a killed run goes on from
RUN/history.jsonl          one record per epoch; RUN/curve.json: Eq. 14 against seconds
RUN/config.json, model.safetensors, README.md   the anonymizer, as `LatentAnonymizer.from_pretrained(RUN)` reads it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from videoveil import devices
from videoveil.anonymizers import EncoderReference, LatentAnonymizer, LatentConfig, ModelCard, publish
from videoveil.errors import StoreError, UsageError
from videoveil.recipes import runs
from videoveil.recipes.latent import LatentRecipe
from videoveil.recipes.runs import RUN
from videoveil.tasks.base import Features
from videoveil.training import checkpoints
from videoveil.training.identity import learn_identity
from videoveil.training.latent import Evaluate, LatentLoop, Progress, write_curve
from videoveil.training.latent_data import (
    ClipPool,
    LatentData,
    join,
    load_action,
    load_anomaly,
    load_detection,
)
from videoveil.training.latent_heads import TASKS, raw_heads
from videoveil.training.latent_source import StoredSource
from videoveil.training.latent_tasks import AnomalyTask, DetectionTask, LatentTask

FORMAT = "videoveil-latent-run-1"
IDENTITY = "identity.safetensors"
IDENTITY_FORMAT = "videoveil-latent-identity-1"


def fit(
    recipe: LatentRecipe,
    sources: Mapping[str, Features],
    folder: str | Path,
    *,
    seed: int = 0,
    device: str = "auto",
    evaluate: Evaluate | None = None,
    progress: Progress | None = None,
) -> LatentAnonymizer:
    """Make the anonymizer of a recipe from training features, by task, and keep it in `folder`.

    The same call goes on with a run that was killed, or finds it done. `sources` has at least the tasks of the recipe;
    what it has beyond them is used where directions are fitted, and not trained for. `evaluate` and `progress` are
    those of the loop.
    """
    folder = Path(folder)
    encoder = _check(recipe, sources)
    _claim(folder, recipe, sources, seed)
    if (folder / publish.CONFIG).is_file():
        return LatentAnonymizer.from_pretrained(folder)
    chosen = devices.choose(device)
    data = load(recipe, sources)
    _require_static(recipe, data, sources)
    config = LatentConfig(data.width, recipe.stages, recipe.tokens, encoder)
    anonymizer = LatentAnonymizer(config, card=_card(recipe, sources), seed=seed)
    heads: dict[str, nn.Module] = {}
    taught = recipe.tasks if recipe.epochs else (("action",) if recipe.spare else ())
    if taught:
        heads = raw_heads(
            {task: sources[task] for task in taught},
            recipe.heads,
            run=folder / "heads",
            seed=seed,
            device=device,
        )
    fit_stages(anonymizer, data, heads.get("action") if recipe.spare else None, seed=seed)
    if not recipe.starts_as_identity:
        _identity_start(anonymizer, recipe, data, folder, seed, chosen)
        fit_stages(anonymizer, data, heads.get("action") if recipe.spare else None, seed=seed)
    if recipe.epochs:
        loop = make_loop(anonymizer, recipe, data, heads, seed=seed, device=chosen)
        loop.folder, loop.evaluate, loop.progress = folder, evaluate, progress
        loop.identity = {"recipe": recipe.name, "tasks": list(recipe.tasks)}
        write_curve(folder, loop.run())
    anonymizer.cpu().eval()
    anonymizer.save_pretrained(folder)
    return anonymizer


def load(recipe: LatentRecipe, sources: Mapping[str, Features]) -> LatentData:
    """The features of all sources."""
    loaders: dict[str, Any] = {
        "action": load_action,
        "detection": lambda source, tokens: load_detection(source, tokens, cut=recipe.heads.cut),
        "anomaly": load_anomaly,
    }
    return LatentData(**{task: loaders[task](source, recipe.tokens) for task, source in sources.items()})


def fit_stages(
    anonymizer: LatentAnonymizer, data: LatentData, action_head: nn.Module | None = None, *, seed: int = 0
) -> None:
    """Give every stage the numbers it takes from data: static clips of all videos, actions where they are known."""
    pools = list(data.pools().values())
    everything = join(pools)
    owners = everything.owners()
    wants = anonymizer.wants_static
    spare = None if action_head is None else action_head.get_parameter("weight").detach().cpu()
    anonymizer.fit_from(
        everything.rows,
        static=everything.still()[owners] if wants else None,
        videos=everything.static,
        owners=owners,
        actions=_actions(data, pools),
        spare=spare,
        seed=seed,
    )


def _actions(data: LatentData, pools: list[ClipPool]) -> torch.Tensor | None:
    """The action of every clip's video, −1 where there is none; nothing where no action is known."""
    if data.action is None or data.action.labels is None:
        return None
    parts = [
        pool.labels[pool.owners()]
        if pool is data.action and pool.labels is not None
        else torch.full((len(pool.rows),), -1)
        for pool in pools
    ]
    return torch.cat(parts)


def make_loop(
    anonymizer: LatentAnonymizer,
    recipe: LatentRecipe,
    data: LatentData,
    heads: Mapping[str, nn.Module],
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> LatentLoop:
    """The training loop of a recipe on these features with these heads, one for each of its tasks."""
    device = device or torch.device("cpu")
    if missing := [task for task in recipe.tasks if task not in heads]:
        raise UsageError(f"{recipe.name}: no head for {', '.join(missing)}")
    trained = LatentData(**{task: data.pools()[task].to(device) for task in recipe.tasks})
    tasks: dict[str, LatentTask] = {}
    if trained.detection is not None:
        tasks["detection"] = DetectionTask(trained.detection, heads["detection"], recipe.heads.detection)  # type: ignore[arg-type]
    if trained.anomaly is not None:
        tasks["anomaly"] = AnomalyTask(trained.anomaly, heads["anomaly"], recipe.heads.anomaly)  # type: ignore[arg-type]
    source = StoredSource(
        trained,
        recipe.batch,
        seed,
        device,
        tasks=tuple(tasks.values()),
        wants_static=anonymizer.wants_static,
    )
    return LatentLoop(
        anonymizer,
        source,
        {task: heads[task] for task in recipe.tasks},
        tasks,
        recipe.objective(),
        recipe.schedule(),
        recipe.heads,
        seed,
        device,
    )


def _identity_start(
    anonymizer: LatentAnonymizer,
    recipe: LatentRecipe,
    data: LatentData,
    folder: Path,
    seed: int,
    device: torch.device,
) -> None:
    """Teach the adapter the identity, or take it from an earlier try of this run."""
    path = folder / IDENTITY
    if path.is_file():
        tensors, _ = checkpoints.read(path, IDENTITY_FORMAT)
        checkpoints.fill(anonymizer, tensors, str(path))
        return
    rows = join(list(data.pools().values())).rows
    error = learn_identity(anonymizer, rows, recipe.identity, seed=seed, device=device)
    anonymizer.cpu()
    checkpoints.write(path, IDENTITY_FORMAT, anonymizer.state_dict(), {"relative_error": error})


# --- run folders --------------------------------------------------------------------------------------------


def _check(recipe: LatentRecipe, sources: Mapping[str, Features]) -> EncoderReference:
    """The one encoder of all sources; a source that is missing, unknown or not raw is refused."""
    if unknown := sorted(set(sources) - set(TASKS)):
        raise UsageError(f"features for {', '.join(unknown)}: tasks are {', '.join(TASKS)}")
    if not sources:
        raise UsageError(f"{recipe.name}: give the training features of at least one task")
    if missing := [task for task in recipe.tasks if task not in sources]:
        raise UsageError(
            f"{recipe.name}: trains for {', '.join(recipe.tasks)}, and there are no features for "
            f"{', '.join(missing)}; give them, or leave these tasks out of the recipe"
        )
    if recipe.spare and "action" not in sources:
        raise UsageError(f"{recipe.name}: spare=True needs action features, whose head is spared")
    found = {source.store.encoder["hash"]: source.store for source in sources.values()}
    if len(found) > 1:
        names = ", ".join(f"{s.root} ({s.encoder['name']}, {h[:12]})" for h, s in found.items())
        raise StoreError(f"features of several encoders cannot be used together: {names}")
    arithmetic = {source.store.recipe.precision: source.store.root for source in sources.values()}
    if len(arithmetic) > 1:
        names = ", ".join(f"{root} ({precision})" for precision, root in arithmetic.items())
        raise StoreError(f"features computed in several precisions cannot be used together: {names}")
    ((hash_, store),) = found.items()
    if "anonymizer" in store.encoder:
        raise StoreError(f"{store.root}: is anonymized already; an anonymizer is made from raw features")
    return EncoderReference(str(store.encoder["name"]), hash_)


def _require_static(recipe: LatentRecipe, data: LatentData, sources: Mapping[str, Features]) -> None:
    """Static clips are what erasing and the budget are about."""
    pools = data.pools()
    wanted = pools if recipe.finds_directions else {task: pools[task] for task in recipe.tasks}
    if without := [str(sources[task].store.root) for task, pool in wanted.items() if pool.static is None]:
        raise StoreError(
            f"{', '.join(without)}: no static clips, which {recipe.name} needs; extract again with static=10 "
            "(`veil extract … --static 10`)"
        )


def _claim(folder: Path, recipe: LatentRecipe, sources: Mapping[str, Features], seed: int) -> None:
    """The folder is new, or holds the same run."""
    described = {task: source.describe() for task, source in sorted(sources.items())}
    mine = {"format": FORMAT, "recipe": recipe.to_json(), "seed": seed, "sources": described}
    runs.claim(folder, mine, recipe.to_yaml())


def run_recipe(folder: str | Path) -> LatentRecipe:
    """The recipe of a run."""
    path = Path(folder) / RUN
    if not path.is_file():
        raise UsageError(f"{folder}: not a run (no {RUN}); make one with `veil train RECIPE --out {folder}`")
    try:
        return LatentRecipe.from_json(json.loads(path.read_text("utf-8"))["recipe"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: damaged ({error!r})") from error


def _card(recipe: LatentRecipe, sources: Mapping[str, Features]) -> ModelCard:
    data = ", ".join(
        f"{task}: {s.records().name} ({s.split or 'all'})" for task, s in sorted(sources.items())
    )
    trained = f"trained for {', '.join(recipe.tasks)}" if recipe.epochs else "fitted in closed form"
    return ModelCard(training_data=data, notes=f"Recipe `{recipe.name}`, {trained}.")
