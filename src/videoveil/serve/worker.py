"""One piece of work in a process of its own: look whether an upload is a video, or anonymize it.

What it has to say goes through `tell`: progress, and in the end either `done` or an `error` in words. Words never hold
values of a video; of an unexpected exception only its kind and place are told.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.errors import MediaError, VeilError
from videoveil.serve.store import ANOMALY, LOCK, REPORT, UPLOAD, VIDEO

Tell = Callable[[dict[str, Any]], None]
EVERY = 0.2  # seconds between two words about progress
LONGEST = 600  # characters of a reason: a message must fit into what a pipe takes in one piece
NAME = "the video"


def preload() -> None:
    """Import what every piece of work needs, once, before processes are split off. Starts no thread, opens no file."""
    import videoveil.anonymizers.named
    import videoveil.anonymizers.publish
    import videoveil.media.reader
    import videoveil.pipeline.anonymize  # noqa: F401


def work(task: Mapping[str, Any], tell: Tell) -> int:
    """Do it; the exit code: 0 done, 3 a stated failure."""
    folder = Path(task["folder"])
    try:
        lock = _hold(folder)
        try:
            (probe if task["do"] == "probe" else anonymize)(folder, task, tell)
        finally:
            os.close(lock)
    except Exception as error:  # whatever it is becomes a stated failure of this job
        tell({"error": _words(error, folder)})
        return 3
    return 0


def probe(folder: Path, task: Mapping[str, Any], tell: Tell) -> None:
    """Open the upload, which decodes its first picture, and count its frames."""
    from videoveil.media.reader import open_video

    with open_video(folder / UPLOAD) as video:
        info = video.info
    seconds = None if info.duration is None else float(info.duration)
    tell({"done": {"width": info.width, "height": info.height, "frames": info.frames, "seconds": seconds}})


def anonymize(folder: Path, task: Mapping[str, Any], tell: Tell) -> None:
    """Upload → video.mp4, report.json and, if there is a model for it, anomaly.json."""
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.pipeline.anonymize import anonymize_file
    from videoveil.pipeline.options import Options
    from videoveil.pipeline.report import Progress

    options = Options(
        engine=task["engine"], device=task["device"], threads=task["threads"], audio=task["audio"]
    )
    tell({"stage": "opening the model"})
    anonymizer = open_anonymizer(task["source"], key=_key(task["key"]))
    last = 0.0

    def progress(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            tell({"stage": "anonymizing", "progress": asdict(now)})

    report = anonymize_file(folder / UPLOAD, folder / VIDEO, anonymizer, options, progress=progress)
    facts = _without(report.to_json(), folder)
    if task["anomaly"] is not None:
        tell({"stage": "looking for anomalies"})
        files.write_json(folder / ANOMALY, _anomaly(folder, task, anonymizer))
    files.write_json(folder / REPORT, facts)
    tell({"done": {"frames": report.frames, "seconds": report.seconds}})


def _anomaly(folder: Path, task: Mapping[str, Any], anonymizer: Any) -> dict[str, Any]:
    """What the anomaly model says about the anonymized video; that it cannot say anything is no failure of the job.

    A model that was trained behind an anonymizer gets the frames of the upload through the very same one; every other
    model sees the anonymized file. None sees a raw frame.
    """
    from videoveil.tasks.predict import predict
    from videoveil.tasks.runs import Run

    try:
        run = Run.open(Path(task["anomaly"]))
        behind = "pixels" in run.source.get("encoder", {})
        path, pixels = (folder / UPLOAD, anonymizer) if behind else (folder / VIDEO, None)
        said = predict(path, run, "anomaly", pixels=pixels, device=task["device"])
    except VeilError as error:
        return {"reason": _words(error, folder)["reason"]}
    spans = [{"start": span.start, "end": span.end, "score": span.score} for span in said.spans]
    return {"duration": said.duration, "spans": spans}


def _key(path: str | None) -> Any:
    if path is None:
        return None
    from videoveil.anonymizers import NoiseKey

    return NoiseKey.load(path)


def _hold(folder: Path) -> int:
    """Be the only one at work in a folder: a worker of a server that was killed may take a moment to go."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _words(error: BaseException, folder: Path) -> dict[str, Any]:
    from videoveil.pipeline.errors import told

    reason = " ".join(told(error).split())  # one line: it goes into a log
    reason = reason.replace(str(folder / UPLOAD), NAME).replace(str(folder), "")
    theirs = isinstance(error, MediaError)  # the video's fault, not ours
    return {"kind": type(error).__name__, "reason": reason[:LONGEST], "theirs": theirs}


def _without(value: Any, folder: Path) -> Any:
    """The same without the places of files on this machine."""
    if isinstance(value, str):
        return value.replace(f"{folder}{os.sep}", "")
    if isinstance(value, Mapping):
        return {key: _without(one, folder) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without(one, folder) for one in value]
    return value
