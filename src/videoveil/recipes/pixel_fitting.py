"""From a pixel recipe and videos to an anonymizer in a run folder.

RUN/run.json               recipe as the run was begun with it, seed, where the videos were; `notes` on what a reader
                           must know
RUN/recipe.yaml            the recipe, for people
RUN/identity.safetensors   f_A after its identity start
RUN/checkpoint.safetensors, history.jsonl, epochs/   see training.minimax
RUN/utility.safetensors    the learned f_T without its layers, for `veil extract --weights` (TeD-SPAD's second half)
RUN/config.json, model.safetensors, README.md   the anonymizer, as `PixelAnonymizer.from_pretrained(RUN)` reads it
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from videoveil import devices, files
from videoveil.anonymizers import ModelCard
from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig
from videoveil.anonymizers.pixel.unetpp import UNetPP
from videoveil.data.records import Item
from videoveil.encoders import save
from videoveil.errors import AnnotationError, UsageError
from videoveil.recipes import runs
from videoveil.recipes.pixel import PixelRecipe
from videoveil.tasks.base import Clips
from videoveil.tasks.targets import label_problems, targets, vocabulary
from videoveil.training import checkpoints
from videoveil.training.clip_batches import Frames, check, frames_memory
from videoveil.training.minimax import MinimaxLoop, Progress, low_headway
from videoveil.training.minimax_data import (
    MinimaxBatches,
    PrivacyStream,
    Sample,
    VideoStream,
    identity_frames,
)
from videoveil.training.minimax_nets import BudgetNet, UtilityNet
from videoveil.training.minimax_settings import FREE_TO_CHANGE, MinimaxSettings, Private
from videoveil.training.minimax_start import IdentityResult, learn_identity, shortfall

if TYPE_CHECKING:
    from lightning.fabric import Fabric

FORMAT = "videoveil-pixel-run-1"
IDENTITY, IDENTITY_FORMAT = "identity.safetensors", "videoveil-pixel-identity-1"
ENCODER = "utility.safetensors"
# of run.json: neither these settings nor words on what is not as published change what is learnt
FREE = ("recipe.approximation", *(f"recipe.settings.{name}" for name in FREE_TO_CHANGE))
Labels = Callable[[Item], Any]  # private attributes of an item, by name; None: nothing is known


@dataclass
class Made:
    """What a training leaves: f_A, and the auxiliary nets for looking at (never for scores)."""

    anonymizer: PixelAnonymizer
    utility: UtilityNet | None = None
    budgets: Sequence[BudgetNet] = ()
    identity: IdentityResult | None = None
    history: Sequence[dict[str, Any]] = ()


def fit_pixel(
    recipe: PixelRecipe,
    videos: Clips,
    folder: str | Path,
    *,
    images: Clips | None = None,
    labels: Labels | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    look: Callable[[int, Any], None] | None = None,
    fabric: Fabric | None = None,
) -> Made:
    """Make the anonymizer of a recipe from training videos (and images, where it wants them) and keep it in `folder`.

    The same call goes on with a run that was killed, finds it done, or says again why it was stopped; settings that do
    not change what is learnt (`FREE_TO_CHANGE`) may be others then. `labels` says what is private about an item,
    where the dataset does not; only recipes with a supervised budget ask. `look` is called after kept epochs.
    """
    folder = Path(folder)
    sources = {"videos": videos, **({"images": images} if images is not None else {})}
    if recipe.wants_images and images is None:
        raise UsageError(
            f"{recipe.name}: its budget nets look at images; give a dataset of images, such as vispr"
        )
    if veiled := [name for name, source in sources.items() if source.through()]:
        raise UsageError(
            f"{recipe.name}: its {' and '.join(veiled)} are anonymized already; an anonymizer learns from raw ones"
        )
    described = {name: source.describe() for name, source in sources.items()}
    own = recipe.settings
    mine = {"format": FORMAT, "recipe": recipe.to_json(), "seed": seed, "sources": described, **own.form}
    fabric = fabric or devices.make_fabric(device, own.precision)

    def read(there: dict[str, Any]) -> dict[str, Any]:
        found = checkpoints.completed(recipe, there.get("recipe"))
        settings = found.get("settings") if isinstance(found, Mapping) else None
        if isinstance(settings, dict) and own.passes(settings["one_pass"]) == own.together:
            settings["one_pass"] = own.one_pass  # in the words of who asks
        return {**there, "recipe": found}

    leading = runs.claimed(folder, mine, recipe.to_yaml(), FREE, read)
    with leading if fabric.is_global_zero else nullcontext():
        done = (folder / "config.json").is_file()
        fabric.barrier()  # all have looked before one of them writes, and take the same way
        if done:
            return Made(PixelAnonymizer.from_pretrained(folder))
        config = PixelConfig(recipe.stages, size=recipe.settings.size if recipe.trains else 0)
        anonymizer = PixelAnonymizer(config, seed=seed)
        made = Made(anonymizer)
        if recipe.trains:
            _require_weights(recipe, anonymizer)
            made = train(recipe, anonymizer, videos, images, labels, folder, seed, fabric, progress, look)
    anonymizer.cpu().eval()
    notes = _notes(made, own)
    anonymizer.card = _card(recipe, sources, notes)
    if fabric.is_global_zero:
        if notes:
            runs.note(folder, notes=notes)
        if made.utility is not None:
            save(made.utility.cpu().encoder, folder / ENCODER, {"recipe": recipe.name, "seed": seed})
        anonymizer.save_pretrained(folder)
    fabric.barrier()
    return made


def _require_weights(recipe: PixelRecipe, anonymizer: PixelAnonymizer) -> None:
    if not any(weight.requires_grad for weight in anonymizer.parameters()):
        stages = ", ".join(stage.kind for stage in recipe.stages)
        raise UsageError(
            f"{recipe.name}: settings.epochs={recipe.settings.epochs}, but there is nothing to train: its stages "
            f"({stages}) have no weights; use settings.epochs=0, or a recipe with a network"
        )


def train(
    recipe: PixelRecipe,
    anonymizer: PixelAnonymizer,
    videos: Clips,
    images: Clips | None,
    labels: Labels | None,
    folder: Path | None,
    seed: int,
    fabric: Fabric,
    progress: Progress | None = None,
    look: Callable[[int, Any], None] | None = None,
) -> Made:
    """The identity start, then the loop."""
    own = recipe.settings
    begun = folder is not None and (folder / IDENTITY).is_file()
    if own.start.anonymizer_weights and not begun:
        _start_encoder(recipe, anonymizer)
    frames = Frames(frames_memory(own.cache_gib, fabric.device), side=2 * own.size, device=fabric.device)
    items = tuple(sorted(videos.items(), key=lambda item: item.id))
    names = vocabulary(videos.records(), own.utility.target)
    check(items, frames, own.workers, also=label_problems(items, names, own.utility.target))
    found = targets(items, names, own.utility.target)
    samples = [Sample(item, value) for item, value in zip(items, torch.from_numpy(found.values))]
    stream = VideoStream(samples, frames, own.utility, own.size, seed)
    privacy, private = _privacy(recipe, videos, samples, images, labels, frames, seed)
    utility = UtilityNet(own.utility, own.size, len(names), seed=seed)

    def member(place: int, round_: int) -> BudgetNet:
        assert own.budget is not None
        count = 0 if private is None else private.shape[1]
        name = own.budget.members[place]
        return BudgetNet(
            own.budget, name, own.size, own.utility, count, seed=seed + 100 * (round_ + 1) + place
        )

    budgets = [member(place, 0) for place in range(len(own.budget.members))] if own.budget else []
    # videos that the budget nets see too come once: an item that is held out must not be learnt from
    seen = [*samples, *(privacy.samples if privacy and recipe.wants_images else [])]
    started = _identity_start(recipe, anonymizer, seen, frames, folder, seed, fabric)
    batches = MinimaxBatches(stream, privacy, own, seed)
    chance = budgets[0].chance(batches.sizes[-1], private) if budgets else float("nan")
    loop = MinimaxLoop(
        anonymizer,
        utility,
        budgets,
        batches,
        own,
        seed,
        fabric,
        chance,
        folder,
        identity={"recipe": recipe.name, "data": _data_hash(items, found.values, privacy)},
        fresh=member,
        look=look,
        progress=progress,
    )
    history = loop.run()
    return Made(anonymizer, utility, budgets, started, history)


def _start_encoder(recipe: PixelRecipe, anonymizer: PixelAnonymizer) -> None:
    """UNet++'s encoder from the weights that were asked for, before f_A learns the identity."""
    source = recipe.settings.start.anonymizer_weights
    networks = [stage for stage in anonymizer.stages if isinstance(stage, UNetPP)]
    if not networks:
        stages = ", ".join(stage.kind for stage in recipe.stages)
        raise UsageError(
            f"{recipe.name}: settings.start.anonymizer_weights={source} are for the encoder of a unet++; there is none "
            f"among its stages ({stages})"
        )
    for network in networks:
        network.load_encoder(source)


