"""From a recipe and features, stored or made in the loop, to an anonymizer in a run folder: the one entry for the
command line.

RUN/run.json               recipe, seed, where the features or videos were and what made them; `notes` on what a reader
                           must know, `identity_error` of an adapter that had to learn the identity first
RUN/recipe.yaml            the recipe, for people
RUN/heads/TASK/            task heads taught on raw features
RUN/identity.safetensors   the adapter after its identity start, where it has one
RUN/checkpoint.safetensors what a killed run goes on from
RUN/history.jsonl          one record per epoch; RUN/curve.json: Eq. 14 against seconds
RUN/config.json, model.safetensors, README.md   the anonymizer, as `LatentAnonymizer.from_pretrained(RUN)` reads it
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from videoveil import devices
from videoveil.anonymizers import EncoderReference, LatentAnonymizer, LatentConfig, ModelCard, publish
from videoveil.errors import StoreError, UsageError
from videoveil.features.extract import identity_of
from videoveil.features.tokens import require_mean_tokens
from videoveil.recipes import runs
from videoveil.recipes.latent import LatentRecipe
from videoveil.recipes.runs import RUN
from videoveil.tasks.base import Features
from videoveil.training import checkpoints
from videoveil.training.identity import learn_identity, shortfall
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
from videoveil.training.latent_source import Source, StoredSource
from videoveil.training.latent_tasks import AnomalyTask, DetectionTask, LatentTask
from videoveil.training.latent_video import PRECISION, VIDEOS, EncodedClips, VideoSource

FORMAT = "videoveil-latent-run-1"
IDENTITY = "identity.safetensors"
IDENTITY_FORMAT = "videoveil-latent-identity-1"

Sources = Mapping[str, Features | EncodedClips]  # by task


def fit(
    recipe: LatentRecipe,
    sources: Sources,
    folder: str | Path,
    *,
    seed: int = 0,
    device: str = "auto",
    evaluate: Evaluate | None = None,
    progress: Progress | None = None,
) -> LatentAnonymizer:
    """Make the anonymizer of a recipe from training data, by task, and keep it in `folder`.

    The same call goes on with a run that was killed, or finds it done. `sources` has at least the tasks of the recipe;
    what it has beyond them is used where directions are fitted, and not trained for. They are stored features; those
    of `action` may be `EncodedClips` instead, videos that the frozen encoder looks at in every step. `evaluate` and
    `progress` are those of the loop.
    """
    folder = Path(folder)
    encoder = _check(recipe, sources)
    with runs.claimed(folder, _description(recipe, sources, seed), recipe.to_yaml()):
        if (folder / publish.CONFIG).is_file():
            return LatentAnonymizer.from_pretrained(folder)
        notes = [text for text in (_departure(recipe, sources, encoder),) if text]
        chosen = devices.choose(device)
        films = open_films(recipe, sources, seed, chosen)
        data = load(recipe, sources, films)
        _require_static(recipe, data, sources)
        config = LatentConfig(data.width, recipe.stages, recipe.tokens, encoder)
        anonymizer = LatentAnonymizer(config, seed=seed)
        heads = _raw_heads(recipe, sources, data, films, folder, seed, device)
        spared = heads.get("action") if recipe.spare else None
        fit_stages(anonymizer, data, spared, seed=seed)
        if not recipe.starts_as_identity:
            error = _identity_start(anonymizer, recipe, data, folder, seed, chosen)
            runs.note(folder, identity_error=error)
            if problem := shortfall(error, recipe.identity):
                notes.append(problem)
                warnings.warn(f"{recipe.name}: {problem}", stacklevel=2)
            fit_stages(anonymizer, data, spared, seed=seed)
        if notes:
            runs.note(folder, notes=notes)
        if recipe.epochs:
            loop = make_loop(anonymizer, recipe, data, heads, seed=seed, device=chosen, films=films)
            loop.folder, loop.evaluate, loop.progress = folder, evaluate, progress
            loop.identity = {"recipe": recipe.name, "tasks": list(recipe.tasks)}
            write_curve(folder, loop.run())
        anonymizer.cpu().eval()
        anonymizer.card = _card(recipe, sources, notes)
        anonymizer.save_pretrained(folder)
    return anonymizer


def open_films(
    recipe: LatentRecipe, sources: Sources, seed: int = 0, device: torch.device | None = None
) -> VideoSource | None:
    """The action videos as the recipe sees them, where they are videos."""
    source = sources.get("action")
    if not isinstance(source, EncodedClips):
        return None
    return VideoSource.of(
        source,
        batch=recipe.batch,
        seed=seed,
        device=device or torch.device("cpu"),
        tokens=recipe.tokens,
        second=recipe.objective().wants_other,
    )


def load(recipe: LatentRecipe, sources: Sources, films: VideoSource | None = None) -> LatentData:
    """The features of all sources; of videos those of a few random clips, which heads and stages start from."""
    loaders: dict[str, Any] = {
        "action": load_action,
        "detection": lambda source, tokens: load_detection(source, tokens, cut=recipe.heads.cut),
        "anomaly": load_anomaly,
    }
    stored = _stored(sources)
    pools = {task: loaders[task](source, recipe.tokens) for task, source in stored.items()}
    return LatentData(**pools, **({} if films is None else {"action": films.pool()}))


def _stored(sources: Sources) -> dict[str, Features]:
    return {task: source for task, source in sources.items() if isinstance(source, Features)}


def _raw_heads(
    recipe: LatentRecipe,
    sources: Sources,
    data: LatentData,
    films: VideoSource | None,
    folder: Path,
    seed: int,
    device: str,
) -> dict[str, nn.Module]:
    """The heads that training starts from, taught on raw features; none where nothing asks for them."""
    taught = recipe.tasks if recipe.epochs else (("action",) if recipe.spare else ())
    heads: dict[str, nn.Module] = {}
    if films is not None and data.action is not None and "action" in taught:
        run = folder / "heads" / "action"
        heads["action"] = films.action_head(data.action, recipe.heads.action, run=run)
    stored = {task: source for task, source in _stored(sources).items() if task in taught}
    return heads | raw_heads(stored, recipe.heads, run=folder / "heads", seed=seed, device=device)


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
    films: VideoSource | None = None,
) -> LatentLoop:
    """The training loop of a recipe on these features with these heads, one for each of its tasks.

    Actions come from `films`, where they are given, and not from the features.
    """
    device = device or torch.device("cpu")
    if missing := [task for task in recipe.tasks if task not in heads]:
        raise UsageError(f"{recipe.name}: no head for {', '.join(missing)}")
    trained = LatentData(**{task: data.pools()[task].to(device) for task in recipe.tasks})
    tasks: dict[str, LatentTask] = {}
    if trained.detection is not None:
        tasks["detection"] = DetectionTask(trained.detection, heads["detection"], recipe.heads.detection)  # type: ignore[arg-type]
    if trained.anomaly is not None:
        tasks["anomaly"] = AnomalyTask(trained.anomaly, heads["anomaly"], recipe.heads.anomaly)  # type: ignore[arg-type]
    source: Source
    if films is not None and "action" in recipe.tasks:
        source = films
    else:
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
) -> float:
    """Teach the adapter the identity, or take it from an earlier try of this run: the relative error it has."""
    path = folder / IDENTITY
    if path.is_file():
        tensors, facts = checkpoints.read(path, IDENTITY_FORMAT)
        checkpoints.fill(anonymizer, tensors, str(path))
        return float(facts["relative_error"])
    rows = join(list(data.pools().values())).rows
    error = learn_identity(anonymizer, rows, recipe.identity, seed=seed, device=device)
    anonymizer.cpu()
    checkpoints.write(path, IDENTITY_FORMAT, anonymizer.state_dict(), {"relative_error": error})
    return error


# --- run folders --------------------------------------------------------------------------------------------


def _check(recipe: LatentRecipe, sources: Sources) -> EncoderReference:
    """The one encoder of all sources; a source that is missing, unknown or not raw is refused."""
    if unknown := sorted(set(sources) - set(TASKS)):
        raise UsageError(f"features for {', '.join(unknown)}: tasks are {', '.join(TASKS)}")
    if not sources:
        raise UsageError(f"{recipe.name}: give the training features of at least one task")
    if missing := [task for task in recipe.tasks if task not in sources]:
        raise UsageError(
            f"{recipe.name}: trains for {', '.join(recipe.tasks)}, and there are no features for "
            f"{', '.join(missing)}; give them (`--features {missing[0]}=STORE`), or leave these tasks out of the "
            "recipe (`splavu-actions` is SPLAVU for actions alone)"
        )
    if recipe.spare and "action" not in sources:
        raise UsageError(f"{recipe.name}: spare=True needs action features, whose head is spared")
    if watched := [task for task in sources if task != "action" and task not in _stored(sources)]:
        raise UsageError(
            f"videos for {', '.join(watched)}: only actions are learnt from videos; extract the features of the others "
            "(`veil extract`) and give those"
        )
    made = {task: _encoder(source) for task, source in sources.items()}
    found = {one["hash"]: (_root(sources[task]), one) for task, one in made.items()}
    if len(found) > 1:
        names = ", ".join(f"{root} ({one['name']}, {hash_[:12]})" for hash_, (root, one) in found.items())
        raise StoreError(f"features of several encoders cannot be used together: {names}")
    arithmetic = {_precision(source): _root(source) for source in sources.values()}
    if len(arithmetic) > 1:
        names = ", ".join(f"{root} ({precision})" for precision, root in arithmetic.items())
        raise StoreError(f"features computed in several precisions cannot be used together: {names}")
    ((hash_, (root, encoder)),) = found.items()
    if "anonymizer" in encoder:
        raise StoreError(f"{root}: is anonymized already; an anonymizer is made from raw features")
    if recipe.tokens == "temporal":
        for source in _stored(sources).values():
            require_mean_tokens(source.store)
    return EncoderReference(str(encoder["name"]), hash_)


def _encoder(source: Features | EncodedClips) -> Mapping[str, Any]:
    """What makes the features of a source."""
    return source.store.encoder if isinstance(source, Features) else identity_of(source.encoder)


def _root(source: Features | EncodedClips) -> Path:
    return source.store.root if isinstance(source, Features) else source.records().root


def _precision(source: Features | EncodedClips) -> str:
    return source.store.recipe.precision if isinstance(source, Features) else PRECISION


def _departure(recipe: LatentRecipe, sources: Sources, encoder: EncoderReference) -> str:
    """How the data are not those of the paper's row; a row that is not trained for actions has no action dataset."""
    actions = sources.get("action") if "action" in recipe.tasks else None
    return recipe.origin.departure(encoder.name, "" if actions is None else actions.records().name)


