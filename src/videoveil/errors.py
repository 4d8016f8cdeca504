"""Every error a user can meet. Each message names the thing (file, option), the value found and the fix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class VeilError(Exception):
    """Base of all errors that are the input's fault, not a bug; the command line prints them without a traceback."""


class UsageError(VeilError):
    """An option or name that does not exist or does not fit the others."""


# --- media -------------------------------------------------------------------------------------------------


class MediaError(VeilError):
    """A media file that cannot be used; one subclass per cause."""

    def __init__(self, path: str | Path, reason: str):
        super().__init__(f"{path}: {reason}")
        self.path = str(path)
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.path, self.reason)


class MissingFile(MediaError):
    """The path does not exist or is not a regular file."""


class EmptyFile(MediaError):
    """The file has no bytes."""


class ProtocolNotAllowed(MediaError):
    """The source names a network or compound protocol, and no stream was asked for."""


class ContainerNotAllowed(MediaError):
    """The bytes are not one of the containers that are read (text, playlists, scripts, archives…)."""


class NoVideoStream(MediaError):
    """A readable container without a picture stream."""


class FileTooLarge(MediaError):
    """More bytes than the limit."""


class FrameTooLarge(MediaError):
    """A declared or decoded picture needs more pixels or memory than the limit."""


class TooLong(MediaError):
    """Declared or decoded duration above the limit."""


class TooManyFrames(MediaError):
    """More frames than the limit."""


class UnsupportedCodec(MediaError):
    """No decoder for the picture stream, or a pixel format that cannot become 8-bit RGB."""


class CorruptVideo(MediaError):
    """The data breaks off or does not decode; nothing of it is silently skipped."""


class DecodeTimeout(MediaError):
    """Reading made no progress for longer than the limit."""


class WriteFailed(MediaError):
    """The output could not be written; nothing new is at the destination, an earlier file there is untouched."""


# --- data --------------------------------------------------------------------------------------------------


class DataError(VeilError):
    """A dataset whose annotations or files are wrong; `offenders` lists every one of them."""

    def __init__(self, message: str, offenders: Sequence[str] = ()):
        offenders = [str(o) for o in offenders]
        super().__init__("\n".join([message, *(f"  {o}" for o in offenders)]))
        self.message, self.offenders = message, tuple(offenders)

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return type(self), (self.message, self.offenders)


class AnnotationError(DataError):
    """An annotation file that is absent or does not follow its grammar; offenders are `file:line: what`."""


class MissingItems(DataError):
    """Items that the annotations name and the disk does not have."""


class BadItems(DataError):
    """Items that are there and cannot be used (corrupt, empty, wrong kind)."""


class UnsafePickle(DataError):
    """A pickle that asks for anything but plain containers and numpy arrays."""


# --- weights and features ----------------------------------------------------------------------------------


class CheckpointError(VeilError):
    """A weight file that is refused (code inside, wrong keys, wrong shapes) with what was found."""


class StoreError(VeilError):
    """A feature store that is damaged or belongs to another encoder or recipe."""


# --- training ----------------------------------------------------------------------------------------------


class Diverged(VeilError):
    """A loss or gradient that is no longer a number; training stops and says where and in which term."""


class NoHeadway(VeilError):
    """An adversarial training in which the attackers win every round: what it makes would hide nothing."""
