"""The sound of one file into another: audio streams only, chosen by type, without their tags."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet

from videoveil.errors import CorruptVideo
from videoveil.media import demux
from videoveil.media.boxes import check_mov
from videoveil.media.limits import Limits
from videoveil.media.sniff import HEAD, MOV, sniff
from videoveil.media.source import LocalFile, Watch

_FITS_MP4 = frozenset(("aac", "mp3", "ac3", "eac3", "alac", "opus", "flac"))
_AAC_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000)


class Sound:
    """Reads the audio streams of `path` and hands out packets for `output`, in step with the pictures.

    Codecs that mp4 can hold are copied as they are; any other is coded anew as AAC. Sound before time zero (the
    run-in of a codec) is left out, since mp4 would move the pictures to make room for it.
    """

    def __init__(self, path: str | Path, output: OutputContainer, limits: Limits):
        self.path = str(path)
        self._file = LocalFile(path, limits)
        self._watch = Watch(self.path, limits.stall)
        try:
            kind = sniff(self._file.read_at(0, HEAD), path)
            if kind == MOV:
                check_mov(self._file, limits)
            self._input = demux.open_local(self._file, kind, self._watch, limits)
        except BaseException:
            self._file.close()
            raise
        try:
            self._tracks = self._add_tracks(output)
        except BaseException:
            self.close()
            raise
        self._packets = self._run()
        self._held: tuple[Fraction, Packet] | None = None

    def close(self) -> None:
        self._input.close()
        self._file.close()

    @property
    def rates(self) -> list[int]:
        """Sample rates, in which mp4 counts the time of sound."""
        return [track.rate for track in self._tracks.values()]

    def until(self, time: Fraction | None, shift: Fraction) -> Iterator[Packet]:
        """The packets that begin before `time` (None: all that are left), `shift` seconds later than stored."""
        while True:
            if self._held is None:
                self._held = next(self._packets, None)
            if self._held is None or (time is not None and self._held[0] + shift >= time):
                return
            (start, packet), self._held = self._held, None
            if start + shift < 0:
                continue
            if shift:
                ticks = round(shift / packet.time_base)
                packet.pts, packet.dts = (None if t is None else t + ticks for t in (packet.pts, packet.dts))
            yield packet

    def _add_tracks(self, output: OutputContainer) -> dict[int, _Track]:
        tracks: dict[int, _Track] = {}
        for stream in self._input.streams:
            if isinstance(stream, AudioStream) and stream.codec_context is not None:
                tracks[stream.index] = _Track(stream, output)
            else:
                stream.discard = av.stream.Discard.all
        return tracks

    def _run(self) -> Iterator[tuple[Fraction, Packet]]:
        """(time, packet for the output), as stored."""
        if not self._tracks:
            return
        self._watch.progress()
        with demux.translated(self.path, "the sound does not decode"):
            for packet in self._input.demux([track.source for track in self._tracks.values()]):
                self._watch.progress()
                if packet.is_corrupt:
                    raise CorruptVideo(self.path, "the sound breaks off or is damaged")
                for ready in self._tracks[packet.stream.index].convert(packet):
                    yield (ready.pts or 0) * ready.time_base, ready


class _Track:
    """One audio stream: copied, or decoded and coded as AAC."""

    def __init__(self, source: AudioStream, output: OutputContainer):
        self.source = source
        self.rate = source.codec_context.sample_rate
        self._copied = source.codec_context.codec.canonical_name in _FITS_MP4
        if self._copied:
            self._target = output.add_stream_from_template(source, opaque=True)
            return
        self.rate = min(_AAC_RATES, key=lambda rate: (abs(rate - self.rate), -rate))
        self._target = output.add_stream("aac", rate=self.rate)
        self._target.codec_context.layout = "mono" if source.codec_context.channels == 1 else "stereo"
        self._target.codec_context.bit_rate = 160_000
        self._target.codec_context.flags |= av.codec.context.Flags.bitexact
        self._resampler = av.AudioResampler("fltp", self._target.codec_context.layout, self.rate)

    def convert(self, packet: Packet) -> Iterator[Packet]:
        """`packet` as it goes out; the closing dummy of the demuxer (no bytes) empties the coder."""
        if self._copied:
            if packet.size and packet.dts is not None:
                packet.stream = self._target
                yield packet
            return
        if not packet.size and packet.dts is not None:
            return
        for frame in self.source.codec_context.decode(packet if packet.size else None):
            for piece in self._resampler.resample(frame):
                yield from self._target.encode(piece)
        if not packet.size:
            for piece in self._resampler.resample(None):
                yield from self._target.encode(piece)
            yield from self._target.encode(None)
