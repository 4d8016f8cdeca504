"""Run folders: one recipe, one seed, the same data; whoever comes back finds the same run or an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import videoveil
from videoveil import files
from videoveil.errors import UsageError, VeilError

RUN, YAML = "run.json", "recipe.yaml"
Description = dict[str, Any]


def as_written(there: Description) -> Description:
    return there


@contextmanager
def claimed(
    folder: Path,
    mine: Mapping[str, Any],
    yaml: str,
    free: Collection[str] = (),
    read: Callable[[Description], Description] = as_written,
) -> Iterator[None]:
    """`claim`, given up again where the work in it is refused before it has left anything."""
    claim(folder, mine, yaml, free, read)
    try:
        yield
    except VeilError:
        if {path.name for path in folder.iterdir()} <= {RUN, YAML}:
            for name in (YAML, RUN):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
        raise


def note(folder: Path, **facts: Any) -> None:
    """Add to RUN/run.json what turns out while a run is made; it is no part of what the run is known by."""
    path = folder / RUN
    there = json.loads(path.read_text("utf-8"))
    if there != there | facts:
        files.write_json(path, there | facts)


def claim(
    folder: Path,
    mine: Mapping[str, Any],
    yaml: str,
    free: Collection[str] = (),
    read: Callable[[Description], Description] = as_written,
) -> None:
    """Take a new folder for the run described by `mine`, or find that it holds the same run.

    free: what may differ and still be the same run, as `recipe.settings.workers`; run.json keeps what it began with.
    read: what the description there means to this version, where an earlier one wrote it.
    """
    mine = json.loads(json.dumps(mine))
    path = folder / RUN
    # another process that claims the folder at this moment has written a part of run.json
    strange = folder.exists() and any(not p.name.startswith((".", RUN)) for p in folder.iterdir())
    if not path.is_file():
        if strange:
            raise UsageError(f"{folder}: exists and is not a run; choose an empty or new folder")
        files.create_json(path, {**mine, "software": f"videoveil {videoveil.__version__}"})
    try:
        there = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: damaged ({error}); use another folder") from error
    asked, held = _bound(mine, free), _bound(read(there), free)
    if differ := sorted(key for key in asked if asked[key] != held.get(key)):
        raise UsageError(
            f"{folder}: holds a run with other {', '.join(differ)}; use another folder, or the same settings"
        )
    if not (folder / YAML).is_file():
        files.write_text(folder / YAML, yaml)


def _bound(value: Any, free: Collection[str], place: str = "") -> Any:
    """A description without what is free."""
    if not isinstance(value, dict):
        return value
    return {
        key: _bound(inner, free, f"{place}{key}.")
        for key, inner in value.items()
        if f"{place}{key}" not in free
    }
