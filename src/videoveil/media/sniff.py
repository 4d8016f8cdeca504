"""Which container the first bytes belong to. The name of a file is never looked at.

libav is always told the demuxer found here, so it can never pick one of those that open other files (playlists,
scripts, manifests, numbered images).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from videoveil.errors import ContainerNotAllowed

HEAD = 4096  # bytes that `sniff` wants to see


@dataclass(frozen=True)
class Container:
    """A container that is read: our name for it and libav's demuxer."""

    name: str
    demuxer: str


MOV = Container("mov", "mov")
MATROSKA = Container("matroska", "matroska")
AVI = Container("avi", "avi")
FLV = Container("flv", "flv")
OGG = Container("ogg", "ogg")
GIF = Container("gif", "gif")
ASF = Container("asf", "asf")
MPEG_PS = Container("mpegps", "mpeg")
MPEG_TS = Container("mpegts", "mpegts")

_PREFIXES = (
    (b"\x1aE\xdf\xa3", MATROSKA),
    (b"FLV\x01", FLV),
    (b"OggS\x00", OGG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"), ASF),
    (b"\x00\x00\x01\xba", MPEG_PS),
)
_MOV_BOXES = (
    b"ftyp",
    b"moov",
    b"mdat",
    b"free",
    b"skip",
    b"wide",
    b"pnot",
    b"styp",
    b"sidx",
    b"moof",
    b"uuid",
)
_STILL_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevm", b"mif1", b"avif", b"avci", b"jpeg", b"jxl ")

# What refused files look like, for the message only: (prefix, words).
_REFUSED = (
    (b"#EXTM3U", "an m3u8 playlist"),
    (b"ffconcat", "a concat script"),
    (b"v=0", "an SDP description"),
    (b"<?xml", "an XML document"),
    (b"<MPD", "a DASH manifest"),
    (b"<", "a mark-up document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"RIFF", "a RIFF file that is not AVI"),
    (b"ID3", "an MP3 file"),
    (b"fLaC", "a FLAC file"),
    (b"\x7fELF", "a program"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"#!", "a script"),
)


_READ = "read are mp4/mov, mkv/webm, avi, mpeg-ts, mpeg-ps, flv, ogg, gif and asf, told by their content"


def sniff(head: bytes, path: str | Path) -> Container:
    """The container whose signature `head` (the first `HEAD` bytes, fewer if the file is shorter) carries."""
    for prefix, container in _PREFIXES:
        if head.startswith(prefix):
            return container
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return AVI
    if _is_mov(head):
        if head[4:8] == b"ftyp" and head[8:12] in _STILL_BRANDS:
            raise ContainerNotAllowed(path, "is a still picture, not a video")
        return MOV
    if _is_transport_stream(head):
        return MPEG_TS
    raise ContainerNotAllowed(path, f"looks like {_describe(head)}; {_READ}")


def _is_mov(head: bytes) -> bool:
    """A first box of a known type with a possible size (0: to the end, 1: 64-bit size, else at least a header)."""
    size = int.from_bytes(head[:4], "big")
    return len(head) >= 8 and head[4:8] in _MOV_BOXES and (size in (0, 1) or size >= 8)


def _is_transport_stream(head: bytes) -> bool:
    """Sync bytes at a regular distance. A recording may start inside a packet, so a short lead-in is allowed."""
    for stride in (188, 192, 204):
        for start in range(stride):
            marks = head[start::stride]
            if len(marks) >= 5 and marks == b"\x47" * len(marks):
                return True
        if 2 * stride <= len(head) < 5 * stride and set(head[::stride]) == {0x47}:
            return True
    return False


def _describe(head: bytes) -> str:
    lead = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    for prefix, words in _REFUSED:
        if lead.startswith(prefix):
            return words
    if b"\x00" not in head and all(byte >= 9 for byte in head[:256]):
        return "text"
    return f"no container that is known (first bytes {head[:8].hex(' ')})"
