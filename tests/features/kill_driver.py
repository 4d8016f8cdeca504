"""An extraction in a process of its own, which a test may kill at any moment."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch

from tests import forked
from tests.features.conftest import as_dataset
from videoveil.encoders.registry import create
from videoveil.features.extract import extract, recipe_for


def start(films: Path, store: Path) -> Extraction:
    return Extraction(films, store)


def work(films: Path, store: Path, say: Connection) -> None:
    torch.set_num_threads(1)
    encoder = create("tiny", weights="random", size=32)
    say.send("ready")
    report = extract(as_dataset(films), store, encoder, recipe_for(encoder, static=1), batch=2)
    say.send(report.extracted)


class Extraction:
    """One such process."""

    def __init__(self, films: Path, store: Path):
        context = forked.context()
        self.heard, say = context.Pipe(duplex=False)
        self.process: ForkServerProcess = context.Process(target=work, args=(films, store, say), daemon=True)
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
