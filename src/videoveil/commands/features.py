"""`veil extract`, `veil anonymize-features`: feature stores."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from videoveil.commands.arguments import Device, EightBit, Json, NoiseKeyFile, Options, Pixels
from videoveil.commands.loading import pixel_anonymizer
from videoveil.commands.terminal import Bar, clips_bar, options, print_json
from videoveil.errors import UsageError


def extract(
    source: Annotated[str, typer.Argument(help="DATASET:ROOT (see `veil data list`) or a folder of videos.")],
    store: Annotated[
        Path, typer.Argument(help="The feature store; made if it does not exist, completed if it does.")
    ],
    encoder: Annotated[str, typer.Option(help="See `veil models`; or your own FILE.py.")] = "tiny",
    weights: Annotated[str | None, typer.Option(help="A .safetensors file, a hub id, or 'random'.")] = None,
    seed: Annotated[int, typer.Option(help="Of random weights.")] = 0,
    clips: Annotated[
        str, typer.Option(help="'all', 'dense:STRIDE', 'ted-spad', or a number of equidistant clips.")
    ] = "all",
    static: Annotated[int, typer.Option(help="Static clips per video (single frames, tiled).")] = 0,
    tokens: Annotated[bool, typer.Option(help="Store temporal tokens as well.")] = False,
    batch: Annotated[int, typer.Option(help="Clips per encoder pass.")] = 8,
    workers: Annotated[int, typer.Option(help="Decoding threads.")] = 1,
    precision: Annotated[
        str, typer.Option(help="fp32, tf32 or bf16: what the encoder computes in.")
    ] = "fp32",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the encoder first; pays for long extractions.")
    ] = False,
    device: Device = "auto",
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

    dataset = open_source(source, options(option), skip_bad=skip_bad)
    network = create(encoder, weights=weights, seed=seed)
    recipe = recipe_for(network, clips=clips, static=static, tokens=tokens, precision=precision)  # type: ignore[arg-type]
    with clips_bar(f"extracting {dataset.name}", quiet=as_json) as advance:
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
            anonymizer=pixel_anonymizer(anonymizer, key),
            eight_bit=eight_bit,
            compiled=compiled,
        )
    if as_json:
        print_json(report.to_json())
        return
    print(f"{report.dataset}: {report.items} items in {report.store}, {report.extracted} of them new")
    if report.skipped:
        print(f"skipped {len(report.skipped)}; listed in {store / 'skipped' / (report.dataset + '.txt')}")
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.stage_seconds.items())
    print(
        f"{report.clips} clips in {report.seconds:.1f} s, {report.clips_per_second:.1f} clips/s; busy: {stages}"
    )
    print(f"bottleneck: {report.bottleneck}")


def anonymize_features(
    store: Annotated[Path, typer.Argument(help="Raw features, see `veil extract`.")],
    out: Annotated[Path, typer.Argument(help="The new store; completed if it exists.")],
    anonymizer: Annotated[
        str,
        typer.Option(
            help="A folder that `veil train` wrote, a name from `veil models`, or a hub id ORG/NAME."
        ),
    ],
    key: Annotated[
        Path | None,
        typer.Option(help="Secret key of the noise, where the anonymizer adds some; made if absent."),
    ] = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels",
            help="Keep in the records who is in a video (attributes, subjects) and where it is: for evaluation only.",
        ),
    ] = False,
    batch: Annotated[
        int, typer.Option(help="Rows moved to the device together; changes nothing else.")
    ] = 4096,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write an anonymized copy of STORE: same videos, same layout, no raw features and no labels of people in it."""
    from videoveil import shipped
    from videoveil.anonymizers import LatentAnonymizer, NoiseKey
    from videoveil.features.anonymize import anonymize

    secret = None
    if key is not None:
        if not key.exists():
            with contextlib.suppress(UsageError):  # another process was quicker
                NoiseKey.generate().save(key)
        secret = NoiseKey.load(key)
    loaded = LatentAnonymizer.from_pretrained(shipped.place(anonymizer), key=secret)
    with Bar("anonymizing", "{} rows", quiet=as_json) as advance:
        report = anonymize(store, out, loaded, labels=labels, batch=batch, device=device, progress=advance)
    if as_json:
        print_json(report.to_json())
    else:
        print(
            f"{', '.join(report.datasets)}: {report.items} items in {report.store}, {report.written} of them new, "
            f"{report.rows} vectors in {report.seconds:.1f} s"
        )
