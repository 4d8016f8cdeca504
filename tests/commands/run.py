"""`veil` for tests of the command line: in a process of its own, or in this one, where imports are there already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from videoveil.cli import main

VEIL = [sys.executable, "-m", "videoveil.cli"]


def veil(*arguments: str | Path, code: int = 0) -> str:
    """In a process of its own: what it prints; both streams where another code than 0 is expected."""
    done = subprocess.run([*VEIL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def inside(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """The same without a process of its own, where only the answer matters: imports take longer than the work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["veil", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
    said = capsys.readouterr()
    assert left.value.code == code, said.err
    return said.out if code == 0 else said.out + said.err
