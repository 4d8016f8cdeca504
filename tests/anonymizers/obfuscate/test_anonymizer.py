"""Obfuscation: inside the boxes covered, outside bit for bit the same; failures close the tap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.anonymizers.obfuscate.people import HEIGHT, WIDTH, Red, red_video, square
from videoveil.anonymizers import ShapeMismatch, Withheld, require_exportable
from videoveil.anonymizers.obfuscate import (
    METHODS,
    STRONG,
    Blur,
    BoxCache,
    Fixed,
    Obfuscator,
    Tracking,
    search_frames,
)
from videoveil.anonymizers.obfuscate.blur import blur
from videoveil.data.theatre import extents, stage
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.errors import UsageError

KINDS = list(METHODS)


def tensor(frames: list[np.ndarray]) -> torch.Tensor:
    """(T, 3, H, W) uint8."""
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).contiguous()


def images(frames: torch.Tensor) -> list[np.ndarray]:
    return [frame.permute(1, 2, 0).numpy() for frame in frames]


# --- what is covered ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", KINDS)
def test_inside_the_boxes_is_covered_and_outside_bit_for_bit_the_same(method: str) -> None:
    video = red_video(6)
    before = [frame.copy() for frame in video]
    out = list(Obfuscator(method, Red()).frames(video))
    assert len(out) == 6
    for index, (raw, frame) in enumerate(zip(before, out)):
        inside = np.zeros((HEIGHT, WIDTH), bool)
        inside[square(index)] = True
        np.testing.assert_array_equal(video[index], raw)
        np.testing.assert_array_equal(frame[~inside], raw[~inside])
        if method == "blacken":
            assert not frame[inside].any()
        else:
            kernel = METHODS[method]
            assert isinstance(kernel, Blur)
            whole = blur(torch.from_numpy(raw).permute(2, 0, 1), kernel).permute(1, 2, 0).numpy()
            np.testing.assert_array_equal(frame[inside], whole[inside])
            assert (frame[inside] != raw[inside]).any(1).mean() > 0.9


def test_a_margin_covers_more_on_every_side() -> None:
    image = np.full((40, 40, 3), 9, np.uint8)
    out = next(Obfuscator("blacken", Fixed(np.array([[10, 10, 20, 30, 1]])), margin=0.2).frames([image]))
    black = (out == 0).all(2)
    rows, columns = np.flatnonzero(black.any(1)), np.flatnonzero(black.any(0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (6, 33, 8, 21)
    assert black.sum() == 28 * 14


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 2), (7, 30)])
def test_frames_smaller_than_the_kernel_are_covered_too(method: str, shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(1, 256, (*shape, 3)).astype(np.uint8)
    everything = Fixed(np.array([[-5, -5, 99, 99, 1]]))
    out = next(Obfuscator(method, everything).frames([image]))
    assert out.shape == image.shape
    if method == "blacken":
        assert not out.any()
    elif min(shape) > 1:
        assert (out != image).any()


def test_true_boxes_hide_every_pixel_of_every_actor() -> None:
    """With the actors' colours changed, not a bit of the blackened video changes."""
    from dataclasses import replace

    play = trimmed(
        "hide", 3, action="dance", person=identity(0, 3), frames=12, bystanders=2, width=64, height=48
    )
    roles = tuple(replace(r, person=replace(r.person, skin="dark", tone=0.7)) for r in play.roles)
    other = replace(play, roles=roles)
    a, b = stage.clip(play), stage.clip(other)
    assert (a != b).any()
    painter = Obfuscator("blacken", None).painter(extents.boxes(play), 48, 64)
    np.testing.assert_array_equal(painter.clip(range(12), a), painter.clip(range(12), b))


# --- the same whichever way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", KINDS)
def test_stream_batch_clip_and_random_access_are_the_same(method: str) -> None:
    video = red_video(7)
    obfuscator = Obfuscator(method, Red())
    streamed = list(obfuscator.frames(iter(video)))
    batch = tensor(video)
    for out in (
        obfuscator(batch),
        obfuscator.transform(batch),
        obfuscator(batch.transpose(0, 1)[None])[0].transpose(0, 1),
    ):
        for a, b in zip(streamed, images(out)):
            np.testing.assert_array_equal(a, b)
    found = search_frames(video, Red())
    painter = obfuscator.painter(found.frames, found.height, found.width)
    for index in (6, 0, 3):
        np.testing.assert_array_equal(painter.frame(index, video[index]), streamed[index])
    np.testing.assert_array_equal(painter.clip([5, 2], np.stack(video)[[5, 2]]), np.stack(streamed)[[5, 2]])
    given = obfuscator.frames(video, boxes=found.frames)
    np.testing.assert_array_equal(np.stack(list(given)), np.stack(streamed))


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_a_frame_alone_is_bit_for_bit_the_frame_in_any_batch(method: str, kind: torch.dtype) -> None:
    batch = tensor(red_video(5, hidden=(2,)))
    if kind is torch.float32:
        batch = batch.float() / 255
    obfuscator = Obfuscator(method, Red())
    out = obfuscator(batch)
    assert out.dtype == kind
    assert torch.equal(out, obfuscator(batch))
    for index in range(5):
        assert torch.equal(out[index], obfuscator(batch[index : index + 1])[0])
    assert torch.equal(out.flip(0), obfuscator(batch.flip(0)))


