from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from videoveil.audit import registry
from videoveil.audit.participant import Participant
from videoveil.audit.registry import PARTICIPANTS
from videoveil.media.transforms import looks


@pytest.mark.parametrize("one", [one for one in PARTICIPANTS if one.learns], ids=lambda one: one.name)
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("edge", [np.s_[:, :4], np.s_[:, -4:], np.s_[:, :, :6], np.s_[:, :, -6:]])
def test_networks_see_pictures_up_to_their_edges(one: Participant, gpu: bool, edge: Any) -> None:
    config = one.config(gpu)
    clip = np.zeros((1, 90, 160, 3), np.uint8)
    clip[edge] = 255
    assert max(int(one.evaluate(clip).max()) for one in looks(config.test, config.size)) > 128


@pytest.mark.parametrize("gpu", [False, True])
def test_people_are_looked_for_in_reconstructions_unless_the_data_do_not_allow_it(gpu: bool) -> None:
    (one,) = registry.named(("reconstruction",))
    assert one.settings(gpu)["identity"]
