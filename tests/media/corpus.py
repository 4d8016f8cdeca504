"""Malformed, hostile and odd media files, each with what reading it must give."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import zlib
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from .make import FRAMES, add_sound, encode, picture

# Outcomes
CORRUPT = ("CorruptVideo",)
FORBIDDEN = ("ContainerNotAllowed",)


@dataclass(frozen=True)
class Case:
    """Reading `source` must end in one of `errors` (class names) or, if `frames` is given, give that many frames, each
    showing its own number. With both, either is right: damage that leaves all frames whole may go unnoticed."""

    name: str
    source: str
    errors: tuple[str, ...] = ()
    frames: int | None = None
    checks: dict[str, object] = field(default_factory=dict)


class Builder:
    def __init__(self, folder: Path, canaries: Path, port: int):
        self.folder, self.canaries, self.port = folder, canaries, port
        self.cases: list[Case] = []

    def path(self, name: str) -> Path:
        return self.folder / name

    def expect(
        self, name: str, source: Path | str, *errors: str, frames: int | None = None, **checks: object
    ) -> None:
        self.cases.append(Case(name, str(source), errors, frames, checks))

    def file(self, name: str, data: bytes, *errors: str, frames: int | None = None, **checks: object) -> None:
        self.path(name).write_bytes(data)
        self.expect(name, self.path(name), *errors, frames=frames, **checks)

    def video(self, name: str, *args: object, frames: int | None = FRAMES, **kwargs: object) -> bytes:
        """A sound video; must read in full."""
        checks = kwargs.pop("checks", {})
        encode(self.path(name), *args, **kwargs)  # type: ignore[arg-type]
        self.expect(name, self.path(name), frames=frames, **checks)  # type: ignore[arg-type]
        return self.path(name).read_bytes()


def build(folder: Path, canaries: Path, port: int) -> list[Case]:
    """All cases. `canaries` holds files that hostile ones point at; nobody may call the local `port`."""
    builder = Builder(folder, canaries, port)
    for part in (
        _sound_files,
        _truncated,
        _not_media,
        _pointers,
        _addresses,
        _special_files,
        _claims,
        _damaged,
        _odd,
    ):
        part(builder)
    return builder.cases


# --- whole files in every container ------------------------------------------------------------------------


def _sound_files(b: Builder) -> None:
    b.video("whole.mp4", options={"bf": "3", "g": "8"}, container_options={"movflags": "faststart"})
    b.video("moov-last.mp4", options={"bf": "2", "g": "8"})
    b.video("fragmented.mp4", options={"g": "8"}, container_options={"movflags": "frag_keyframe+empty_moov"})
    b.video("whole.mkv", options={"bf": "3", "g": "8"})
    b.video("whole.webm", "libvpx", options={"g": "8", "deadline": "realtime", "auto-alt-ref": "0"})
    b.video("altref.webm", "libvpx", options={"auto-alt-ref": "1", "lag-in-frames": "12", "cpu-used": "5"})
    b.video("whole.avi", "mpeg4", options={"g": "8"})
    b.video("b-frames.avi", options={"bf": "3", "g": "8"})
    b.video("mjpeg.avi", "mjpeg", pix_fmt="yuvj420p")
    b.video("whole.mov", options={"bf": "3", "g": "8"})
    b.video("whole.ts", options={"bf": "2", "g": "8"})
    b.video(
        "whole.mpg", "mpeg2video", container="mpeg", options={"bf": "2", "g": "8", "qmin": "2", "qmax": "4"}
    )
    b.video("whole.flv", options={"g": "8"})
    b.video("whole.ogv", "libvpx", container="ogg", options={"g": "8", "deadline": "realtime"})
    b.video("whole.gif", "gif", pix_fmt="gray", texture=0.0)
    b.video("whole.wmv", "wmv2", container="asf", options={"g": "8"})
    b.video(
        "hevc.mp4",
        "libx265",
        options={"x265-params": "log-level=none:keyint=8:bframes=2:pools=1"},
        count=12,
        frames=12,
    )


def _truncated(b: Builder) -> None:
    """Every 5 % of three containers. An AVI cut in the index behind its pictures is still whole."""
    for name in ("whole.mp4", "whole.mkv", "whole.avi"):
        data = b.path(name).read_bytes()
        for percent in range(5, 100, 5):
            kept = data[: len(data) * percent // 100]
            pictures_whole = name.endswith("avi") and len(kept) > data.rfind(b"idx1")
            b.file(
                f"cut-{percent:02d}-{name}",
                kept,
                *(() if pictures_whole else CORRUPT),
                frames=FRAMES if pictures_whole else None,
            )
    for name in (
        "moov-last.mp4",
        "fragmented.mp4",
        "whole.webm",
        "whole.flv",
        "whole.ogv",
        "whole.gif",
        "whole.wmv",
    ):
        data = b.path(name).read_bytes()
        b.file(f"cut-{name}", data[: len(data) * 7 // 10], *CORRUPT)
        b.file(f"cut-end-{name}", data[:-3], *CORRUPT, frames=FRAMES)
    ts = b.path("whole.ts").read_bytes()
    b.file("cut-inside-packet.ts", ts[: 188 * 20 + 100], *CORRUPT)


# --- files that are no video -------------------------------------------------------------------------------


def _not_media(b: Builder) -> None:
    b.file("empty.mp4", b"", "EmptyFile")
    b.file("one-byte.mp4", b"\x00", *FORBIDDEN)
    b.file("text.mp4", b"Nothing moves in here.\n" * 50, *FORBIDDEN)
    b.file("page.mp4", b"<!DOCTYPE html><html><body>video</body></html>", *FORBIDDEN)
    b.file("archive.mkv", b"PK\x03\x04" + bytes(200), *FORBIDDEN)
    b.file("paper.avi", b"%PDF-1.7\n" + bytes(200), *FORBIDDEN)
    b.file("photo.mp4", b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(300), *FORBIDDEN)
    b.file("drawing.mp4", _png(4, 4), *FORBIDDEN)
    b.file("voice.avi", b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt " + bytes(300), *FORBIDDEN)
    b.file("program.mp4", b"\x7fELF" + bytes(300), *FORBIDDEN)
    b.file("song.mp4", b"ID3\x04" + bytes(300), *FORBIDDEN)
    b.file("zeros.mp4", bytes(5000), *FORBIDDEN)
    b.file("noise.mp4", np.random.default_rng(0).bytes(5000), *FORBIDDEN)
    b.file("still.mp4", struct.pack(">I", 24) + b"ftypavif\x00\x00\x00\x00avifmif1" + bytes(300), *FORBIDDEN)
    for name, codec in (
        ("sound-only.mp4", "aac"),
        ("sound-only.mkv", "aac"),
        ("sound-only.avi", "pcm_s16le"),
    ):
        add_sound(b.path(name), codec, video=None)
        b.expect(name, b.path(name), "NoVideoStream")


def _pointers(b: Builder) -> None:
    """Files whose only content is the name of another one."""
    canary = b.canaries / "canary.mp4"
    near = f"../{b.canaries.name}/canary.mp4"
    web = f"http://127.0.0.1:{b.port}/canary.mp4"
    for number, target in enumerate(
        (str(canary), near, f"file://{canary}", web, f"concat:{canary}|{canary}")
    ):
        playlist = (
            f"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXTINF:1.0,\n{target}\n#EXT-X-ENDLIST\n"
        )
        b.file(f"playlist-{number}.m3u8", playlist.encode(), *FORBIDDEN)
        b.file(f"playlist-{number}.mp4", playlist.encode(), *FORBIDDEN)
        b.file(f"script-{number}.ffconcat", f"ffconcat version 1.0\nfile '{target}'\n".encode(), *FORBIDDEN)
        b.file(f"script-{number}.mkv", f"file '{target}'\n".encode(), *FORBIDDEN)
        manifest = (
            '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" profiles="x">'
            f'<Period><AdaptationSet><Representation id="1" mimeType="video/mp4"><BaseURL>{target}</BaseURL>'
            "</Representation></AdaptationSet></Period></MPD>"
        )
        b.file(f"manifest-{number}.mpd", manifest.encode(), *FORBIDDEN)
        b.file(
            f"elsewhere-{number}.mov", _with_reference(b.path("whole.mov").read_bytes(), target), *FORBIDDEN
        )
    sdp = f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video {b.port} RTP/AVP 96\n"
    b.file("session.sdp", sdp.encode(), *FORBIDDEN)
    b.file("session.mp4", sdp.encode(), *FORBIDDEN)
    reference = _box(b"rdrf", bytes(4) + b"url " + struct.pack(">I", len(web)) + web.encode())
    movie = _box(b"moov", _box(b"rmra", _box(b"rmda", reference)))
    b.file("reference-movie.mov", _box(b"ftyp", b"qt  \x00\x00\x02\x00qt  ") + movie, *FORBIDDEN)
    b.file("compressed-header.mov", _box(b"moov", _box(b"cmov", _box(b"dcom", b"zlib"))), *FORBIDDEN)


def _addresses(b: Builder) -> None:
    canary = b.canaries / "canary.mp4"
    for number, source in enumerate(
        (
            f"http://127.0.0.1:{b.port}/a.mp4",
            f"rtsp://127.0.0.1:{b.port}/a",
            f"tcp://127.0.0.1:{b.port}",
            f"file:{canary}",
            f"file://{canary}",
            f"concat:{canary}|{canary}",
            f"subfile,,start,0,end,0,,:{canary}",
            f"subfile:{canary}",
            f"crypto:{canary}",
            f"cache:{canary}",
            f"async:{canary}",
            f"crypto+file:{canary}",
            "data:video/mp4;base64,AAAA",
            "pipe:0",
            "fd:0",
        )
    ):
        error = "MissingFile" if source.startswith("subfile,,") else "ProtocolNotAllowed"
        b.expect(f"address-{number}", source, error)


def _special_files(b: Builder) -> None:
    b.path("folder.mp4").mkdir()
    b.expect("folder", b.path("folder.mp4"), "MissingFile")
    b.expect("missing", b.path("missing.mp4"), "MissingFile")
    b.expect("name with a zero byte", f"{b.folder}/a\x00b.mp4", "MissingFile")
    b.expect("name too long", f"{b.folder}/{'x' * 5000}.mp4", "MissingFile")
    b.path("loop-a.mp4").symlink_to("loop-b.mp4")
    b.path("loop-b.mp4").symlink_to("loop-a.mp4")
    b.expect("link to itself", b.path("loop-a.mp4"), "MissingFile")
    b.path("dangling.mp4").symlink_to("nowhere.mp4")
    b.expect("dangling link", b.path("dangling.mp4"), "MissingFile")
    b.path("link.mp4").symlink_to("whole.mp4")
    b.expect("link to a video", b.path("link.mp4"), frames=FRAMES)
    os.mkfifo(b.path("pipe.mp4"))
    b.expect("pipe", b.path("pipe.mp4"), "MissingFile")
    b.expect("endless device", "/dev/zero", "MissingFile")
    b.expect("empty device", "/dev/null", "MissingFile")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(b.folder):
        server.bind("socket.mp4")  # a short name: sockets allow about 100 characters
    b.expect("socket", b.path("socket.mp4"), "MissingFile")
    if os.geteuid() != 0:
        b.path("private.mp4").write_bytes(b.path("whole.mp4").read_bytes())
        b.path("private.mp4").chmod(0)
        b.expect("no permission", b.path("private.mp4"), "MissingFile")


# --- files that claim too much -----------------------------------------------------------------------------


def _claims(b: Builder) -> None:
    mp4, mkv = b.path("whole.mp4").read_bytes(), b.path("whole.mkv").read_bytes()
    avi, gif = b.path("whole.avi").read_bytes(), b.path("whole.gif").read_bytes()
    big = struct.pack(">I", 0x7FFFFFFF)

    stsz = mp4.find(b"stsz")
    b.file("claims-samples.mp4", _patch(mp4, stsz + 12, big), "TooManyFrames")
    same_size = _patch(_patch(mp4, stsz + 8, struct.pack(">I", 1)), stsz + 12, struct.pack(">I", 9_000_000))
    b.file("claims-more-samples-than-bytes.mp4", same_size, *CORRUPT)
    b.file("claims-chunks.mp4", _patch(mp4, mp4.find(b"stco") + 8, big), *CORRUPT, frames=FRAMES)
    b.file("claims-spans.mp4", _patch(mp4, mp4.find(b"stsc") + 8, big), *CORRUPT)
    b.file("claims-edits.mp4", _patch(mp4, mp4.find(b"elst") + 8, big), "TooManyFrames", *CORRUPT)
    fragmented = b.path("fragmented.mp4").read_bytes()
    b.file("claims-fragment.mp4", _patch(fragmented, fragmented.find(b"trun") + 8, big), "TooManyFrames")
    # version 0: times are 4 bytes; duration follows creation, modification and timescale
    longer = _patch(mp4, mp4.find(b"mvhd") + 20, big)
    for atom, offset in ((b"mdhd", 20), (b"tkhd", 24)):
        longer = _patch(longer, longer.find(atom) + offset, big)
    b.file("claims-years.mp4", longer, "TooLong", frames=FRAMES)
    b.file(
        "claims-long-frames.mp4",
        _patch(mp4, mp4.find(b"stts") + 16, struct.pack(">I", 2**27)),
        "TooLong",
        *CORRUPT,
        frames=1,
    )  # the edit list shows the first second, and that is now one frame

    b.file("claims-years.mkv", _patch(mkv, mkv.find(b"\x44\x89\x88") + 3, struct.pack(">d", 1e12)), "TooLong")
    width = mkv.find(b"\xb0\x81\x60")
    assert width > 0
    b.file(
        "claims-huge-picture.avi", _huge_avi(avi), "FrameTooLarge", frames=FRAMES
    )  # the codec knows better
    encode(b.path("small-raw.avi"), "rawvideo", pix_fmt="bgr24", count=2)
    b.file("claims-huge-raw-picture.avi", _huge_avi(b.path("small-raw.avi").read_bytes()), "FrameTooLarge")
    b.file(
        "claims-frames.avi",
        _patch(avi, avi.find(b"strh") + 8 + 32, struct.pack("<I", 0x7FFFFFFF)),
        "TooManyFrames",
        "TooLong",
    )
    b.file("claims-huge-canvas.gif", _patch(gif, 6, b"\xff\xff\xff\xff"), "FrameTooLarge", *CORRUPT)
    b.file("claims-huge-picture.mov", _huge_png_movie(b), "FrameTooLarge", *CORRUPT)

    b.file(
        "box-of-4-gigabytes.mp4", mp4[:32] + struct.pack(">I", 0xFFFFFFFF) + b"moov" + bytes(100), *CORRUPT
    )
    b.file(
        "box-of-8-exabytes.mp4", mp4[:32] + struct.pack(">I4sQ", 1, b"moov", 2**63 - 1) + bytes(100), *CORRUPT
    )
    b.file(
        "box-of-minus-one.mp4", mp4[:32] + struct.pack(">I4sQ", 1, b"moov", 2**64 - 1) + bytes(100), *CORRUPT
    )
    b.file("box-too-small.mp4", mp4[:32] + struct.pack(">I4s", 4, b"moov") + bytes(100), *CORRUPT)
    nested = b""
    for _ in range(2000):
        nested = _box(b"trak", nested)
    b.file("boxes-in-boxes.mp4", _box(b"ftyp", b"isom\x00\x00\x02\x00isom") + _box(b"moov", nested), *CORRUPT)
    many = _box(b"ftyp", b"isom\x00\x00\x02\x00isom") + _box(b"moov", _box(b"trak", b"") * 200_000)
    b.file("very-many-boxes.mp4", many, *CORRUPT, "NoVideoStream")
    deep = b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" + b"\xa0\x41\xff" * 3000
    b.file("elements-in-elements.mkv", deep, *CORRUPT)
    b.file(
        "element-of-64-petabytes.mkv",
        mkv[:60] + b"\x1f\x43\xb6\x75\x01\x00\xff\xff\xff\xff\xff\xff",
        *CORRUPT,
        "NoVideoStream",
    )
    b.file("chunk-of-4-gigabytes.avi", _patch(avi, avi.find(b"movi") - 4, b"\xff\xff\xff\xff"), *CORRUPT)


# --- files that were damaged -------------------------------------------------------------------------------


def _damaged(b: Builder) -> None:
    for name in (
        "whole.mp4",
        "whole.mkv",
        "whole.avi",
        "whole.ts",
        "whole.flv",
        "whole.ogv",
        "whole.webm",
        "whole.mpg",
    ):
        data = b.path(name).read_bytes()
        for seed in range(5):
            rng = np.random.default_rng(seed)
            flipped = bytearray(data)
            for position in rng.integers(len(data) // 10, len(data), 4):
                flipped[position] ^= 1 << int(rng.integers(8))
            # Bits inside coded pictures may go unnoticed; then the number of frames must be right (not their pixels).
            b.file(
                f"flipped-{seed}-{name}",
                bytes(flipped),
                *CORRUPT,
                "NoVideoStream",
                "UnsupportedCodec",
                "FrameTooLarge",
                "TooLong",
                frames=FRAMES,
                pixels=False,
            )
        hole = len(data) // 2
        b.file(
            f"hole-{name}",
            data[:hole] + bytes(1500) + data[hole + 1500 :],
            *CORRUPT,
            frames=FRAMES,
            pixels=False,
        )
        header = data[: min(len(data) // 4, 1200)]
        b.file(
            f"noise-after-header-{name}",
            header + np.random.default_rng(1).bytes(4000),
            *CORRUPT,
            *FORBIDDEN,
            "NoVideoStream",
            "UnsupportedCodec",
            "FrameTooLarge",
        )
    mp4 = b.path("whole.mp4").read_bytes()
    start = mp4.find(b"mdat")
    b.file("no-data.mp4", mp4[: start - 4] + _box(b"mdat", b""), *CORRUPT)
    b.file("zero-data.mp4", mp4[: start + 4] + bytes(len(mp4) - start - 4), *CORRUPT)
    b.file("no-header.mp4", _box(b"ftyp", b"isom\x00\x00\x02\x00isom") + mp4[start - 4 :], *CORRUPT)
    b.file("unknown-codec.mp4", mp4.replace(b"avc1", b"zzz1"), "UnsupportedCodec")
    avi = b.path("whole.avi").read_bytes()
    b.file("unknown-codec.avi", avi.replace(b"FMP4", b"ZZZ1"), "UnsupportedCodec")


# --- files that are odd and still right --------------------------------------------------------------------


def _odd(b: Builder) -> None:
    whole = {name: b.path(name).read_bytes() for name in ("whole.mp4", "whole.mkv", "whole.avi", "whole.gif")}
    for name, data in whole.items():
        b.file(f"bytes-after-{name}", data + b"trailing garbage \x00\xff" * 40, frames=FRAMES)
    b.file("really-mp4.avi", whole["whole.mp4"], frames=FRAMES)
    b.file("really-avi.mp4", whole["whole.avi"], frames=FRAMES)
    b.file("really-mkv.txt", whole["whole.mkv"], frames=FRAMES)
    b.file("name:with:colons.mp4", whole["whole.mp4"], frames=FRAMES)
    b.file("%03d.mp4", whole["whole.mp4"], frames=FRAMES)
    avi = whole["whole.avi"]
    b.file("no-index.avi", avi[: avi.rfind(b"idx1")], frames=FRAMES)
    b.file("unfinished.avi", _patch(avi[: avi.rfind(b"idx1")], 4, bytes(4)), frames=FRAMES)
    ts = b.path("whole.ts").read_bytes()
    b.file("starts-inside-packet.ts", ts[100:], frames=FRAMES, optional_first=8)
    b.video("live.mkv", container="matroska", container_options={"live": "1"}, options={"g": "8"})

    for width, height in ((1, 1), (2, 2), (3, 5), (7680, 16), (16, 4320), (97, 63), (255, 1)):
        b.video(
            f"size-{width}x{height}.mkv",
            "ffv1",
            size=(width, height),
            pix_fmt="yuv444p",
            count=4,
            frames=4,
            texture=0.0,
            checks={"size": [width, height]},
        )
    b.video("one-frame.mp4", count=1, frames=1)
    b.video("one-frame.gif", "gif", pix_fmt="gray", count=1, frames=1, texture=0.0)
    for name, codec, pix_fmt in (
        ("grey.mkv", "ffv1", "gray"),
        ("ten-bit.mp4", "libx264", "yuv420p10le"),
        ("ten-bit-422.mkv", "ffv1", "yuv422p10le"),
        ("sixteen-bit.mkv", "ffv1", "gray16le"),
        ("full-range.mp4", "libx264", "yuvj420p"),
        ("rgb.mov", "qtrle", "rgb24"),
        ("png.mov", "png", "rgb24"),
        ("raw.avi", "rawvideo", "bgr24"),
        ("prores.mov", "prores_ks", "yuv422p10le"),
        ("mpeg4.mov", "mpeg4", "yuv420p"),
    ):
        b.video(name, codec, pix_fmt=pix_fmt)
    for name, codec, pix_fmt in (
        ("alpha.mov", "qtrle", "argb"),
        ("alpha-png.mov", "png", "rgba"),
        ("alpha.mkv", "ffv1", "yuva420p"),
    ):
        opaque = [np.dstack([picture(i), np.full((64, 96), 255, np.uint8)]) for i in range(FRAMES)]
        b.video(name, codec, pix_fmt=pix_fmt, images=opaque)

    uneven = [
        0,
        1,
        5,
        6,
        20,
        21,
        22,
        40,
        100,
        101,
        102,
        180,
        181,
        260,
        261,
        262,
        263,
        300,
        301,
        400,
        401,
        402,
        500,
        900,
    ]
    base = Fraction(1, 1000)
    for name, codec in (("uneven.mp4", "libx264"), ("uneven.mkv", "libx264"), ("uneven.webm", "libvpx")):
        b.video(
            name,
            codec,
            options={"crf": "6", "qmin": "2", "qmax": "12"},
            times=uneven,
            time_base=base,
            checks={"times": [str(t * base) for t in uneven]},
        )
    b.video(
        "late-start.mp4",
        times=[5000 + 40 * i for i in range(FRAMES)],
        time_base=base,
        checks={"times": [str((5000 + 40 * i) * base) for i in range(FRAMES)]},
    )
    b.video("slow.mp4", rate=Fraction(1, 10), times=list(range(FRAMES)), time_base=Fraction(10))
    b.video("ntsc.mkv", rate=Fraction(30000, 1001))
    gap_in_avi = [t for t in range(FRAMES + 12) if not 6 <= t < 18]
    b.video(
        "nothing-new.avi",
        "mjpeg",
        pix_fmt="yuvj420p",
        times=gap_in_avi,
        time_base=Fraction(1, 25),
        checks={"times": [str(Fraction(t, 25)) for t in gap_in_avi]},
    )
    mjpeg = {"codec": "mjpeg", "pix_fmt": "yuvj420p", "container_options": {"avoid_negative_ts": "disabled"}}
    b.video("times-backwards.mkv", stamp=lambda t: 40 - t, **mjpeg)
    b.video("times-shuffled.mkv", stamp=lambda t: t * 7 % FRAMES, **mjpeg)
    b.video("times-repeated.mkv", stamp=lambda t: t // 2 * 2, **mjpeg)
    b.video("times-all-zero.mkv", stamp=lambda t: 0, **mjpeg)
    b.video(
        "negative-start.mkv",
        stamp=lambda t: t - 3,
        **mjpeg,
        checks={"times": [str(Fraction(t - 3, 25)) for t in range(FRAMES)]},
    )
    b.video("negative-start.mov", options={"bf": "3"}, container_options={"use_editlist": "0"})
    for degrees in (90, 180, 270):
        b.video(
            f"turned-{degrees}.mp4",
            images=[_marked(i) for i in range(FRAMES)],
            prepare=lambda s, d=degrees: s.set_display_rotation(d),
            checks={"turned": degrees, "pixels": False},
        )
    b.video(
        "mirrored.mp4",
        images=[_marked(i) for i in range(FRAMES)],
        prepare=lambda s: s.set_display_rotation(0, hflip=True),
        checks={"turned": "mirror", "pixels": False},
    )
    open_gop = "open-gop=1:keyint=8:min-keyint=8:scenecut=0:bframes=3:b-adapt=0"
    b.video("open-gop.mp4", options={"x264-params": open_gop})
    b.video("open-gop.mkv", options={"x264-params": open_gop})
    b.video("open-gop.ts", options={"x264-params": open_gop})
    b.video("moving-refresh.mp4", options={"x264-params": "intra-refresh=1:keyint=8:bframes=0"})
    b.video("interlaced.mp4", options={"x264-params": "interlaced=1:tff=1"})
    b.video("four-slices.mp4", options={"x264-params": "slices=4"})
    add_sound(b.path("with-sound.mp4"), "aac", tags=True)
    b.expect("with-sound.mp4", b.path("with-sound.mp4"), frames=25)
    tagged = whole["whole.mkv"].replace(b"Lavf", b"\xff\xfe\xfa\xc0")
    b.file("tags-in-no-encoding.mkv", tagged, frames=FRAMES)


# --- pieces ------------------------------------------------------------------------------------------------


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _patch(data: bytes, position: int, value: bytes) -> bytes:
    assert 8 <= position <= len(data) - len(value) or position == 6 or position == 4
    return data[:position] + value + data[position + len(value) :]


def _with_reference(movie: bytes, target: str) -> bytes:
    """The same movie, its pictures said to lie at `target`. The header is last, so nothing else moves."""
    at = movie.find(b"dref") - 4
    old = int.from_bytes(movie[at : at + 4], "big")
    entry = _box(b"url ", bytes(4) + target.encode() + b"\x00")
    new = _box(b"dref", bytes(4) + struct.pack(">I", 1) + entry)
    assert movie.find(b"moov") > movie.find(b"mdat")
    out = movie[:at] + new + movie[at + old :]
    grown = len(new) - old
    for parent in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
        place = out.find(parent, movie.find(b"moov")) - 4
        out = _patch(out, place, struct.pack(">I", int.from_bytes(out[place : place + 4], "big") + grown))
    return out


def _huge_avi(avi: bytes) -> bytes:
    """Width and height of the picture header at 60000."""
    at = avi.find(b"strf") + 8
    return _patch(avi, at + 4, struct.pack("<II", 60000, 60000))


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = zlib.compress((b"\x00" + bytes(3 * min(width, 4))) * min(height, 4))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _huge_png_movie(b: Builder) -> bytes:
    """A movie of PNG pictures whose own header claims 60000 × 60000, while the movie says 96 × 64."""
    encode(b.path("small-png.mov"), "png", pix_fmt="rgb24", count=2, texture=0.0)
    data = b.path("small-png.mov").read_bytes()
    at = data.find(b"IHDR")
    body = struct.pack(">II", 60000, 60000) + data[at + 12 : at + 17]
    return _patch(data, at, b"IHDR" + body + struct.pack(">I", zlib.crc32(b"IHDR" + body)))


def _marked(number: int) -> np.ndarray:
    """White upper left quarter on black: shows how the picture is turned."""
    image = np.zeros((64, 96, 3), np.uint8)
    image[:32, :48] = 255
    return image
