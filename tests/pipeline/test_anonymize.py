from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline import films
from tests.pipeline.faults import Faulty, _nursery
from videoveil import files
from videoveil.anonymizers.errors import NotExportable
from videoveil.anonymizers.keys import NoiseKey
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.obfuscate import Fixed, Layered, Obfuscator
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.pixel import Grey, LowResolution, NoiseFloor, Outline, UNet, pixel
from videoveil.errors import CorruptVideo, MissingFile, UsageError, WriteFailed
from videoveil.media.reader import open_video
from videoveil.pipeline.anonymize import anonymize_file, partial_name, sweep
from videoveil.pipeline.errors import FramesFailed, StageFailed, Stopped, WeightsChanged
from videoveil.pipeline.options import Options
from videoveil.pipeline.report import Progress


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("film")
    tags = {"title": "SECRET", "location": "+48.8577+002.2950/"}
    return films.coded(folder / "film.mp4", films.scenes(40), sound=True, tags=tags)


def frames_of(path: Path) -> tuple[list[Fraction], np.ndarray]:
    with open_video(path) as video:
        frames = list(video.frames())
    return [frame.time for frame in frames], np.stack([frame.image for frame in frames])


def veiled(image: np.ndarray, anonymizer: Any) -> np.ndarray:
    made = anonymizer(torch.from_numpy(image.copy()).permute(2, 0, 1)[None])
    return made[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize("name", ["black", "blur", "downsample:4", "network", "grey"])
def test_every_frame_comes_out_anonymized_at_its_time(name: str, film: Path, tmp_path: Path) -> None:
    made = {"network": pixel(UNet(width=4)), "grey": pixel(Grey(), LowResolution(28))}
    anonymizer = made[name] if name in made else open_anonymizer(name)
    report = anonymize_file(film, tmp_path / "out.mp4", anonymizer, Options(crf=4, engine="torch"))
    times, raw = frames_of(film)
    found_times, found = frames_of(tmp_path / "out.mp4")
    assert found_times == times
    assert report.frames == len(times) == 40
    assert report.failed_frames == report.black_frames == 0
    for before, after in zip(raw[::7], found[::7]):
        assert np.abs(veiled(before, anonymizer).astype(int) - after).mean() < 6
    assert report.anonymizer == anonymizer.content_hash()
    assert set(report.stage_seconds) == {"decode", "anonymize", "check", "encode"}
    assert report.bottleneck in report.stage_seconds
    assert json.loads(json.dumps(report.to_json()))["frames"] == 40


def test_the_same_input_gives_the_same_bytes_whatever_the_batch(film: Path, tmp_path: Path) -> None:
    for batch, queue in ((1, 1), (7, 2), (16, 64)):
        options = Options(batch=batch, queue=queue)
        anonymize_file(film, tmp_path / f"{batch}.mp4", open_anonymizer("blur"), options)
    assert len({files.file_hash(path) for path in tmp_path.glob("*.mp4")}) == 1


def test_nothing_but_pictures_comes_out_unless_asked_for(film: Path, tmp_path: Path) -> None:
    anonymize_file(film, tmp_path / "silent.mp4", open_anonymizer("blur"))
    report = anonymize_file(film, tmp_path / "sound.mp4", open_anonymizer("blur"), Options(audio=True))
    assert report.audio
    for name, kinds in (("silent", ["video"]), ("sound", ["video", "audio"])):
        with av.open(str(tmp_path / f"{name}.mp4")) as made:
            assert [stream.type for stream in made.streams] == kinds
        assert b"SECRET" not in (tmp_path / f"{name}.mp4").read_bytes()
        assert b"+48.8577" not in (tmp_path / f"{name}.mp4").read_bytes()


def test_sound_that_is_not_there_is_told(tmp_path: Path) -> None:
    silent = films.coded(tmp_path / "silent.mp4", films.scenes(5))
    report = anonymize_file(silent, tmp_path / "out.mp4", open_anonymizer("blur"), Options(audio=True))
    assert not report.audio
    assert "no sound" in report.notes[0]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 3000), min_size=2, max_size=12),
    st.integers(0, 5000),
    st.sampled_from([Fraction(1, 1000), Fraction(1, 90000), Fraction(1001, 30000), Fraction(1, 25)]),
)
def test_times_are_kept_exactly_however_uneven(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], start: int, time_base: Fraction
) -> None:
    folder = tmp_path_factory.mktemp("times")
    times = [start + int(t) for t in np.cumsum(steps)]
    films.coded(
        folder / "in.mkv" if time_base == Fraction(1, 1000) else folder / "in.mp4",
        films.scenes(len(times), 32, 32),
        container="matroska" if time_base == Fraction(1, 1000) else "mp4",
        times=times,
        time_base=time_base,
    )
    source = next(folder.glob("in.*"))
    anonymize_file(source, folder / "out.mp4", open_anonymizer("black"))
    assert frames_of(folder / "out.mp4")[0] == frames_of(source)[0]
    assert len(frames_of(source)[0]) == len(times)


