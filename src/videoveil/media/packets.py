"""Which packets will become pictures, told from the packets alone."""

from __future__ import annotations

from dataclasses import dataclass, field

# Decoders that give exactly one picture for each packet that is shown. For any other codec the number of pictures is
# known only by decoding.
_ONE_PICTURE_PER_PACKET = frozenset(
    (
        *("h264", "hevc", "vvc", "vp8", "vp9", "av1"),
        *("mpeg1video", "mpeg2video", "mpeg4", "h263", "flv1", "svq3", "cinepak", "dvvideo"),
        *("msmpeg4v1", "msmpeg4v2", "msmpeg4v3", "wmv1", "wmv2", "wmv3", "vc1"),
        *("mjpeg", "mjpegb", "png", "gif", "qtrle", "rawvideo", "prores", "dnxhd"),
        *("ffv1", "huffyuv", "ffvhuff", "utvideo"),
    )
)
_TINY = 20  # bytes; an MPEG-4 picture that says "not coded" is smaller, and gives no picture


@dataclass
class Expectation:
    """Fed every packet in stored order; knows how many pictures must come out.

    Not shown, and so not expected: empty packets (AVI's "nothing new"), packets that the container marks to be
    discarded (edit lists), hidden reference pictures (VP8, VP9), and pictures that are stored after the first key frame
    and shown before it (an open group that was cut off from the one before). With `joins`, packets before the first key
    frame are passed over: a broadcast is joined, or a file searched, in the middle of a group of pictures. A file that
    was written as a whole begins with a key frame, and if it does not, that is damage.
    """

    codec: str
    joins: bool = False
    expected: int = 0
    stored: int = 0  # non-empty packets, whatever becomes of them
    first_key: int | None = None  # pts of the first key packet
    first_key_size: int = 0  # and its bytes
    started: bool = False
    doubtful: bool = field(init=False)  # the count cannot be told from packets

    def __post_init__(self) -> None:
        self.doubtful = self.codec not in _ONE_PICTURE_PER_PACKET

    def shown(self, pts: int | None, size: int, key: bool, discard: bool, ends: bytes) -> bool:
        """Count one packet; True when a picture must come of it. `ends` are its first and last byte."""
        if size == 0:
            return False
        self.stored += 1
        if not self.started and (key or not self.joins):
            self.started, self.first_key, self.first_key_size = True, pts, size
        if not self.started or self._leads(pts, key):
            self.doubtful = True  # decoders differ in what they give for these
            return False
        if self.codec == "mpeg4" and size < _TINY:
            self.doubtful = True
        if discard or is_hidden(self.codec, ends):
            return False
        self.expected += 1
        return True

    def _leads(self, pts: int | None, key: bool) -> bool:
        return not key and pts is not None and self.first_key is not None and pts < self.first_key

    def before_start(self, pts: int | None) -> bool:
        """Whether a picture of this time may be damaged without the file being so."""
        return not self.started or (pts is not None and self.first_key is not None and pts < self.first_key)


def is_hidden(codec: str, ends: bytes) -> bool:
    """VP8 and VP9 store pictures that are only referred to; their first byte says so."""
    if codec == "vp8":
        return not ends[0] >> 4 & 1
    if codec == "vp9":
        return _vp9_is_hidden(ends)
    return False


def _vp9_is_hidden(ends: bytes) -> bool:
    first, last = ends
    if last & 0xE0 == 0xC0:  # several pictures in one packet: the last one is shown
        return False
    profile = (first >> 5 & 1) | (first >> 3 & 2)
    shift = 3 if profile < 3 else 2  # profile 3 has a reserved bit more
    show_existing = first >> shift & 1
    show_frame = first >> (shift - 2) & 1
    return not show_existing and not show_frame
