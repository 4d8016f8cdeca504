"""One photograph through an anonymizer, by the same checks as a frame of a video."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videoveil import files
from videoveil.pipeline.checks import found
from videoveil.pipeline.errors import FramesFailed, told
from videoveil.pipeline.options import DEFAULTS, Options
from videoveil.pipeline.order import Order
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
    from videoveil.pipeline.engines import Workshop
    from videoveil.pipeline.inner import unmeasured_scale
    from videoveil.pipeline.single import one_picture

    order = Order.of(source, destination, anonymizer, options, workshop=workshop)
    order.require_target(SUFFIXES, "picture")
    source, destination = order.source, order.destination
    began = time.perf_counter()
    checks = order.checks()
    raw = np.array(read_image(source))
    worker = (order.workshop or Workshop()).worker(anonymizer, raw.shape[:2], 1, options)
    checks.answer = worker.answer
    content = order.content()
    try:
        checked = one_picture(worker, checks, raw, content)
    except Exception as error:  # of any kind: the picture stays inside
        raise FramesFailed(f"{source}: the anonymizer failed: {told(error)}; nothing is released") from None
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
        detector=found(anonymizer),
        notes=tuple(filter(None, [unmeasured_scale(anonymizer, raw.shape[:2], options.inner)])),
    )
