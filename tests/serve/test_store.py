from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.errors import UsageError
from videoveil.serve.store import JOURNAL, UPLOAD, Job, Store


def test_a_job_has_a_random_name_and_a_folder_of_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    one, other = store.create("anna"), store.create("anna")
    assert one.id != other.id
    assert len(one.id) == 32
    for folder in (store.root, store.root / "jobs", store.folder(one.id)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(job.id for job in store.load()) == sorted([one.id, other.id])


def test_the_journal_is_what_was_written_last(tmp_path: Path) -> None:
    store = Store(tmp_path)
    job = replace(store.create("anna"), state="failed", reason="“why”", tries=2)
    store.save(job)
    assert list(store.load()) == [job]


@pytest.mark.parametrize("name", ["../../etc", "", "a" * 31, "A" * 32, "0" * 31 + "/", "0" * 32 + "\n"])
def test_nothing_but_an_id_becomes_a_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a job id"):
        Store(tmp_path).folder(name)


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    first = Store(tmp_path)
    with pytest.raises(UsageError, match="another server"):
        Store(tmp_path)
    first.close()
    Store(tmp_path).close()


@pytest.mark.parametrize("journal", [None, b"", b"{", b"[]", b'{"id": 1}', b'{"x": 1}', b"\xff\xfe"])
def test_folders_without_a_journal_are_deleted(journal: bytes | None, tmp_path: Path) -> None:
    store = Store(tmp_path)
    job = store.create("anna")
    (store.folder(job.id) / UPLOAD).write_bytes(b"raw")
    path = store.folder(job.id) / JOURNAL
    path.unlink()
    if journal is not None:
        path.write_bytes(journal)
    assert list(store.load()) == []
    assert not store.folder(job.id).exists()
    assert not list((tmp_path / "trash").iterdir())


def test_a_deleted_job_is_gone_and_deleting_twice_is_no_error(tmp_path: Path) -> None:
    store = Store(tmp_path)
    job = store.create("anna")
    (store.folder(job.id) / UPLOAD).write_bytes(b"raw")
    store.remove(job.id)
    store.remove(job.id)
    assert not any(path.is_file() and path.name != "lock" for path in tmp_path.rglob("*"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_no_json_but_a_journal_is_read_as_one(value: object) -> None:
    with pytest.raises(ValueError):
        Job.from_json(json.loads(json.dumps(value)))


def test_a_folder_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        Store(tmp_path / "file" / "data")
