"""What all loaders share: reading annotation text, collecting every complaint, and finding media on disk."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, MissingItems

VIDEO_SUFFIXES = (".avi", ".mp4", ".mkv", ".webm", ".mov", ".m4v", ".mpg", ".mpeg", ".flv", ".wmv", ".ts")


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


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of every non-empty line, without surrounding blanks; LF and CRLF alike."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, line.strip()


def read_rows(path: Path, required: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """(line number, row) of a CSV file with a header that must have the required columns."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    lacking = [name for name in required if name not in (reader.fieldnames or ())]
    if lacking:
        raise AnnotationError(f"{path}: header lacks {', '.join(lacking)}; it has {reader.fieldnames}")
    rows = []
    for row in reader:
        if any(row.values()):
            clean = {k.strip(): v.strip() for k, v in row.items() if k is not None and isinstance(v, str)}
            rows.append((reader.line_num, clean))
    return rows


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise AnnotationError(f"{path}:{error.lineno}: not JSON ({error.msg})") from None


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
    used as a pattern. Each folder is listed once.
    """

    def __init__(self, *folders: Path):
        self.folders = folders
        self._children: dict[Path, dict[str, Path]] = {}

    def _listed(self, folder: Path) -> dict[str, Path]:
        if folder not in self._children:
            entries = sorted(folder.iterdir()) if folder.is_dir() else []
            self._children[folder] = {p.name.lower(): p for p in reversed(entries)}
            self._children[folder].update({p.name: p for p in entries})
        return self._children[folder]

    def find(self, relative: str) -> Path | None:
        """The file with this official relative name, in any of the folders, or None."""
        *parents, name = relative.split("/")
        for base in self.folders:
            folder: Path | None = base
            for parent in parents:
                if folder is not None:
                    listed = self._listed(folder)
                    folder = listed.get(parent) or listed.get(parent.lower())
            if folder is None:
                continue
            listed = self._listed(folder)
            stem = name.rsplit(".", 1)[0] if Path(name).suffix.lower() in VIDEO_SUFFIXES else name
            for candidate in (name, *(stem + suffix for suffix in VIDEO_SUFFIXES)):
                if candidate in listed:
                    return listed[candidate]
        return None


def stem_of(name: str) -> str:
    """A relative name without its media suffix."""
    return name.rsplit(".", 1)[0] if Path(name).suffix.lower() in VIDEO_SUFFIXES else name


def videos_below(folder: Path) -> list[Path]:
    """All video files under a folder, in a fixed order."""
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in VIDEO_SUFFIXES and p.is_file())


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

    Items come in with their official relative name as path. Missing ones raise one error that lists them all, or are
    left out and listed in `skipped`.
    """
    kept, missing = [], []
    for item in items:
        if finder is None:
            kept.append(item)
            continue
        path = finder.find(item.path.as_posix())
        if path is None:
            missing.append((item, f"{item.id}: missing ({item.path})"))
        else:
            kept.append(replace(item, path=path))
    if missing and not skip_bad:
        total = len(missing) + len(kept)
        raise MissingItems(
            f"{name}: {len(missing)} of {total} files are not under {root}; complete the download, "
            "or leave them out with --skip-bad:",
            [reason for _, reason in missing],
        )
    skipped = tuple(reason for _, reason in missing)
    return Dataset(name, root, tuple(kept), tuple(classes), tuple(attributes), skipped, tuple(notes))
