"""`veil evaluate PROTOCOL`: the papers' protocols on real data or twins, beside what the papers printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from videoveil.commands.arguments import Device, Json, NoiseKeyFile
from videoveil.commands.terminal import options, print_json
from videoveil.errors import UsageError

LIST = "list"
SEEDS = (0, 1, 2)  # with fewer there is no interval worth the name


def evaluate(
    protocol: Annotated[
        str, typer.Argument(help="cross-dataset, five-tasks, gait, ntu-bias …; `list` shows them all.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; run again to do only what is missing.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(help="[ROW=]RUN: an anonymizer that `veil train` made, and its row; repeatable."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="NAME:ROOT of a dataset or of its twin; repeatable."),
    ] = None,
    size: Annotated[str, typer.Option(help="tiny (does it run), small (two cores) or paper.")] = "small",
    seed: Annotated[
        list[int] | None,
        typer.Option(
            help="Repeatable. Default: 0, 1 and 2, for means and intervals; a single `--seed 0` gives neither."
        ),
    ] = None,
    encoder: Annotated[str, typer.Option(help="Of protocols on features; see `veil models`.")] = "tiny",
    encoder_weights: Annotated[str, typer.Option(help="Its weights, where it has none of its own.")] = "",
    encoder_size: Annotated[int, typer.Option(help="Side of its pictures; 0: its own.")] = 0,
    weights: Annotated[
        list[str] | None,
        typer.Option(help="NETWORK=FILE for networks that begin from published weights; repeatable."),
    ] = None,
    key: NoiseKeyFile = None,
    detector: Annotated[
        Path | None, typer.Option(help="A YOLO ONNX file that finds people, for blackening and blurring.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where features are kept, to share them between evaluations.")
    ] = None,
    baselines: Annotated[bool, typer.Option(help="Downsampling beside raw data, where it fits.")] = True,
    partial: Annotated[bool, typer.Option(help="Go on without data that was not given.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Run a protocol of the papers and write its table: their columns beside ours, twins apart from real data."""
    if protocol == LIST:
        _print_list(as_json)
        return
    if out is None:
        raise UsageError("say where to write with --out DIR")
    from videoveil.protocols.evaluate import METRICS, TABLES, Request
    from videoveil.protocols.evaluate import evaluate as run_protocol

    request = Request(
        protocol,
        out,
        _roots(data),
        tuple(run or ()),
        size,
        tuple(seed or SEEDS),
        encoder,
        encoder_weights,
        encoder_size,
        options(weights, "--weights"),
        _key(key),
        _detector(detector),
        device,
        cache,
        baselines,
        partial,
    )
    result = run_protocol(request, _say(as_json))
    if as_json:
        print((out / METRICS).read_text("utf-8"), end="")
        return
    print((out / TABLES).read_text("utf-8"), end="")
    print(f"\n{len(result.cells)} cells → {out / METRICS}, {out / TABLES}")


def _print_list(as_json: bool) -> None:
    from videoveil.protocols import registry

    rows = [
        {
            "name": one.name,
            "title": one.title,
            "data": list(one.needs),
            "tables": [table.id for table in one.tables],
            "looks at": one.looks,
        }
        for one in registry.EVALUATIONS.values()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['name']}: {row['title']}")
        print(f"  data: {', '.join(row['data']) or 'none'}; tables: {', '.join(row['tables'])}")


def _roots(words: list[str] | None) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for word in words or []:
        name, colon, root = word.partition(":")
        if not colon or not name or not root:
            raise UsageError(f"--data {word!r}: write it as NAME:ROOT")
        if name in found:
            raise UsageError(f"--data {word}: {name} was given before")
        found[name] = Path(root)
    return found


def _key(path: Path | None) -> Any:
    if path is None:
        return None
    from videoveil.anonymizers import NoiseKey

    return NoiseKey.load(path)


def _detector(path: Path | None) -> Any:
    if path is None:
        return None
    from videoveil.anonymizers.obfuscate import YoloOnnx

    return YoloOnnx(path)


def _say(quiet: bool) -> Any:
    """What is being measured, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        return None
    return lambda what: print(what, file=sys.stderr, flush=True)
