"""`veil verify`: its exit codes; what it finds is tested in `tests/pipeline`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.run import inside
from tests.pipeline.films import blurred, coded, scenes

COUNT = 8


@pytest.mark.parametrize(
    ("made", "code", "verdict"), [("good", 0, "pass"), ("short", 1, "cannot tell"), ("raw", 2, "fail")]
)
def test_the_command_has_three_exit_codes_and_json(
    made: str, code: int, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = coded(tmp_path / "in.mp4", scenes(COUNT), crf=12)
    pictures = {"good": blurred(scenes(COUNT)), "short": blurred(scenes(COUNT))[:-1], "raw": scenes(COUNT)}
    out = coded(tmp_path / "out.mp4", pictures[made])
    told = json.loads(inside(capsys, "verify", out, "--against", source, "--json", code=code))
    assert told["verdict"] == verdict
    assert inside(capsys, "verify", out, "--against", source, code=code).endswith(f"out.mp4: {verdict}\n")
