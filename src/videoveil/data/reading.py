"""What all loaders share: reading annotation text, collecting every complaint, and finding media on disk."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, MissingItems

VIDEO_SUFFIXES = (
    ".avi",
    ".mp4",
    ".mkv",
    ".webm",
    ".mov",
    ".m4v",
    ".mpg",
    ".mpeg",
    ".flv",
    ".wmv",
    ".ts",
    ".m2ts",
    ".mts",
    ".3gp",
    ".ogv",
    ".asf",
    ".gif",
)
_SECONDS = re.compile(
    r"([0-9]{1,15}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?|[0-9]{1,15}/0*[1-9][0-9]{0,14}"
)
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass
class Complaints:
    """Collects `file:line: what`, so that a user sees everything that is wrong at once."""

    found: list[str] = field(default_factory=list)

    def add(self, path: Path, line: int | None, what: str) -> None:
        where = path.name if line is None else f"{path.name}:{line}"
        self.found.append(f"{where}: {what}")

    def settle(self, dataset: str) -> None:
        """Raise if there was anything to complain about."""
        if self.found:
            raise AnnotationError(f"{dataset}: {len(self.found)} mistakes in the annotations:", self.found)


def read_text(path: Path) -> str:
    """An annotation file as text (UTF-8, with or without a byte-order mark)."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise AnnotationError(f"{path}: missing; it is part of the dataset's annotations") from None
    except UnicodeDecodeError as error:
        raise AnnotationError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise AnnotationError(f"{path}: cannot be read ({error.strerror})") from error


def whole(text: str) -> int:
    """A whole number in plain digits. ValueError otherwise: `int` alone takes 1_0, other scripts and endless rows."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def seconds(value: float | int | str) -> Fraction:
    """A time (or rate) exactly as it was written, never below zero. ValueError otherwise.

    Numbers with giant exponents, which would take for ever to become a fraction, are refused.
    """
    text = str(value)
    if not _SECONDS.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number of seconds")
    return Fraction(text)


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of every non-empty line, without surrounding blanks; LF and CRLF alike."""
    # not splitlines: it also breaks at characters that no editor counts as the end of a line
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        if line.strip():
            yield number, line.strip()


def read_rows(path: Path, required: Sequence[str], delimiter: str = ",") -> list[tuple[int, dict[str, str]]]:
    """(line number, row) of a CSV file with a header that must have the required columns.

    A row that breaks off early has empty values; one with more values than the header has names is an error, since its
    values would stand in the wrong columns.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter)
    rows: list[tuple[int, dict[str, str]]] = []
    complaints = Complaints()
    try:
        header = [name.strip() for name in next(reader, [])]
        lacking = [name for name in required if name not in header]
        if lacking or len(set(header)) != len(header):
            fault = f"lacks {', '.join(lacking)}" if lacking else "names a column twice"
            raise AnnotationError(f"{path}: header {fault}; it has {', '.join(header) or 'nothing'}")
        for values in reader:
            row = [value.strip() for value in values]
            if len(row) > len(header):
                complaints.add(path, reader.line_num, f"{len(row)} values for {len(header)} columns")
            elif any(row):
                rows.append((reader.line_num, dict(zip(header, row + [""] * (len(header) - len(row))))))
    except csv.Error as error:
        raise AnnotationError(f"{path}:{reader.line_num}: not CSV ({error})") from None
    complaints.settle(path.name)
    return rows


def read_json(path: Path) -> Any:
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise AnnotationError(f"{path}:{error.lineno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:  # a number or a nesting without end
        raise AnnotationError(f"{path}: not usable as JSON ({error})") from None


def first_folder(root: Path, *names: str) -> Path:
    """The first of root/name that exists, else root itself."""
    return next((root / name for name in names if (root / name).is_dir()), root)


def first_file(root: Path, *names: str) -> Path:
    """The first of root/name that exists; an error that names them all otherwise."""
    for name in names:
        if (root / name).is_file():
            return root / name
    raise AnnotationError(f"{root}: none of {', '.join(names)} is there")


class MediaFinder:
    """Finds files by their official names in folders as people really have them.

    Folders are matched regardless of case, a file may be in another container than the original, and no name is ever
    used as a pattern or leads out of the folders. Each folder is listed once.
    """

    def __init__(self, *folders: Path):
        self.folders = folders
        self._children: dict[Path, dict[str, Path]] = {}
        self._any_case: dict[Path, dict[str, Path]] = {}

    def _listed(self, folder: Path) -> dict[str, Path]:
        """Children by name."""
        if folder not in self._children:
            found = sorted(folder.iterdir()) if folder.is_dir() else []
            self._children[folder] = {p.name: p for p in found}
            self._any_case[folder] = {p.name.lower(): p for p in reversed(found)}
        return self._children[folder]

    def _child(self, folder: Path, name: str) -> Path | None:
        """The folder of this name; without one, the first that differs only in case."""
        return self._listed(folder).get(name) or self._any_case[folder].get(name.lower())

    def _file(self, folder: Path, name: str) -> Path | None:
        """The file of this name, else in another container."""
        listed, stem = self._listed(folder), stem_of(name)
        for suffix in ("", *VIDEO_SUFFIXES, *map(str.upper, VIDEO_SUFFIXES)):
            path = listed.get(stem + suffix if suffix else name)
            if path is not None and path.is_file():
                return path
        return None

    def find(self, relative: str) -> Path | None:
        """The file with this official relative name, in any of the folders, or None."""
        *parents, name = relative.split("/")
        for base in self.folders:
            folder: Path | None = base
            for parent in parents:
                folder = folder and self._child(folder, parent)
            if folder and (path := self._file(folder, name)):
                return path
        return None


def stem_of(name: str) -> str:
    """A relative name without its media suffix."""
    return name.rsplit(".", 1)[0] if Path(name).suffix.lower() in VIDEO_SUFFIXES else name


def videos_below(folder: Path) -> list[Path]:
    """All video files under a folder, in a fixed order; hidden files (leftovers, desktop notes) are none."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in VIDEO_SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def assemble(
    name: str,
    root: Path,
    items: Iterable[Item],
    *,
    classes: Sequence[str] = (),
    attributes: Sequence[str] = (),
    notes: Sequence[str] = (),
    finder: MediaFinder | None,
    skip_bad: bool,
) -> Dataset:
    """A dataset whose files exist. `finder` None: annotations only, nothing on disk is looked at.

    Items come in with their official relative name as path. Items that are named twice raise one error that lists them
    all, and so do missing ones; or they are left out (the second of two) and listed in `skipped`.
    """
    items = tuple(items)
    twice = [id_ for id_, number in Counter(item.id for item in items).items() if number > 1]
    if twice and not skip_bad:
        raise AnnotationError(f"{name}: {len(twice)} items are there twice, in one split or in two:", twice)
    kept: dict[str, Item] = {}
    missing = []
    for item in items:
        path = item.path if finder is None else finder.find(item.path.as_posix())
        if path is None:
            missing.append(f"{item.id}: missing ({item.path})")
        else:
            kept.setdefault(item.id, replace(item, path=path))
    if missing and not skip_bad:
        raise MissingItems(
            f"{name}: {len(missing)} of {len(items)} files are not under {root}; complete the download, "
            "or leave them out with --skip-bad:",
            missing,
        )
    skipped = (*missing, *(f"{id_}: there twice" for id_ in twice))
    return Dataset(name, root, tuple(kept.values()), tuple(classes), tuple(attributes), skipped, tuple(notes))
