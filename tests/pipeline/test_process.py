from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

CRASH = """
import os, resource, signal
most = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
from videoveil.pipeline.process import no_memory_dumps
no_memory_dumps()
print(resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_after_it_a_crash_dumps_no_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRASH]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert done.stdout.split() == ["0"]
    assert list(tmp_path.iterdir()) == []
