"""Video as a stream of frames in exact time, from files that nobody vouches for.

    with open_video("walk.mp4") as video:
        for frame in video.frames():          # never more than a few pictures in memory
            use(frame.image, frame.time)
        clip = video.read([0, 8, 16, 24])     # (4, H, W, 3), decoded from the nearest key frames

What is an error and what is not
    A file that breaks off, a packet or picture that is marked as damaged, a decoder error, or fewer pictures than the
    file stores is `CorruptVideo`: frames are never silently missing. Read without complaint are: bytes after the end,
    a missing duration, a missing index, a wrong name, and a recording that begins in the middle of a group of pictures
    (it then starts at its first key frame).

    Damage inside the coded data that a decoder does not notice (most codecs carry no checksum) gives wrong pixels and
    no error.

Times are those of the file: they need not start at zero or be evenly spaced. Damaged or odd files may even repeat a
time or step back; frames always come in the order of display.

A `Video` belongs to one thread; several may be open on the same file. Decoding releases the interpreter lock.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import numpy as np

from videoveil.errors import MissingFile, ProtocolNotAllowed, UsageError
from videoveil.media import demux, walk
from videoveil.media.boxes import check_mov
from videoveil.media.decode import Decoder, Picture, Setup
from videoveil.media.index import FrameIndex, build_index
from videoveil.media.limits import Limits
from videoveil.media.pixels import Orientation, RgbConverter, orientation
from videoveil.media.sniff import HEAD, MOV, sniff
from videoveil.media.source import LocalFile, Watch
