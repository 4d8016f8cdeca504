"""`veil live`: a camera or network stream through an anonymizer, for as long as it runs.

Exit code 0: its time was over, or the source ended. 2: an option, the source or the model was refused. 3: a picture,
the source or a sink failed, or the run was stopped (SIGINT, SIGTERM), after everything was closed well.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from videoveil import shipped
from videoveil.commands.arguments import Device, Inner, Json, NoiseKeyFile
from videoveil.commands.running import end_with, frame_size, named_anonymizer, stoppable, write_report
from videoveil.commands.terminal import print_json
from videoveil.errors import UsageError, VeilError

if TYPE_CHECKING:
    from videoveil.pipeline.report import Progress


def live(
    source: Annotated[
        str, typer.Argument(help="A camera's number or device, or rtsp://…, rtmp://…, http://…")
    ],
    to: Annotated[
        list[str],
        typer.Option(help="NAME.mp4 (in segments), rtmp://…, rtsp://…, srt://… or preview:PORT; repeatable."),
    ],
    model: Annotated[str, typer.Option("--with", help="As for `veil anonymize`.")] = shipped.DEFAULT,
    detector: Annotated[
        str | None, typer.Option(help="Finds people or faces: hog, centerface, yolo:FILE, yunet:FILE.")
    ] = None,
    fail_closed: Annotated[
        bool,
        typer.Option(
            "--fail-closed",
            help="Blacken pictures in which a followed person is not found, until found again or expected outside; "
            "who was found in fewer than 3 pictures is not followed.",
        ),
    ] = False,
    latency: Annotated[
        float, typer.Option(help="Seconds after which a picture is too late and dropped.")
    ] = 1.0,
    rate: Annotated[str | None, typer.Option(help="Pictures per second, such as 25 or 30000/1001.")] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds to run; else until stopped.")] = None,
    segment: Annotated[float, typer.Option(help="Seconds per file: what a power cut can cost.")] = 10.0,
    stall: Annotated[
        float, typer.Option(help="Seconds without data after which the source is opened again.")
    ] = 10.0,
    patience: Annotated[
        float | None, typer.Option(help="Seconds without a picture after which to end; else never.")
    ] = None,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT of the result; else the source's.")] = None,
    inner: Inner = None,
    engine: Annotated[str, typer.Option(help="auto (measures), torch, compile or openvino.")] = "auto",
    device: Device = "auto",
    crf: Annotated[int, typer.Option(help="Quality of the result: lower is better and larger.")] = 20,
    key: NoiseKeyFile = None,
    expect: Annotated[str | None, typer.Option(help="Content hash the model must have.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report here, as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Anonymize live pictures. The output keeps its rate; whatever fails or comes too late is black, never raw.

    Exit code 0: its time was over, or the source ended. 2: input or options refused. 3: a picture, the source or a
    sink failed, or the run was stopped.
    """
    from videoveil.pipeline.live import anonymize_stream
    from videoveil.pipeline.live_report import LiveOptions
    from videoveil.pipeline.options import EngineName, Options
    from videoveil.pipeline.process import no_memory_dumps

    no_memory_dumps()
    options = Options(
        size=frame_size(size),
        inner=inner,
        engine=cast(EngineName, engine),
        device=device,
        crf=crf,
        expect=expect,
    )
    settings = LiveOptions(latency, _rate(rate), duration, stall, patience, segment)
    opened = named_anonymizer(model, key, detector, fail_closed)
    try:
        with stoppable() as stop:
            made = anonymize_stream(
                source, to, opened, options, settings, progress=_progress(as_json), stop=stop
            )
    except VeilError as error:
        end_with(error, report, as_json)
    write_report(report, made.to_json())
    if as_json:
        print_json(made.to_json())
    else:
        print(made)
    if made.error:
        print(f"veil: {made.error}", file=sys.stderr)
    raise typer.Exit(made.exit_code)


def _rate(text: str | None) -> Fraction | None:
    if text is None:
        return None
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"--rate {text!r}: write it as 25, 12.5 or 30000/1001") from None


def _progress(quiet: bool) -> Any:
    """One line that is written over, on a terminal."""
    if quiet or not sys.stderr.isatty():
        return None

    def tell(one: Progress) -> None:
        left = "" if one.remaining is None else f", {one.remaining:.0f} s left"
        print(
            f"\r{one.frames} pictures, {one.fps:.1f} per second{left}   ", end="", file=sys.stderr, flush=True
        )

    return tell
