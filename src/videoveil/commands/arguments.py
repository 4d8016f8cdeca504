"""Arguments that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Inner = Annotated[
    int | None,
    typer.Option(
        help="Longest side of what a network looks at, enlarged again; 0: every pixel; else the size of its training."
    ),
]
Device = Annotated[str, typer.Option(help="'auto', 'cpu', 'cuda', 'cuda:1', …")]
