"""A folder of videos and pictures through an anonymizer: the same tree on the other side.

    report = anonymize_folder("raw", "veiled", open_anonymizer("blur"))

Run again to go on: what is done is known by a small record of the input's content, the anonymizer and the options, kept
in DESTINATION/.veil. Several processes may work on one folder; each file is claimed by one of them. A bad file does not
stop the others. Files that are neither videos nor pictures are listed and stay where they are.
"""

from __future__ import annotations

import glob
import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.data.reading import VIDEO_SUFFIXES
from videoveil.errors import UsageError, VeilError
from videoveil.pipeline.anonymize import SUFFIXES, anonymize_file
from videoveil.pipeline.errors import Stopped, told
from videoveil.pipeline.options import DEFAULTS, Options
from videoveil.pipeline.order import Order
from videoveil.pipeline.pictures import SUFFIXES as PICTURES
from videoveil.pipeline.pictures import anonymize_picture
from videoveil.pipeline.records import Records, stamp, tidy
from videoveil.pipeline.report import FileResult, FolderProgress, FolderReport, Progress, Report

OWN = ".veil"  # in the destination: records and claims
RETRY = 0.2  # seconds until a file that another process has claimed is looked at again
Tell = Callable[[FolderProgress], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One file to be done."""

    path: Path
    place: str
    """Below the source folder."""
    target: Path
    picture: bool

    @property
    def id(self) -> str:
        """A short name that is safe in any file system."""
        return hashlib.sha256(self.place.encode()).hexdigest()[:32]


def anonymize_folder(
    source: str | Path,
    destination: str | Path,
    anonymizer: Any,
    options: Options = DEFAULTS,
    *,
    progress: Tell | None = None,
    stop: threading.Event | None = None,
) -> FolderReport:
    """Anonymize every video and picture below `source` (a folder, or a glob such as `raw/**/*.avi`).

    Failed files are in the report, whose `exit_code` is then not 0; nothing of them is in `destination`. Raises
    `Stopped` when `stop` is set; what is done by then stays.
    """
    order = Order.of(source, destination, anonymizer, options, stop)
    root, found = find_files(source, order.destination)
    jobs, others = plan(root, found, order.destination)
    if not jobs:
        raise UsageError(f"{source}: neither videos nor pictures (JPEG, PNG) below it")
    # every file must be made by the same anonymizer, so the one of the first is asked of all
    order = replace(order, source=root, options=replace(options, expect=_expected(anonymizer, options)))
    return _FolderRun(order, progress, len(jobs)).all(jobs, others)


# --- what there is ------------------------------------------------------------------------------------------


def find_files(source: str | Path, destination: Path) -> tuple[Path, list[Path]]:
    """The folder that places are told from, and all files in it (or that match a glob), sorted."""
    text = str(source)
    if Path(text).is_dir():
        root, found = Path(text), [path for path in Path(text).rglob("*") if path.is_file()]
    elif glob.has_magic(text):
        root = _fixed_part(text)
        found = [path for path in root.glob(str(Path(text).relative_to(root))) if path.is_file()]
    else:
        raise UsageError(f"{source}: no such folder, nor a pattern with * or ?")
    if destination.exists() and destination.resolve() == root.resolve():
        raise UsageError(f"{destination}: is the input folder itself; give the results another one")
    results = destination.resolve()
    kept = [
        path for path in found if OWN not in path.relative_to(root).parts and files.TEMPORARY not in path.name
    ]
    return root, sorted(path for path in kept if results not in path.resolve().parents)


def plan(root: Path, found: list[Path], destination: Path) -> tuple[list[Job], list[Path]]:
    """What is to be done, and the files that are left alone. Two inputs never get one name."""
    places = {path: path.relative_to(root) for path in found}
    wanted = {path: _target(place) for path, place in places.items()}
    names = Counter(target for target in wanted.values() if target is not None)
    jobs, others = [], []
    for path, place in places.items():
        target = wanted[path]
        if target is None:
            others.append(path)
            continue
        if names[target] > 1 and target != place:
            target = place.with_name(f"{place.name}{target.suffix}")
        picture = path.suffix.lower() in PICTURES
        jobs.append(Job(path, place.as_posix(), destination / target, picture))
    clashes = Counter(job.target for job in jobs)
    twice = [job.place for job in jobs if clashes[job.target] > 1]
    if twice:
        raise UsageError(f"{', '.join(twice)}: these would get one name; rename one of them")
    return jobs, others


def _target(place: Path) -> Path | None:
    """Where the result of a file goes, below the destination; None for what is neither video nor picture."""
    suffix = place.suffix.lower()
    if suffix in PICTURES or suffix in SUFFIXES:
        return place
    return place.with_suffix(".mp4") if suffix in VIDEO_SUFFIXES else None


def _fixed_part(pattern: str) -> Path:
    """The folder before the first part with a wildcard."""
    fixed: list[str] = []
    for part in Path(pattern).parts:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed) if fixed else Path()


# --- the run ------------------------------------------------------------------------------------------------


class _FolderRun:
    def __init__(self, order: Order, tell: Tell | None, total: int):
        from videoveil.pipeline.inner import trained_size

        self.order, self.root, self.destination = order, order.source, order.destination
        self.stop, self.tell, self.total = order.stop, tell, total
        self.records = Records(self.destination / OWN)
        self.results: list[FileResult] = []
        self.seconds: Counter[str] = Counter()
        self.frames = 0
        self.began = time.perf_counter()
        anonymizer, options = order.anonymizer, order.options
        key = getattr(anonymizer, "key", None) if getattr(anonymizer, "wants_noise", False) else None
        self.made_by = {
            "anonymizer": options.expect,
            "key": None if key is None else key.fingerprint(),
            "options": options.decisive(trained_size(anonymizer)),
        }

    def all(self, jobs: list[Job], others: list[Path]) -> FolderReport:
        tidy(self.destination)
        waiting = deque(jobs)
        missed = 0  # claims of others in a row: when all that is left is theirs, wait a little
        while waiting:
            self._heed()
            job = waiting.popleft()
            result = self._one(job)
            if result is None:
                waiting.append(job)
                missed += 1
                if missed >= len(waiting):
                    self.stop.wait(RETRY)
                continue
            missed = 0
            self.results.append(result)
            self._say(job.place, None)
        self.results += [FileResult(str(path.relative_to(self.root)), "", "other") for path in others]
        seconds = {name: round(value, 3) for name, value in self.seconds.items()}
        return FolderReport(
            source=str(self.root),
            destination=str(self.destination),
            files=tuple(sorted(self.results, key=lambda result: result.source)),
            seconds=round(time.perf_counter() - self.began, 3),
            frames=self.frames,
            stage_seconds=seconds,
            bottleneck=max(seconds, key=lambda name: seconds[name]) if seconds else "nothing to do",
        )

    def _heed(self) -> None:
        if self.stop.is_set():
            done = sum(result.state in ("done", "present") for result in self.results)
            raise Stopped(f"{self.root}: stopped; {done} of {self.total} files are done, run again to go on")

    def _one(self, job: Job) -> FileResult | None:
        """The result of one file; None while another process is at it."""
        try:
            with self.records.claim(job.id) as owned:
                return self._owned(job) if owned else None
        except Stopped:
            self.stop.set()
            self._heed()
            raise
        except (VeilError, OSError) as error:
            made = getattr(error, "report", None)
            return FileResult(
                job.place, "", "failed", _reason(error), None if made is None else made.to_json()
            )

    def _owned(self, job: Job) -> FileResult:
        before = stamp(job.path)
        known = self.records.get("done", job.id)
        if known is not None and self._still_true(known, job, before):
            return FileResult(job.place, str(job.target), "present")
        if known is None and job.target.exists() and not self._made(job):
            raise UsageError(
                f"{job.target}: exists and no record says what made it; remove it or choose another folder"
            )
        # of another anonymizer or another input: not what is asked for now
        job.target.unlink(missing_ok=True)
        self.records.drop("done", job.id)
        report = self._run(job)
        output = stamp(job.target)
        try:
            self.records.put("made", job.id, {"output": output})  # it is ours, should the rest not be reached
        except BaseException:
            job.target.unlink()
            raise
        if stamp(job.path) != before:
            job.target.unlink()
            raise UsageError(f"{job.path}: was changed while it was being read; run again")
        read = {"hash": files.file_hash(job.path), "stamp": before}
        self.records.put(
            "done", job.id, {"place": job.place, "input": read, "output": output, **self.made_by}
        )
        self.records.drop("made", job.id)
        return FileResult(job.place, str(job.target), "done", report=report.to_json())

    def _made(self, job: Job) -> bool:
        """Whether a run that did not reach its record left this very file."""
        made = self.records.get("made", job.id)
        return made is not None and job.target.is_file() and made.get("output") == stamp(job.target)

    def _still_true(self, known: dict[str, Any], job: Job, now: list[int]) -> bool:
        """Whether a record tells of this very input, this anonymizer, these options and the file that is there."""
        if any(known.get(name) != value for name, value in self.made_by.items()):
            return False
        if not job.target.is_file() or stamp(job.target) != known.get("output"):
            return False
        was = known.get("input", {})
        return was.get("stamp") == now or was.get("hash") == files.file_hash(job.path)

    def _run(self, job: Job) -> Report:
        what = (job.path, job.target, self.order.anonymizer, self.order.options)
        if job.picture:
            report = anonymize_picture(*what, workshop=self.order.workshop)
        else:
            report = anonymize_file(
                *what,
                progress=None if self.tell is None else lambda one: self._say(job.place, one),
                stop=self.stop,
                workshop=self.order.workshop,
            )
        self.frames += report.frames
        self.seconds.update(report.stage_seconds)
        return report

    def _say(self, place: str, one: Progress | None) -> None:
        if self.tell is not None:
            failed = sum(result.state == "failed" for result in self.results)
            self.tell(FolderProgress(len(self.results), self.total, failed, place, one))


def _expected(anonymizer: Any, options: Options) -> str:
    found = str(anonymizer.content_hash())
    if options.expect is not None and not (len(options.expect) >= 8 and found.startswith(options.expect)):
        raise UsageError(f"the anonymizer has the hash {found}, expected is {options.expect!r}")
    return found


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or type(error).__name__}" + (f": {error.filename}" if error.filename else "")
    return told(error)
