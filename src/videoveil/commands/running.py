"""What the verbs share that take videos through an anonymizer: opening it, stopping, exit codes, the report."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer

from videoveil.commands.terminal import print_json
from videoveil.errors import CheckpointError, MediaError, UsageError, VeilError, WriteFailed

REFUSED, FAILED = 2, 3  # exit codes


def code_of(error: VeilError) -> int:
    """2 where the input or an option is at fault, 3 where the work failed."""
    at_fault = isinstance(error, UsageError | CheckpointError | MediaError)
    return REFUSED if at_fault and not isinstance(error, WriteFailed) else FAILED


def frame_size(text: str | None) -> tuple[int, int] | None:
    """`1280x720` → (720, 1280)."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,5})[x×]([0-9]{1,5})", text)
    if not found:
        raise UsageError(f"--size {text!r}: write it as WIDTHxHEIGHT, such as 640x360")
    return int(found[2]), int(found[1])


def named_anonymizer(model: str, key: Path | None, detector: str | None, fail_closed: bool) -> Any:
    """What `--with`, `--key`, `--detector` and `--fail-closed` say."""
    from videoveil.anonymizers.keys import NoiseKey
    from videoveil.anonymizers.named import open_anonymizer, open_detector

    return open_anonymizer(
        model,
        key=None if key is None else NoiseKey.load(key),
        detector=None if detector is None else open_detector(detector),
        fail_closed=fail_closed,
    )


def write_report(path: Path | None, value: Any) -> None:
    if path is not None:
        from videoveil import files

        files.write_json(path, value)


def end_with(error: VeilError, report: Path | None, as_json: bool) -> NoReturn:
    """Say what went wrong, in the report too, and leave with the code for it."""
    from videoveil.pipeline.errors import told

    made = getattr(error, "report", None)
    value = {"error": told(error), "kind": type(error).__name__}
    value |= {"report": made.to_json()} if made is not None else {}
    write_report(report, value)
    if as_json:
        print_json(value)
    print(f"veil: {type(error).__name__}: {told(error)}", file=sys.stderr)
    raise typer.Exit(code_of(error)) from None


@contextlib.contextmanager
def stoppable() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. A second one of them ends the process as usual."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        for one, handler in before.items():
            signal.signal(one, handler)

    if threading.current_thread() is threading.main_thread():
        before.update({one: signal.signal(one, ask) for one in (signal.SIGINT, signal.SIGTERM)})
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
