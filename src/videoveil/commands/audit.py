"""`veil audit`: attack what an anonymizer gives out, see what it is still good for, and write a report.

Exit code 0: privacy and utility pass. 1: one of them could not be measured. 2: one of them fails (or the input does).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videoveil.commands.arguments import Device, Json, NoiseKeyFile, Options
from videoveil.commands.terminal import options, print_json
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.audit.conclusions import Result
    from videoveil.audit.scoring import Question
    from videoveil.audit.subject import Subject

NAMED = 6  # attributes that a line names
Source = Annotated[
    str | None, typer.Argument(help="DATASET:ROOT with labels (see `veil data list`), for --anonymizer.")
]


def audit(
    source: Source = None,
    out: Annotated[Path, typer.Option(help="The folder of the report; run again to go on.")] = Path("audit"),
    anonymizer: Annotated[
        str | None,
        typer.Option(
            help="One that comes with the package (see `veil models`), identity, black, blur, weak-blur, "
            "downsample:FACTOR, {blacken,blur,weak-blur}-{people,faces}, FOUND+OTHER, a folder of `veil train`, a hub "
            "id, FILE.py."
        ),
    ] = None,
    anonymizer_detector: Annotated[
        str | None,
        typer.Option(help="Finds whom the anonymizer covers: hog, centerface, yolo:FILE, yunet:FILE."),
    ] = None,
    fail_closed: Annotated[
        bool,
        typer.Option("--fail-closed", help="It blackens frames in which a followed person is not found."),
    ] = False,
    keep_empty: Annotated[
        bool,
        typer.Option(
            "--keep-empty", help="It lets frames pass in which nobody was found; else they are black."
        ),
    ] = False,
    raw: Annotated[str | None, typer.Option(help="Raw videos: a folder, or DATASET:ROOT.")] = None,
    anonymized: Annotated[
        Path | None, typer.Option(help="What any tool made of them: the same paths below this folder.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="CSV with path,label,split,subject,attr:NAME for --raw FOLDER.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Minutes; those who find most per minute take part.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of everybody, on both sides.")] = 3,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    max_leakage: Annotated[
        float, typer.Option(help="Privacy passes if at most this share of raw leakage is left.")
    ] = 0.5,
    min_utility: Annotated[
        float, typer.Option(help="Utility passes if this share of the raw score is kept.")
    ] = 0.9,
    only: Annotated[
        list[str] | None, typer.Option(help="Let only these take part, by name; repeatable.")
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(
            help="An attacker who looks for people, beside hog: yolo:FILE, yunet:FILE, centerface; repeatable."
        ),
    ] = None,
    attacker: Annotated[
        list[str] | None,
        typer.Option(
            help="A network more for all who learn from pictures: resnet.50, r3d.18, tiny@own, resnet.18@FILE, "
            "…; repeatable."
        ),
    ] = None,
    attacker_size: Annotated[
        int, typer.Option(help="Side of the pictures that networks see; 0: 64, with a GPU 112.")
    ] = 0,
    encoder: Annotated[str, typer.Option(help="That makes features; see `veil models`.")] = "tiny",
    weights: Annotated[str | None, typer.Option(help="Of the encoder.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keeps what was found on raw videos, for other audits of them.")
    ] = None,
    pictures: Annotated[
        int, typer.Option(help="Test videos to show in the report, as the anonymizer leaves them.")
    ] = 0,
    show_raw: Annotated[bool, typer.Option(help="Show their raw frames, faces and all, as well.")] = False,
    key: NoiseKeyFile = None,
    device: Device = "auto",
    workers: Annotated[int, typer.Option(help="Decoding threads.")] = 1,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Attack what an anonymizer gives out, measure what it is still good for, and write a report into OUT."""
    from videoveil import devices
    from videoveil.audit import registry
    from videoveil.audit.networks import with_networks
    from videoveil.audit.rules import Rules
    from videoveil.audit.run import audit as run
    from videoveil.audit.settings import Pictures, Settings

    rules = Rules(seeds=seeds, max_leakage=max_leakage, min_utility=min_utility)
    settings = Settings(
        rules=rules,
        participants=with_networks(
            registry.with_detectors(registry.named(tuple(only or ())), tuple(detector or ())),
            tuple(attacker or ()),
            attacker_size,
            gpu=devices.choose(device).type == "cuda",
        ),
        seed=seed,
        budget=budget,
        device=device,
        workers=workers,
        pictures=Pictures(pictures, show_raw),
        command=_shown(sys.argv[1:], out, cache) if sys.argv[1:2] == ["audit"] else "",
    )
    facts = {"encoder": encoder, "weights": weights}
    covering = Covering(anonymizer_detector, fail_closed, keep_empty)
    subject = _subject(source, anonymizer, raw, anonymized, labels, key, covering, option, facts)
    with _watch(quiet=as_json) as watch:
        result = run(subject, out, settings, cache=cache, watch=watch)
    _say(result, out, as_json)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


