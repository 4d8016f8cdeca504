"""What models say about videos, as JSON or as a table; whole or not at all."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from videoveil import files
from videoveil.errors import UsageError
from videoveil.tasks.predict import Prediction

COLUMNS = ("video", "of", "start", "end", "label", "score")  # of: the whole video, or a span of it


def write_one(said: Prediction, out: Path | None) -> None:
    """JSON that people can read, or a table where the name ends in .csv; without `out` it is printed."""
    if out is not None and out.suffix.lower() == ".csv":
        write_many([said], out)
    elif out is not None:
        files.write_json(out, said.to_json())
    else:
        print(json.dumps(said.to_json(), indent=1, sort_keys=True, ensure_ascii=False))


def write_many(said: Iterable[Prediction], out: Path | None) -> None:
    """One line of JSON per video (.jsonl) or a table (.csv), each as soon as it is known: a corpus need not fit.

    What goes wrong in the middle leaves nothing at `out`.
    """
    if out is None:
        _lines(said, sys.stdout)
        return
    kind = out.suffix.lower()
    if kind not in (".jsonl", ".csv"):
        raise UsageError(f"{out}: of many videos write JSON lines (.jsonl) or a table (.csv)")
    with files.atomic_path(out) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        (_lines if kind == ".jsonl" else _table)(said, file)


def _lines(said: Iterable[Prediction], file: IO[str]) -> None:
    for one in said:
        file.write(json.dumps(one.to_json(), sort_keys=True, ensure_ascii=False) + "\n")


def _table(said: Iterable[Prediction], file: IO[str]) -> None:
    table = csv.writer(file)
    table.writerow(COLUMNS)
    for one in said:
        for label, score in one.answer:
            table.writerow((one.video, "video", 0.0, one.duration, label, score))
        for span in one.spans:
            table.writerow((one.video, "span", span.start, span.end, span.label, span.score))
