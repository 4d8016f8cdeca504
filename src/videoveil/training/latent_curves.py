"""What a run says while it goes on: RUN/history.jsonl, and RUN/tensorboard/ where TensorBoard is installed.

pip install "videoveil[tensorboard]" && tensorboard --logdir RUN
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from videoveil import files

HISTORY = "history.jsonl"
EVENTS = "tensorboard"
EVENT_FILES = "events.out.tfevents.*"
FLUSH_SECONDS = 10  # what is written is seen after this time at the latest


class Curves:
    """Scalars of every epoch. TensorBoard is no dependency; without it the history is the record."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._before: tuple[Mapping[str, Any], ...] | None = None
        self._writer: Any = None

    def go_on(self, history: Sequence[Mapping[str, Any]]) -> None:
        """After the epochs of an earlier process. What it wrote beyond them does not count."""
        self._before = tuple(history)

    def add(self, record: Mapping[str, Any]) -> None:
        """One epoch's scalars."""
        if self.folder is None or importlib.util.find_spec("tensorboard") is None:
            return
        if self._writer is None:
            self._writer = self._open(self.folder / EVENTS)
            for earlier in self._before or ():
                self._put(earlier)
        self._put(record)

    def write(self, history: Sequence[Mapping[str, Any]]) -> None:
        """The whole history, one JSON object per line."""
        if self.folder is not None:
            lines = [json.dumps(record, sort_keys=True) for record in history]
            files.write_text(self.folder / HISTORY, "\n".join(lines) + "\n")
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open(self, folder: Path) -> Any:
        """A writer into a folder without events of an earlier process.

        Those may go beyond the checkpoint that was gone on from, or, of a process that was killed, not reach it. So
        they are written again from the history. Their files are emptied rather than removed, and the purge is said,
        for a viewer that is open: it goes on to the new file and forgets what it read in the old one.
        """
        from torch.utils.tensorboard import SummaryWriter

        for old in folder.glob(EVENT_FILES):
            old.write_bytes(b"")
        return SummaryWriter(
            str(folder), purge_step=None if self._before is None else 0, flush_secs=FLUSH_SECONDS
        )

    def _put(self, record: Mapping[str, Any]) -> None:
        for name, value in record.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, record["epoch"])
