from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from videoveil.pipeline.report import FileResult, FolderReport, Spans


@given(st.lists(st.sampled_from(["", "a", "b"]), max_size=60))
def test_spans_cover_exactly_the_black_frames(reasons: list[str]) -> None:
    spans = Spans()
    for number, reason in enumerate(reasons):
        if reason:
            spans.add(number, reason, reason == "b")
    covered = {n: span.reason for span in spans.all() for n in range(span.first, span.stop)}
    assert covered == {number: reason for number, reason in enumerate(reasons) if reason}
    assert spans.frames == sum(map(bool, reasons))
    assert spans.failed == reasons.count("b")
    for one, two in zip(spans.all(), spans.all()[1:]):
        assert one.stop < two.first or one.reason != two.reason


def test_a_report_does_not_grow_with_the_length_of_a_video() -> None:
    spans = Spans(most=10)
    for number in range(0, 10_000, 2):
        spans.add(number, "x", True)
    assert len(spans.all()) == 10
    assert spans.frames == spans.failed == 5000
    assert spans.all()[-1].stop == 9999


def test_one_failed_file_makes_the_exit_code() -> None:
    good, bad = FileResult("a", "b", "done"), FileResult("c", "", "failed", "why")
    assert FolderReport("s", "d", (good,), 1.0, 1).exit_code == 0
    assert FolderReport("s", "d", (good, bad), 1.0, 1).exit_code == 3
    assert "c: why" in str(FolderReport("s", "d", (good, bad), 1.0, 1))