def test_another_size_keeps_the_shape_on_the_screen(film: Path, tmp_path: Path) -> None:
    anonymize_file(film, tmp_path / "out.mp4", open_anonymizer("blur"), Options(size=(40, 40)))
    with open_video(tmp_path / "out.mp4") as video:
        info = video.info
    assert (info.width, info.height) == (40, 40)
    assert info.sample_aspect * info.width / info.height == Fraction(96, 64)


def test_people_are_covered_as_one_stream_and_the_report_tells(film: Path, tmp_path: Path) -> None:
    obfuscator = Obfuscator("blacken", Fixed(np.array([[20, 4, 70, 60, 1]], np.float32)))
    report = anonymize_file(film, tmp_path / "out.mp4", obfuscator, Options(crf=4))
    assert report.detector is not None
    assert report.detector["boxes"] == report.detector["frames"] == 40
    _, found = frames_of(tmp_path / "out.mp4")
    assert found[:, 10:55, 25:65].mean() < 8
    assert found[:, :, 76:].mean() > 20


def test_two_layers_cover_who_is_found_draw_the_rest_and_tell_of_both(film: Path, tmp_path: Path) -> None:
    def made(boxes: np.ndarray) -> Layered:
        return Layered(Obfuscator("blacken", Fixed(boxes)), open_anonymizer("veil-pixel"))

    box = np.array([[20, 4, 70, 60, 1]], np.float32)
    report = anonymize_file(film, tmp_path / "out.mp4", made(box), Options(crf=4))
    assert report.detector is not None
    assert report.detector["boxes"] == report.detector["frames"] == 40
    assert report.kind == "layered"
    assert report.engine["behind"] == "stream"
    _, both = frames_of(tmp_path / "out.mp4")
    anonymize_file(film, tmp_path / "drawn.mp4", open_anonymizer("veil-pixel"), Options(crf=4))
    _, drawn = frames_of(tmp_path / "drawn.mp4")
    inside, outside = np.s_[:, 12:52, 28:62], np.s_[:, :, 78:]
    assert both[inside].std() < 8 < drawn[inside].std()  # nothing is drawn of who was covered
    assert np.abs(both[outside].astype(int) - drawn[outside]).mean() < 2
    nobody = anonymize_file(film, tmp_path / "nobody.mp4", made(box[:0]), Options(crf=4))
    assert nobody.black_frames == 0  # the second layer needs nobody found
    assert np.abs(frames_of(tmp_path / "nobody.mp4")[1].astype(int) - drawn).mean() < 2


def test_frames_in_which_nobody_is_found_are_black_and_listed(film: Path, tmp_path: Path) -> None:
    class Sometimes(Fixed):
        seen = 0

        def boxes(self, frame: np.ndarray) -> np.ndarray:
            self.seen += 1
            found = super().boxes(frame)
            return found if 10 < self.seen <= 30 else found[:0]

    for empty, black in (("black", 20), ("keep", 0)):
        detector = Sometimes(np.array([[20, 4, 70, 60, 1]], np.float32))
        options = Options(empty_frames=empty)  # type: ignore[arg-type]
        report = anonymize_file(film, tmp_path / f"{empty}.mp4", Obfuscator("blacken", detector), options)
        assert report.black_frames == black
        assert report.failed_frames == 0
    levels = frames_of(tmp_path / "black.mp4")[1].mean((1, 2, 3))
    assert (levels[:9] < 3).all()
    assert (levels[12:28] > 5).all()


