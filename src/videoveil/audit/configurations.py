"""How participants learn: which networks, for how long, on pictures of which size, by whether there is a GPU.

What is written here is a part of the names of results, so a change of it makes audits train again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from videoveil.attacks.frames import ClipConfig, FrameConfig
from videoveil.attacks.identity import IdentityConfig
from videoveil.attacks.reconstruction import ReconstructionConfig
from videoveil.media.transforms import AROUND
from videoveil.tasks.action.network import NetworkConfig

Configuration = Callable[[bool], Any]  # whether there is a GPU → settings

# how attackers on pictures see them: up to the edges, where something raw may have been left
LEARN, LOOK = "ted-spad-weak", AROUND


def _learning(gpu: bool) -> dict[str, Any]:
    """Sizes that suit two cores, or a GPU."""
    if gpu:
        return {"size": 112, "batch": 32, "precision": "bf16-mixed", "checkpoint_every": 1000}
    return {"size": 64, "batch": 16, "checkpoint_every": 1000}


def frames(gpu: bool) -> FrameConfig:
    return FrameConfig(
        networks=("resnet.18", "tiny@own") if gpu else ("tiny@own",),
        augment=LEARN,
        test=LOOK,
        per_video=4 if gpu else 2,
        epochs=20 if gpu else 10,
        **_learning(gpu),
    )


def clips(gpu: bool) -> ClipConfig:
    return ClipConfig(
        networks=("r3d.18", "tiny@own") if gpu else ("tiny@own",),
        augment=LEARN,
        test=LOOK,
        per_video=2 if gpu else 1,
        epochs=20 if gpu else 16,
        **_learning(gpu),
    )


def reconstruction(gpu: bool) -> ReconstructionConfig:
    own = {name: value for name, value in _learning(gpu).items() if name != "batch"}
    return ReconstructionConfig(
        augment=LEARN,
        test=LOOK,
        width=32 if gpu else 8,
        epochs=30 if gpu else 8,
        network_epochs=15 if gpu else 8,
        identity=True,
        **own,
    )


def identity(gpu: bool) -> IdentityConfig:
    return IdentityConfig(augment=LEARN, test=LOOK, epochs=20 if gpu else 10, **_learning(gpu))


def action_network(gpu: bool) -> NetworkConfig:
    return NetworkConfig(
        encoder="tiny",
        augment="ted-spad-weak",
        clips=5,
        epochs=30 if gpu else 12,
        learning_rate=2e-3,
        warmup_epochs=1,
        **_learning(gpu),
    )


def knowing(knowledge: str, config: Configuration) -> Configuration:
    """The same for an attacker who learnt from raw videos, and stays as it is or goes on with anonymized ones."""
    return lambda gpu: replace(config(gpu), knowledge=knowledge)


def same(config: Any) -> Configuration:
    """These settings, with a GPU or without."""
    return lambda gpu: config
