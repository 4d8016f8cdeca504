"""`veil`: a table from verb to function. Heavy imports happen inside the verbs, so that help is immediate."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videoveil.errors import UsageError, VeilError

if TYPE_CHECKING:
    from videoveil.anonymizers.pixel import PixelAnonymizer
    from videoveil.tasks.base import Score, Source

app = typer.Typer(
    name="veil",
    help="Keep what happens in a video, hide who it happens to, and prove both.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Datasets and their synthetic twins.", no_args_is_help=True)
app.add_typer(data_app, name="data")


class Size(StrEnum):
    """How much of a twin is made."""

    tiny = "tiny"
    small = "small"
    medium = "medium"


Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="A dataset option as KEY=VALUE, e.g. split=2; repeatable."),
]
Pixels = Annotated[
    str | None,
    typer.Option(help="A pixel anonymizer (run folder or hub id) that all pictures go through first."),
]
NoiseKeyFile = Annotated[Path | None, typer.Option(help="Secret key of the anonymizer's noise.")]
EightBit = Annotated[
    bool, typer.Option(help="Round what the anonymizer gives to 8 bits, as in a stored video.")
]


def main() -> None:
    """Run the command line; errors that are the input's fault are one message and exit code 2."""
    try:
        app()
    except VeilError as error:
        print(f"veil: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        sys.exit(141)


# --- data --------------------------------------------------------------------------------------------------


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List the datasets that can be read and made."""
    from videoveil.data import registry, twins

    made = twins.names()
    if as_json:
        _print_json(
            [
                {
                    "name": e.name,
                    "title": e.title,
                    "labels": e.labels,
                    "options": [*map(str, e.options)],
                    "twin": e.name in made,
                }
                for e in registry.entries()
            ]
        )
        return
    cells = [
        [e.name, e.title, e.labels, "yes" if e.name in made else "-", ", ".join(map(str, e.options))]
        for e in registry.entries()
    ]
    _table(["name", "dataset", "labels", "twin", "options"], cells)


@data_app.command("make")
def data_make(
    name: str,
    root: Path,
    seed: Annotated[int, typer.Option(help="Same seed, same frames.")] = 0,
    size: Annotated[Size, typer.Option(help="How many videos and how long.")] = Size.tiny,
    processes: Annotated[
        int, typer.Option(help="Rendering processes; the result does not depend on it.")
    ] = 2,
    as_json: Json = False,
) -> None:
    """Write a synthetic twin of dataset NAME into ROOT, in the real dataset's on-disk format."""
    from videoveil.data import twins

    report = twins.make(name, root, seed=seed, size=size.value, processes=processes)
    if as_json:
        _print_json(report.to_json())
    else:
        print(
            f"{report.name}: {report.files} files, {report.frames} frames in {report.seconds:.1f} s under {report.root}"
        )


@data_app.command("verify")
def data_verify(
    name: str,
    root: Path,
    annotations_only: Annotated[bool, typer.Option(help="Do not look at videos and images.")] = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Count what is in ROOT per split and class, compare with the official numbers, and say what is wrong."""
    from videoveil.data.verify import verify

    report = verify(name, root, annotations_only=annotations_only, options=_options(option))
    if as_json:
        _print_json(report.to_json())
    else:
        for line in report.rows():
            print(line)
    if report.problems:
        raise typer.Exit(1)


# --- models ------------------------------------------------------------------------------------------------


@app.command()
def models(as_json: Json = False) -> None:
    """List all models: kind, name, parameters, feature width."""
    from dataclasses import asdict

    from videoveil.encoders.registry import describe

    rows = [{"role": "encoder", **asdict(info)} for info in describe()]
    if as_json:
        _print_json(rows)
        return
    cells = [
        [
            r["role"],
            r["name"],
            r["kind"],
            f"{r['parameters']:,}",
            str(r["width"]),
            f"{r['frames']}×{r['size']}²",
        ]
        for r in rows
    ]
    _table(["role", "name", "input", "parameters", "width", "clip"], cells)


@app.command()
def convert(
    file: Path,
    to: Annotated[str, typer.Option(help="The encoder the weights are for; see `veil models`.")],
    out: Annotated[Path | None, typer.Option(help="Where to write; default: FILE with .safetensors.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An encoder option as KEY=VALUE, e.g. classes=157."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring a foreign checkpoint in as safetensors; a file with pickled code is refused."""
    from dataclasses import asdict

    from videoveil.encoders.convert import convert as convert_file

    destination = out or file.with_suffix(".safetensors")
    if out is None and destination.exists():
        raise UsageError(f"{destination}: exists; say where to write with --out")
    report = convert_file(file, to, destination, **_numbers(_options(option)))
    if as_json:
        _print_json(asdict(report))
    else:
        print("\n".join(report.lines()))


# --- features ----------------------------------------------------------------------------------------------


@app.command()
def extract(
    source: Annotated[str, typer.Argument(help="DATASET:ROOT (see `veil data list`) or a folder of videos.")],
    store: Annotated[
        Path, typer.Argument(help="The feature store; made if it does not exist, completed if it does.")
    ],
    encoder: Annotated[str, typer.Option(help="See `veil models`.")] = "tiny",
    weights: Annotated[str | None, typer.Option(help="A .safetensors file, a hub id, or 'random'.")] = None,
    seed: Annotated[int, typer.Option(help="Of random weights.")] = 0,
    clips: Annotated[
        str, typer.Option(help="'all', 'dense:STRIDE', or a number of equidistant clips.")
    ] = "all",
    static: Annotated[int, typer.Option(help="Static clips per video (single frames, tiled).")] = 0,
    tokens: Annotated[bool, typer.Option(help="Store temporal tokens as well.")] = False,
    batch: Annotated[int, typer.Option(help="Clips per encoder pass.")] = 8,
    workers: Annotated[int, typer.Option(help="Decoding threads.")] = 1,
    device: Annotated[str, typer.Option(help="'auto', 'cpu', 'cuda', 'cuda:1', …")] = "auto",
    skip_bad: Annotated[bool, typer.Option(help="Leave broken items out, counted and listed.")] = False,
    anonymizer: Pixels = None,
    key: NoiseKeyFile = None,
    eight_bit: EightBit = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Run a frozen encoder over SOURCE and keep its features in STORE; run again to do only what is missing."""
    from videoveil.data.registry import open_source
    from videoveil.encoders.registry import create
    from videoveil.features.extract import extract as run
    from videoveil.features.extract import recipe_for

    dataset = open_source(source, _options(option), skip_bad=skip_bad)
    network = create(encoder, weights=weights, seed=seed)
    recipe = recipe_for(network, clips=clips, static=static, tokens=tokens)
    with _progress(f"extracting {dataset.name}", quiet=as_json) as advance:
        report = run(
            dataset,
            store,
            network,
            recipe,
            batch=batch,
            workers=workers,
            device=device,
            skip_bad=skip_bad,
            progress=advance,
            anonymizer=_pixels(anonymizer, key),
            eight_bit=eight_bit,
        )
    if as_json:
        _print_json(report.to_json())
        return
    print(f"{report.dataset}: {report.items} items in {report.store}, {report.extracted} of them new")
    if report.skipped:
        print(f"skipped {len(report.skipped)}; listed in {store / 'skipped' / (report.dataset + '.txt')}")
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.stage_seconds.items())
    print(
        f"{report.clips} clips in {report.seconds:.1f} s, {report.clips_per_second:.1f} clips/s; busy: {stages}"
    )
    print(f"bottleneck: {report.bottleneck}")


# --- tasks -------------------------------------------------------------------------------------------------

Store = Annotated[Path | None, typer.Option("--features", help="A feature store, see `veil extract`.")]
Data = Annotated[str | None, typer.Option(help="DATASET:ROOT, for tasks that look at the videos themselves.")]
DatasetName = Annotated[str | None, typer.Option(help="Which dataset, where a store has several.")]
Device = Annotated[str, typer.Option(help="'auto', 'cpu', 'cuda', 'cuda:1', …")]


@app.command("train-task")
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
    made = kind.make(kind.config(preset, _options(change, "--set")))
    if cut and not isinstance(made, ActionDetection):
        raise UsageError("--cut: only detection has annotations in time")
    if isinstance(made, ActionDetection):
        made = ActionDetection(made.config, cut)
    source = _source(kind.name, kind.reads, kind.clips, features, data, dataset, split, option)
    source = _veiled(source, anonymizer, eight_bit)
    origin: dict[str, Any] = {"cut": cut} if cut else {}
    if data:
        name, _, root = data.rpartition(":")
        place = str(Path(root).resolve())
        origin |= {"origin": f"{name}:{place}" if name else place, "options": _options(option)}
    with _steps(f"training {task}", quiet=as_json) as advance:
        fitted = runs.train(made, source, out, seed=seed, device=device, progress=advance, origin=origin)
    history = list(getattr(fitted, "history", ()))
    if as_json:
        _print_json({"run": str(out), "task": task, "epochs": len(history), "last": history[-1:]})
    else:
        print(f"{task}: {len(history)} epochs → {out}; `veil score {out}` tells what it is worth")


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A folder that `veil train-task` wrote.")],
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
    from videoveil.tasks import registry, runs

    opened = runs.Run.open(run)
    source: Source | None = None
    if features or data:
        kind = registry.kind(opened.task)
        source = _source(kind.name, kind.reads, kind.clips, features, data, dataset, split, option)
        source = _veiled(source, anonymizer, eight_bit)
    elif option or anonymizer or eight_bit:
        raise UsageError("--option, --anonymizer and --eight-bit belong to --data")
    found = runs.score(opened, source, split=split, device=device)
    if as_json:
        _print_json(found.to_json())
    else:
        _print_score(found)


@app.command()
def predict(
    video: Path,
    task: Annotated[str, typer.Option(help="action, detection or anomaly.")],
    model: Annotated[Path, typer.Option(help="A folder that `veil train-task` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the JSON; default: print it.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw it: .png, .svg or .pdf.")] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            help="What really happens: START-END[:LABEL] in seconds, comma between, or a JSON file."
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Of the encoder, where it has none of its own.")] = None,
    anonymizer: Annotated[
        str | None, typer.Option(help="What the features that the model was trained on went through.")
    ] = None,
    pixels: Pixels = None,
    key: NoiseKeyFile = None,
    least: Annotated[float, typer.Option(help="Leave out detections less certain than this.")] = 0.05,
    device: Device = "auto",
) -> None:
    """Say what happens in VIDEO and when: JSON with times in seconds, and a picture."""
    from videoveil import files
    from videoveil.report.timeline import draw, require_format
    from videoveil.tasks.predict import predict as run
    from videoveil.tasks.predict import read_truth
    from videoveil.tasks.runs import Run

    if plot is not None:
        require_format(plot)
    known = read_truth(truth) if truth else ()
    veil = None
    if anonymizer is not None:
        from videoveil.anonymizers import LatentAnonymizer, NoiseKey

        secret = None if key is None else NoiseKey.load(key)
        veil = LatentAnonymizer.from_pretrained(anonymizer, key=secret)
    found = run(
        video,
        Run.open(model),
        task,
        weights=weights,
        anonymizer=veil,
        pixels=_pixels(pixels, key),
        device=device,
        least=least,
        truth=known,
    )
    if plot is not None:
        draw(found, plot)
    if out is not None:
        files.write_json(out, found.to_json())
    else:
        _print_json(found.to_json())


def _source(
    task: str,
    reads: str,
    clips: str,
    features: Path | None,
    data: str | None,
    dataset: str | None,
    split: str,
    option: list[str] | None,
) -> Source:
    """The data a task was pointed at; pointed at the wrong kind, the message says what to do."""
    from videoveil.data.registry import open_source
    from videoveil.features.store import FeatureStore
    from videoveil.tasks.base import Clips, Features

    if (features is None) == (data is None):
        raise UsageError("give either --features STORE or --data DATASET:ROOT")
    if reads == "features":
        if features is None:
            raise UsageError(
                f"{task} learns from features: `veil extract {data} STORE --clips {clips}`, then --features STORE"
            )
        return Features(FeatureStore.open(features), dataset, split)
    if data is None:
        raise UsageError(f"{task} looks at the videos themselves: give --data DATASET:ROOT")
    return Clips(open_source(data, _options(option)), split)


def _pixels(source: str | None, key: Path | None = None) -> PixelAnonymizer | None:
    """The pixel anonymizer of that name, in eval mode."""
    if source is None:
        return None
    from videoveil.anonymizers import NoiseKey
    from videoveil.anonymizers.pixel import PixelAnonymizer

    return PixelAnonymizer.from_pretrained(source, key=None if key is None else NoiseKey.load(key))


def _veiled(source: Source, anonymizer: str | None, eight_bit: bool) -> Source:
    """The data as an anonymizer leaves it."""
    if anonymizer is None and not eight_bit:
        return source
    from videoveil.tasks.base import Features

    if isinstance(source, Features):
        raise UsageError(
            "--anonymizer and --eight-bit are for pictures; features get them from `veil extract`"
        )
    return source.with_anonymizer(_pixels(anonymizer), eight_bit)


def _print_score(found: Score) -> None:
    rows = [[m.name, _percent(m.value), _percent(m.chance)] for m in found.metrics]
    _table([f"{found.task}, {found.items} test items", "score", "chance"], rows)
    print(f"chance: {found.baseline}")
    if found.per_class:
        columns = sorted({key for values in found.per_class.values() for key in values})
        cells = [
            [name, *(_cell(key, values.get(key)) for key in columns)]
            for name, values in found.per_class.items()
        ]
        print()
        _table(["class", *columns], cells)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _cell(column: str, value: float | None) -> str:
    return f"{value:g}" if column == "videos" and value is not None else _percent(value)


# --- anonymizers -------------------------------------------------------------------------------------------


@app.command()
def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="veil, splavu, table5/T+LC … from features; veil-pixel, spact, ted-spad … from videos."
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
    split: Annotated[str, typer.Option(help="What to learn from.")] = "train",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="PATH=VALUE changes a pixel recipe, such as settings.epochs=20; repeatable."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same weights.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Make an anonymizer: of stored features, without any private label, or of pixels, from videos."""
    from videoveil.recipes import PixelRecipe, either

    chosen = either(recipe)
    if isinstance(chosen, PixelRecipe):
        if features or not data:
            raise UsageError(f"{recipe} makes a pixel anonymizer: give --data NAME:ROOT, not --features")
        made = _train_pixels(chosen, data, split, _options(setting, "--set"), out, seed, device, as_json)
        hint = f"`veil extract NAME:ROOT OUT --anonymizer {out}` looks through it"
    else:
        if data or setting or not features:
            raise UsageError(
                f"{recipe} makes a latent anonymizer: give --features STORE, not --data or --set"
            )
        made = _train_features(recipe, features, split, out, seed, device, as_json)
        hint = f"`veil anonymize-features STORE OUT --anonymizer {out}` applies it"
    if as_json:
        _print_json({"run": str(out), "recipe": recipe, **made})
    else:
        size = made.get("size")
        of = f"frames, trained at {size}²" if size else "frames, not trained"
        of = f"features {made['width']} wide" if "width" in made else of
        print(f"{recipe}: anonymizer {made['hash'][:12]} for {of} → {out}")
        print(hint)


def _train_features(
    recipe: str, features: list[str], split: str, out: Path, seed: int, device: str, quiet: bool
) -> dict[str, Any]:
    from videoveil.features.store import FeatureStore
    from videoveil.recipes import fit
    from videoveil.recipes import recipe as named
    from videoveil.tasks.base import Features

    sources = {}
    for word in features:
        task, equals, store = word.partition("=")
        task, store = (task, store) if equals else ("action", word)
        if task in sources:
            raise UsageError(f"--features {word}: {task} was given before")
        sources[task] = Features(FeatureStore.open(store), split=split)
    with _steps(f"training {recipe}", quiet=quiet) as advance:
        anonymizer = fit(named(recipe), sources, out, seed=seed, device=device, progress=advance)
    return {"hash": anonymizer.content_hash(), "width": anonymizer.config.width}


def _train_pixels(
    recipe: Any,
    data: list[str],
    split: str,
    changes: dict[str, str],
    out: Path,
    seed: int,
    device: str,
    quiet: bool,
) -> dict[str, Any]:
    """Videos teach f_T, and f_B too unless the recipe's budget is on images, which are the other dataset."""
    import os

    from videoveil.data.registry import open_source
    from videoveil.recipes import fit_pixel
    from videoveil.recipes.looking import Looker, middle_clip, picture_run
    from videoveil.tasks.base import Clips

    for path, value in changes.items():
        recipe = recipe.with_text(path, value)
    found: dict[str, Any] = {}
    for word in data:
        dataset = open_source(word, {})
        kind = "images" if all(item.kind == "image" for item in dataset.items) else "videos"
        if kind in found:
            raise UsageError(f"--data {word}: {kind} were given before")
        found[kind] = Clips(dataset, split=split)
    if "videos" not in found:
        raise UsageError(f"{recipe.name}: give the videos of an action dataset with --data NAME:ROOT")
    videos = found["videos"]
    # pictures are of videos that f_A does not learn from, where there are any; one that cannot be read is said now
    others = videos.with_split("test") if videos.dataset.split("test") else videos
    own = recipe.settings
    clip = middle_clip(others, own.size, own.utility.frames, own.utility.stride)
    with _steps(f"training {recipe.name}", quiet=quiet) as advance:
        made = fit_pixel(
            recipe,
            videos,
            out,
            images=found.get("images"),
            seed=seed,
            device=device,
            progress=advance,
            look=Looker(out, others, found.get("images")),
        )
    if os.environ.get("RANK", "0") == "0":
        picture_run(out, clip)
    return {"hash": made.anonymizer.content_hash(), "size": made.anonymizer.config.size}


@app.command("anonymize-features")
def anonymize_features(
    store: Annotated[Path, typer.Argument(help="Raw features, see `veil extract`.")],
    out: Annotated[Path, typer.Argument(help="The new store; completed if it exists.")],
    anonymizer: Annotated[str, typer.Option(help="A folder that `veil train` wrote, or a hub id ORG/NAME.")],
    key: Annotated[
        Path | None,
        typer.Option(help="Secret key of the noise, where the anonymizer adds some; made if absent."),
    ] = None,
    batch: Annotated[
        int, typer.Option(help="Rows moved to the device together; changes nothing else.")
    ] = 4096,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write an anonymized copy of STORE: same videos, same layout, nothing raw in it."""
    from videoveil.anonymizers import LatentAnonymizer, NoiseKey
    from videoveil.features.anonymize import anonymize

    secret = None
    if key is not None:
        if not key.exists():
            NoiseKey.generate().save(key)
        secret = NoiseKey.load(key)
    loaded = LatentAnonymizer.from_pretrained(anonymizer, key=secret)
    with _bar("anonymizing", "{} rows", quiet=as_json) as advance:
        report = anonymize(store, out, loaded, batch=batch, device=device, progress=advance)
    if as_json:
        _print_json(report.to_json())
    else:
        print(
            f"{', '.join(report.datasets)}: {report.items} items in {report.store}, {report.written} of them new, "
            f"{report.rows} vectors in {report.seconds:.1f} s"
        )


@app.command()
def doctor(as_json: Json = False) -> None:
    """Show versions, devices and codecs, and try what must work; exit code 1 if something does not."""
    from videoveil.doctor import diagnose

    found = diagnose()
    if as_json:
        _print_json(found)
    else:
        print(f"Python {found['python']} on {found['platform']}")
        _table(["package", "version"], [[k, v or "missing"] for k, v in found["packages"].items()])
        _table(["extra", "installed"], [[k, v or "-"] for k, v in found["extras"].items()])
        _table(
            ["check", "", "detail"],
            [[c["name"], "ok" if c["works"] else "FAILS", c["detail"]] for c in found["checks"]],
        )
    if not found["works"]:
        raise typer.Exit(1)


# --- printing ----------------------------------------------------------------------------------------------


def _options(pairs: list[str] | None, flag: str = "--option") -> dict[str, str]:
    options = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {pair!r}: write it as KEY=VALUE")
        options[key] = value
    return options


def _numbers(options: dict[str, str]) -> dict[str, Any]:
    """Option values that look like integers, as integers."""
    return {key: int(value) if re.fullmatch(r"-?[0-9]+", value) else value for key, value in options.items()}


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str))


def _table(columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    # a pipe has no width of its own: never fold a line there
    Console(width=None if sys.stdout.isatty() else 400, highlight=False).print(table)


class _bar:
    """A progress bar on a terminal, nothing elsewhere; call it with (done, total, figure)."""

    def __init__(self, title: str, figure: str, *, quiet: bool):
        self.title, self.figure, self.show = title, figure, not quiet and sys.stderr.isatty()

    def __enter__(self) -> Any:
        if not self.show:
            return None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figure]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.bar.start()
        task = self.bar.add_task(self.title, total=None, figure="")
        return lambda done, total, value: self.bar.update(
            task, completed=done, total=total, figure=self.figure.format(value)
        )

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.stop()


def _progress(title: str, *, quiet: bool) -> _bar:
    return _bar(title, "{} clips", quiet=quiet)


def _steps(title: str, *, quiet: bool) -> _bar:
    return _bar(title, "loss {:.4f}", quiet=quiet)


if __name__ == "__main__":
    main()