def test_a_drawing_is_the_same_whatever_the_number_of_cores(film: Path, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    reports = []
    try:
        for cores in (1, 3):
            torch.set_num_threads(cores)
            options = Options(batch=2, device="cpu")
            drawing = pixel(Grey(), Outline(size=24))
            reports.append(anonymize_file(film, tmp_path / f"{cores}.mp4", drawing, options))
    finally:
        torch.set_num_threads(before)
    assert [report.engine["hands"] for report in reports] == [1, 3]
    assert (tmp_path / "1.mp4").read_bytes() == (tmp_path / "3.mp4").read_bytes()


def test_an_engine_is_chosen_and_recorded(film: Path, tmp_path: Path) -> None:
    report = anonymize_file(film, tmp_path / "out.mp4", pixel(UNet(width=4)))
    assert report.engine["name"] == "torch"
    assert "too few" in report.engine["why"]


def test_a_scale_at_which_nothing_was_measured_is_told(film: Path, tmp_path: Path) -> None:
    cases = ((24, 0, True), (24, 36, False), (24, None, False), (48, 0, False), (0, None, False))
    for trained, inner, told in cases:
        options = Options(engine="torch", inner=inner)
        report = anonymize_file(film, tmp_path / "out.mp4", pixel(UNet(width=4), size=trained), options)
        assert any("--inner 36" in note for note in report.notes) == told
        assert bool(report.notes) == told


def test_a_file_is_looked_at_in_the_size_of_training_by_default_and_the_report_says_so(
    film: Path, tmp_path: Path
) -> None:
    network = pixel(UNet(width=4), size=24)
    reports = {}
    for name, inner in (("unset", None), ("named", 36), ("all", 0)):
        options = Options(engine="torch", inner=inner)
        reports[name] = anonymize_file(film, tmp_path / f"{name}.mp4", network, options)
    assert [reports[name].engine["pictures"] for name in reports] == [[24, 36], [24, 36], [64, 96]]
    assert "looked at pictures of 36×24 (the size it was trained at)" in str(reports["unset"])
    assert "looked at pictures of 36×24 (asked for)" in str(reports["named"])
    assert "looked at" not in str(reports["all"]).replace(" ".join(reports["all"].notes), "")
    made = {name: (tmp_path / f"{name}.mp4").read_bytes() for name in reports}
    assert made["unset"] == made["named"] != made["all"]


def test_progress_tells_frames_speed_and_what_is_left(film: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    anonymize_file(film, tmp_path / "out.mp4", open_anonymizer("blur"), progress=seen.append)
    assert seen[-1].frames == seen[-1].total == 40
    assert seen[-1].remaining == 0
    assert all(one.fps > 0 for one in seen)


def test_noise_needs_a_key_and_is_the_same_again_with_it(film: Path, tmp_path: Path) -> None:
    noisy = pixel(LowResolution(16), NoiseFloor(0.1, per="video"))
    with pytest.raises(NotExportable, match="key"):
        anonymize_file(film, tmp_path / "out.mp4", noisy)
    noisy.key = NoiseKey(b"1" * 32)
    for name in ("one", "two"):
        anonymize_file(film, tmp_path / f"{name}.mp4", noisy)
    assert files.file_hash(tmp_path / "one.mp4") == files.file_hash(tmp_path / "two.mp4")


# --- what fails ---------------------------------------------------------------------------------------------


def test_failed_frames_leave_nothing_and_the_report_names_them(film: Path, tmp_path: Path) -> None:
    with pytest.raises(FramesFailed, match="frame 12: came out as it went in") as caught:
        anonymize_file(film, tmp_path / "out.mp4", Faulty("raw frame"), Options(batch=5))
    assert list(tmp_path.iterdir()) == []
    assert caught.value.report is not None
    assert caught.value.report.destination == ""
    assert caught.value.report.failed_frames == 1


def test_only_the_frames_that_failed_are_black_in_a_partial_result(film: Path, tmp_path: Path) -> None:
    class Falls(Classical):
        """On one picture, by itself or in a batch."""

        kind = "falls"

        def forward(self, x: torch.Tensor, *, content: Any = None) -> torch.Tensor:
            if any(int(one.sum()) in bad for one in x):
                raise RuntimeError("fell")
            return open_anonymizer("blur")(x)

        def settings(self) -> Mapping[str, Any]:
            return {}

    _, raw = frames_of(film)
    bad = {int(raw[number].astype(np.int64).sum()) for number in (3, 4, 21)}
    with pytest.raises(FramesFailed, match="partial") as caught:
        anonymize_file(film, tmp_path / "out.mp4", Falls(), Options(keep_partial=True, batch=8))
    report = caught.value.report
    assert report is not None
    assert [(span.first, span.stop) for span in report.black] == [(3, 5), (21, 22)]
    assert "RuntimeError" in report.black[0].reason
    times, found = frames_of(tmp_path / "out.partial.mp4")
    assert times == frames_of(film)[0]
    assert set(np.flatnonzero(found.mean((1, 2, 3)) < 3)) == {3, 4, 21}
    assert not (tmp_path / "out.mp4").exists()


def test_a_good_result_has_its_own_name_though_a_partial_one_was_allowed(film: Path, tmp_path: Path) -> None:
    report = anonymize_file(film, tmp_path / "out.mp4", open_anonymizer("blur"), Options(keep_partial=True))
    assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]
    assert report.destination == str(tmp_path / "out.mp4")
    assert partial_name(Path("a/b.mp4")) == Path("a/b.partial.mp4")


def test_an_earlier_result_stays_when_the_next_fails(film: Path, tmp_path: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(b"earlier")
    with pytest.raises(FramesFailed):
        anonymize_file(film, tmp_path / "out.mp4", Faulty("exception"))
    assert (tmp_path / "out.mp4").read_bytes() == b"earlier"


def test_weights_that_change_on_the_way_spoil_everything(film: Path, tmp_path: Path) -> None:
    for keep in (False, True):
        options = Options(keep_partial=keep)
        with pytest.raises(WeightsChanged):
            anonymize_file(film, tmp_path / "out.mp4", Faulty("changed weights"), options)
    assert list(tmp_path.iterdir()) == []


def test_a_stop_leaves_nothing(film: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    def tell(progress: Progress) -> None:
        stop.set()

    with pytest.raises(Stopped, match="stopped after"):
        anonymize_file(
            film, tmp_path / "out.mp4", open_anonymizer("blur"), Options(batch=1), progress=tell, stop=stop
        )
    assert list(tmp_path.iterdir()) == []


def test_a_bug_in_a_callback_leaves_nothing_and_shows_no_values(film: Path, tmp_path: Path) -> None:
    def tell(progress: Progress) -> None:
        raise ValueError("values: 12 13 14 15")

    with pytest.raises(StageFailed, match="ValueError in tell") as caught:
        anonymize_file(film, tmp_path / "out.mp4", open_anonymizer("blur"), progress=tell)
    assert "12 13" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert list(tmp_path.iterdir()) == []


def test_no_threads_are_left_after_a_failure(film: Path, tmp_path: Path) -> None:
    for flaw in ("exception", "changed weights", "raw frame"):
        with pytest.raises((FramesFailed, WeightsChanged)):
            anonymize_file(film, tmp_path / "out.mp4", Faulty(flaw))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("veil-")]


def test_a_broken_input_is_refused_and_leaves_nothing(film: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    broken = tmp_path / "in" / "broken.mp4"
    data = film.read_bytes()
    broken.write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptVideo):
        anonymize_file(broken, tmp_path / "out" / "out.mp4", open_anonymizer("blur"))
    with pytest.raises(MissingFile):
        anonymize_file(tmp_path / "none.mp4", tmp_path / "out" / "out.mp4", open_anonymizer("blur"))
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["out.avi", "out", "folder.mp4"])
def test_names_that_no_result_can_have_are_refused(name: str, film: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(UsageError):
        anonymize_file(film, tmp_path / name, open_anonymizer("blur"))


def test_the_input_is_never_written_over(film: Path, tmp_path: Path) -> None:
    copy = tmp_path / "film.mp4"
    copy.write_bytes(film.read_bytes())
    (tmp_path / "link.mp4").symlink_to(copy)
    for name in ("film.mp4", "link.mp4"):
        with pytest.raises(UsageError, match="input itself"):
            anonymize_file(copy, tmp_path / name, open_anonymizer("blur"))
    assert copy.read_bytes() == film.read_bytes()


def test_a_place_that_cannot_be_written_is_told(film: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteFailed):
        anonymize_file(film, tmp_path / "file" / "out.mp4", open_anonymizer("blur"))


def test_leftovers_of_the_dead_are_swept_up_and_others_stay(tmp_path: Path) -> None:
    with files.atomic_path(tmp_path / "mine.mp4") as mine:
        mine.write_bytes(b"x")
        machine = mine.name.removeprefix(files.TEMPORARY).split("-")[0]
        dead = tmp_path / f"{files.TEMPORARY}{machine}-{2**22 + 1}-00.mp4"  # above the largest process number
        dead.touch()
        assert sweep(tmp_path) == [dead]
        assert mine.exists()
    assert sweep(tmp_path / "absent") == []


# --- memory -------------------------------------------------------------------------------------------------


def _peak(source: str, destination: str, answer: Any) -> None:
    anonymize_file(source, destination, open_anonymizer("black"), Options(preset="ultrafast"))
    status = Path("/proc/self/status").read_text()
    answer.put(int(status.split("VmHWM:")[1].split()[0]) * 1024)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the peak memory from /proc")  # noqa: PTH110
def test_memory_does_not_grow_with_the_length_of_a_video(tmp_path: Path) -> None:
    scenes = films.scenes(8)
    peaks = []
    for count in (60, 6000):
        source = films.coded(tmp_path / f"{count}.mp4", [scenes[i % 8] for i in range(count)], crf=40)
        answer = _nursery().Queue()
        process = _nursery().Process(target=_peak, args=(str(source), str(tmp_path / "out.mp4"), answer))
        process.start()
        peaks.append(answer.get(timeout=600))
        process.join()
        with open_video(tmp_path / "out.mp4") as video:
            assert video.info.frames == count
    whole = 6000 * 96 * 64 * 3  # what holding all pictures would take: a tenth of the limit must not hide it
    assert whole > 0.2 * peaks[0]
    assert peaks[1] <= 1.1 * peaks[0]