def _privacy(
    recipe: PixelRecipe,
    videos: Clips,
    seen: Sequence[Sample],
    images: Clips | None,
    labels: Labels | None,
    frames: Frames,
    seed: int,
) -> tuple[PrivacyStream | None, Tensor | None]:
    """What the budget nets see, and all labels they are taught (n, k)."""
    own = recipe.settings
    if own.budget is None:
        return None, None
    source, items = videos, [sample.item for sample in seen]
    if recipe.wants_images:
        assert images is not None
        source, items = images, sorted(images.items(), key=lambda item: item.id)
    values = torch.zeros(len(items), 0)
    if own.budget.kind == "labels":
        items, values = labelled(items, own.budget.labels, labels, source.records().name)
    if recipe.wants_images:  # frames are kept by id, and two datasets may call different things the same
        items = [replace(item, id=f"images:{item.id}") for item in items]
        check(items, frames, own.workers)
    samples = [Sample(item, value) for item, value in zip(items, values)]
    stream = PrivacyStream(samples, frames, own.budget, own.utility, own.size, seed)
    if own.budget.kind != "labels":
        return stream, None
    return stream, torch.stack([sample.value for sample in stream.samples])


def labelled(
    items: Sequence[Item], which: Private, labels: Labels | None, dataset: str
) -> tuple[list[Item], Tensor]:
    """Items of which something private is known, and what, (n, k): the others teach a supervised budget net nothing."""
    values = private_labels(items, which, labels)
    known = ~values.isnan().all(1)
    if known.sum() < 2:
        raise AnnotationError(
            f"{dataset}: {int(known.sum())} of {len(items)} items have {which}; a supervised budget net needs 2 or more"
        )
    return [item for item, one in zip(items, known) if one], values[known]


