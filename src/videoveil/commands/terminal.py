"""What the verbs share: reading KEY=VALUE, printing, progress bars."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from videoveil.errors import UsageError


def options(pairs: list[str] | None, flag: str = "--option") -> dict[str, str]:
    options = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {pair!r}: write it as KEY=VALUE")
        options[key] = value
    return options


def numbers(options: dict[str, str]) -> dict[str, Any]:
    """Option values that look like integers, as integers."""
    return {key: int(value) if re.fullmatch(r"-?[0-9]+", value) else value for key, value in options.items()}


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str))


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    # a pipe has no width of its own: never fold a line there
    Console(width=None if sys.stdout.isatty() else 400, highlight=False).print(table)


class Bar:
    """A progress bar on a terminal, nothing elsewhere; call it with (done, total, figure)."""

    def __init__(self, title: str, figure: str, *, quiet: bool):
        self.title, self.figure, self.show = title, figure, not quiet and sys.stderr.isatty()

    def __enter__(self) -> Any:
        if not self.show:
            return None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figure]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.bar.start()
        task = self.bar.add_task(self.title, total=None, figure="")
        return lambda done, total, value: self.bar.update(
            task, completed=done, total=total, figure=self.figure.format(value)
        )

    def __exit__(self, *_: object) -> None:
        if self.show:
            self.bar.stop()


def clips_bar(title: str, *, quiet: bool) -> Bar:
    return Bar(title, "{} clips", quiet=quiet)


def steps_bar(title: str, *, quiet: bool) -> Bar:
    return Bar(title, "loss {:.4f}", quiet=quiet)
