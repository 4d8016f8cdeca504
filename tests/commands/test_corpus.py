"""`veil corpus`: what it prints and its exit codes; workers, kills and bytes are tested in `tests/pipeline`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.run import inside
from tests.pipeline.films import coded, scenes


def test_an_archive_is_done_and_a_bad_video_is_named_with_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    (archive / "door").mkdir(parents=True)
    coded(archive / "door" / "a.mp4", scenes(6))
    (archive / "b.mp4").write_bytes(b"no video")
    said = inside(capsys, "corpus", archive, out, "--with", "downsample:4", code=3)
    assert "1 of 2 videos done, 6 frames in " in said
    assert "failed, b.mp4: planning: " in said
    assert (out / "door" / "a.mp4").is_file()
    assert not (out / "b.mp4").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--with", "identity"], "changes nothing"),
        (["--with", "blur", "--engine", "steam"], "must be 'local' or 'ray'"),
        (["--with", "blur", "--workers", "0"], "workers=0"),
        (["--with", "blur", "--chunk", "0"], "chunk=0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_code_2(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coded(tmp_path / "a.mp4", scenes(2))
    assert says in inside(capsys, "corpus", tmp_path, tmp_path / "out", *words, code=2)
    assert not (tmp_path / "out").exists()
