"""`veil train`: anonymizers, of features or of pixels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from videoveil.commands.arguments import Device, Json, Options
from videoveil.commands.terminal import options, print_json, steps_bar
from videoveil.errors import UsageError


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="Of features: veil, splavu, table5/T+LC …; of pixels: veil-pixel, spact, ted-spad …"
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run folder; run again to go on with a killed run.")],
    features: Annotated[
        list[str] | None,
        typer.Option(help="[TASK=]STORE of action (default), detection or anomaly; repeatable."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="NAME:ROOT of videos and, where the recipe asks for them, of images; repeatable."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Looks at the videos of --data while an anonymizer of features learns; tiny if not given."
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Of the encoder, as for `veil extract`.")] = None,
    split: Annotated[str, typer.Option(help="What to learn from.")] = "train",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="PATH=VALUE changes a pixel recipe, such as settings.epochs=20; repeatable."
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            help="A finished pixel run whose budget net was taught with labels where this one is not, or the other way "
            "round: pictures/attention.png shows where both look."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same weights.")] = 0,
    device: Device = "auto",
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Make an anonymizer: of features, stored or looked at in the loop, or of pixels.

    No private label goes in, but for pixel recipes whose budget nets are taught them: vita, vita-…, or any with
    settings.budget.kind=labels.
    """
    from videoveil.recipes import PixelRecipe, either

    chosen = either(recipe)
    if isinstance(chosen, PixelRecipe):
        if features or encoder or weights or not data:
            raise UsageError(
                f"{recipe} makes a pixel anonymizer: give --data NAME:ROOT, not --features, --encoder or --weights"
            )
        for path, value in options(setting, "--set").items():
            chosen = chosen.with_text(path, value)
        made = _train_pixels(
            chosen, _datasets(chosen, data, split, options(option)), out, beside, seed, device, as_json
        )
        hint = f"`veil extract NAME:ROOT OUT --anonymizer {out}` looks through it"
    else:
        _require_latent(recipe, features, data, encoder or weights, setting, option, beside)
        sources = _stores(features or [], split)
        if data:
            sources |= _videos(data, split, options(option), encoder or "tiny", weights, sources)
        made = _train_latent(chosen, sources, out, seed, device, as_json)
        hint = f"`veil anonymize-features STORE OUT --anonymizer {out}` applies it"
    if as_json:
        print_json({"run": str(out), "recipe": recipe, **made})
    else:
        size = made.get("size")
        of = f"frames, trained at {size}²" if size else "frames, not trained"
        of = f"features {made['width']} wide" if "width" in made else of
        print(f"{recipe}: anonymizer {made['hash'][:12]} for {of} → {out}")
        for note in made.get("notes", ()):
            print(f"note: {note}")
        print(hint)


def _require_latent(
    recipe: str,
    features: list[str] | None,
    data: list[str] | None,
    watching: str | None,
    setting: list[str] | None,
    option: list[str] | None,
    beside: Path | None,
) -> None:
    """Features, videos of actions, or both; and only what goes with them."""
    if setting:
        raise UsageError(f"{recipe} makes a latent anonymizer: --set is for those of pixels")
    if beside is not None:
        raise UsageError(f"{recipe} makes a latent anonymizer: --beside is for those of pixels")
    if not features and not data:
        raise UsageError(
            f"{recipe} makes a latent anonymizer: give --features STORE, or --data NAME:ROOT for an encoder to look at"
        )
    if (watching or option) and not data:
        raise UsageError(
            "--encoder, --weights and --option go with the videos of --data; a store knows what made it"
        )


def _stores(features: list[str], split: str) -> dict[str, Any]:
    from videoveil.features.store import FeatureStore
    from videoveil.tasks.base import Features

    sources: dict[str, Any] = {}
    for word in features:
        task, equals, store = word.partition("=")
        task, store = (task, store) if equals else ("action", word)
        if task in sources:
            raise UsageError(f"--features {word}: {task} was given before")
        sources[task] = Features(FeatureStore.open(store), split=split)
    return sources


def _videos(
    data: list[str],
    split: str,
    chosen: dict[str, str],
    encoder: str,
    weights: str | None,
    others: dict[str, Any],
) -> dict[str, Any]:
    """The action videos, with the frozen encoder that looks at them."""
    from videoveil.data.registry import open_source
    from videoveil.encoders.registry import create
    from videoveil.recipes import EncodedClips
    from videoveil.tasks.base import Clips

    if len(data) > 1 or "action" in others:
        raise UsageError(f"--data {data[-1]}: action was given before")
    dataset = open_source(data[0], chosen)
    return {"action": EncodedClips(Clips(dataset, split=split), create(encoder, weights=weights))}


def _train_latent(
    recipe: Any, sources: dict[str, Any], out: Path, seed: int, device: str, quiet: bool
) -> dict[str, Any]:
    from videoveil.recipes import fit
    from videoveil.recipes.fitting import run_notes

    with steps_bar(f"training {recipe.name}", quiet=quiet) as advance:
        anonymizer = fit(recipe, sources, out, seed=seed, device=device, progress=advance)
    made = {"hash": anonymizer.content_hash(), "width": anonymizer.config.width}
    notes = run_notes(out)
    return {**made, "notes": notes} if notes else made


def _datasets(recipe: Any, data: list[str], split: str, chosen: dict[str, str]) -> dict[str, Any]:
    """The videos and, where they were given, the images; dataset options are those of the first."""
    from videoveil.data.registry import open_source
    from videoveil.tasks.base import Clips

    found: dict[str, Any] = {}
    for word in data:
        dataset = open_source(word, {} if found else chosen)
        kind = "images" if all(item.kind == "image" for item in dataset.items) else "videos"
        if kind in found:
            raise UsageError(f"--data {word}: {kind} were given before")
        found[kind] = Clips(dataset, split=split)
    if "videos" not in found:
        raise UsageError(f"{recipe.name}: give the videos of an action dataset with --data NAME:ROOT")
    return found


def _unseen(source: Any) -> Any:
    """The test items, or all if there are none."""
    return source.with_split("test") if source.dataset.split("test") else source


def _train_pixels(
    recipe: Any, found: dict[str, Any], out: Path, beside: Path | None, seed: int, device: str, quiet: bool
) -> dict[str, Any]:
    """Videos teach f_T, and f_B too unless the recipe's budget is on images, which are the other dataset."""
    from videoveil.recipes import fit_pixel
    from videoveil.recipes.fitting import run_notes
    from videoveil.recipes.looking import Looker, middle_clip, picture_run, require_beside

    videos, images = found["videos"], found.get("images")
    # pictures are of items that f_A does not learn from, where there are any; one that cannot be read is said now
    others = _unseen(videos)
    own = recipe.settings
    clip = middle_clip(others, own.size, own.utility.frames, own.utility.stride)
    if beside is not None:
        require_beside(recipe, beside)
    with steps_bar(f"training {recipe.name}", quiet=quiet) as advance:
        made = fit_pixel(
            recipe,
            videos,
            out,
            images=images,
            seed=seed,
            device=device,
            progress=advance,
            look=Looker(out, others, None if images is None else _unseen(images)),
        )
    if os.environ.get("RANK", "0") == "0":
        picture_run(out, clip, beside=beside)
    facts = {"hash": made.anonymizer.content_hash(), "size": made.anonymizer.config.size}
    notes = run_notes(out)
    return {**facts, "notes": notes} if notes else facts
