"""`veil corpus`: many videos by many workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from videoveil import shipped
from videoveil.commands.arguments import Device, Inner, Json, NoiseKeyFile
from videoveil.commands.running import end_with, stoppable
from videoveil.commands.terminal import Bar, print_json
from videoveil.errors import UsageError, VeilError


def corpus(
    source: Annotated[Path, typer.Argument(help="A folder, or a list of videos (.txt, .csv, .jsonl).")],
    out: Annotated[Path, typer.Argument(help="The folder for the results; a corpus that was begun goes on.")],
    model: Annotated[
        str, typer.Option("--with", help="The anonymizer: a name, a run folder, or a hub id.")
    ] = shipped.DEFAULT,
    workers: Annotated[int, typer.Option(help="Processes, or actors of Ray.")] = 1,
    engine: Annotated[
        str,
        typer.Option(help="'local': processes of this machine; 'ray': a cluster that sees the same files."),
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; without it one is started.")
    ] = None,
    gpus: Annotated[float, typer.Option(help="GPUs of each actor of Ray.")] = 0.0,
    chunk: Annotated[int, typer.Option(help="Frames that one worker does in one go.")] = 3000,
    audio: Annotated[bool, typer.Option("--audio", help="Keep the sound, as it is.")] = False,
    inner: Inner = None,
    crf: Annotated[int, typer.Option(help="Quality: lower is better and larger.")] = 20,
    device: Device = "auto",
    key: NoiseKeyFile = None,
    as_json: Json = False,
) -> None:
    """Anonymize all videos of SOURCE into OUT; any worker may die at any time.

    Exit code 0: all done. 2: input or options refused. 3: a video failed, or the run was stopped (SIGINT, SIGTERM);
    what is done stays, and the same command goes on.
    """
    from videoveil.pipeline.corpus import Corpus
    from videoveil.pipeline.local import run_local
    from videoveil.pipeline.manifest import read_manifest
    from videoveil.pipeline.options import Options
    from videoveil.pipeline.process import no_memory_dumps
    from videoveil.pipeline.ray_engine import run_ray

    if engine not in ("local", "ray"):
        raise UsageError(f"--engine {engine!r}: must be 'local' or 'ray'")
    no_memory_dumps()
    options = Options(audio=audio, inner=inner, crf=crf, device=device)
    work = Corpus(read_manifest(source), out, model, options, key, chunk)
    try:
        with stoppable() as stop:
            if engine == "ray":
                report = run_ray(work, workers, address=address, gpus=gpus, stop=stop)
            else:
                with Bar(f"anonymizing {source.name}", "{} videos", quiet=as_json) as advance:
                    watch = None if advance is None else lambda done, total: advance(done, total, done)
                    report = run_local(work, workers, progress=watch, stop=stop)
    except VeilError as error:
        end_with(error, None, as_json)
    if as_json:
        print_json(report.to_json())
    else:
        print(report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
