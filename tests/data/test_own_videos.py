"""Every video below a folder, without labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.trees import touch
from videoveil.data.own_videos import load
from videoveil.errors import AnnotationError


def test_all_videos_are_items_whatever_their_folders(tmp_path: Path) -> None:
    found = load(touch(tmp_path, "b.mp4", "b.avi", "deep/er/a.MKV", "notes.txt", ".veil-tmp-x-1-2.mp4"))
    assert [(i.id, i.path) for i in found] == [
        (name, tmp_path / name) for name in ("b.avi", "b.mp4", "deep/er/a.MKV")
    ]
    assert found.counts() == {"unused": 3}
    assert all(i.action is None for i in found)


def test_no_videos_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="no videos below it"):
        load(touch(tmp_path, "notes.txt"))