def _require_static(recipe: LatentRecipe, data: LatentData, sources: Sources) -> None:
    """Static clips are what erasing and the budget are about."""
    pools = data.pools()
    wanted = pools if recipe.finds_directions else {task: pools[task] for task in recipe.tasks}
    if without := [str(_root(sources[task])) for task, pool in wanted.items() if pool.static is None]:
        raise StoreError(
            f"{', '.join(without)}: no static clips, which {recipe.name} needs; extract again with static=10 "
            "(`veil extract … --static 10`)"
        )


def _description(recipe: LatentRecipe, sources: Sources, seed: int) -> dict[str, Any]:
    """What the run in a folder is known by."""
    described = {task: source.describe() for task, source in sorted(sources.items())}
    return {"format": FORMAT, "recipe": recipe.to_json(), "seed": seed, "sources": described}


def run_recipe(folder: str | Path) -> LatentRecipe:
    """The recipe of a run."""
    facts = _facts(folder)
    try:
        return LatentRecipe.from_json(facts["recipe"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{Path(folder) / RUN}: damaged ({error!r})") from error


def run_notes(folder: str | Path) -> list[str]:
    """What a reader must know of how the run was made."""
    return list(_facts(folder).get("notes", ()))


def from_videos(folder: str | Path) -> bool:
    """Whether the run was made from videos, with the encoder in the loop."""
    sources = _facts(folder).get("sources", {})
    return any(source.get("kind") == VIDEOS for source in sources.values())


def _facts(folder: str | Path) -> dict[str, Any]:
    path = Path(folder) / RUN
    if not path.is_file():
        raise UsageError(f"{folder}: not a run (no {RUN}); make one with `veil train RECIPE --out {folder}`")
    try:
        facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: damaged ({error!r})") from error
    return facts


def _card(recipe: LatentRecipe, sources: Sources, notes: Sequence[str] = ()) -> ModelCard:
    data = ", ".join(
        f"{task}: {s.records().name} ({s.split or 'all'})" for task, s in sorted(sources.items())
    )
    how = f"trained for {', '.join(recipe.tasks)}" if recipe.epochs else "fitted in closed form"
    if len(_stored(sources)) < len(sources):
        how += " from videos, the encoder in the loop"
    said = [f"Recipe `{recipe.name}`, {how}.", *(f"{note[0].upper()}{note[1:]}." for note in notes)]
    return ModelCard(training_data=data, notes=" ".join(said))
