"""Networks that a user names, beside everybody's own: `resnet.50`, `tiny@own`, `resnet.18@FILE`.

Of a file its name and its hash stand in settings and results, never where it lies: other weights are another attacker,
and the same weights in another folder are the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.attacks.picture_networks import OWN, SCRATCH
from videoveil.audit.configurations import Configuration
from videoveil.audit.participant import Answers, Participant, Trial
from videoveil.encoders import create
from videoveil.encoders.fitting import on_meta
from videoveil.encoders.registry import MODELS, resolve
from videoveil.errors import UsageError

SMALLEST = 16  # pixels a side of what networks see


def with_networks(
    participants: tuple[Participant, ...], asked: Sequence[str], size: int = 0, *, gpu: bool = False
) -> tuple[Participant, ...]:
    """With networks more for all who learn from pictures: attributes on frames, on clips and on frames drawn again,
    people on clips.

    `size` is the side of what these see, for all of their networks. What cannot attack is refused here, before
    anything is published or trained; `gpu`: whether the audit runs on one, where pictures are larger.
    """
    if not asked and not size:
        return participants
    if size and size < SMALLEST:
        raise UsageError(f"--attacker-size {size}: a picture has at least {SMALLEST} pixels a side")
    armed = tuple(_with(one, tuple(asked), size) if _has_networks(one) else one for one in participants)
    if armed == participants:
        option = f"--attacker {asked[0]}" if asked else f"--attacker-size {size}"
        raise UsageError(
            f"{option}: nobody who takes part has networks of that kind; let `frames` or `clips` take part"
        )
    sizes = {one.config(gpu).size for one in armed if _has_networks(one)}
    for name in asked:
        for side in sorted(sizes):
            _require(name, side)
    return armed


def _has_networks(one: Participant) -> bool:
    return one.reads == "clips" and hasattr(one.config(False), "networks")


def _with(one: Participant, asked: tuple[str, ...], size: int) -> Participant:
    labels = {name: label for name in asked if (label := label_of(name)) != name}
    armed = replace(one, config=partial(_armed, one.config, asked, size))
    if not labels:
        return armed
    return replace(armed, run=partial(_named, one.run, labels), labels=tuple(labels.items()))


def label_of(name: str) -> str:
    """`NETWORK@FILE` as it is written down: `resnet.18@w.safetensors-1a2b3c4d`; other names as they are."""
    network, _, start = name.partition("@")
    path = Path(start)
    if not start or not path.is_file():
        return name
    return f"{network}@{path.name}-{files.file_hash(path)[:8]}"


def _armed(config: Configuration, asked: tuple[str, ...], size: int, gpu: bool) -> Any:
    made = config(gpu)
    more = tuple(name for name in dict.fromkeys(asked) if name not in made.networks)
    return replace(made, networks=(*made.networks, *more), size=size or made.size)


def _named(
    run: Callable[[Trial, Any], Answers], labels: Mapping[str, str], trial: Trial, config: Any
) -> Answers:
    """What a training says, every network under its label; a longer name first, for one may begin with another."""
    found = {}
    for title, outcome in run(trial, config).items():
        known = max((name for name in labels if name in title), key=len, default="")
        found[title.replace(known, labels[known]) if known else title] = outcome
    return found


def _require(name: str, size: int) -> None:
    """That there is such a network for pictures of this side, and that its weights are its own."""
    network, _, start = name.partition("@")
    model = resolve(network)
    try:
        if start in ("", SCRATCH, OWN):
            on_meta(model, MODELS[model], {"size": size})
        else:
            create(network, weights=start, classes=0, size=size)
    except UsageError as error:
        raise UsageError(
            f"--attacker {name}: {error}; attackers see pictures of {size} pixels a side, which --attacker-size changes"
        ) from error
