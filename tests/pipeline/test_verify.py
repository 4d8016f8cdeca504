"""The independent check: passes what is anonymized, fails what is raw, and says when it cannot tell."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext

from tests.pipeline.films import blurred, coded, scenes
from videoveil.errors import CorruptVideo, MissingFile, UsageError
from videoveil.pipeline.canaries import mark
from videoveil.pipeline.verify import Expected, Verification, verify

COUNT = 12
SECRET = 99


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verify")


@pytest.fixture(scope="module")
def source(folder: Path) -> Path:
    return coded(folder / "in.mp4", scenes(COUNT))


def found(result: Verification, check: str) -> Any:
    return next(finding for finding in result.findings if finding.check == check)


def test_a_blurred_video_passes(tmp_path: Path, source: Path) -> None:
    result = verify(coded(tmp_path / "out.mp4", blurred(scenes(COUNT))), source)
    assert result.verdict == "pass", str(result)
    assert result.exit_code == 0
    assert result.frames == COUNT


def test_a_copy_fails_with_every_picture(tmp_path: Path, source: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(source.read_bytes())
    result = verify(tmp_path / "out.mp4", source)
    assert result.exit_code == 2
    assert result.raw == list(range(COUNT))


@pytest.mark.parametrize("container", ["mp4", "matroska", "mpegts", "avi"])
@pytest.mark.parametrize("where", [0, 5, COUNT - 1])
def test_one_raw_picture_is_named_even_coarsely_coded_in_any_container(
    tmp_path: Path, source: Path, container: str, where: int
) -> None:
    images = blurred(scenes(COUNT))
    images[where] = scenes(COUNT)[where]
    out = coded(tmp_path / "out", images, container=container, crf=28)
    result = verify(out, source)
    assert found(result, "change").verdict == "fail"
    assert result.raw == [where]


@pytest.mark.parametrize("container", ["matroska", "mpegts"])
def test_other_containers_with_other_clocks_pass(tmp_path: Path, source: Path, container: str) -> None:
    result = verify(coded(tmp_path / "out", blurred(scenes(COUNT)), container=container), source)
    assert result.verdict == "pass", str(result)


@pytest.mark.parametrize("step", [1, -1, 2])
def test_a_raw_picture_in_the_place_of_its_neighbour_is_found(
    tmp_path: Path, source: Path, step: int
) -> None:
    images = blurred(scenes(COUNT))
    images[6] = scenes(COUNT)[6 + step]
    result = verify(coded(tmp_path / "out.mp4", images), source)
    assert result.raw == [6]
    assert result.shifted == [(6, 6 + step)]
    assert verify(coded(tmp_path / "out.mp4", blurred(images)), source).verdict == "pass"


def test_another_size_is_compared_at_the_smaller_one(tmp_path: Path, source: Path) -> None:
    import cv2

    def halved(images: list[np.ndarray]) -> list[np.ndarray]:
        return [cv2.resize(image, (48, 32), interpolation=cv2.INTER_AREA) for image in images]

    assert verify(coded(tmp_path / "a.mp4", halved(scenes(COUNT))), source).raw == list(range(COUNT))
    assert verify(coded(tmp_path / "b.mp4", halved(blurred(scenes(COUNT)))), source).verdict == "pass"


def test_other_colours_and_brightness_do_not_hide_a_raw_picture(tmp_path: Path, source: Path) -> None:
    images = [(image[:, :, ::-1] * 0.6 + 60).astype(np.uint8) for image in scenes(COUNT)]
    assert verify(coded(tmp_path / "out.mp4", images), source).exit_code == 2


def test_black_pictures_are_fine_and_counted(tmp_path: Path, source: Path) -> None:
    images = blurred(scenes(COUNT))
    images[3:7] = [np.zeros_like(images[0])] * 4
    result = verify(coded(tmp_path / "out.mp4", images), source)
    assert (result.verdict, result.black) == ("pass", 4)


def test_what_covers_parts_is_judged_only_on_request(tmp_path: Path, source: Path) -> None:
    images = [image.copy() for image in scenes(COUNT)]
    for image in images:
        image[8:56, 32:64] = 0
    out = coded(tmp_path / "out.mp4", images)
    result = verify(out, source)
    assert (result.verdict, result.covered, result.raw) == ("cannot tell", COUNT, [])
    assert verify(out, source, Expected(parts=True)).verdict == "pass"
    images[4] = scenes(COUNT)[4]
    left = verify(coded(tmp_path / "left.mp4", images), source, Expected(parts=True))
    assert (left.verdict, left.raw) == ("fail", [4])


@pytest.mark.parametrize(("lost", "verdict"), [(1, "cannot tell"), (4, "fail")])
def test_missing_pictures_never_pass(tmp_path: Path, source: Path, lost: int, verdict: str) -> None:
    result = verify(coded(tmp_path / "out.mp4", blurred(scenes(COUNT))[:-lost]), source)
    assert result.verdict == verdict
    assert found(result, "frames").text == f"{COUNT - lost}, the input has {COUNT}"


def test_times_must_be_those_of_the_input(tmp_path: Path) -> None:
    odd = [0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 18, 40]
    source = coded(tmp_path / "in.mp4", scenes(COUNT), times=odd)
    images = blurred(scenes(COUNT))
    assert verify(coded(tmp_path / "a.mp4", images, times=odd), source).verdict == "pass"
    even = verify(coded(tmp_path / "b.mp4", images), source)
    assert found(even, "times").verdict == "fail"
    assert "2, 3, 4" in found(even, "times").text
    late = verify(coded(tmp_path / "c.mp4", images, times=[t + 5 for t in odd]), source)
    assert found(late, "times").verdict == "cannot tell"
    finer = coded(tmp_path / "d.mp4", images, times=[t * 1200 for t in odd], time_base=Fraction(1, 30000))
    assert verify(finer, source).verdict == "pass"


def test_a_start_below_zero_may_be_moved_as_mp4_must(tmp_path: Path) -> None:
    source = coded(tmp_path / "in.mkv", scenes(COUNT), container="matroska", times=range(3, COUNT + 3))
    result = verify(coded(tmp_path / "out.mp4", blurred(scenes(COUNT))), source)
    assert result.verdict == "pass"
    assert "moved by -0.12 s" in found(result, "times").text


def test_sound_is_there_only_when_expected(tmp_path: Path) -> None:
    source = coded(tmp_path / "in.mp4", scenes(COUNT), sound=True, sound_first=True)
    silent = coded(tmp_path / "silent.mp4", blurred(scenes(COUNT)))
    loud = coded(tmp_path / "loud.mp4", blurred(scenes(COUNT)), sound=True)
    verdicts = {
        (out.stem, audio): found(verify(out, source, Expected(audio=audio)), "audio").verdict
        for out in (silent, loud)
        for audio in (False, True)
    }
    expected = {("silent", False): "pass", ("silent", True): "fail"}
    assert verdicts == expected | {("loud", False): "fail", ("loud", True): "pass"}


def second_video(output: Any, _: Any) -> None:
    extra = output.add_stream("mpeg4", rate=25)
    extra.width, extra.height, extra.pix_fmt = 32, 32, "yuv420p"


def attachment(output: Any, _: Any) -> None:
    output.add_attachment("raw.txt", "text/plain", b"who it was")


@pytest.mark.parametrize(
    ("prepare", "word"),
    [(second_video, "2 video streams"), (attachment, "attachment")],
)
def test_streams_that_do_not_belong_there_fail(tmp_path: Path, source: Path, prepare: Any, word: str) -> None:
    path = tmp_path / "out.mkv"
    coded(path, blurred(scenes(COUNT)), container="matroska", prepare=prepare)
    assert word in found(verify(path, source), "streams").text
    assert found(verify(path, source), "streams").verdict == "fail"


@pytest.mark.parametrize(
    "tags",
    [
        {"title": "Ada at home"},
        {"comment": "x"},
        {"location": "+52.5+013.4/"},
        {"creation_time": "2024-01-02T03:04:05Z"},
    ],
)
@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_tags_fail(tmp_path: Path, source: Path, tags: dict[str, str], container: str) -> None:
    out = coded(tmp_path / "out", blurred(scenes(COUNT)), container=container, tags=tags)
    assert found(verify(out, source), "metadata").verdict == "fail"


def test_chapters_fail(tmp_path: Path, source: Path) -> None:
    def chapter(output: Any, _: Any) -> None:
        one = {"id": 1, "start": 0, "end": 400, "time_base": Fraction(1, 1000), "metadata": {"title": "he"}}
        output.set_chapters([one])

    out = coded(tmp_path / "out.mkv", blurred(scenes(COUNT)), container="matroska", prepare=chapter)
    assert found(verify(out, source), "chapters").verdict == "fail"


@pytest.mark.parametrize("container", ["mp4", "mpegts"])
def test_messages_between_the_pictures_fail_but_the_encoders_own_does_not(
    tmp_path: Path, source: Path, container: str
) -> None:
    plain = coded(tmp_path / "plain", blurred(scenes(COUNT)), container=container)
    noted = tmp_path / "noted"
    note = (
        "filter_units=remove_types=6,h264_metadata=sei_user_data=086f3693b7b34f2c965321492feee5b8+camera_17"
    )
    with av.open(str(plain)) as reader, av.open(str(noted), "w", format=container) as output:
        stream = reader.streams.video[0]
        target = output.add_stream_from_template(stream)
        tagger = BitStreamFilterContext(note, stream)
        for packet in [*reader.demux(stream), None]:
            if packet is not None and packet.dts is None:
                continue
            for ready in tagger.filter(packet):
                ready.stream = target
                output.mux(ready)
    assert found(verify(plain, source), "messages").verdict == "pass"
    result = verify(noted, source)
    assert found(result, "messages").verdict == "fail"
    assert "free user data" in found(result, "messages").text


def test_data_in_boxes_and_behind_the_end_fails(tmp_path: Path, source: Path) -> None:
    clean = coded(tmp_path / "clean.mp4", blurred(scenes(COUNT))).read_bytes()
    secret = b"who it was, with name and address"

    def box(kind: bytes) -> bytes:
        return (len(secret) + 8).to_bytes(4, "big") + kind + secret

    cases = {
        "free": clean + box(b"free"),
        "uuid": clean + box(b"uuid"),
        "after the last box": clean + secret,
    }
    out = tmp_path / "out.mp4"
    for word, data in cases.items():
        out.write_bytes(data)
        result = verify(out, source)
        assert found(result, "boxes").verdict == "fail", word
        assert word in found(result, "boxes").text
    out.write_bytes(clean + box(b"mdat"))
    assert found(verify(out, source), "boxes").verdict == "cannot tell"


def test_an_unreadable_input_is_cannot_tell(tmp_path: Path, source: Path) -> None:
    out = coded(tmp_path / "out.mp4", blurred(scenes(COUNT)))
    (tmp_path / "text.mp4").write_text("no video")
    cut = tmp_path / "cut.ts"
    cut.write_bytes(coded(tmp_path / "whole.ts", scenes(COUNT), container="mpegts").read_bytes()[:2000])
    for against in (tmp_path / "text.mp4", tmp_path / "nothing.mp4"):
        result = verify(out, against)
        assert (result.verdict, found(result, "input").verdict) == ("cannot tell", "cannot tell")
    assert verify(out, cut).verdict != "pass"


def test_an_input_that_breaks_off_is_cannot_tell(tmp_path: Path, source: Path) -> None:
    out = coded(tmp_path / "out.mp4", blurred(scenes(COUNT)))
    data = bytearray(coded(tmp_path / "whole.mp4", scenes(COUNT), keys=3).read_bytes())
    middle = data.index(b"mdat") + 2500
    data[middle : middle + 3000] = bytes(3000)
    (tmp_path / "hurt.mp4").write_bytes(data)
    result = verify(out, tmp_path / "hurt.mp4")
    assert result.verdict == "cannot tell", str(result)


def test_an_output_that_breaks_off_fails_and_one_that_is_no_video_is_an_error(
    tmp_path: Path, source: Path
) -> None:
    data = bytearray(coded(tmp_path / "whole.mp4", blurred(scenes(COUNT)), keys=3).read_bytes())
    middle = data.index(b"mdat") + 300
    data[middle : middle + 400] = bytes(400)
    (tmp_path / "hurt.mp4").write_bytes(data)
    assert verify(tmp_path / "hurt.mp4", source).verdict == "fail"
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(CorruptVideo, match=r"text\.mp4"):
        verify(tmp_path / "text.mp4", source)
    with pytest.raises(MissingFile, match=r"none\.mp4"):
        verify(tmp_path / "none.mp4", source)
    with pytest.raises(UsageError, match="the input itself"):
        verify(source, source)


def test_canaries_of_raw_pictures_fail(tmp_path: Path) -> None:
    marked = [mark(image, 40 + number, SECRET) for number, image in enumerate(scenes(COUNT))]
    source = coded(tmp_path / "in.mp4", marked)
    images = blurred(marked)
    clean = verify(coded(tmp_path / "a.mp4", images), source, Expected(canary=SECRET))
    assert (clean.verdict, clean.canaries) == ("pass", [])
    images[2] = marked[9]  # from so far away that it is no neighbour
    result = verify(coded(tmp_path / "b.mp4", images, crf=30), source, Expected(canary=SECRET))
    assert (result.verdict, result.canaries) == ("fail", [49])
    assert result.raw == []


def test_memory_does_not_grow_with_the_length(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        source = coded(tmp_path / "in.mp4", scenes(12) * (count // 12))
        out = coded(tmp_path / "out.mp4", blurred(scenes(12)) * (count // 12))
        tracemalloc.start()
        assert verify(out, source).exit_code == 0
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(12)
    assert peak(240) <= 1.1 * peak(24)
