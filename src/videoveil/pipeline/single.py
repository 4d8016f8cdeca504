"""One picture through a worker and the checks: photographs, and pictures that come one by one from a camera."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from videoveil.pipeline.checks import Checked, FrameChecks
from videoveil.pipeline.engines import NetworkWorker

if TYPE_CHECKING:
    from videoveil.pipeline.engines import Worker


def one_picture(worker: Worker, checks: FrameChecks, image: np.ndarray, content: str | None) -> Checked:
    """What may leave for (H, W, 3) uint8 RGB. Raises what the anonymizer raises; what does not pass is black.

    Where a network looks at a smaller picture, it is asked of that one first: enlarging alone changes a picture, and
    must not pass for the network's work.
    """
    if not (isinstance(worker, NetworkWorker) and worker.scaled):
        return checks.frame(image, worker([image], content)[0])
    small = worker.smaller(image)
    checked = checks.frame(small, worker.inner([small], content)[0])
    if checked.failed:
        return checks.black(image, checked.reason)
    return checks.frame(image, worker.larger(checked.image))
