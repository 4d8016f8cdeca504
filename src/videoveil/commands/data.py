"""`veil data …`: datasets and their synthetic twins."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from videoveil.commands.arguments import Json, Options
from videoveil.commands.terminal import options, print_json, print_table


class Size(StrEnum):
    """How much of a twin is made."""

    tiny = "tiny"
    small = "small"
    medium = "medium"


def data_list(as_json: Json = False) -> None:
    """List the datasets that can be read and made."""
    from videoveil.data import registry, twins

    made = twins.names()
    if as_json:
        print_json(
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
    print_table(["name", "dataset", "labels", "twin", "options"], cells)


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
        print_json(report.to_json())
    else:
        print(
            f"{report.name}: {report.files} files, {report.frames} frames in {report.seconds:.1f} s under {report.root}"
        )


def data_verify(
    name: str,
    root: Path,
    annotations_only: Annotated[bool, typer.Option(help="Do not look at videos and images.")] = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Count what is in ROOT per split and class, compare with the official numbers, and say what is wrong."""
    from videoveil.data.verify import verify

    report = verify(name, root, annotations_only=annotations_only, options=options(option))
    if as_json:
        print_json(report.to_json())
    else:
        for line in report.rows():
            print(line)
    if report.problems:
        raise typer.Exit(1)
