"""One photograph through an anonymizer, by the same checks as a frame of a video."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videoveil import files
from videoveil.errors import UsageError
from videoveil.pipeline.checks import FrameChecks
from videoveil.pipeline.errors import FramesFailed, told
from videoveil.pipeline.options import DEFAULTS, Options
from videoveil.pipeline.report import Report, Spans

if TYPE_CHECKING:
    from videoveil.pipeline.engines import Workshop

SUFFIXES = (".jpg", ".jpeg", ".png")


def anonymize_picture(
    source: str | Path,
    destination: str | Path,
    anonymizer: Any,
    options: Options = DEFAULTS,
    *,
    workshop: Workshop | None = None,
) -> Report:
    """As `anonymize_file`, for a photograph: a JPEG or PNG without any tags."""
    from PIL import Image

    from videoveil.media.image import read_image
    from videoveil.pipeline.engines import Workshop, require_usable

    source, destination = Path(source), Path(destination)
    require_usable(anonymizer)
    if destination.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{destination}: the result of a picture ends in {', '.join(SUFFIXES)}")
    if destination.exists() and source.exists() and destination.samefile(source):
        raise UsageError(f"{destination}: is the input itself; give the result another name")
    began = time.perf_counter()
    checks = FrameChecks(
        anonymizer, least_change=options.least_change, empty=options.empty_frames, expect=options.expect
    )
    raw = np.array(read_image(source))
    worker = (workshop or Workshop()).worker(anonymizer, raw.shape[:2], 1, options)
    checks.answer = worker.answer
    content = files.file_hash(source) if getattr(anonymizer, "wants_content", False) else None
    try:
        made = worker([raw], content)
    except Exception as error:  # of any kind: the picture stays inside
        raise FramesFailed(f"{source}: the anonymizer failed: {told(error)}; nothing is released") from None
    checked = checks.frame(raw, made[0])
    checks.weights(now=True)
    if checked.failed:
        raise FramesFailed(f"{source}: {checked.reason}; nothing is released")
    form, quality = ("PNG", {}) if destination.suffix.lower() == ".png" else ("JPEG", {"quality": 92})
    with files.atomic_path(destination) as temporary:
        Image.fromarray(checked.image).save(temporary, format=form, **quality)
    spans = Spans()
    if checked.reason:
        spans.add(0, checked.reason, False)
    return Report(
        source=str(source),
        destination=str(destination),
        frames=1,
        width=raw.shape[1],
        height=raw.shape[0],
        duration=None,
        seconds=round(time.perf_counter() - began, 3),
        stage_seconds={},
        bottleneck="nothing to do",
        engine=worker.facts(),
        anonymizer=checks.hash,
        kind=str(getattr(anonymizer, "kind", type(anonymizer).__name__)),
        black=spans.all(),
        black_frames=spans.frames,
        detector=anonymizer.report().to_json() if checks.partly else None,
    )
