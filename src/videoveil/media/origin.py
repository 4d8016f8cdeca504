"""Where pictures come from: a local file, which can be opened again and checked as a whole, or a live stream."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from videoveil.errors import CorruptVideo, UsageError
from videoveil.media import demux, walk
from videoveil.media.boxes import check_mov
from videoveil.media.decode import Decoder
from videoveil.media.index import FrameIndex, build_index, check_samples, check_stored, listed_samples
from videoveil.media.limits import Limits
from videoveil.media.packets import Expectation
from videoveil.media.sniff import AVI, HEAD, MOV, MPEG_PS, MPEG_TS, sniff
from videoveil.media.source import LocalFile, Watch

# Transport streams have no index; libav finds a place by trying, and may stop a little late.
_SEARCH_MARGIN = Fraction(1, 5)


class LocalOrigin:
    """A file that was sniffed and checked, and can be opened by libav again and again."""

    def __init__(self, path: str | Path, limits: Limits, threads: int):
        self.path, self.limits, self.threads, self.doubtful = str(path), limits, threads, False
        self.file = LocalFile(path, limits)
        self._watch = Watch(self.path, limits.stall)
        self._whole = False
        self._listed: tuple[int, ...] | None = None
        try:
            self.kind = sniff(self.file.read_at(0, HEAD), path)
            self._fragmented = self.kind == MOV and check_mov(self.file, limits)
        except BaseException:
            self.file.close()
            raise

    @property
    def joins(self) -> bool:
        """Whether the recording may begin in the middle of a group of pictures."""
        return self.kind in (MPEG_TS, MPEG_PS)

    def close(self) -> None:
        self.file.close()

    def decoder(self) -> Decoder:
        """A new run over the file, at its start."""
        if self.file.closed:
            raise UsageError(f"{self.path}: the video is closed")
        container = demux.open_local(self.file, self.kind, self._watch, self.limits)
        try:
            decoder = Decoder(
                self.path,
                container,
                self.limits,
                self._watch,
                threads=self.threads,
                by_order=self.kind == AVI,
            )
            demux.check_declared(self.path, container, decoder.stream, self.limits)
        except BaseException:
            container.close()
            raise
        return decoder

    def check_claims(self) -> None:
        """After the first picture failed: libav forgets sizes that it cannot hold, so look at what was claimed."""
        with demux.translated(self.path, "cannot be opened"):
            demux.check_claimed_size(self.file, self.kind, self._watch, self.limits)

    def check_whole(self, decoder: Decoder) -> None:
        """Once per file: nothing is cut off, and how many pictures are stored."""
        if self._whole:
            return
        self._watch.progress()
        if self.kind == MOV:
            if not self._fragmented:
                check_samples(self.file, decoder)
        elif self.kind == MPEG_TS:
            walk.check_transport(self.file, decoder.stream.id, self._watch)
        else:
            self._listed = walk.stored_pictures(self.file, self.kind, self._watch)
        self._whole = True

    def check_end(self, decoder: Decoder, expectation: Expectation, pictures: int | None) -> None:
        """After the last packet: every stored picture was found and (if decoded: `pictures`) came out."""
        if self.kind == MOV:
            listed: int | None = listed_samples(decoder)
        else:
            place = [s.index for s in decoder.container.streams.video].index(decoder.stream.index)
            listed = self._listed[place] if self._listed and place < len(self._listed) else None
        check_stored(decoder, expectation.stored, listed)
        doubtful = expectation.doubtful or self.doubtful
        if pictures is not None and not doubtful and pictures < expectation.expected:
            reason = f"is damaged: only {pictures} of {expectation.expected} pictures can be decoded"
            raise CorruptVideo(self.path, reason)

    def packet_index(self) -> FrameIndex | None:
        decoder = self.decoder()
        try:
            self.check_whole(decoder)
            expectation = Expectation(decoder.codec, joins=self.joins)
            index = build_index(
                decoder,
                expectation,
                searchable=self.kind != MPEG_PS,  # after a jump libav gives its pictures the wrong times
                by_dts=self.kind == MPEG_TS,
                margin=round(_SEARCH_MARGIN / decoder.time_base) if self.kind == MPEG_TS else 0,
            )
            self.check_end(decoder, expectation, None)
            return None if self.doubtful else index
        finally:
            decoder.close()


class LiveOrigin:
    """A network stream or camera: opened once, read once."""

    def __init__(self, path: str, limits: Limits, threads: int, demuxer: str | None):
        self.path, self.limits, self.threads, self.doubtful = path, limits, threads, True
        self.kind, self.joins = None, True
        self._demuxer, self._opened = demuxer, False

    def close(self) -> None:
        """The decoder owns the connection."""

    def decoder(self) -> Decoder:
        if self._opened:
            raise UsageError(f"{self.path}: a live stream can be read only once")
        self._opened = True
        container = demux.open_stream(self.path, self.limits, demuxer=self._demuxer)
        watch = Watch(self.path, self.limits.stall)
        try:
            return Decoder(self.path, container, self.limits, watch, threads=self.threads, endless=True)
        except BaseException:
            container.close()
            raise

    def check_claims(self) -> None:
        """A stream cannot be opened again."""

    def check_whole(self, decoder: Decoder) -> None:
        """A stream declares nothing."""

    def check_end(self, decoder: Decoder, expectation: Expectation, pictures: int | None) -> None:
        """A stream ends when it ends."""

    def packet_index(self) -> FrameIndex | None:
        return None


Origin = LocalOrigin | LiveOrigin