def test_a_clip_alone_is_bit_for_bit_the_clip_in_any_batch() -> None:
    a = tensor(red_video(8, hidden=(5,))).transpose(0, 1)
    b = tensor(red_video(8, hidden=(6, 7))).transpose(0, 1)
    obfuscator = Obfuscator("weak-blur", Red(), fail_closed=True)
    both = obfuscator(torch.stack([a, b]))
    assert torch.equal(both[0], obfuscator(a[None])[0])
    assert torch.equal(both[1], obfuscator(b[None])[0])


# --- people who are lost --------------------------------------------------------------------------------------


def test_fail_closed_blackens_the_whole_frame_in_which_somebody_is_lost() -> None:
    video = red_video(12, hidden=(5, 6, 9))
    obfuscator = Obfuscator("strong-blur", Red(), fail_closed=True)
    out = list(obfuscator.frames(video))
    assert [index for index, frame in enumerate(out) if not frame.any()] == [5, 6, 9]
    report = obfuscator.report()
    assert report.lost_frames == (5, 6, 9)
    assert report.lost == ((5, 7), (9, 10))
    assert (report.frames, report.frames_with_people, report.boxes) == (12, 9, 9)
    assert "the whole frame was blackened" in str(report)


def test_fail_closed_stays_closed_until_the_lost_person_is_found_again() -> None:
    for hidden in (range(10, 70), range(10, 60)):
        video = red_video(70, hidden=tuple(hidden), speed=0)
        obfuscator = Obfuscator("blacken", Red(), fail_closed=True)
        out = list(obfuscator.frames(video))
        assert [index for index, frame in enumerate(out) if not frame.any()] == list(hidden)
        assert obfuscator.report().given_up == ()


def test_fail_closed_also_holds_for_clips_and_known_boxes() -> None:
    video = red_video(8, hidden=(5,))
    obfuscator = Obfuscator("blacken", Red(), fail_closed=True)
    clip = obfuscator(tensor(video).transpose(0, 1)[None])[0]
    assert [t for t in range(8) if not clip[:, t].any()] == [5]
    assert obfuscator.report().lost_frames == (5,)
    found = search_frames(video, Red())
    painter = obfuscator.painter(found.frames, HEIGHT, WIDTH)
    assert painter.report.lost_frames == (5,)
    assert not painter.frame(5, video[5]).any()
    assert painter.frame(4, video[4]).any()


def test_fail_closed_refuses_loose_frames_because_nobody_can_be_followed() -> None:
    with pytest.raises(ShapeMismatch, match="clips"):
        Obfuscator("blacken", Red(), fail_closed=True)(tensor(red_video(3)))


def test_a_lost_person_is_covered_where_expected_when_people_are_followed() -> None:
    video = red_video(10, hidden=(6, 7))
    obfuscator = Obfuscator("blacken", Red(), tracker=Tracking())
    out = list(obfuscator.frames(video))
    for index in (6, 7):
        assert not out[index][square(index)].any()
        assert out[index].any()
    assert obfuscator.report().lost_frames == (6, 7)
    assert "expected was covered" in str(obfuscator.report())


def test_without_following_a_missed_person_shows_and_the_report_says_it_cannot_know() -> None:
    video = red_video(8, hidden=(5,))
    obfuscator = Obfuscator("blacken", Red())
    out = list(obfuscator.frames(video))
    np.testing.assert_array_equal(out[5], video[5])
    report = obfuscator.report()
    assert report.frames_with_people == 7
    assert report.lost_frames == ()
    assert "not known whether one was lost" in str(report)


def test_gaps_in_known_boxes_are_filled_when_asked() -> None:
    video = red_video(10, hidden=(5, 6))
    found = search_frames(video, Red())
    painter = Obfuscator("blacken", None).painter(found.frames, HEIGHT, WIDTH, longest_gap=3)
    for index in (5, 6):
        assert not painter.frame(index, video[index])[square(index)].any()
    closed = Obfuscator("blacken", None, fail_closed=True)
    assert closed.painter(found.frames, HEIGHT, WIDTH, longest_gap=3).report.lost_frames == ()


