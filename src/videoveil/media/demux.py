"""One run over a media file: libav's container, its picture stream, and the errors they give, in our words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import av.error
from av.container import InputContainer
from av.video.stream import VideoStream

from videoveil.errors import (
    CorruptVideo,
    DecodeTimeout,
    FrameTooLarge,
    MediaError,
    MissingFile,
    NoVideoStream,
    TooLong,
    TooManyFrames,
    UnsupportedCodec,
)
from videoveil.media.limits import Limits
from videoveil.media.sniff import FLV, MPEG_PS, MPEG_TS, Container
from videoveil.media.source import LocalFile, Watch

_BUFFER = 1 << 17
SECOND = av.time_base  # libav's unit for the duration of a whole container
_PADDING = 64 * 2 * 65536  # 64 more columns and rows of the longest sides that there are
_LATE_HEADER = (MPEG_TS, MPEG_PS, FLV)  # streams are found while reading, after the options were handed out

# What a live stream may use. Files are never among it: a playlist cannot reach the disk.
STREAM_PROTOCOLS = "http,https,httpproxy,tcp,udp,tls,rtp,srtp,rtsp,rtmp,rtmps,rtmpt,srt"
STREAM_DEMUXERS = (
    "rtsp,rtp,sdp,hls,mpegts,flv,live_flv,mov,mp4,matroska,webm,mpjpeg,mjpeg,avi,ogg,asf,mpeg,h264,hevc"
)


def open_container(
    file: LocalFile,
    container: Container,
    watch: Watch,
    *,
    pixels: str | None = None,
    codecs: str | None = None,
) -> InputContainer:
    """libav over the bytes of `file`, with the demuxer fixed and every protocol off."""
    fixed = {"protocol_whitelist": "none", "format_whitelist": container.demuxer, "enable_drefs": "0"}
    if container.demuxer == "mov":
        fixed["format_whitelist"] = "mov,mp4,m4a,3gp,3g2,mj2"
    elif container.demuxer == "matroska":
        fixed["format_whitelist"] = "matroska,webm"
    if codecs is not None:
        fixed["codec_whitelist"] = codecs
    if container.demuxer != "mov":
        del fixed["enable_drefs"]
    return av.open(
        file.view(watch),
        mode="r",
        format=container.demuxer,
        options={} if pixels is None else {"max_pixels": pixels},
        container_options=fixed,
        metadata_errors="replace",
        buffer_size=_BUFFER,
    )


def open_local(file: LocalFile, container: Container, watch: Watch, limits: Limits) -> InputContainer:
    """Open for decoding. libav decodes a little to learn the format, so the size is held to the limit already then."""
    watch.progress()
    with translated(file.path, "cannot be opened"):
        if container in _LATE_HEADER:  # options do not reach streams that are found while reading
            check_claimed_size(file, container, watch, limits)
        return open_container(file, container, watch, pixels=decoder_pixels(limits))


def check_claimed_size(file: LocalFile, container: Container, watch: Watch, limits: Limits) -> None:
    """Hold the size of the pictures to the limits in an opening that decodes nothing at all."""
    with open_container(file, container, watch, codecs="none") as look:
        for stream in look.streams.video:
            check_picture_size(file.path, stream, limits)
    watch.progress()


def open_stream(url: str, limits: Limits, *, demuxer: str | None = None) -> InputContainer:
    """A network stream or camera. Waits at most `limits.stall` seconds for data."""
    fixed = {} if demuxer else {"protocol_whitelist": STREAM_PROTOCOLS, "format_whitelist": STREAM_DEMUXERS}
    with translated(url, "cannot be opened"), _unreachable(url):
        return av.open(
            url,
            mode="r",
            format=demuxer,
            options={"max_pixels": decoder_pixels(limits)},
            container_options=fixed,
            metadata_errors="replace",
            timeout=(limits.stall, limits.stall),
        )


def picture_stream(path: str, container: InputContainer, limits: Limits) -> VideoStream:
    """The stream to read: the default one, else the first, that is not a cover picture; held to the limits."""
    moving = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
    if not moving:
        kinds = sorted({s.type for s in container.streams})
        raise NoVideoStream(path, f"has no moving pictures (streams: {', '.join(kinds) or 'none'})")
    stream = next((s for s in moving if s.disposition & av.stream.Disposition.default), moving[0])
    if stream.codec_context is None:
        raise UnsupportedCodec(path, "is coded in a way that no decoder here knows")
    check_picture_size(path, stream, limits)
    return stream


def decoder_pixels(limits: Limits) -> str:
    """The ceiling for decoders. They count pictures with their padding, so it is a little higher than the limit."""
    return str(limits.pixels + _PADDING)


def check_picture_size(path: str, stream: VideoStream, limits: Limits) -> None:
    if stream.codec_context is not None:
        check_pixels(path, stream.codec_context.width, stream.codec_context.height, limits)


def check_pixels(path: str, width: int, height: int, limits: Limits) -> None:
    if width * height > limits.pixels:
        raise FrameTooLarge(
            path, f"pictures of {width} × {height} are above the limit of {limits.pixels} pixels"
        )


def check_declared(path: str, container: InputContainer, stream: VideoStream, limits: Limits) -> None:
    """Length and number of frames as the header tells them."""
    lengths = []
    if stream.duration is not None and stream.time_base is not None:
        lengths.append(stream.duration * stream.time_base)
    if container.duration is not None:
        lengths.append(Fraction(container.duration, SECOND))
    if lengths and max(lengths) > limits.duration:
        raise TooLong(path, f"declares {float(max(lengths)):.0f} s, above the limit of {limits.duration} s")
    if stream.frames > limits.frames:
        raise TooManyFrames(path, f"declares {stream.frames} frames, above the limit of {limits.frames}")


@contextlib.contextmanager
def translated(path: str | Path, doing: str) -> Iterator[None]:
    """libav's errors as ours; ours pass through."""
    try:
        yield
    except MediaError:
        raise
    except (av.error.ExitError, av.error.TimeoutError) as error:  # the first is our own interrupt
        raise DecodeTimeout(path, f"{doing}: no data within the time limit") from error
    except (av.error.DecoderNotFoundError, av.error.PatchWelcomeError, av.error.NotImplementedError) as error:
        raise UnsupportedCodec(path, f"{doing}: {_words(error)}") from error
    except (av.error.MemoryError, MemoryError) as error:
        raise FrameTooLarge(path, f"{doing}: needs more memory than there is") from error
    except (av.error.FFmpegError, ValueError, EOFError) as error:
        raise CorruptVideo(path, f"{doing}: {_words(error)}") from error


@contextlib.contextmanager
def _unreachable(url: str) -> Iterator[None]:
    """Nobody answers, or answers no: not the fault of the data."""
    try:
        yield
    except av.error.FFmpegError as error:
        if isinstance(error, OSError | av.error.HTTPError | av.error.HTTPClientError) and not isinstance(
            error, TimeoutError
        ):
            raise MissingFile(url, f"cannot be reached: {_words(error)}") from error
        raise


def _words(error: Exception) -> str:
    return error.strerror if isinstance(error, av.error.FFmpegError) and error.strerror else str(error)
