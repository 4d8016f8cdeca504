"""Canaries: a code in every frame that says which frame it is, and that dies in any anonymizer.

    marked = mark(image, number, secret)     # before the frame is stored in an input
    read(image, secret)                      # → number, or None
    find("output.mp4", secret)               # → the numbers of all raw frames that are in there

If a canary comes out, a raw frame came out. The code is a texture of pairs of pixels, one darker and one lighter, too
strong for a video encoder to drop (H.264 at crf 30 keeps it) and too fine for a picture that was blurred, coarsened,
redrawn or blackened to still have it.

Layout. The picture is tiled by 64 × 48 pixels. A tile has six bands of eight rows; a row of a tile has 32 pairs, each
a bit. Three bands repeat the upper byte of the number and three the lower one, every band in words of its own that are
drawn from the secret. `read` averages all tiles and takes the likeliest bytes; that they stand in every row is what
lets `find` recognise a frame among the bytes of any file, whatever its width.

What it cannot see: frames that were resized, cropped at the left or top, or compressed beyond H.264 at crf 30, and
files that are packed or encrypted (zip, gzip, base64). Anonymizers that cover people leave everything else as it was,
and so its canary: for them the canary tells only whether a frame came through.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from videoveil.errors import MissingFile, UsageError

NUMBERS = 2**16  # larger numbers come back modulo this
STRENGTH = 26  # grey levels up and down
TILE_WIDTH, BAND, BANDS = 64, 8, 6
TILE_HEIGHT = BAND * BANDS
BITS = TILE_WIDTH // 2
HALF = BANDS // 2  # bands per byte
LEAST_GAIN = 0.45  # of the strength that was put in
LEAST_MATCH = 0.5  # cosine between what is there and the code
LEAST_BITS = 64  # of the 96 that spell a byte: less of a picture could be read as anything
LUMA = np.array([0.299, 0.587, 0.114], np.float32)
PIECE = 1 << 22  # bytes of a file that are looked at together
LEAST_ROWS = 3  # rows of one band that must be found among bytes


@functools.lru_cache(maxsize=8)
def _words(secret: int) -> np.ndarray:
    """(bands, 256, bits) of ±1: the word of every value of a byte in every band."""
    seed = hashlib.sha256(f"videoveil canary {int(secret)}".encode()).digest()
    rng = np.random.default_rng(np.frombuffer(seed, np.uint32))
    words = rng.integers(0, 2, (BANDS, 256, BITS), dtype=np.int8) * 2 - 1
    words.flags.writeable = False
    return words


def mark(image: np.ndarray, number: int, secret: int) -> np.ndarray:
    """(H, W, 3) uint8 → a copy with the canary of frame `number`; its contrast is lowered to make room."""
    _check(image)
    if number < 0:
        raise UsageError(f"canary number {number}: must not be negative")
    height, width = image.shape[:2]
    high, low = divmod(number % NUMBERS, 256)
    words = _words(secret)
    bits = np.concatenate([words[:HALF, high], words[HALF:, low]])  # (bands, bits)
    pairs = np.stack([bits, -bits], -1).reshape(BANDS, TILE_WIDTH)
    rows = (np.arange(height) // BAND) % BANDS
    texture = pairs[rows][:, np.arange(width) % TILE_WIDTH].astype(np.float32) * STRENGTH
    room = image.astype(np.float32) * ((255 - 2 * STRENGTH) / 255) + STRENGTH
    return np.clip(np.rint(room + texture[:, :, None]), 0, 255).astype(np.uint8)


def read(image: np.ndarray, secret: int) -> int | None:
    """The number of the raw frame that `image` (H, W, 3) uint8 is; None where there is no canary."""
    _check(image)
    found = _bits(image)
    if found is None:
        return None
    bits, seen = found
    words = _words(secret).astype(np.float32)
    value = 0
    for bands in (slice(0, HALF), slice(HALF, BANDS)):
        here = bits[bands] * seen[bands]
        norm = float(np.sqrt(np.square(here).sum() * seen[bands].sum()))
        if seen[bands].sum() < LEAST_BITS or norm == 0:
            return None
        products = np.einsum("bvk,bk->v", words[bands], here)
        best = int(products.argmax())
        gain = float(products[best]) / (float(seen[bands].sum()) * STRENGTH)
        if gain < LEAST_GAIN or float(products[best]) / norm < LEAST_MATCH:
            return None
        value = value * 256 + best
    return value


def _bits(image: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(bands, bits): the mean half difference of every pair, and 1 where the picture has one.

    A difference that is far above the strength comes from the picture, not from the code, and counts as no more.
    """
    height, width = image.shape[0], image.shape[1] // 2 * 2
    if height < 1 or width < 2:
        return None
    grey = image.astype(np.float32) @ LUMA
    half = (grey[:, 0:width:2] - grey[:, 1:width:2]).clip(-4 * STRENGTH, 4 * STRENGTH) / 2  # (H, W/2)
    bands = (np.arange(height) // BAND) % BANDS
    places = np.arange(width // 2) % BITS
    flat = (bands[:, None] * BITS + places[None]).ravel()
    total = np.bincount(flat, half.ravel(), BANDS * BITS)
    count = np.bincount(flat, minlength=BANDS * BITS)
    mean = (total / np.maximum(1, count)).reshape(BANDS, BITS).astype(np.float32)
    return mean, (count > 0).reshape(BANDS, BITS).astype(np.float32)


def _check(image: np.ndarray) -> None:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise UsageError(f"a frame is uint8 (H, W, 3), not {image.dtype} {image.shape}")


# --- files --------------------------------------------------------------------------------------------------


def find(path: str | Path, secret: int, *, like: str | Path | None = None) -> list[int]:
    """The numbers of all canaries in a file, in increasing order: empty where no raw frame is in it.

    Pictures and videos are decoded, as much of them as can be, and turned in all four directions. The bytes of every
    file are also searched for frames that lie there as they are: interleaved or planar, bytes or floats.
    like: a finished mp4 by the same writer, or any video of the same size. A writer that was killed leaves H.264
    without the header that decoders need; it is taken from there, or made as `media.writer` makes it.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFile(path, "does not exist or is not a regular file")
    numbers = set(in_bytes(path, secret))
    for image in _pictures(path, like):
        for turn in range(4):
            number = read(np.ascontiguousarray(np.rot90(image, turn)), secret)
            if number is not None:
                numbers.add(number)
                break
    return sorted(numbers)


def find_all(folder: str | Path, secret: int, *, like: str | Path | None = None) -> dict[str, list[int]]:
    """Every file under `folder` (or the one file that it is) with canaries in it, with their numbers."""
    folder = Path(folder)
    files = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
    found = {str(file): find(file, secret, like=like) for file in files}
    return {file: numbers for file, numbers in found.items() if numbers}


def _pictures(path: Path, like: str | Path | None) -> Iterator[np.ndarray]:
    """Whatever pictures a file can be made to give."""
    still = _still(path)
    if still is not None:
        yield still
        return
    yield from _decoded(path)
    yield from _headless(path, like)


def _still(path: Path) -> np.ndarray | None:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            if getattr(image, "n_frames", 1) > 1:
                return None
            return np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # no picture: it may still be a video


def _decoded(path: Path) -> Iterator[np.ndarray]:
    """Every picture of every video stream; what does not decode is passed over, since a fragment leaks too."""
    import av
    import av.error

    broken = (av.error.FFmpegError, ValueError, EOFError, OSError)
    try:
        container = av.open(str(path), metadata_errors="replace")
    except broken:
        return
    with container:
        streams = [stream for stream in container.streams.video if stream.codec_context is not None]
        packets = container.demux(streams) if streams else iter(())
        while True:
            try:
                packet = next(packets)
                frames = packet.decode()
            except StopIteration:
                return
            except av.error.InvalidDataError:
                continue
            except broken:
                return
            for frame in frames:
                if isinstance(frame, av.VideoFrame):
                    yield frame.to_ndarray(format="rgb24")


def _headless(path: Path, like: str | Path | None) -> Iterator[np.ndarray]:
    """Pictures of an mp4 whose index was never written: H.264 in pieces, each behind its length."""
    if like is None:
        return
    data = path.read_bytes()
    start = data.find(b"mdat")
    if start < 0 or b"moov" in data:
        return
    for header in _headers(Path(like)):
        yield from _with_header(data, start + 4, header)


def _headers(like: Path) -> Iterator[bytes]:
    """That of the file itself, and that of `media.writer`'s coding for pictures of its size."""
    import av

    with av.open(str(like)) as whole:
        context = whole.streams.video[0].codec_context
        yield bytes(context.extradata or b"")
        width, height = context.width, context.height
    options = {"preset": "veryfast", "crf": "20", "g": "60", "bf": "0"}  # its defaults
    with av.open(io.BytesIO(), "w", format="mp4") as output:
        stream = output.add_stream("libx264", rate=25, options=options)
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuv444p" if width % 2 or height % 2 else "yuv420p"
        output.start_encoding()
        yield bytes(stream.codec_context.extradata or b"")


def _with_header(data: bytes, place: int, header: bytes) -> Iterator[np.ndarray]:
    import av
    import av.error

    decoder: Any = av.CodecContext.create("h264", "r")
    decoder.extradata = header
    lengths = header[:1] == b"\1"  # else the decoder waits for start codes
    for unit in (*_units(data, place), None):
        piece = unit if unit is None or lengths else b"\0\0\0\1" + unit[4:]
        try:
            frames = decoder.decode(None if piece is None else av.Packet(piece))
        except (av.error.FFmpegError, EOFError):
            continue
        for frame in frames:
            yield frame.to_ndarray(format="rgb24")


def _units(data: bytes, place: int) -> Iterator[bytes]:
    """Each length and the coded piece behind it, from `place` on; the last one may be cut off.

    libav keeps eight bytes in front for a long length.
    """
    if data[place : place + 8] == b"\0" * 8:
        place += 8
    while place + 4 < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        if size < 1:
            return
        yield data[place : place + 4 + size]
        place += 4 + size


# --- bytes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Hit:
    """A row of a band, seen among the bytes."""

    place: int
    band: int
    value: int


def in_bytes(path: str | Path, secret: int) -> list[int]:
    """Numbers of frames that lie in the file uncompressed."""
    found: set[int] = set()
    overlap = 1 << 20  # several rows of a wide picture are seen together at every seam
    with open(path, "rb") as handle:
        before = b""
        while piece := handle.read(PIECE):
            data = before + piece
            found |= _scan(data, secret)
            before = data[-overlap:]
    return sorted(found)


def _scan(data: bytes, secret: int) -> set[int]:
    raw = np.frombuffer(data, np.uint8)
    found: set[int] = set()
    for stride in (1, 2, 3, 4):  # planar, packed 4:2:2, RGB, RGBA
        found |= _numbers(_hits(raw, stride, secret))
    for kind in (np.dtype("<f4"), np.dtype("<f2")):
        for offset in range(kind.itemsize):
            end = offset + (len(data) - offset) // kind.itemsize * kind.itemsize
            values = np.frombuffer(data[offset:end], kind)
            for stride in (1, 3):
                found |= _numbers(_hits(values, stride, secret))
    return found


@functools.lru_cache(maxsize=8)
def _table(secret: int) -> tuple[np.ndarray, np.ndarray]:
    """All words as whole numbers, sorted, with the band and value (band · 256 + value) of each."""
    bits = (_words(secret).reshape(-1, BITS) > 0).astype(np.uint32)
    codes = (bits << np.arange(BITS, dtype=np.uint32)).sum(1, dtype=np.uint32)
    order = np.argsort(codes, kind="stable")
    return codes[order], order


def _hits(values: np.ndarray, stride: int, secret: int) -> list[_Hit]:
    """Places where 32 pairs of neighbours, `stride` apart, spell a word of the code."""
    if len(values) < TILE_WIDTH * stride:
        return []
    with np.errstate(invalid="ignore", over="ignore"):
        darker = values[:-stride] > values[stride:]
        # where nothing changes nothing is spelled
        lighter = values[:-stride] < values[stride:]
    word = darker.astype(np.uint32)
    valid = darker | lighter
    reach = 2 * stride
    for power in range(5):  # 1, 2, 4, 8, 16 → 32 bits
        word = word[:-reach] | (word[reach:] << np.uint32(1 << power))
        valid = valid[:-reach] & valid[reach:]
        reach *= 2
    codes, order = _table(secret)
    places = np.flatnonzero(valid)
    spelled = word[places]
    at = np.minimum(np.searchsorted(codes, spelled), len(codes) - 1)
    hit = codes[at] == spelled
    return [
        _Hit(int(place), int(which) // 256, int(which) % 256)
        for place, which in zip(places[hit], order[at[hit]])
    ]


def _numbers(hits: list[_Hit]) -> set[int]:
    """Numbers whose upper and lower bands follow each other.

    A word turns up by chance once in millions of random bytes; several rows with one value do not.
    """
    runs: list[tuple[int, int, int]] = []  # upper or lower, value, rows
    for hit in hits:
        kind = hit.band // HALF
        if runs and runs[-1][:2] == (kind, hit.value):
            runs[-1] = (kind, hit.value, runs[-1][2] + 1)
        else:
            runs.append((kind, hit.value, 1))
    sure = [(kind, value) for kind, value, rows in runs if rows >= LEAST_ROWS]
    return {
        high * 256 + low
        for (first, high), (second, low) in itertools.pairwise(sure)
        if (first, second) == (0, 1)
    }
