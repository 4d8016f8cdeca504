"""The process between the server and the workers: it has everything imported and splits off one process per task.

    in, one JSON object per line:   {"task": 7, "do": "anonymize", …}   {"task": 7, "do": "kill"}
    out:                            {"ready": true}   {"task": 7, "progress": …}   {"task": 7, "exit": 0}

A fork costs milliseconds where a start costs seconds, and a worker that crashes, is killed or runs out of memory ends
alone. The foreman ends when the server does, and its workers with it.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import sys
from typing import Any, NoReturn

from videoveil.serve import processes, worker

PIECE = 4096  # bytes that a pipe takes from several writers without mixing them
FAILED = 70


class Foreman:
    """Takes tasks from one pipe and answers through another."""

    def __init__(self, orders: int, answers: int):
        self.orders, self.answers = orders, answers
        self.workers: dict[int, int] = {}  # process → task
        self._rest = b""

    def run(self) -> None:
        """Until the server closes the pipe."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be woken
        signal.set_wakeup_fd(wake)
        self.tell({"ready": True})
        with selectors.DefaultSelector() as selector:
            selector.register(self.orders, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if woken in ready:
                    os.read(woken, PIECE)
                    self._reap()
                if self.orders in ready and not self._read(wake, woken):
                    break
        for process in self.workers:
            _kill(process)

    def tell(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, allow_nan=False).encode() + b"\n"
        if len(line) > PIECE:
            line = json.dumps({"task": message.get("task"), "stage": "working"}).encode() + b"\n"
        os.write(self.answers, line)

    def _read(self, *own: int) -> bool:
        """Take what the server wrote; False at the end."""
        data = os.read(self.orders, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line), own)
        return bool(data)

    def _obey(self, order: dict[str, Any], own: tuple[int, ...]) -> None:
        if order["do"] == "kill":
            for process, task in self.workers.items():
                if task == order["task"]:
                    _kill(process)
            return
        foreman = os.getpid()
        process = os.fork()
        if process == 0:
            self._become_worker(foreman, order, own)
        self.workers[process] = order["task"]

    def _become_worker(self, foreman: int, order: dict[str, Any], own: tuple[int, ...]) -> NoReturn:
        """Never returns: whatever happens, this process must not go on as a second foreman."""
        code = FAILED
        try:
            processes.die_with_parent(foreman)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setpgid(0, 0)
            for descriptor in (self.orders, *own):
                os.close(descriptor)
            processes.go_first()
            processes.no_core()  # after the line above, which needs the right to write about itself
            processes.bound_memory(int(order.get("memory", 0)))
            code = worker.work(order, lambda said: self.tell({"task": order["task"], **said}))
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while self.workers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            task = self.workers.pop(process, None)
            if task is not None:
                self.tell({"task": task, "exit": os.waitstatus_to_exitcode(status)})


def _kill(process: int) -> None:
    """A worker and what it started. It is not reaped yet, so its number is still its own."""
    for kill in (os.killpg, os.kill):  # the group may not be made yet
        try:
            kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def main() -> None:
    processes.die_with_parent(int(sys.argv[1]))
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the server
    orders, answers = os.dup(0), os.dup(1)
    processes.silence(0, 1, 2)
    worker.preload()
    gc.collect()
    gc.freeze()  # shared pages stay shared
    Foreman(orders, answers).run()


if __name__ == "__main__":
    main()
