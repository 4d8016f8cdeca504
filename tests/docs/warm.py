"""`veil` for shells, without the seconds that every start of Python with torch costs.

A server imports what the commands need, once. The program called `veil` that a snippet's shell finds asks it for a
command: the server forks, and the child *is* the command, with the arguments, folder, environment and streams of the
one who asked, and its exit code. `test_snippets` holds it against the installed program.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

ASK = """#!{python} -IS
import json, os, signal, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
word = json.dumps({{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}).encode()
socket.send_fds(line, [len(word).to_bytes(4, "big")], [0, 1, 2])
line.sendall(word)
answer = line.makefile("rb")
child = int(answer.readline())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(child, number))
sys.exit(int(answer.readline()))
"""


@contextlib.contextmanager
def warm(folder: Path) -> Iterator[Path]:
    """A folder with a program `veil`, for the front of PATH."""
    address = folder / "socket"
    program = folder / "bin" / "veil"
    program.parent.mkdir(parents=True)
    program.write_text(ASK.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    command = [sys.executable, "-m", "tests.docs.warm", str(address)]
    server = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        if server.stdout.readline() != b"ready\n":
            raise RuntimeError(f"the server of commands ended with {server.wait()}")
        yield program.parent
    finally:
        server.terminate()
        server.wait()


def serve(address: str) -> NoReturn:
    """Answer until terminated."""
    import av  # noqa: F401
    import cv2  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import torch  # noqa: F401

    import videoveil.cli  # noqa: F401
    from videoveil import _torchvision  # noqa: F401
    from videoveil.anonymizers import named  # noqa: F401
    from videoveil.audit import registry  # noqa: F401
    from videoveil.data import registry as data  # noqa: F401
    from videoveil.encoders import registry as encoders  # noqa: F401

    line = socket.socket(socket.AF_UNIX)
    line.bind(address)
    line.listen()
    print("ready", flush=True)
    while True:
        asked, _ = line.accept()
        if os.fork() == 0:
            line.close()
            _answer(asked)
        asked.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # those that have ended


def _answer(asked: socket.socket) -> NoReturn:
    """In a process of its own, so that several commands of a pipe can run at once: start it, wait, tell its code."""
    size, streams, _, _ = socket.recv_fds(asked, 4, 3)
    word = b""
    while len(word) < int.from_bytes(size, "big"):
        word += asked.recv(65536)
    child = os.fork()
    if child == 0:
        asked.close()
        _command(json.loads(word), streams)
    for stream in streams:
        os.close(stream)
    asked.sendall(f"{child}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    asked.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
    os._exit(0)


def _command(word: dict[str, object], streams: list[int]) -> NoReturn:
    """Become `veil ARGV`."""
    from videoveil.cli import main

    for place, stream in enumerate(streams):
        os.dup2(stream, place)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.chdir(str(word["cwd"]))
    os.environ.clear()
    os.environ.update(word["env"])  # type: ignore[call-overload]
    sys.argv = ["veil", *word["argv"]]  # type: ignore[misc]
    sys.modules["__main__"] = ModuleType("__main__")  # processes that it starts must not look for this server
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    serve(sys.argv[1])
