from __future__ import annotations

from pathlib import Path

import pytest

from videoveil import files
from videoveil.anonymizers.keys import NoiseKey
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.pixel import NoiseFloor, pixel
from videoveil.errors import UsageError
from videoveil.pipeline.options import Options
from videoveil.pipeline.order import Order


def order(source: Path, destination: Path) -> Order:
    return Order.of(source, destination, open_anonymizer("blur"), Options())


def test_what_must_not_leave_the_process_is_refused_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="changes nothing"):
        Order.of(tmp_path / "absent", tmp_path / "a.mp4", open_anonymizer("identity"), Options())


def test_a_result_has_a_name_of_its_kind_which_is_not_the_inputs(tmp_path: Path) -> None:
    source = tmp_path / "a.mp4"
    source.touch()
    (tmp_path / "b.mp4").mkdir()
    order(source, tmp_path / "c.MP4").require_target((".mp4", ".m4v"), "video")
    for name, says in (
        ("c.avi", r"ends in \.mp4 or \.m4v"),
        ("a.mp4", "input itself"),
        ("b.mp4", "a folder"),
    ):
        with pytest.raises(UsageError, match=says):
            order(source, tmp_path / name).require_target((".mp4", ".m4v"), "video")


def test_checks_are_what_the_options_say(tmp_path: Path) -> None:
    blur = open_anonymizer("blur")
    options = Options(least_change=3.0, empty_frames="keep", expect=blur.content_hash())
    checks = Order.of(tmp_path / "a", tmp_path / "b", blur, options).checks()
    assert (checks.least_change, checks.empty, checks.hash) == (3.0, "keep", blur.content_hash())
    with pytest.raises(UsageError, match="expected"):
        Order.of(tmp_path / "a", tmp_path / "b", blur, Options(expect="0" * 16)).checks()


def test_a_video_is_named_by_its_content_where_noise_asks_for_it(tmp_path: Path) -> None:
    source = tmp_path / "a.mp4"
    source.write_bytes(b"film")
    noisy = pixel(NoiseFloor(0.1, per="video"), key=NoiseKey(b"1" * 32))
    assert Order.of(source, tmp_path / "b.mp4", noisy, Options()).content() == files.file_hash(source)
    assert order(source, tmp_path / "b.mp4").content() is None
