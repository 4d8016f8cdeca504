"""Run folders: one recipe, one seed, the same data; whoever comes back finds the same run or an error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import videoveil
from videoveil import files
from videoveil.errors import UsageError, VeilError

RUN, YAML = "run.json", "recipe.yaml"


@contextmanager
def claimed(folder: Path, mine: Mapping[str, Any], yaml: str) -> Iterator[None]:
    """`claim`, given up again where the work in it is refused before it has left anything."""
    claim(folder, mine, yaml)
    try:
        yield
    except VeilError:
        if {path.name for path in folder.iterdir()} <= {RUN, YAML}:
            for name in (YAML, RUN):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
        raise


def claim(folder: Path, mine: Mapping[str, Any], yaml: str) -> None:
    """Take a new folder for the run described by `mine`, or find that it holds the same run."""
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
    if differ := sorted(key for key in mine if mine[key] != there.get(key)):
        raise UsageError(
            f"{folder}: holds a run with other {', '.join(differ)}; use another folder, or the same settings"
        )
    if not (folder / YAML).is_file():
        files.write_text(folder / YAML, yaml)