def private_labels(items: Sequence[Item], which: Private, labels: Labels | None = None) -> Tensor:
    """(n, k) of 0, 1 and NaN where nothing is known: attributes, or the objects or scenes of P-HVU."""
    if which != "attributes":
        names = sorted({tag for item in items for tag in getattr(item, which)})
        rows = [[float(name in getattr(item, which)) for name in names] for item in items]
    else:
        known = [(labels(item) if labels else item.attributes) or {} for item in items]
        names = sorted({name for row in known for name in row})
        rows = [[float(row[name]) if name in row else np.nan for name in names] for row in known]
    return torch.tensor(rows, dtype=torch.float32).view(len(items), len(names))


def _identity_start(
    recipe: PixelRecipe,
    anonymizer: PixelAnonymizer,
    samples: Sequence[Sample],
    frames: Frames,
    folder: Path | None,
    seed: int,
    fabric: Fabric,
) -> IdentityResult:
    """Teach the networks of f_A the identity, every process alike, or take it from an earlier try of this run."""
    path = None if folder is None else folder / IDENTITY
    there = path is not None and path.is_file()
    fabric.barrier()  # all have looked before one of them writes
    if path is not None and there:
        tensors, facts = checkpoints.read(path, IDENTITY_FORMAT)
        checkpoints.fill(anonymizer, tensors, str(path))
        return IdentityResult(facts["error"], facts["epochs"])
    own = recipe.settings
    draw = identity_frames(samples, frames, own.size, seed)
    result = learn_identity(
        anonymizer.networks,
        draw,
        len(samples),
        own.start,
        seed=seed,
        device=fabric.device,
        workers=own.workers,
    )
    if fabric.is_global_zero and (problem := shortfall(result.error, own.start)):  # a long game may follow
        warnings.warn(f"{recipe.name}: {problem}", stacklevel=2)
    if path is not None and fabric.is_global_zero:
        facts = {"error": result.error, "epochs": result.epochs}
        checkpoints.write(path, IDENTITY_FORMAT, anonymizer.state_dict(), facts)
    fabric.barrier()
    return result


def _data_hash(items: Sequence[Item], values: np.ndarray, privacy: PrivacyStream | None) -> str:
    """What must be the same for a run to be continued; files are known by their name and size."""
    data = [[item.id, item.path.stat().st_size] for item in items]
    other = [[s.item.id, s.value.nan_to_num(-1).tolist()] for s in privacy.samples] if privacy else []
    return files.value_hash([data, values.tolist(), other])


def _notes(made: Made, own: MinimaxSettings) -> list[str]:
    """What a reader must know of how the run went."""
    started = "" if made.identity is None else shortfall(made.identity.error, own.start)
    return [note for note in (started, low_headway(made.history, own)) if note]


def _card(recipe: PixelRecipe, sources: Mapping[str, Clips], notes: Sequence[str]) -> ModelCard:
    # images that the recipe does not want were there for pictures alone
    taught = [name for name in sources if name == "videos" or recipe.wants_images]
    data = ", ".join(
        f"{name}: {sources[name].records().name} ({sources[name].split or 'all'})" for name in taught
    )
    how = _how(recipe) if recipe.trains else "not trained"
    said = [f"Recipe `{recipe.name}`, {how}.", recipe.approximation]
    said += [f"{note[0].upper()}{note[1:]}." for note in notes]
    return ModelCard(
        training_data=data if recipe.trains else "none: nothing was trained",
        notes=" ".join(filter(None, said)),
    )


def _how(recipe: PixelRecipe) -> str:
    budget = recipe.settings.budget
    if budget is None:
        return "trained"
    told = f", which were taught private labels ({budget.labels})" if budget.kind == "labels" else ""
    return f"trained against budget nets{told}"
