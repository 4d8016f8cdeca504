"""Which videos a corpus has: a folder, or a list in a file.

    a.txt      one path a line; empty lines and lines that begin with # are left out
    a.csv      a column `source`, and `name` where the result shall be called otherwise
    a.jsonl    one object a line with the same two fields

Paths are relative to the list. Every result has a name of its own below the destination, ending in .mp4.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from videoveil import files
from videoveil.data.reading import VIDEO_SUFFIXES
from videoveil.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """A video and what its result is called, below the destination."""

    source: str
    name: str

    @property
    def id(self) -> str:
        """A short name that is safe in any file system."""
        return files.value_hash(self.name)[:24]


def read_manifest(path: str | Path) -> tuple[Entry, ...]:
    """The entries of a folder or list, in its order; what cannot be meant is an error with its line."""
    path = Path(path)
    if path.is_dir():
        entries = list(_folder(path))
    elif not path.is_file():
        raise UsageError(f"{path}: no such folder or list of videos")
    else:
        kinds = {".txt": _lines, ".csv": _table, ".jsonl": _objects}
        if path.suffix.lower() not in kinds:
            raise UsageError(f"{path}: a list of videos is a .txt, .csv or .jsonl file")
        try:
            text = path.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: is not text in UTF-8 ({error.reason})") from error
        entries = [_entry(path, *one) for one in kinds[path.suffix.lower()](path, text)]
    if not entries:
        raise UsageError(f"{path}: names no video")
    _require_own_names(path, entries)
    return tuple(entries)


def _folder(path: Path) -> Iterator[Entry]:
    for file in sorted(path.rglob("*")):
        if (
            file.suffix.lower() in VIDEO_SUFFIXES
            and file.is_file()
            and not file.name.startswith(files.TEMPORARY)
        ):
            yield Entry(str(file), _result_name(file.relative_to(path).as_posix()))


Line = tuple[int, str, str]  # number, source, name ("" where none was given)


def _lines(path: Path, text: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip(), ""


def _table(path: Path, text: str) -> Iterator[Line]:
    reader = csv.DictReader(text.splitlines())
    if "source" not in (reader.fieldnames or ()):
        raise UsageError(
            f"{path}: has no column 'source', only {', '.join(reader.fieldnames or ()) or 'nothing'}"
        )
    for row in reader:
        yield reader.line_num, (row["source"] or "").strip(), (row.get("name") or "").strip()


def _objects(path: Path, text: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(f"{path}:{number}: is not JSON ({error.msg})") from error
        if not isinstance(value, dict) or not isinstance(value.get("source"), str):
            raise UsageError(f"{path}:{number}: must be an object with 'source', a path")
        name = value.get("name", "")
        if not isinstance(name, str):
            raise UsageError(f"{path}:{number}: 'name' must be text, not {name!r}")
        yield number, value["source"], name


def _entry(path: Path, number: int, source: str, name: str) -> Entry:
    where = f"{path}:{number}"
    if not source:
        raise UsageError(f"{where}: no source")
    given = Path(source)
    name = name or (given.name if given.is_absolute() or ".." in given.parts else given.as_posix())
    clean = name.replace("\\", "/")
    parts = PurePosixPath(clean).parts
    if not parts or clean.startswith("/") or ".." in parts or "\0" in clean:
        raise UsageError(f"{where}: the name {name!r} would lie outside the destination")
    if parts[0].startswith("."):
        raise UsageError(f"{where}: the name {name!r} begins with a dot")
    return Entry(str(given if given.is_absolute() else path.parent / given), _result_name("/".join(parts)))


def _result_name(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{stem if dot and '/' not in suffix else name}.mp4"


def _require_own_names(path: Path, entries: Iterable[Entry]) -> None:
    counts = Counter(entry.name.casefold() for entry in entries)
    twice = sorted({entry.name for entry in entries if counts[entry.name.casefold()] > 1})
    if twice:
        shown = ", ".join(twice[:5])
        raise UsageError(f"{path}: several videos would be called {shown}; give each a 'name' (.csv, .jsonl)")
