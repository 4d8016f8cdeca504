"""`veil models`, `veil convert`, `veil doctor`: what is here, and whether it works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from videoveil.commands.arguments import Json
from videoveil.commands.terminal import numbers, options, print_json, print_table
from videoveil.errors import UsageError


def models(
    card: Annotated[str, typer.Option(help="Show the card of a shipped encoder, anonymizer or head.")] = "",
    as_json: Json = False,
) -> None:
    """List all models: encoders, and the anonymizers and trained tasks that come with the package."""
    from dataclasses import asdict

    from videoveil import shipped
    from videoveil.encoders.registry import describe

    if card:
        print(shipped.card(card))
        return
    rows = [{"role": "encoder", **asdict(info)} for info in describe()]
    veils = [{"role": "anonymizer", "name": name, **shipped.summary(name)} for name in shipped.names()]
    heads = [{"role": "head", "name": name, **shipped.head_summary(name)} for name in shipped.heads()]
    if as_json:
        print_json([*rows, *veils, *heads])
        return
    cells = [
        [
            r["role"],
            r["name"],
            r["kind"],
            f"{r['parameters']:,}",
            str(r["width"]),
            f"{r['frames']}×{r['size']}²",
        ]
        for r in rows
    ]
    print_table(["role", "name", "input", "parameters", "width", "clip"], cells)
    shown = [[v["role"], v["name"], v["input"], f"{v['parameters']:,}", v["figures"]] for v in veils]
    print_table(
        [
            "role",
            "name",
            "input",
            "parameters",
            "on twins (synthetic): anonymized (raw, chance), the worst attacker",
        ],
        shown,
    )
    shown = [[h["role"], h["name"], h["input"], f"{h['parameters']:,}", h["figures"]] for h in heads]
    print_table(["role", "name", "input", "parameters", "on twins (synthetic): measured (chance)"], shown)


def convert(
    file: Path,
    to: Annotated[str, typer.Option(help="The encoder the weights are for; see `veil models`.")],
    out: Annotated[Path | None, typer.Option(help="Where to write; default: FILE with .safetensors.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An encoder option as KEY=VALUE, e.g. classes=157."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring a foreign checkpoint in as safetensors; a file with pickled code is refused."""
    from dataclasses import asdict

    from videoveil.encoders.convert import convert as convert_file

    destination = out or file.with_suffix(".safetensors")
    if out is None and destination.exists():
        raise UsageError(f"{destination}: exists; say where to write with --out")
    report = convert_file(file, to, destination, **numbers(options(option)))
    if as_json:
        print_json(asdict(report))
    else:
        print("\n".join(report.lines()))


def doctor(as_json: Json = False) -> None:
    """Show versions, devices and codecs, and try what must work; exit code 1 if something does not."""
    from videoveil.doctor import diagnose

    found = diagnose()
    if as_json:
        print_json(found)
    else:
        print(f"Python {found['python']} on {found['platform']}")
        print_table(["package", "version"], [[k, v or "missing"] for k, v in found["packages"].items()])
        print_table(["extra", "installed"], [[k, v or "-"] for k, v in found["extras"].items()])
        print_table(
            ["check", "", "detail"],
            [[c["name"], "ok" if c["works"] else "FAILS", c["detail"]] for c in found["checks"]],
        )
    if not found["works"]:
        raise typer.Exit(1)
