"""A verdict is about who asked, and says who that was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.audit import world
from videoveil.audit import conclusions
from videoveil.tasks.outcomes import AttributeOutcome


def test_a_network_from_a_file_is_named_without_its_folder() -> None:
    truth = np.array([[0.0], [1.0]])
    said = AttributeOutcome(("a",), truth, truth, np.arange(2), ("v0", "v1"))
    answers = ({"resnet.18@/home/ann/taught.safetensors": said},)
    somebody = replace(world.learner(), name="frames")
    asked, remarks = conclusions._asked([somebody], {"frames": {"raw": answers, "anonymized": answers}})
    ((_, sides),) = asked.items()
    assert list(sides) == ["frames/resnet.18@taught.safetensors"]
    assert remarks == []
