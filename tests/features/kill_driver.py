"""An extraction in a process of its own, which a test may kill at any moment."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch

from tests import forked
from tests.features.conftest import as_dataset
from videoveil.encoders.registry import create
from videoveil.features.extract import extract, recipe_for


def start(films: Path, store: Path, halt: int | None = None) -> Extraction:
    """`halt`: when so many items are done it stays where it is, so that a kill that comes late still falls into it."""
    return Extraction(films, store, halt)


def work(films: Path, store: Path, halt: int | None, say: Connection) -> None:
    torch.set_num_threads(1)
    encoder = create("tiny", weights="random", size=32)

    def progress(done: int, total: int, clips: int) -> None:
        while halt is not None and done >= halt:
            time.sleep(1)

    say.send("ready")
    report = extract(
        as_dataset(films), store, encoder, recipe_for(encoder, static=1), batch=2, progress=progress
    )
    say.send(report.extracted)


class Extraction:
    """One such process."""

    def __init__(self, films: Path, store: Path, halt: int | None):
        context = forked.context()
        self.heard, say = context.Pipe(duplex=False)
        self.process: ForkServerProcess = context.Process(
            target=work, args=(films, store, halt, say), daemon=True
        )
        self.process.start()
        say.close()

    def wait_until_ready(self) -> None:
        """Until the work begins: a kill then falls into it."""
        assert self.heard.poll(200)
        assert self.heard.recv() == "ready"

    def running(self) -> bool:
        return self.process.is_alive()

    def freeze(self) -> None:
        """It stops where it is and keeps what it holds."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more."""
        self.process.kill()
        self.process.join()

    def finish(self) -> int:
        """Wait for its end; how many items it extracted."""
        self.process.join(280)
        assert self.process.exitcode == 0, self.process.exitcode
        said = self.heard.recv()
        return int(self.heard.recv() if said == "ready" else said)
