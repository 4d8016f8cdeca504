from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from videoveil.audit import registry
from videoveil.audit.networks import with_networks
from videoveil.audit.participant import Answers, Participant, Trial
from videoveil.audit.registry import PARTICIPANTS
from videoveil.encoders import checkpoints, create
from videoveil.errors import CheckpointError, UsageError
from videoveil.tasks.outcomes import AttributeOutcome


def test_networks_that_a_user_names_join_everybody_who_learns_from_pictures() -> None:
    armed = with_networks(PARTICIPANTS, ("resnet.50", "tiny@own", "mobilenet.v1-0.5"), 48)
    for before, after in zip(PARTICIPANTS, armed):
        for gpu in (False, True):
            own, made = before.config(gpu), after.config(gpu)
            if before.reads != "clips" or not hasattr(own, "networks"):
                assert made == own
                continue
            more = [name for name in ("resnet.50", "mobilenet.v1-0.5") if name not in own.networks]
            assert made.networks == (*own.networks, *more)  # nobody twice
            assert made.size == 48
            assert dataclasses.replace(made, networks=own.networks, size=own.size) == own
    learners = {one.name for one in PARTICIPANTS if one.learns}
    assert learners <= {one.name for one, other in zip(armed, PARTICIPANTS) if one != other}
    assert with_networks(PARTICIPANTS, ()) == PARTICIPANTS


@pytest.mark.parametrize(
    ("networks", "size", "only", "says"),
    [
        (("nonsense",), 0, (), "no encoder 'nonsense'"),
        (("resnet.18@own",), 0, (), "comes without weights"),
        (("resnet.18",), 0, ("grid",), "--attacker resnet.18: nobody who takes part has networks"),
        ((), 48, ("grid",), "--attacker-size 48: nobody who takes part has networks"),
        (("c3d",), 0, (), "--attacker c3d: c3d: size is fixed at 112, .* --attacker-size"),
        (("videomaev2.g",), 0, (), "--attacker videomaev2.g: .* no multiple of the patch"),
        (("resnet.18@gone.safetensors",), 0, (), "gone.safetensors"),
        ((), 8, (), "--attacker-size 8: .* at least 16"),
    ],
)
def test_a_network_that_cannot_attack_is_refused_before_anything_is_trained(
    networks: tuple[str, ...], size: int, only: tuple[str, ...], says: str
) -> None:
    with pytest.raises((UsageError, CheckpointError), match=says):
        with_networks(registry.named(only), networks, size)


def test_a_network_that_fits_the_pictures_of_a_gpu_is_welcome_there() -> None:
    for armed in (
        with_networks(PARTICIPANTS, ("c3d",), gpu=True),
        with_networks(PARTICIPANTS, ("c3d",), 112),
    ):
        known = {one.name: one.config(True) for one in armed if one.learns}
        assert "c3d" in known["clips"].networks


# --- from files ---


def taught(path: Path, seed: int) -> str:
    """A network in a file of weights, by what a user types."""
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoints.save(create("mobilenet.v1-0.25", seed=seed, classes=0), path)
    return f"mobilenet.v1-0.25@{path}"


def frames(*names: str) -> Participant:
    (one,) = with_networks(registry.named(("frames",)), names)
    return one


def test_other_weights_under_the_same_name_are_another_attacker(tmp_path: Path) -> None:
    """Or the results of the old ones would be found again and taken for theirs."""
    name = taught(tmp_path / "w.safetensors", 0)
    before = frames(name).settings(False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "w.safetensors", elsewhere)
    moved = frames(f"mobilenet.v1-0.25@{elsewhere / 'w.safetensors'}").settings(False)
    taught(tmp_path / "w.safetensors", 1)
    after = frames(name).settings(False)
    assert before != after
    assert before == moved  # the same bytes in another folder are the same attacker
    assert str(tmp_path) not in str(before)
    assert frames(name).config(False).networks[-1] == name  # who learns begins with the file


def test_two_files_of_one_name_are_two_attackers_in_what_is_said(tmp_path: Path) -> None:
    names = [taught(tmp_path / folder / "w.safetensors", seed) for seed, folder in enumerate("ab")]
    truth = np.array([[0.0], [1.0]])

    def run(trial: Any, config: Any) -> Answers:
        said = AttributeOutcome(("a",), truth, truth, np.arange(2), ("v0", "v1"))
        return {f"{name}-raw_last": said for name in config.networks}

    own = dataclasses.replace(registry.named(("frames",))[0], run=run)
    (armed,) = with_networks((own,), names)
    trial: Any = Trial
    titles = list(armed.run(trial, armed.config(False)))
    assert titles[0] == "tiny@own-raw_last"
    assert len(set(titles)) == 3
    for title in titles[1:]:
        assert title.startswith("mobilenet.v1-0.25@w.safetensors-")
        assert title.endswith("-raw_last")
