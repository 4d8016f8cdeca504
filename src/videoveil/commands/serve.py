"""`veil serve`: videos in and out over HTTP, and a page to do it with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videoveil.commands.arguments import Device
from videoveil.commands.terminal import options
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.anonymizers import NoiseKey
    from videoveil.serve.settings import Model

MEGABYTE = 2**20


def serve(
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            help="What clients may choose: blur, downsample:4, blacken-people, a run folder or hub id, "
            "or NAME=ONE_OF_THESE; repeatable.",
        ),
    ],
    data: Annotated[Path, typer.Option(help="Where jobs are kept; one server per folder.")] = Path(
        "veil-jobs"
    ),
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8040,
    tokens: Annotated[
        Path | None, typer.Option(help="A file with one token per line; VEIL_TOKEN holds a single one.")
    ] = None,
    audit: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FOLDER of `veil audit`: figures with intervals for a model's page; repeatable."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: the secret noise key of a model that wants one; repeatable."),
    ] = None,
    anomaly: Annotated[
        str | None,
        typer.Option(
            help="A run of `veil train-task anomaly`, or a head from `veil models`, on the results."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Videos worked on at the same time.")] = 1,
    queue: Annotated[int, typer.Option(min=1, help="Videos that may wait.")] = 200,
    max_mb: Annotated[int, typer.Option(min=1, help="Largest upload.")] = 4096,
    memory_mb: Annotated[
        int, typer.Option(min=0, help="Memory one worker may ask for, on a CPU; 0: no limit.")
    ] = 0,
    keep_hours: Annotated[float, typer.Option(help="After which results are deleted.")] = 24.0,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name the service is reached by; repeatable.")
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address of a proxy whose word about the client's address is believed."),
    ] = None,
    requests_per_minute: Annotated[int, typer.Option(min=1, help="Per token, and per address.")] = 1200,
    uploads_per_minute: Annotated[int, typer.Option(min=1, help="Per token, and per address.")] = 120,
    engine: Annotated[str, typer.Option(help="auto, torch, compile or openvino.")] = "auto",
    device: Device = "auto",
    threads: Annotated[int, typer.Option(min=0, help="Of the encoder; 0: its usual four.")] = 0,
) -> None:
    """Serve anonymization over HTTP: upload, progress, result, report, delete; and a web page."""
    from videoveil import shipped
    from videoveil.serve.auth import read_tokens
    from videoveil.serve.settings import Settings

    settings = Settings(
        data=data,
        models=served(model, options(audit, "--audit"), options(key, "--key")),
        host=host,
        port=port,
        tokens=read_tokens(tokens, os.environ.get("VEIL_TOKEN")),
        hosts=tuple(allow_host or ()),
        proxies=tuple(proxy or ()),
        jobs=jobs,
        queue=queue,
        queue_per_token=queue,
        upload_bytes=max_mb * MEGABYTE,
        memory=memory_mb * MEGABYTE,
        keep=keep_hours * 3600,
        requests_per_minute=requests_per_minute,
        uploads_per_minute=uploads_per_minute,
        engine=engine,
        device=device,
        threads=threads,
        anomaly=None if anomaly is None else shipped.head_place(anomaly),
    )
    if settings.anomaly is not None:
        _check_anomaly(settings.anomaly)
    try:
        from videoveil.serve.server import run
    except ModuleNotFoundError as error:
        raise UsageError(
            f"veil serve needs {error.name}: install it with `pip install 'videoveil[serve]'`"
        ) from error
    run(settings)


def served(words: list[str], audits: dict[str, str], keys: dict[str, str]) -> tuple[Model, ...]:
    """Models from NAME=SOURCE, or SOURCE alone where it may be a name; they are opened once to see that they work."""
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.serve.settings import Model

    found = []
    for word in words:
        name, equals, source = word.partition("=")
        source = source if equals else word
        name = name if equals else (Path(word).name if Path(word).is_dir() else word.replace("/", "."))
        source = str(Path(source).resolve()) if Path(source).is_dir() else source
        audit, key = audits.pop(name, None), keys.pop(name, None)
        made = Model(name, source, Path(audit) if audit else None, Path(key) if key else None)
        _check_model(made, open_anonymizer(source, key=_noise_key(made.key)))
        found.append(made)
    for flag, left in (("--audit", audits), ("--key", keys)):
        if left:
            raise UsageError(f"{flag} {next(iter(left))}=…: there is no model of that name")
    return tuple(found)


def _noise_key(path: Path | None) -> NoiseKey | None:
    if path is None:
        return None
    from videoveil.anonymizers import NoiseKey

    return NoiseKey.load(path)


def _check_model(model: Model, anonymizer: object) -> None:
    from videoveil.anonymizers import LatentAnonymizer

    if isinstance(anonymizer, LatentAnonymizer):
        raise UsageError(f"--model {model.name}: it changes features, not frames; serve a pixel anonymizer")
    if getattr(anonymizer, "wants_noise", False) and model.key is None:
        raise UsageError(f"--model {model.name}: it adds noise; give its key with --key {model.name}=FILE")


def _check_anomaly(folder: Path) -> None:
    from videoveil.tasks.runs import Run

    run = Run.open(folder)
    if run.task != "anomaly":
        raise UsageError(f"--anomaly {run.name}: trained for {run.task}, not for anomaly")
    if "anonymizer" in run.source["encoder"]:
        raise UsageError(
            f"--anomaly {run.name}: trained on anonymized features; serve one that was trained on raw ones"
        )
