"""`veil data`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.run import inside


def test_verify_exits_with_1_when_something_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "SH_Train.txt").write_text("01_002\nnonsense\n")
    (tmp_path / "SH_Test.txt").write_text("01_0014\n")
    out = inside(capsys, "data", "verify", "shanghaitech", tmp_path, "--annotations-only", code=1)
    assert "SH_Train.txt:2" in out
    assert "01_0014.npy" in out
