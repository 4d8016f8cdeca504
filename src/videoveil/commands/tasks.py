"""`veil train-task`, `veil score`, `veil predict`: what can be learnt from videos or features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videoveil.commands.arguments import Device, EightBit, Json, NoiseKeyFile, Options, Pixels
from videoveil.commands.loading import pixel_anonymizer, task_source, veiled
from videoveil.commands.terminal import options, print_json, print_table, steps_bar
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.anonymizers import LatentAnonymizer
    from videoveil.tasks.base import Score, Source
    from videoveil.tasks.runs import Run

Store = Annotated[Path | None, typer.Option("--features", help="A feature store, see `veil extract`.")]
Data = Annotated[str | None, typer.Option(help="DATASET:ROOT, for tasks that look at the videos themselves.")]
DatasetName = Annotated[str | None, typer.Option(help="Which dataset, where a store has several.")]


def train_task(
    task: Annotated[str, typer.Argument(help="action, action-network, detection or anomaly.")],
    out: Annotated[Path, typer.Option(help="The run folder; run again to go on with a killed run.")],
    features: Store = None,
    data: Data = None,
    dataset: DatasetName = None,
    split: Annotated[str, typer.Option(help="What to train on.")] = "train",
    preset: Annotated[str | None, typer.Option(help="Named settings; the first one unless given.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Replace one setting, as NAME=VALUE; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same weights.")] = 0,
    device: Device = "auto",
    cut: Annotated[
        bool, typer.Option(help="detection: cut annotations outside their video instead of refusing them.")
    ] = False,
    anonymizer: Pixels = None,
    eight_bit: EightBit = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Train TASK on features (or on videos) and keep the model in a run folder."""
    from videoveil.tasks import registry, runs
    from videoveil.tasks.detection import ActionDetection

    kind = registry.kind(task)
    made = kind.make(kind.config(preset, options(change, "--set")))
    if cut and not isinstance(made, ActionDetection):
        raise UsageError("--cut: only detection has annotations in time")
    if isinstance(made, ActionDetection):
        made = ActionDetection(made.config, cut)
    source = task_source(kind.name, kind.reads, kind.clips, features, data, dataset, split, option)
    source = veiled(source, anonymizer, eight_bit)
    origin: dict[str, Any] = {"cut": cut} if cut else {}
    if data:
        name, _, root = data.rpartition(":")
        place = str(Path(root).resolve())
        origin |= {"origin": f"{name}:{place}" if name else place, "options": options(option)}
    with steps_bar(f"training {task}", quiet=as_json) as advance:
        fitted = runs.train(made, source, out, seed=seed, device=device, progress=advance, origin=origin)
    history = list(getattr(fitted, "history", ()))
    if as_json:
        print_json({"run": str(out), "task": task, "epochs": len(history), "last": history[-1:]})
    else:
        print(f"{task}: {len(history)} epochs → {out}; `veil score {out}` tells what it is worth")


