"""The two ways through a file: from the first picture to the last, or to pictures by number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from videoveil.errors import CorruptVideo
from videoveil.media.decode import Decoder, Picture
from videoveil.media.index import FrameIndex
from videoveil.media.origin import Origin
from videoveil.media.packets import Expectation


class NotThere(Exception):
    """A search ended somewhere else than the index says."""


class RandomReader:
    """Pictures by number. Goes on decoding where that is nearest, else searches the key frame before."""

    def __init__(self, decoder: Decoder, index: FrameIndex):
        self._decoder, self._index = decoder, index
        self._next: int | None = None  # number of the next picture
        self._pictures: Iterator[Picture] = iter(())

    def close(self) -> None:
        self._decoder.close()

    def picture(self, number: int) -> Picture:
        key = self._index.key_before(number)
        if key < 0:
            raise NotThere
        try:
            ahead = self._next is not None and self._index.keys[key] <= self._next <= number
            picture = self._advance(number) if ahead else self._search(key, number)
        except CorruptVideo as error:  # searching itself can cause this; reading from the start tells
            raise NotThere from error
        return picture

    def _search(self, key: int, number: int) -> Picture:
        for earlier in (0, 1, 4):  # some demuxers land late, on the key frame after the one asked for
            if key - earlier < 0:
                break
            self._decoder.seek(int(self._index.key_seek[key - earlier]))
            expectation = Expectation(self._decoder.codec, joins=True)
            self._pictures = self._decoder.pictures(expectation)
            landed = next((p for p in self._pictures if not expectation.before_start(p.pts)), None)
            at = None if landed is None else self._index.key_at(landed.pts, expectation.first_key_size)
            if landed is not None and at is not None and at <= number:
                self._next = at + 1
                return landed if at == number else self._advance(number)
        raise NotThere

    def _advance(self, number: int) -> Picture:
        assert self._next is not None
        while True:
            picture = next(self._pictures, None)
            if picture is None or picture.pts != self._index.pts[self._next]:
                self._next = None
                raise NotThere
            self._next += 1
            if self._next > number:
                return picture


class Run:
    """One run from the first picture to the last, which checks at the end that none is missing."""

    def __init__(self, origin: Origin):
        self.decoder = origin.decoder()
        self._origin = origin
        self._expectation = Expectation(self.decoder.codec, joins=origin.joins)
        self._pictures = self.decoder.pictures(self._expectation)
        self._peeked: list[Picture] = []

    def close(self) -> None:
        self.decoder.close()

    def peek(self) -> Picture:
        """The first picture, which `iter` will give again."""
        try:
            picture = next(self._pictures, None)
            if picture is None:
                raise CorruptVideo(self._origin.path, "has a picture stream and not one picture in it")
        except BaseException as error:
            self.close()
            if isinstance(error, CorruptVideo):
                self._origin.check_claims()
            raise
        self._peeked = [picture]
        return picture

    def __iter__(self) -> Iterator[Picture]:
        self._origin.check_whole(self.decoder)
        count = 0
        for picture in chain(self._peeked, self._pictures):
            count += 1
            yield picture
        self._origin.check_end(self.decoder, self._expectation, count)
