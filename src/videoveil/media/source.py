"""A local file as libav sees it: bytes of one file that we opened, and nothing else.

libav gets this object in place of a name. It has no path to build relative names from and every protocol is switched
off, so whatever a file says, no second file can be opened on its behalf.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

from videoveil.errors import DecodeTimeout, EmptyFile, FileTooLarge, MissingFile
from videoveil.media.limits import Limits


class Watch:
    """Raises `DecodeTimeout` when nothing has come out of the demuxer or decoder for `limit` seconds."""

    def __init__(self, path: str, limit: float):
        self.path, self.limit = path, limit
        self._since = time.monotonic()

    def progress(self) -> None:
        self._since = time.monotonic()

    def check(self) -> None:
        if time.monotonic() - self._since > self.limit:
            raise DecodeTimeout(
                self.path, f"nothing came out for {self.limit:g} s; the file is damaged or hostile"
            )


class LocalFile:
    """A regular file, opened once: what was checked is what is read, even if the name is changed meanwhile."""

    def __init__(self, path: str | Path, limits: Limits):
        self.path = str(path)
        self._descriptor = _open_regular(self.path)
        self.size = os.fstat(self._descriptor).st_size
        try:
            if self.size == 0:
                raise EmptyFile(path, "has no bytes")
            if self.size > limits.bytes:
                raise FileTooLarge(path, f"has {self.size} bytes, above the limit of {limits.bytes}")
        except BaseException:
            self.close()
            raise

    def read_at(self, position: int, count: int) -> bytes:
        """Up to `count` bytes from `position`; bytes that were appended after opening are not seen."""
        return os.pread(self._descriptor, max(0, min(count, self.size - position)), position)

    def view(self, watch: Watch) -> View:
        return View(self, watch)

    @property
    def closed(self) -> bool:
        return self._descriptor < 0

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class View:
    """A read position in a `LocalFile`, in the shape libav wants. Several may be used at the same time."""

    def __init__(self, file: LocalFile, watch: Watch):
        self._file, self._watch, self._position, self._stopped = file, watch, 0, False

    def read(self, count: int) -> bytes:
        # The demuxer calls this from inside its loops, so a demuxer that searches without end is stopped here.
        # It may ask again after the error; then the file simply ends.
        if self._stopped:
            return b""
        try:
            self._watch.check()
        except DecodeTimeout:
            self._stopped = True
            raise
        data = self._file.read_at(self._position, count)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "position before the start of the file")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position


def _open_regular(path: str) -> int:
    """A read descriptor of a regular file. Looks before it opens: opening a pipe or device can block or act."""
    try:
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):
            raise MissingFile(path, f"is {_kind(mode)}, not a regular file")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise MissingFile(path, f"cannot be opened: {reason}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # swapped between the two calls
        os.close(descriptor)
        raise MissingFile(path, "is not a regular file")
    return descriptor


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
