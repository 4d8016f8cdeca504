"""What a run says while it goes on: RUN/history.jsonl, and TensorBoard where it is installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from videoveil import files

HISTORY = "history.jsonl"
EVENTS = "tensorboard"


class Curves:
    """Scalars of every epoch. TensorBoard is no dependency; without it the history is the record."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._start = 0
        self._writer: Any = None

    def go_on(self, epochs: int) -> None:
        """After `epochs` epochs of an earlier process: what it wrote beyond them does not count."""
        self._start = epochs

    def add(self, record: Mapping[str, Any]) -> None:
        """One epoch's scalars."""
        if self.folder is None or importlib.util.find_spec("tensorboard") is None:
            return
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.folder / EVENTS), purge_step=self._start)
        for name, value in record.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, record["epoch"])

    def write(self, history: Sequence[Mapping[str, Any]]) -> None:
        """The whole history, one JSON object per line."""
        if self.folder is not None:
            lines = [json.dumps(record, sort_keys=True) for record in history]
            files.write_text(self.folder / HISTORY, "\n".join(lines) + "\n")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
