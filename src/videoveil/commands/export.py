"""`veil export`: a pixel anonymizer for ONNX or OpenVINO runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from videoveil.commands.arguments import Json, Options
from videoveil.commands.running import frame_size
from videoveil.commands.terminal import options, print_json
from videoveil.errors import UsageError


def export(
    model: Annotated[str, typer.Argument(help="A pixel anonymizer: folder of `veil train`, or hub id.")],
    out: Annotated[
        Path, typer.Argument(help="NAME.onnx or NAME.xml; the card is beside it, NAME.onnx.json.")
    ],
    to: Annotated[str, typer.Option(help="onnx or openvino.")],
    size: Annotated[
        str | None, typer.Option(help="WIDTHxHEIGHT of the frames; else any size, where the stages allow it.")
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option(help="int8: a folder of videos or pictures to calibrate on.")
    ] = None,
    attack: Annotated[
        str | None, typer.Option(help="int8: DATASET:ROOT with attributes, attacked before and after.")
    ] = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Write MODEL as a graph to OUT, after it was held against the original; int8 with its change in attacker score."""
    from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer
    from videoveil.data.registry import open_source
    from videoveil.pipeline.export import Target
    from videoveil.pipeline.export import export as run

    if out.exists():
        raise UsageError(f"{out}: exists; give another name")
    report = run(
        PixelAnonymizer.from_pretrained(model),
        out,
        target=cast(Target, to),
        size=frame_size(size),
        calibrate=calibrate,
        attack=None if attack is None else open_source(attack, options(option)),
    )
    if as_json:
        print_json(report.to_json())
    else:
        print(report)
