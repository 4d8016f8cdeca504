"""Every sampling rule against a slow, obvious twin, and what all rules promise."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.errors import UsageError
from videoveil.media import sampling
from videoveil.media.sampling import (
    Clip,
    PairRule,
    cached_equidistant,
    cached_equidistant_released,
    equidistant,
    equidistant_spact,
    lltc_clips,
    mirrored_clip,
    non_overlapping,
    non_overlapping_ted_spad,
    padded_clip,
    parse_pair,
    parse_sampler,
    random_clip,
    random_clip_spact,
    random_clip_ted_spad,
    sampler_names,
    static_pair,
    static_pool,
    static_positions,
    triplet,
    windows,
)

totals = st.integers(1, 400)
lengths = st.integers(1, 32)
strides = st.integers(1, 4)
seeds = st.integers(0, 2**32 - 1)


def dice(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- twins: the papers' words, one step at a time ------------------------------------------------------------


def decode_then_mirror(start: int, total: int, frames: int, stride: int) -> list[int] | None:
    """Walk through the video frame by frame as a loader does, keep what is wanted, then complete or drop."""
    wanted = [start + stride * k for k in range(frames)]
    if wanted[-1] >= total:
        wanted[-1] = total - 1
    got = [number for number in range(total) if number in wanted]
    if len(got) == frames:
        return got
    tail = list(reversed(got[:-1]))
    while len(got) < frames and tail:
        got.append(tail.pop(0))
    return got if len(got) == frames else None


def consecutive(total: int, frames: int) -> list[list[int]]:
    """SPLAVU: chop the list of frames, drop a short rest, pad only a video that is one short rest."""
    numbers = list(range(total))
    chunks = [numbers[i : i + frames] for i in range(0, total, frames)]
    if len(chunks) == 1:
        return [chunks[0] + [total - 1] * (frames - len(chunks[0]))]
    return [chunk for chunk in chunks if len(chunk) == frames]


def extraction(total: int, frames: int, stride: int) -> list[list[int]]:
    """TeD-SPAD: chop with the stride, pad the last clip with the last frame of the video."""
    if total < frames * stride:
        stride = 1
    clips = []
    position = 0
    while position < total:
        clip = []
        for k in range(frames):
            number = position + k * stride
            clip.append(number if number < total else total - 1)
        clips.append(clip)
        position += frames * stride
    return clips


def as_lists(clips) -> list[list[int]]:
    return [list(clip.indices) for clip in clips]


# --- ends of videos ------------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(1, 80), lengths, strides)
def test_the_mirror_rule_is_what_a_loader_that_walks_the_frames_does(start, total, frames, stride):
    clip = mirrored_clip(start, total, frames, stride)
    assert (None if clip is None else list(clip.indices)) == decode_then_mirror(start, total, frames, stride)


def test_nine_frames_are_mirrored_to_sixteen_and_eight_are_dropped():
    # The ninth wanted frame exists, the sixteenth is moved onto the same last frame.
    assert mirrored_clip(0, 9, 16).indices == (0, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3, 2, 1)
    assert mirrored_clip(0, 15, 16).indices == (*range(15), 13)
    assert mirrored_clip(0, 8, 16) is None


def test_with_stride_two_the_last_index_moves_onto_the_last_frame():
    assert mirrored_clip(0, 30, 16, 2).indices == (*range(0, 30, 2), 29)
    assert mirrored_clip(0, 31, 16, 2).indices == tuple(range(0, 31, 2))
    assert mirrored_clip(0, 20, 16, 2).indices == (*range(0, 20, 2), 19, 18, 16, 14, 12, 10)


@given(st.integers(0, 60), totals, lengths, strides)
def test_padding_repeats_the_last_frame_of_the_video(start, total, frames, stride):
    indices = padded_clip(start, total, frames, stride).indices
    numbers = list(range(total)) + [total - 1] * (start + frames * stride)
    assert list(indices) == [numbers[start + stride * k] for k in range(frames)]


def test_a_clip_knows_its_start_and_how_far_to_decode():
    clip = mirrored_clip(3, 13, 16)
    assert clip is not None
    assert (clip.start, clip.stop, len(clip)) == (3, 13, 16)


# --- random clips --------------------------------------------------------------------------------------------


@given(totals, lengths, strides, seeds)
def test_random_clips_lie_in_the_video_and_follow_their_generator(total, frames, stride, seed):
    for rule in (random_clip, random_clip_spact, random_clip_ted_spad):
        clip = rule(total, frames, stride, dice(seed))
        assert clip == rule(total, frames, stride, dice(seed))
        if clip is None:
            assert rule is not random_clip
            continue
        assert len(clip) == frames
        assert all(0 <= i < total for i in clip.indices)


@given(st.integers(33, 400), seeds)
def test_the_spact_start_is_below_left_and_the_clip_has_stride_two(total, seed):
    clip = random_clip_spact(total, 16, 2, dice(seed))
    assert clip is not None
    assert clip.start < total - 32
    assert clip.indices == tuple(range(clip.start, clip.start + 32, 2))


def test_random_starts_cover_exactly_their_range():
    drawn = {
        rule: {rule(40, 16, 2, generator).start for _ in range(400)}
        for rule, generator in (
            (random_clip, dice()),
            (random_clip_spact, dice(1)),
            (random_clip_ted_spad, dice(2)),
        )
    }
    assert drawn[random_clip] == set(range(10))  # 0 … 40 − 31
    assert drawn[random_clip_spact] == set(range(8))  # 0 … left − 1, left = 8
    assert drawn[random_clip_ted_spad] == set(range(8))


def test_random_starts_are_uniform():
    generator = dice(5)
    starts = Counter(random_clip(25, 16, 1, generator).start for _ in range(10_000))
    # 10 starts, 1000 each; 6 standard deviations of the binomial are 180.
    assert set(starts) == set(range(10))
    assert all(abs(count - 1000) < 180 for count in starts.values())


@pytest.mark.parametrize(("total", "stride"), [(33, 2), (32, 1), (20, 1), (16, 1)])
def test_ted_spad_halves_the_stride_when_nothing_is_left(total, stride):
    clip = random_clip_ted_spad(total, 16, 2, dice())
    assert clip is not None
    assert {b - a for a, b in itertools.pairwise(clip.indices)} == {stride}


@given(totals, lengths, strides, seeds)
def test_ted_spad_is_spact_with_the_first_half_of_the_stride_that_leaves_room(total, frames, stride, seed):
    halves = [stride]
    while halves[-1] > 1:
        halves.append(halves[-1] // 2)
    roomy = [half for half in halves if total > frames * half]
    expected = random_clip_spact(total, frames, roomy[0] if roomy else 1, dice(seed))
    assert random_clip_ted_spad(total, frames, stride, dice(seed)) == expected


@given(totals, lengths, strides, seeds)
def test_which_videos_are_dropped_is_up_to_their_length_alone(total, frames, stride, seed):
    shortest = {random_clip_spact: stride, random_clip_ted_spad: 1}
    for rule, least in shortest.items():
        room = total > frames * least
        expected = not room and decode_then_mirror(0, total, frames, least) is None
        assert (rule(total, frames, stride, dice(seed)) is None) == expected


def test_ted_spad_drops_what_is_too_short_even_with_stride_one():
    assert random_clip_ted_spad(8, 16, 2, dice()) is None
    assert random_clip_spact(8, 16, 1, dice()) is None


# --- equidistant ---------------------------------------------------------------------------------------------


@given(totals, st.integers(2, 12), lengths)
def test_equidistant_starts_are_the_rounded_even_spacing(total, count, frames):
    starts = [clip.start for clip in equidistant(total, count, frames)]
    room = max(0, total - frames)
    assert starts == [int(np.round(k * room / (count - 1))) for k in range(count)]


@given(totals, st.integers(1, 12), lengths, strides)
def test_equidistant_clips_are_ordered_symmetric_and_reach_both_ends(total, count, frames, stride):
    clips = equidistant(total, count, frames, stride)
    starts = [clip.start for clip in clips]
    room = max(0, total - (frames - 1) * stride - 1)
    assert len(clips) == count
    assert starts == sorted(starts)
    assert all(abs(a + b - room) <= 1 for a, b in zip(starts, reversed(starts)))
    if count > 1:
        assert starts[0] == 0
        assert clips[-1].stop == total or total < (frames - 1) * stride + 1
    assert all(list(clip.indices) == sorted(clip.indices) and clip.stop <= total for clip in clips)


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_the_spact_test_rule_is_the_published_linspace(count):
    for total in range(1, 400):
        expected = []
        for m in range(count):
            start = int(np.linspace(0, total - 32 - 10, count)[m])
            if start < 0:
                start = m
            expected.append(decode_then_mirror(start, total, 16, 2))
        assert as_lists(equidistant_spact(total, count, 16, 2)) == [
            clip for clip in expected if clip is not None
        ]


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_cached_clips_are_chosen_by_linspace_rounded_or_cut(count):
    for cached in range(1, 300):
        line = np.linspace(0, cached - 1, count)
        assert cached_equidistant(cached, count) == tuple(int(i) for i in np.round(line))
        assert cached_equidistant_released(cached, count) == tuple(int(i) for i in line)


# --- the whole video -----------------------------------------------------------------------------------------


@given(totals, lengths)
def test_all_non_overlapping_clips_are_the_chopped_video(total, frames):
    assert as_lists(non_overlapping(total, frames)) == consecutive(total, frames)


@given(totals, lengths, strides)
def test_ted_spad_extraction_is_the_chopped_video_with_a_padded_end(total, frames, stride):
    assert as_lists(non_overlapping_ted_spad(total, frames, stride)) == extraction(total, frames, stride)


@given(totals, lengths)
def test_all_non_overlapping_covers_every_frame_but_a_short_rest_exactly_once(total, frames):
    clips = non_overlapping(total, frames)
    if total >= frames:
        seen = [i for clip in clips for i in clip.indices]
        assert seen == list(range(total - total % frames))
    padded = non_overlapping_ted_spad(total, frames, stride=1)
    assert sorted({i for clip in padded for i in clip.indices}) == list(range(total))


@given(totals, lengths, st.integers(1, 20))
def test_window_i_covers_the_frames_from_i_steps_on_and_no_whole_window_is_missed(total, frames, step):
    clips = windows(total, frames, step)
    if total < frames:
        assert as_lists(clips) == [list(range(total)) + [total - 1] * (frames - total)]
        return
    every_start = [start for start in range(total) if start % step == 0 and start + frames <= total]
    assert as_lists(clips) == [list(range(start, start + frames)) for start in every_start]


def test_thumos_windows_are_sixteen_frames_every_four():
    clips = windows(100, 16, step=4)
    assert len(clips) == 22
    assert clips[3].indices == tuple(range(12, 28))


def test_a_day_of_video_costs_no_more_than_a_second_of_it():
    day = windows(24 * 3600 * 25, 16, step=4)
    assert sys.getsizeof(day) == sys.getsizeof(windows(25, 16, step=4))
    assert not hasattr(day, "__dict__")
    assert len(day) == 539_997
    assert day[-1].stop == 24 * 3600 * 25
    assert as_lists(day[10:12]) == [list(range(40, 56)), list(range(44, 60))]
    with pytest.raises(IndexError):
        day[len(day)]


# --- triplets and consecutive clips --------------------------------------------------------------------------


@given(st.integers(1, 200), st.integers(1, 16), strides, seeds)
def test_a_triplets_negative_is_another_time_of_the_same_video(total, frames, stride, seed):
    made = triplet(total, frames, stride, dice(seed))
    if made is None:
        assert total - frames < 2  # not even stride 1 has two starts
        return
    assert made.positive == made.anchor
    assert made.negative.start != made.anchor.start
    for clip in (made.anchor, made.negative):
        assert len(clip) == frames
        assert clip.stop <= total
        assert list(clip.indices) == sorted(clip.indices)


def test_triplet_starts_are_all_pairs_of_different_starts_alike():
    generator = dice(3)
    pairs = Counter()
    for _ in range(6000):
        made = triplet(20, 16, 1, generator)
        pairs[made.anchor.start, made.negative.start] += 1
    assert set(pairs) == set(itertools.permutations(range(4), 2))
    # 12 pairs, 500 each; 6 standard deviations are 129.
    assert all(abs(count - 500) < 129 for count in pairs.values())


@pytest.mark.parametrize("distance", [8, 32])
@given(total=st.integers(1, 200), seed=seeds)
def test_a_fixed_distance_lies_between_anchor_and_negative(distance, total, seed):
    made = triplet(total, 16, 2, dice(seed), distance)
    if total < 32 + distance:
        assert made is None
        return
    stride = 2 if total >= 64 + distance else 1
    assert made.anchor.indices[1] - made.anchor.indices[0] == stride
    assert made.negative.start - made.anchor.indices[-1] == distance
    assert made.anchor.start >= 0
    assert made.negative.stop <= total


@given(st.integers(1, 150), seeds)
def test_four_consecutive_clips_need_more_than_56_frames(total, seed):
    clips = lltc_clips(total, 16, dice(seed))
    assert (clips is None) == (total <= 56)
    if clips is None:
        return
    assert [clip.start - clips[0].start for clip in clips] == [0, 16, 32, 48]
    joined = [i for clip in clips for i in clip.indices]
    assert len(joined) == 64
    assert max(joined) < total
    if total >= 64:
        assert joined == list(range(joined[0], joined[0] + 64))


def test_four_consecutive_clips_start_anywhere_they_fit():
    generator = dice()
    assert {lltc_clips(68, 16, generator)[0].start for _ in range(200)} == set(range(5))


# --- frames of a clip ----------------------------------------------------------------------------------------


@given(st.integers(2, 32), st.data())
def test_frame_pairs_are_two_different_frames_in_order(frames, data):
    gap = data.draw(st.integers(1, frames - 1))
    generator = dice(data.draw(seeds))
    for text in ("random", f"gap:{gap}", "ends"):
        rule = parse_pair(text)
        first, second = rule(frames, generator)
        assert str(rule) == text
        assert 0 <= first < second < frames
        if text == "ends":
            assert (first, second) == (0, frames - 1)
        if text.startswith("gap"):
            assert second - first == gap


def test_random_pairs_are_uniform_over_all_pairs():
    generator = dice(9)
    rule = parse_pair("random")
    counts = Counter(rule(5, generator) for _ in range(5000))
    assert set(counts) == set(itertools.combinations(range(5), 2))
    # 10 pairs, 500 each; 6 standard deviations are 128.
    assert all(abs(count - 500) < 128 for count in counts.values())


def test_a_gap_pair_starts_anywhere_it_fits():
    generator = dice()
    assert {parse_pair("gap:4")(16, generator)[0] for _ in range(400)} == set(range(12))


def test_a_single_frame_pairs_with_itself():
    assert [parse_pair(text)(1, dice()) for text in ("random", "gap:4", "ends")] == [(0, 0)] * 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Random",
        "gap",
        "gap:",
        "gap:0",
        "gap:-4",
        "gap:+4",
        "gap:4.0",
        "gap:4_0",
        "gap: 4",
        "gap:4:4",
        "ends:1",
    ],
)
def test_a_bad_pair_rule_names_the_valid_ones(text):
    with pytest.raises(UsageError, match=r"random, gap:G with G ≥ 1, ends"):
        parse_pair(text)


def test_a_gap_longer_than_the_clip_is_refused():
    with pytest.raises(UsageError, match="gap:16: a clip of 16 frames has gaps of at most 15"):
        PairRule("gap", 16)(16, dice())


nearly_names = st.from_regex(r"(random|gap|ends|all|equidistant|windows)(:[-+0-9_ ]{0,4})?", fullmatch=True)


@given(st.one_of(st.text(max_size=12), nearly_names))
def test_any_text_is_understood_as_written_or_refused(text):
    for parse in (parse_pair, parse_sampler):
        try:
            understood = str(parse(text))
        except UsageError as error:
            understood = None
            message = str(error)
        if understood is None:
            assert repr(text) in message
        else:
            name, _, number = text.partition(":")
            assert understood == (f"{name}:{int(number)}" if number else name)


def test_a_random_pair_is_two_pictures_where_a_clip_has_two():
    rule, generator = parse_pair("random"), dice()
    for clip in (padded_clip(0, 3, 16), Clip((0, 1, 2, 1, 0))):  # padded and mirrored
        assert {rule.of(clip, generator) for _ in range(100)} == {(0, 1), (0, 2), (1, 2)}
    assert rule.of(padded_clip(0, 1, 16), generator) == (0, 0)


@pytest.mark.parametrize("text", ["random", "gap:4", "ends"])
def test_a_pair_of_a_clip_without_repeated_frames_is_drawn_by_its_positions(text: str):
    rule, clip = parse_pair(text), padded_clip(7, 200, 16, 2)
    one, two = dice(), dice()
    for _ in range(50):
        first, second = rule(len(clip), one)
        assert rule.of(clip, two) == (clip.indices[first], clip.indices[second])
    assert one.bit_generator.state == two.bit_generator.state


def test_the_two_static_frames_of_a_padded_clip_are_different_pictures():
    clip = padded_clip(0, 2, 16)
    generator = dice()
    assert {static_pair(clip, generator) for _ in range(50)} == {(0, 1)}
    assert static_pair(padded_clip(0, 1, 16), generator) == (0, 0)
    later = Clip((30, 32, 34))
    assert {static_pair(later, generator) for _ in range(100)} == {(30, 32), (30, 34), (32, 34)}


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (8,)), (2, (4, 12)), (4, (2, 6, 10, 14)), (8, tuple(range(1, 16, 2))), (16, tuple(range(16)))],
)
def test_static_positions_are_the_rounded_centres(count, expected):
    assert static_positions(16, count) == expected


@given(st.integers(1, 400), st.integers(1, 40))
def test_static_positions_are_rounded_spread_and_distinct_when_they_can_be(frames, count):
    positions = static_positions(frames, count)
    assert len(positions) == count
    assert list(positions) == sorted(positions)
    assert 0 <= positions[0] <= positions[-1] < frames
    if count <= frames:
        assert len(set(positions)) == count
        assert all(abs(p - (i + 0.5) * frames / count) <= 0.5 + 1e-9 for i, p in enumerate(positions))


def test_a_static_pool_spans_the_whole_video():
    assert static_pool(1000) == (50, 150, 250, 350, 450, 550, 650, 750, 850, 950)


# --- names ---------------------------------------------------------------------------------------------------

EXAMPLES = {name: name.replace(":K", ":5").replace(":STEP", ":4") for name in sampler_names()}


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
@settings(max_examples=40)
@given(total=totals, frames=lengths, stride=strides, seed=seeds)
def test_every_named_sampler_gives_whole_clips_inside_the_video(text, total, frames, stride, seed):
    sampler = parse_sampler(text, frames=frames, stride=stride)
    assert str(sampler) == text
    clips = list(sampler(total, dice(seed)))
    assert clips == list(sampler(total, dice(seed)))
    assert all(len(clip) == frames and min(clip.indices) >= 0 and clip.stop <= total for clip in clips)
    if text not in ("random-spact", "random-ted-spad", "equidistant-spact:5"):
        assert clips  # only SPAct's rule for short videos drops any
    if total >= 2 * frames * stride + 10:
        assert clips  # no rule drops a long video
        starts = [clip.start for clip in clips]
        assert starts == sorted(starts)


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_samplers_travel_to_worker_processes(text):
    sampler = parse_sampler(text, frames=8, stride=2)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler
    assert list(copy(200, dice(1))) == list(sampler(200, dice(1)))


def test_names_stand_for_the_functions():
    generators = dice(4), dice(4)
    assert parse_sampler("random", 16, 2)(90, generators[0])[0] == random_clip(90, 16, 2, generators[1])
    assert parse_sampler("random-spact", 16, 2)(90, generators[0])[0] == random_clip_spact(
        90, 16, 2, generators[1]
    )
    assert parse_sampler("random-ted-spad", 16, 2)(20, generators[0])[0] == random_clip_ted_spad(
        20, 16, 2, generators[1]
    )
    assert parse_sampler("equidistant:5")(90) == equidistant(90, 5, 16)
    assert parse_sampler("equidistant-spact:10", 16, 2)(90) == equidistant_spact(90, 10, 16, 2)
    assert parse_sampler("all")(90) == non_overlapping(90, 16)
    assert parse_sampler("all-ted-spad", 16, 2)(90) == non_overlapping_ted_spad(90, 16, 2)
    assert parse_sampler("windows:4")(90) == windows(90, 16, 4)
    assert list(parse_sampler("random-spact")(5, generators[0])) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "every",
        "all:3",
        "random:",
        "equidistant",
        "equidistant:",
        "equidistant:0",
        "windows:x",
        "windows:4:1",
    ],
)
def test_a_bad_sampler_name_lists_the_valid_ones(text):
    with pytest.raises(UsageError) as caught:
        parse_sampler(text)
    assert all(name in str(caught.value) for name in sampler_names())


def test_an_absurdly_long_number_is_refused_like_any_bad_name():
    with pytest.raises(UsageError, match="unknown sampler"):
        parse_sampler("equidistant:" + "9" * 5000)


def test_random_samplers_ask_for_a_generator_and_the_others_do_not():
    for text in EXAMPLES.values():
        sampler = parse_sampler(text)
        if sampler.random:
            with pytest.raises(UsageError, match="pass a numpy Generator"):
                sampler(100)
        else:
            assert list(sampler(100))


@pytest.mark.parametrize(("total", "frames", "stride"), [(0, 16, 1), (-3, 16, 1), (10, 0, 1), (10, 16, 0)])
def test_impossible_numbers_are_refused(total, frames, stride):
    with pytest.raises(UsageError, match="at least 1"):
        random_clip(total, frames, stride, dice())
    with pytest.raises(UsageError, match="at least 1"):
        non_overlapping_ted_spad(total, frames, stride)


def test_impossible_counts_are_refused():
    for call in (
        lambda: equidistant(10, 0, 16),
        lambda: equidistant_spact(10, 0, 16, 1),
        lambda: cached_equidistant(0),
        lambda: windows(10, 16, 0),
        lambda: static_positions(16, 0),
        lambda: triplet(100, 16, 1, dice(), distance=0),
    ):
        with pytest.raises(UsageError, match="at least 1"):
            call()


def test_sampling_does_not_load_torch():
    code = "import sys, videoveil.media.sampling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "torch" not in vars(sampling)
