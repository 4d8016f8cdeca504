"""A page as its reader would go through it: every block in order, in one folder, with the real commands."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.docs.pages import RUNNABLE, Block

ANYTHING = "…"
SECONDS = 800  # for one block, on a machine that has much other work
MARK = "\x1e"
# tells the exit code of the last command and that the next one begins, and leaves $? as it was
NEXT = 'next() { local code=$?; printf "\\036%s\\n" "$code"; return "$code"; }\n'


class Failed(AssertionError):
    """A snippet that does not do what the page says."""


@dataclass(frozen=True)
class Step:
    """A command of a console block, and what the page shows below it."""

    command: str
    shown: str


def steps(block: Block) -> list[Step]:
    """The `$ ` lines of a console block; `> ` goes on with the command, as a shell shows it."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif not found:
            raise Failed(f"{block.place}: a console block begins with a line `$ COMMAND`")
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [Step("\n".join(command), "\n".join(shown)) for command, shown in found]


def fits(shown: str, seen: str) -> bool:
    """Whether output is as shown; `…` stands for anything, alone on a line for any lines."""
    pattern = ""
    for line in shown.rstrip().splitlines():
        if line.strip() == ANYTHING:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split(ANYTHING)) + r"[ \t]*\n"
    return re.fullmatch(pattern, seen.rstrip() + "\n" if seen.strip() else "") is not None


class Reader:
    """Somebody who follows a page, in a folder of their own."""

    def __init__(self, folder: Path, programs: Path, given: Mapping[str, Any] | None = None):
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__", **(given or {})}
        beside = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{beside}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "LC_ALL": "C.UTF-8",
        }

    def follow(self, block: Block) -> None:
        """Do what a block says, or raise `Failed`."""
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.not_run or block.language not in RUNNABLE:
            return
        elif block.language == "python":
            self._python(block)
        elif block.language == "bash":
            code, said = self._shell(f"set -euo pipefail\n{block.text}")
            if code:
                raise Failed(f"{block.place}: exit code {code}\n{block.text}\n{said}")
        else:
            self._console(block)

    def _python(self, block: Block) -> None:
        # padded, so that a traceback names the line of the page
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                exec(code, self.names)
            except BaseException as error:
                raise Failed(f"{block.place}: {type(error).__name__}: {error}\n{said.getvalue()}") from error

    def _shell(self, script: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def _console(self, block: Block) -> None:
        """What is shown must be what is said; a code other than 0 must be shown, by `echo $?` as the next command."""
        listed = steps(block)
        script = NEXT + "".join(f"{step.command}\nnext\n" for step in listed)
        _, said = self._shell(script)
        parts = re.split(f"{MARK}([0-9]+)\n", said)
        for place, step in enumerate(listed):
            if 2 * place + 1 >= len(parts):
                raise Failed(f"{block.place}: the shell ended before `{step.command}`\n{said}")
            seen, code = parts[2 * place], int(parts[2 * place + 1])
            told = listed[place + 1].command.strip() == "echo $?" if place + 1 < len(listed) else False
            if code and not told:
                raise Failed(f"{block.place}: `{step.command}` ended with {code}\n{seen}")
            if not fits(step.shown, seen):
                raise Failed(f"{block.place}: `{step.command}`\n--- shown\n{step.shown}\n--- seen\n{seen}")
