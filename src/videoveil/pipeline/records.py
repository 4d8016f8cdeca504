"""What long work over many files knows of itself: small records and locks in a folder beside the results.

    records = Records(out / ".veil")
    with records.claim(name) as owned:                # by one living process at a time
        if owned and records.get("done", name) is None:
            records.put("done", name, {"input": stamp(path)})

A record is whole or absent, and a damaged one counts as absent: what it told of is done again. A lock is the kernel's
and ends with its process.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class Records:
    """JSON objects by kind and name: FOLDER/KIND/NAME.json."""

    folder: Path

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """None where there is none, or a damaged one."""
        try:
            value = json.loads(self._path(kind, name).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def put(self, kind: str, name: str, value: dict[str, Any]) -> None:
        files.write_json(self._path(kind, name), value)

    def drop(self, kind: str, name: str) -> None:
        self._path(kind, name).unlink(missing_ok=True)

    def claim(self, name: str) -> contextlib.AbstractContextManager[bool]:
        """True while this process owns the name, False where another living one does."""
        return files.claim(self.folder / "locks" / name)

    def _path(self, kind: str, name: str) -> Path:
        return self.folder / kind / f"{name}.json"


def stamp(path: str | Path) -> list[int]:
    """Size and time of change: while both stay, nobody has touched a file."""
    try:
        found = Path(path).stat()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from error
    return [found.st_size, found.st_mtime_ns]


def tidy(folder: Path) -> list[Path]:
    """Remove what killed processes left anywhere below `folder`; what living ones are at stays."""
    # `rglob` fails where a folder is removed meanwhile, `walk` passes over it
    names = (Path(at, name) for at, _, inside in os.walk(folder) for name in inside)
    left = [p for p in names if p.name.startswith(files.TEMPORARY) and not files.owner_alive(p)]
    for path in left:
        path.unlink(missing_ok=True)
    return left
