"""`veil anonymize`: files, folders, globs, cameras and streams through an anonymizer.

Exit code 0: all is done. 2: the input or an option was refused. 3: a frame or a file failed, or the run was stopped.
"""

from __future__ import annotations

import contextlib
import glob
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from videoveil import shipped
from videoveil.commands.arguments import Device, Inner, Json, NoiseKeyFile
from videoveil.commands.running import end_with, frame_size, named_anonymizer, stoppable, write_report
from videoveil.commands.terminal import print_json
from videoveil.errors import UsageError, VeilError

if TYPE_CHECKING:
    from videoveil.pipeline.options import Options
    from videoveil.pipeline.report import FolderProgress, FolderReport, Progress, Report

PICTURES = (".jpg", ".jpeg", ".png")
_STREAM = re.compile(r"[0-9]+|/dev/video[0-9]+|(rtsps?|rtmp[st]?|https?|udp|rtp|srt|tcp)://.*", re.IGNORECASE)


def anonymize(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN", help="A video or picture, a folder, a glob, a camera's number, or rtsp://…"
        ),
    ],
    destination: Annotated[
        str, typer.Argument(metavar="OUT", help="The result (.mp4), or the folder of the results.")
    ],
    model: Annotated[
        str,
        typer.Option(
            "--with",
            help="One that comes with the package (see `veil models`), black, blur, weak-blur, downsample:FACTOR, "
            "{blacken,blur,weak-blur}-{people,faces}, a folder of `veil train`, a hub id, or your own FILE.py.",
        ),
    ] = shipped.DEFAULT,
    detector: Annotated[
        str | None, typer.Option(help="Finds people or faces: hog, centerface, yolo:FILE, yunet:FILE.")
    ] = None,
    fail_closed: Annotated[
        bool,
        typer.Option(
            "--fail-closed",
            help="Blacken frames in which a followed person is not found, until found again or expected outside; "
            "who was found in fewer than 3 frames is not followed.",
        ),
    ] = False,
    keep_empty: Annotated[
        bool,
        typer.Option("--keep-empty", help="Let frames pass in which the detector found nobody; else black."),
    ] = False,
    size: Annotated[
        str | None, typer.Option(help="WIDTHxHEIGHT of the result; else that of the input.")
    ] = None,
    inner: Inner = None,
    engine: Annotated[
        str, typer.Option(help="auto (measures), torch, compile or openvino, for learned networks.")
    ] = "auto",
    device: Device = "auto",
    batch: Annotated[int, typer.Option(help="Frames through the anonymizer together; 0: chosen.")] = 0,
    audio: Annotated[
        bool, typer.Option("--audio", help="Keep the sound. Voices are not anonymized.")
    ] = False,
    crf: Annotated[int, typer.Option(help="Quality of the result: lower is better and larger.")] = 20,
    preset: Annotated[str, typer.Option(help="x264's, from ultrafast to veryslow.")] = "veryfast",
    key: NoiseKeyFile = None,
    expect: Annotated[
        str | None, typer.Option(help="Content hash (or its first 8 or more digits) the model must have.")
    ] = None,
    latency: Annotated[
        float | None,
        typer.Option(
            help="Of a camera or stream: seconds after which a picture is too late; 1 if not given."
        ),
    ] = None,
    keep_partial: Annotated[
        bool, typer.Option("--keep-partial", help="Keep a failed result as NAME.partial.mp4, failures black.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT where it exists.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write the report here, as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Write an anonymized copy of IN to OUT. On any failure nothing is at OUT, and never a raw frame.

    Exit code 0: all done. 2: input or options refused. 3: a frame or a file failed, or the run was stopped.
    """
    from videoveil.pipeline.options import EngineName, Options
    from videoveil.pipeline.process import no_memory_dumps

    no_memory_dumps()
    options = Options(
        size=frame_size(size),
        inner=inner,
        engine=cast(EngineName, engine),
        device=device,
        batch=batch,
        audio=audio,
        crf=crf,
        preset=preset,
        keep_partial=keep_partial,
        empty_frames="keep" if keep_empty else "black",
        expect=expect,
    )
    kind = kind_of(source)
    if latency is not None and kind != "stream":
        raise UsageError(
            f"--latency {latency:g}: is for cameras and streams, and {source} is none; leave it out"
        )
    if kind == "file" and Path(destination).exists() and not overwrite:
        raise UsageError(f"{destination}: exists; give another name, or --overwrite")
    opened = named_anonymizer(model, key, detector, fail_closed)
    try:
        with stoppable() as stop:
            code = _run(kind, source, destination, opened, options, latency, stop, report, as_json)
    except VeilError as error:
        end_with(error, report, as_json)
    if code:
        raise typer.Exit(code)


def kind_of(source: str) -> Literal["file", "folder", "stream"]:
    """What IN is. A file that exists is a file, whatever its name looks like."""
    if Path(source).is_dir():
        return "folder"
    if Path(source).is_file():
        return "file"
    if _STREAM.fullmatch(source):
        return "stream"
    return "folder" if glob.has_magic(source) else "file"


def _run(
    kind: str,
    source: str,
    destination: str,
    opened: Any,
    options: Options,
    latency: float | None,
    stop: threading.Event,
    report: Path | None,
    as_json: bool,
) -> int:
    """Do it; the exit code."""
    made: Report | FolderReport | Any
    if kind == "stream":
        from videoveil.pipeline.live import anonymize_stream
        from videoveil.pipeline.live_report import LiveOptions

        live = LiveOptions() if latency is None else LiveOptions(latency=latency)
        made = anonymize_stream(source, destination, opened, options, live, stop=stop)
        code = made.exit_code
    elif kind == "folder":
        from videoveil.pipeline.folder import anonymize_folder

        with _bar(as_json) as bar:
            made = anonymize_folder(
                source, destination, opened, options, progress=bar.folder if bar else None, stop=stop
            )
        code = made.exit_code
    elif Path(source).suffix.lower() in PICTURES:
        from videoveil.pipeline.pictures import anonymize_picture

        made, code = anonymize_picture(source, destination, opened, options), 0
    else:
        from videoveil.pipeline.anonymize import anonymize_file

        with _bar(as_json) as bar:
            made = anonymize_file(
                source, destination, opened, options, progress=bar.file if bar else None, stop=stop
            )
        code = 0
    write_report(report, made.to_json())
    if as_json:
        print_json(made.to_json())
    else:
        print(made)
    return code


class _Bar:
    """Frames, frames per second and the time that is left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figure]}"),
            console=Console(stderr=True),
        )
        self._rich.start()
        self._task = self._rich.add_task("frames", total=None, figure="")

    def close(self) -> None:
        self._rich.stop()

    def file(self, one: Progress, title: str = "frames") -> None:
        left = "" if one.remaining is None else f", {_clock(one.remaining)} left"
        self._rich.update(
            self._task,
            description=title,
            completed=one.frames,
            total=one.total,
            figure=f"{one.fps:.1f} frames/s{left}",
        )

    def folder(self, all_: FolderProgress) -> None:
        title = f"file {min(all_.files + 1, all_.total)} of {all_.total}"
        if all_.failed:
            title += f", {all_.failed} failed"
        if all_.file is not None:
            self.file(all_.file, title)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextlib.contextmanager
def _bar(quiet: bool) -> Iterator[_Bar | None]:
    """On a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()