@dataclass(frozen=True)
class Covering:
    """How an anonymizer covers people or faces, as `veil anonymize` was told or will be."""

    detector: str | None = None
    fail_closed: bool = False
    keep_empty: bool = False

    def __bool__(self) -> bool:
        return self != Covering()

    def __str__(self) -> str:
        """What a report adds to the anonymizer's name."""
        said = ("" if self.detector is None else f"by {_without_folder(self.detector, {})}",
                "fail-closed" * self.fail_closed, "empty frames kept" * self.keep_empty)  # fmt: skip
        return ", ".join(one for one in said if one)


def _subject(
    source: str | None,
    anonymizer: str | None,
    raw: str | None,
    anonymized: Path | None,
    labels: Path | None,
    key: Path | None,
    covering: Covering,
    option: list[str] | None,
    facts: dict[str, Any],
) -> Subject:
    """What is to be audited; options that do not fit together are named."""
    chosen = options(option)
    if raw is not None or anonymized is not None:
        if raw is None or anonymized is None or source is not None or anonymizer is not None:
            raise UsageError("give --raw and --anonymized together, or SOURCE with --anonymizer")
        if covering:
            raise UsageError(
                "--anonymizer-detector, --fail-closed and --keep-empty belong to --anonymizer: the files of "
                f"{anonymized} are as they are"
            )
        from videoveil.audit.pairs import open_pairs

        return open_pairs(raw, anonymized, labels=labels, options=chosen, **facts)
    if source is None or anonymizer is None:
        raise UsageError(
            "what is to be audited? `veil audit DATASET:ROOT --anonymizer X`, or "
            "`veil audit --raw DIR --anonymized DIR`"
        )
    if labels is not None:
        raise UsageError(
            f"--labels {labels}: belongs to --raw FOLDER; a DATASET has its own (csv:ROOT for a table)"
        )
    from videoveil.anonymizers import NoiseKey
    from videoveil.anonymizers.named import open_detector
    from videoveil.audit.subject import Subject, open_anonymizer
    from videoveil.data.registry import open_source

    secret = None if key is None else NoiseKey.load(key)
    made = open_anonymizer(
        anonymizer,
        secret,
        detector=None if covering.detector is None else open_detector(covering.detector),
        fail_closed=covering.fail_closed,
    )
    name = Path(anonymizer).name if Path(anonymizer).is_dir() else anonymizer
    name = f"{name} ({covering})" if covering else name
    return Subject.of(open_source(source, chosen), made, name=name, keep_empty=covering.keep_empty, **facts)


def _say(result: Result, out: Path, as_json: bool) -> None:
    verdict = result.verdict
    if as_json:
        print_json(result.metrics)
        return
    for reason in verdict.reasons:
        print(reason)
    for one in result.questions:
        if one.unproven:
            print(_unproven(one))
    print(f"privacy {verdict.privacy}, utility {verdict.utility} → {out / 'report.html'}")


def _unproven(one: Question) -> str:
    """That a PASS says nothing about some attributes, and about which."""
    more = f" and {len(one.unproven) - NAMED} more" if len(one.unproven) > NAMED else ""
    return (
        f"privacy, {one.name}: nobody clearly finds {', '.join(one.unproven[:NAMED])}{more}, in raw videos or in "
        "anonymized ones; whether they are hidden is not known"
    )


def _shown(words: Sequence[str], out: Path, cache: Path | None) -> str:
    """The command for a report, without the folders of this machine: of paths the last part is left."""
    folders = {str(out): "OUT"} | ({} if cache is None else {str(cache): "CACHE"})
    verb, *others = words
    return shlex.join(["veil", verb, *(_without_folder(word, folders) for word in others)])


def _without_folder(word: str, folders: Mapping[str, str]) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if value in folders:
        return f"{option}{equals}{folders[value]}"
    name, mark, path = "", "", value
    for one in ":@":  # DATASET:ROOT, yolo:FILE, resnet.18@FILE
        before, found, after = value.partition(one)
        if found and "/" not in before:
            name, mark, path = before, found, after
            break
    return f"{option}{equals}{name}{mark}{path if _on_hub(path) else Path(path).name}"


def _on_hub(path: str) -> bool:
    """A word with a slash that is no path: names of the hub have one."""
    return not Path(path).is_absolute() and path.count("/") == 1 and not Path(path).exists()


class _watch:
    """A progress bar with the time that is left, on a terminal; nothing elsewhere."""

    def __init__(self, *, quiet: bool):
        self.show = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Any:
        if not self.show:
            return None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.bar.start()
        task = self.bar.add_task("audit", total=None)
        return lambda done, total, words: self.bar.update(
            task, completed=done, total=total, description=words
        )

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.stop()
