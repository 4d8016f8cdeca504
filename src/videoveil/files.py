"""Files that are either whole or absent: temporary name, fsync, rename; and content hashes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TEMPORARY = (
    ".veil-tmp-"  # every temporary name contains this, so leftovers of a killed process are recognisable
)


@contextlib.contextmanager
def atomic_path(destination: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `destination`; on success it becomes `destination`, on any error it is removed.

    The temporary name keeps the suffix (writers choose the container by it) and carries the machine, the process and
    a random part, so concurrent writers never share one and leftovers can be told from work in progress.
    """
    destination = Path(destination)
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(destination)
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(destination)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(destination.parent)


def _temporary(destination: Path) -> Path:
    unique = f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    return destination.with_name(f"{TEMPORARY}{unique}{destination.suffix}")


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def owner_alive(temporary: Path) -> bool:
    """Whether the writer of a temporary file may still be at work; on another machine that cannot be known."""
    machine, _, rest = temporary.name.removeprefix(TEMPORARY).partition("-")
    pid, _, _ = rest.partition("-")
    if machine != _machine() or not pid.isdigit():  # not ours to judge
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def claim(lock: str | Path) -> Iterator[bool]:
    """Yield True while this process owns the name `lock`, False if another living process does.

    The lock is the kernel's and ends with its process, so a killed owner blocks nobody.
    """
    path = Path(lock)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    owned = False
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            owned = _is(handle, path)  # else: its owner has just released and removed it
        yield owned
    finally:
        if owned:
            path.unlink(missing_ok=True)
        os.close(handle)


def _is(handle: int, path: Path) -> bool:
    """Whether an open file is still the one with this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.fstat(handle).st_ino == path.stat().st_ino
    return False


def fsync_directory(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(destination: str | Path, data: bytes) -> None:
    with atomic_path(destination) as temporary:
        temporary.write_bytes(data)


def write_text(destination: str | Path, text: str) -> None:
    write_bytes(destination, text.encode("utf-8"))


def write_json(destination: str | Path, value: Any) -> None:
    """Sorted keys and a final newline: equal values give equal bytes."""
    write_text(destination, _json(value))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def create_json(destination: str | Path, value: Any) -> None:
    """Write a JSON file unless there is one, as `create_text` does."""
    create_text(destination, _json(value))


def create_text(destination: str | Path, text: str, *, mode: int = 0o666) -> bool:
    """Write a file unless there is one: of several that try at once, one wins and the others leave it alone.

    Whether it was this one. Until it is whole it has a hidden name: whoever looks whether the folder is empty, or what
    the file says, must not see half of it (on a file system without links he may, for a moment).
    """
    destination = Path(destination)
    if os.path.lexists(destination):
        return False
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(destination)
    try:
        _write_new(temporary, text, mode)
        _link(temporary, destination, text, mode)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(destination.parent)
    return True


def _link(temporary: Path, destination: Path, text: str, mode: int) -> None:
    try:
        os.link(temporary, destination)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        _write_new(destination, text, mode)  # a file system without links, such as that of a memory stick


def _write_new(path: Path, text: str, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def file_hash(path: str | Path) -> str:
    """SHA-256 of the bytes, read in pieces."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def value_hash(value: Any) -> str:
    """SHA-256 of a JSON-able value, independent of key order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