def test_giving_up_is_reported() -> None:
    video = red_video(12, hidden=tuple(range(4, 12)))
    obfuscator = Obfuscator("blacken", Red(), fail_closed=True, tracker=Tracking(max_age=2))
    out = list(obfuscator.frames(video))
    assert [i for i, frame in enumerate(out) if not frame.any()] == [4, 5]
    assert obfuscator.report().given_up == (6,)
    assert "no longer waited for from frames 6 on" in str(obfuscator.report())
    patient = Obfuscator("blacken", Red(), fail_closed=True, tracker=Tracking(max_age=None))
    assert [i for i, f in enumerate(patient.frames(video)) if not f.any()] == list(range(4, 12))


def test_fail_closed_is_black_until_who_walks_out_is_expected_outside() -> None:
    video = red_video(34, hidden=tuple(range(26, 34)))  # at the right edge from 24 on, outside from 29 on
    closed = Obfuscator("blacken", Red(), fail_closed=True)
    assert [i for i, frame in enumerate(closed.frames(video)) if not frame.any()] == [26, 27, 28]
    followed = Obfuscator("blacken", Red(), tracker=Tracking())
    out = list(followed.frames(video))
    np.testing.assert_array_equal(out[26], video[26])
    for report, lost in ((closed.report(), 3), (followed.report(), 0)):
        assert (len(report.lost_frames), report.left, report.given_up) == (lost, 1, ())
        assert "to an edge and taken to have gone over it: 1. Where they were still there, they are" in str(
            report
        )
        assert report.to_json()["left"] == 1


def test_fail_closed_is_black_while_somebody_is_behind_another() -> None:
    video = red_video(8)
    small, large = [20, 14, 26, 24, 0.9], [16, 10, 30, 30, 0.9]
    boxes = [np.array([small, large] if t < 5 else [large], np.float32) for t in range(8)]
    closed = Obfuscator("blacken", None, fail_closed=True)
    out = list(closed.frames(video, boxes=boxes))
    assert [i for i, frame in enumerate(out) if not frame.any()] == [5, 6, 7]
    assert closed.report().hidden_frames == 0
    followed = Obfuscator("blacken", None, tracker=Tracking())
    assert all(frame.any() for frame in followed.frames(video, boxes=boxes))
    assert (followed.report().lost_frames, followed.report().hidden_frames) == ((), 3)
    assert "not found and taken to be behind others: 3." in str(followed.report())


def test_who_was_found_too_seldom_to_be_followed_is_counted_and_blackens_nothing() -> None:
    video = red_video(8, hidden=tuple(range(2, 8)), speed=0)
    closed = Obfuscator("blacken", Red(), fail_closed=True)
    assert all(frame.any() for frame in closed.frames(video))
    report = closed.report()
    assert (report.lost_frames, report.fleeting_frames) == ((), 4)
    assert report.to_json()["fleeting_frames"] == 4
    assert "who had been found too seldom before to be followed: 4." in str(report)
    list(closed.frames(red_video(6)))
    assert "still there" not in str(closed.report())


# --- failures -------------------------------------------------------------------------------------------------


class Fails(Red):
    def __init__(self, at: int, how: Exception | np.ndarray):
        super().__init__()
        self.at, self.how = at, how

    def boxes(self, frame: np.ndarray) -> np.ndarray:
        found = super().boxes(frame)
        if self.asked <= self.at:
            return found
        if isinstance(self.how, Exception):
            raise self.how
        return self.how


@pytest.mark.parametrize(
    "how",
    [
        RuntimeError("broken"),
        MemoryError(),
        ValueError("layer"),
        np.array([[0, 0, np.nan, 5, 1]], np.float32),
        np.array([[9, 0, 5, 5, 1]], np.float32),
        np.zeros((2, 3), np.float32),
    ],
)
def test_when_the_detector_fails_no_frame_comes_out_any_more(how: Exception | np.ndarray) -> None:
    video = red_video(6)
    stream = Obfuscator("blacken", Fails(2, how)).frames(video)
    assert len([next(stream), next(stream)]) == 2
    with pytest.raises(Withheld):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)
    with pytest.raises(Withheld):
        Obfuscator("blacken", Fails(2, how))(tensor(video))


