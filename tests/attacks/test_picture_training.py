"""The videos that attackers on pictures learn from: who is held out, and what is left out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.attacks.pictures import people
from videoveil import devices
from videoveil.attacks.attributes import own_attributes
from videoveil.attacks.frames import FrameConfig
from videoveil.attacks.picture_training import Training
from videoveil.data.owners import people as people_of
from videoveil.data.records import Dataset
from videoveil.tasks.base import Clips

QUICK = FrameConfig(networks=("tiny",), size=16, validation=0.25)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return people(tmp_path_factory.mktemp("people"), train=8, test=0, frames=4)


def training(films: Dataset) -> Training:
    return Training(QUICK, own_attributes, Clips(films, "train"), 0, devices.make_fabric("cpu"))


@pytest.mark.parametrize("named", [True, False])
def test_nobody_who_is_learnt_from_helps_to_choose_the_epoch(named: bool, films: Dataset) -> None:
    """Who is named, or else is in one film with others."""
    told = [{"subject": f"p{n // 3}"} if named else {"extra": {"source": f"p{n // 3}"}} for n in range(8)]
    items = tuple(dataclasses.replace(item, **own) for item, own in zip(films, told, strict=True))  # type: ignore[arg-type]
    job = training(dataclasses.replace(films, items=items))
    owners = people_of(items)
    learn, choose = ({owners[job.items[i].id] for i in part} for part in (job.learn, job.choose))
    assert learn
    assert choose
    assert not learn & choose


def test_videos_of_which_nothing_is_known_are_left_out(films: Dataset) -> None:
    silent = dataclasses.replace(films.items[0], attributes=None)
    job = training(dataclasses.replace(films, items=(silent, *films.items[1:])))
    assert [item.id for item in job.items] == [item.id for item in films.items[1:]]
    assert sorted([*job.learn, *job.choose]) == list(range(7))
    assert not np.isnan(job.truth).any()


def test_what_is_held_out_is_never_in_a_batch(films: Dataset, tmp_path: Path) -> None:
    job = training(films)
    network = job.network("tiny", "scratch")
    lens = QUICK.lens(network)
    seen = {id_ for batch in job.batches(lens).epoch(0, 0, 1, job.fabric.device) for id_ in batch.ids}
    assert seen <= {job.items[i].id for i in job.learn}
    judge = job.judge(lens)
    assert len(judge.views.pictures) == len(judge.truth) == 5 * len(job.choose)
    assert job.judge(lens).views is judge.views  # veiled once for all networks
