"""Jobs on disk: one folder each, with a journal that is either whole or the one before.

    DATA/lock                  held by the one server that works here
    DATA/jobs/ID/job.json      the journal
    DATA/jobs/ID/upload        the raw video; gone as soon as the job has ended
    DATA/jobs/ID/video.mp4     the result, and with it report.json and anomaly.json
    DATA/trash/                what is being deleted

Names are random and made here. Folders are for the owner of the process only.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from videoveil import files
from videoveil.errors import UsageError

State = Literal["uploading", "queued", "running", "done", "failed"]
ENDED: tuple[State, ...] = ("done", "failed")
ID = re.compile(r"[0-9a-f]{32}")
JOURNAL, LOCK, UPLOAD = "job.json", "lock", "upload"
VIDEO, REPORT, ANOMALY = "video.mp4", "report.json", "anomaly.json"


@dataclass(frozen=True)
class Job:
    """What is known of a job. Times are seconds of the wall clock: they outlive the process."""

    id: str
    owner: str
    model: str
    state: State
    created: float
    bytes: int = 0
    audio: bool = False
    tries: int = 0
    began: float | None = None
    ended: float | None = None
    reason: str = ""
    """Why it failed, in words for its owner."""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @classmethod
    def from_json(cls, value: Any) -> Job:
        """Raises ValueError for anything but a journal."""
        names = {field.name for field in fields(cls)}
        if not isinstance(value, dict) or set(value) - names:
            raise ValueError("not a job")
        try:
            job = cls(**value)
        except TypeError as error:
            raise ValueError("fields are missing") from error
        if job.state not in get_args(State) or not ID.fullmatch(job.id):
            raise ValueError("not a state or an id")
        return job


class Store:
    """The folder of a service; one server at a time."""

    def __init__(self, root: Path):
        self.root = root
        try:
            for folder in (root, root / "jobs", root / "trash"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
            self._lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"--data {root}: cannot be written ({error.strerror}); give another folder"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise UsageError(f"{root}: another server works here; give each its own --data folder") from error

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def folder(self, job: str) -> Path:
        if not ID.fullmatch(job):
            raise ValueError("not a job id")
        return self.root / "jobs" / job

    def path(self, job: str, name: str) -> Path:
        return self.folder(job) / name

    def create(self, owner: str, model: str = "") -> Job:
        job = Job(secrets.token_hex(16), owner, model, "uploading", time.time())
        self.folder(job.id).mkdir(mode=0o700)
        self.save(job)
        return job

    def save(self, job: Job) -> None:
        files.write_json(self.path(job.id, JOURNAL), asdict(job))

    def load(self) -> Iterator[Job]:
        """Every job whose journal was begun; folders without one are uploads that never began, and go."""
        for folder in sorted((self.root / "jobs").iterdir()):
            try:
                yield self.read(folder.name)
            except (OSError, ValueError):
                self._discard(folder)

    def read(self, job: str) -> Job:
        """As its journal says."""
        return Job.from_json(json.loads(self.path(job, JOURNAL).read_text("utf-8")))

    def drop_upload(self, job: str) -> None:
        """Delete the raw video; it need not be there."""
        self.path(job, UPLOAD).unlink(missing_ok=True)

    def clean(self, job: str, keep: tuple[str, ...]) -> None:
        """Delete all files of a job but these: what an interrupted or failed worker left."""
        for path in self.folder(job).iterdir():
            if path.name in keep:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove(self, job: str) -> None:
        """Forget a job: out of sight in one step, then deleted."""
        self._discard(self.folder(job))

    def empty_trash(self) -> None:
        for folder in (self.root / "trash").iterdir():
            shutil.rmtree(folder, ignore_errors=True)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.root).free

    def _discard(self, folder: Path) -> None:
        away = self.root / "trash" / secrets.token_hex(16)
        try:
            folder.rename(away)
        except FileNotFoundError:
            return
        if away.is_dir():
            shutil.rmtree(away, ignore_errors=True)
        else:
            away.unlink(missing_ok=True)