def test_when_decoding_fails_nothing_comes_out_any_more() -> None:
    def broken() -> Iterator[np.ndarray]:
        yield red_video(1)[0]
        raise OSError("disk")

    stream = Obfuscator("blacken", Red()).frames(broken())
    next(stream)
    with pytest.raises(OSError, match="disk"):
        next(stream)


def test_boxes_of_another_video_are_noticed() -> None:
    video = red_video(4)
    found = search_frames(video, Red()).frames
    obfuscator = Obfuscator("blacken", None)
    with pytest.raises(Withheld, match="frame 3 has no boxes"):
        list(obfuscator.frames(video, boxes=found[:3]))
    with pytest.raises(Withheld, match="more frames"):
        list(obfuscator.frames(video[:2], boxes=found))
    painter = obfuscator.painter(found, HEIGHT, WIDTH)
    with pytest.raises(Withheld, match="frames 0 to 3 only"):
        painter.frame(4, video[0])
    with pytest.raises(Withheld, match="boxes are for 64×40"):
        painter.frame(0, video[0][:10])
    with pytest.raises(ShapeMismatch, match="2 frame numbers"):
        painter.clip([0, 1], np.stack(video))


def test_wrong_pictures_are_refused() -> None:
    obfuscator = Obfuscator("blacken", Red())
    with pytest.raises(ShapeMismatch, match="uint8"):
        list(obfuscator.frames([np.zeros((4, 4, 3))]))
    broken = torch.rand(1, 3, 8, 8)
    broken[0, 0, 0, 0] = float("nan")
    with pytest.raises(Withheld):
        obfuscator(broken)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="strong-blur"):
        Obfuscator("pixelate", Red())
    for margin in (-0.1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="margin"):
            Obfuscator("blacken", Red(), margin=margin)
    with pytest.raises(UsageError, match="no detector"):
        list(Obfuscator("blacken", None).frames(red_video(1)))


# --- facts ----------------------------------------------------------------------------------------------------


def test_the_report_says_plainly_what_is_not_covered() -> None:
    class Faces(Red):
        covers = "faces"

    for detector, faces in ((Red(), False), (Faces(), True)):
        obfuscator = Obfuscator("blacken", detector)
        list(obfuscator.frames(red_video(2)))
        report = obfuscator.report()
        for text in (str(report), " ".join(report.to_json()["limits"])):
            assert "People it never saw are not covered" in text
            assert ("gait stay visible" in text) == faces


def test_a_report_is_of_the_last_video_and_grows_with_it() -> None:
    obfuscator = Obfuscator("blacken", Red())
    list(obfuscator.frames(red_video(5)))
    stream = obfuscator.frames(red_video(3))
    assert obfuscator.report().frames == 0
    next(stream)
    assert obfuscator.report().frames == 1
    assert obfuscator.report().to_json()["frames"] == 1


def test_frames_are_taken_one_at_a_time() -> None:
    taken = []

    def source() -> Iterator[np.ndarray]:
        for index, image in enumerate(red_video(5)):
            taken.append(index)
            yield image

    stream = Obfuscator("blacken", Red()).frames(source())
    next(stream)
    assert taken == [0]


def test_everything_that_changes_the_output_changes_the_hash() -> None:
    kinds = [
        Obfuscator("blacken", Red()),
        Obfuscator("weak-blur", Red()),
        Obfuscator(STRONG, Red()),
        Obfuscator("blacken", Red(level=90)),
        Obfuscator("blacken", None),
        Obfuscator("blacken", Red(), margin=0.1),
        Obfuscator("blacken", Red(), fail_closed=True),
        Obfuscator("blacken", Red(), tracker=Tracking()),
        Obfuscator("blacken", Red(), tracker=Tracking(max_age=None)),
    ]
    assert len({obfuscator.content_hash() for obfuscator in kinds}) == len(kinds)
    assert Obfuscator("strong-blur", Red()).content_hash() == Obfuscator(STRONG, Red()).content_hash()
    told = Obfuscator("blacken", Red(), tracker=Tracking()).settings()["tracker"]
    assert "excused" not in told  # it came later and changes nothing here
    for obfuscator in kinds:
        require_exportable(obfuscator)


def test_cached_boxes_cover_as_the_detector_itself(tmp_path) -> None:  # type: ignore[no-untyped-def]
    video = red_video(5)
    cache = BoxCache(tmp_path)
    cache.store("ab" * 32, Red(), search_frames(video, Red()))
    known = cache.load("ab" * 32, Red())
    assert known is not None
    a = list(Obfuscator("blacken", Red()).frames(video, boxes=known.frames))
    b = list(Obfuscator("blacken", Red()).frames(video))
    np.testing.assert_array_equal(np.stack(a), np.stack(b))