def score(
    run: Annotated[
        str, typer.Argument(help="A folder that `veil train-task` wrote, or a head from `veil models`.")
    ],
    features: Store = None,
    data: Data = None,
    dataset: DatasetName = None,
    split: Annotated[str, typer.Option(help="What to score on.")] = "test",
    device: Device = "auto",
    anonymizer: Pixels = None,
    eight_bit: EightBit = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Score RUN on test data, by default of the dataset it was trained on, beside the level of a blind guess."""
    from videoveil import shipped
    from videoveil.tasks import registry, runs

    opened = runs.Run.open(shipped.head_place(run))
    source: Source | None = None
    if features or data:
        kind = registry.kind(opened.task)
        source = task_source(kind.name, kind.reads, kind.clips, features, data, dataset, split, option)
        source = veiled(source, anonymizer, eight_bit)
    elif option or anonymizer or eight_bit:
        raise UsageError("--option, --anonymizer and --eight-bit belong to --data")
    found = runs.score(opened, source, split=split, device=device)
    if as_json:
        print_json(found.to_json())
    else:
        _print_score(found)


def predict(
    source: Annotated[Path, typer.Argument(help="A video, or a feature store.")],
    model: Annotated[
        str, typer.Option(help="A folder that `veil train-task` wrote, or a head from `veil models`.")
    ],
    task: Annotated[
        str | None, typer.Option(help="action, detection or anomaly; default: what the model is for.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write: JSON, or .csv; of a store .jsonl or .csv; default: print it."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw it: .png, .svg or .pdf.")] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            help="What really happens: START-END[:LABEL] in seconds, comma between, or a JSON file."
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Of the encoder, where it has none of its own.")] = None,
    anonymizer: Annotated[
        str | None,
        typer.Option(
            help="What the features that the model was trained on went through; a shipped one is found by itself."
        ),
    ] = None,
    pixels: Pixels = None,
    key: NoiseKeyFile = None,
    least: Annotated[float, typer.Option(help="Leave out detections less certain than this.")] = 0.05,
    dataset: DatasetName = None,
    split: Annotated[str | None, typer.Option(help="Of a store: only these items.")] = None,
    device: Device = "auto",
) -> None:
    """Say what happens in a video, or in each of a feature store, and when: times in seconds, and a picture."""
    from videoveil import shipped
    from videoveil.report import said
    from videoveil.report.timeline import draw, require_format
    from videoveil.tasks.predict import predict as one
    from videoveil.tasks.predict import predict_store, read_truth
    from videoveil.tasks.runs import Run

    if plot is not None:
        require_format(plot)
    known = read_truth(truth) if truth else ()
    run = Run.open(shipped.head_place(model))
    veil = _latent(anonymizer, key, run)
    if (source / "store.json").is_file():
        given = {"--plot": plot, "--truth": truth, "--weights": weights, "--pixels": pixels}
        if wrong := [flag for flag, value in given.items() if value is not None]:
            raise UsageError(f"{', '.join(wrong)}: for a video; {source} is a feature store")
        from videoveil.features.store import FeatureStore

        store = FeatureStore.open(source)
        rows = predict_store(
            store, run, task, dataset=dataset, split=split, anonymizer=veil, device=device, least=least
        )
        said.write_many(rows, out)
        return
    if dataset is not None or split is not None:
        raise UsageError(f"--dataset, --split: for a feature store; {source} is none (no store.json)")
    found = one(
        source,
        run,
        task,
        weights=weights,
        anonymizer=veil,
        pixels=pixel_anonymizer(pixels, key),
        device=device,
        least=least,
        truth=known,
    )
    if plot is not None:
        draw(found, plot)
    said.write_one(found, out)


def _latent(name: str | None, key: Path | None, run: Run) -> LatentAnonymizer | None:
    """The anonymizer of features by its name, or the one that the model needs, where it comes with the package."""
    from videoveil import shipped
    from videoveil.anonymizers import LatentAnonymizer, NoiseKey

    if name is None:
        hidden = run.source.get("encoder", {}).get("anonymizer")
        name = shipped.anonymizer_of(hidden["hash"]) if hidden else None
    if name is None:
        return None
    secret = None if key is None else NoiseKey.load(key)
    return LatentAnonymizer.from_pretrained(shipped.place(name), key=secret)


def _print_score(found: Score) -> None:
    rows = [[m.name, _percent(m.value), _percent(m.chance)] for m in found.metrics]
    print_table([f"{found.task}, {found.items} test items", "score", "chance"], rows)
    print(f"chance: {found.baseline}")
    if found.per_class:
        columns = sorted({key for values in found.per_class.values() for key in values})
        cells = [
            [name, *(_cell(key, values.get(key)) for key in columns)]
            for name, values in found.per_class.items()
        ]
        print()
        print_table(["class", *columns], cells)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _cell(column: str, value: float | None) -> str:
    return f"{value:g}" if column == "videos" and value is not None else _percent(value)
