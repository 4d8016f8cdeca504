"""`veil verify`: is this video really an anonymized version of that one?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from videoveil.commands.arguments import Json
from videoveil.commands.terminal import print_json


def verify(
    output: Annotated[Path, typer.Argument(help="The anonymized video, by whatever tool.")],
    against: Annotated[Path, typer.Option(help="The video it was made of.")],
    audio: Annotated[bool, typer.Option(help="Sound is expected; without this there must be none.")] = False,
    parts: Annotated[
        bool, typer.Option(help="Only parts of the pictures are meant to be covered (faces, people).")
    ] = False,
    neighbours: Annotated[
        int, typer.Option(help="Also look for a raw picture among so many before and after.")
    ] = 2,
    canary: Annotated[int | None, typer.Option(help="Secret of the canaries in the input.")] = None,
    as_json: Json = False,
) -> None:
    """Check OUTPUT with a reader of its own: pictures, times, streams, metadata. Exit code 0: passed, 1: cannot tell,
    2: failed."""
    from videoveil.pipeline.verify import Expected
    from videoveil.pipeline.verify import verify as run

    result = run(output, against, Expected(audio, parts, neighbours, canary))
    if as_json:
        print_json(result.to_json())
    else:
        print(result)
    raise typer.Exit(result.exit_code)
