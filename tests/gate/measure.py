"""What the build is held to: what attackers find at a tiny size, what is kept, how many operations things take.

    python -m tests.gate.measure            # measures, and says what got worse than recorded
    python -m tests.gate.measure --record   # writes tests/gate/recorded.json anew; say in the commit why

Times differ from machine to machine; counts do not. `operations` are calls of the tensor library, `flops` are those of
matrix products and convolutions. Privacy is the best attacker's cMAP on twins of three casts: a mean of three, since
the 16 test videos of one say little. `leaks` of what is anonymized must not rise, by a recipe fitted here and by the
anonymizers that come with the package; what the same attackers find in raw data, `finds`, must not fall, for of an
attacker that finds nothing anywhere nothing is learnt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

RECORDED = Path(__file__).with_name("recorded.json")
SEEDS = (40, 41, 42)
TOLERANCE = {"leaks": 0.04, "finds": 0.04, "keeps": 0.08, "flops": 0.01, "operations": 0.02}
SHARES = ("flops", "operations")  # kinds whose tolerance is a share of what is recorded
MAY_RISE = ("finds", "keeps")  # kinds that get worse by falling; all others by rising
RAW, SHIPPED, DRAWN = "raw", "veil-tiny", "veil-pixel"  # the last two come with the package
PLACES = {RAW: "raw", "veil": "veiled", SHIPPED: "shipped", DRAWN: "drawn"}
Figures = dict[str, dict[str, float]]


# --- counting -----------------------------------------------------------------------------------------------


class Calls(TorchDispatchMode):
    """Counts calls of the tensor library."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def flops() -> dict[str, float]:
    """Of one forward pass each."""
    from videoveil.anonymizers import LatentAnonymizer, LatentConfig
    from videoveil.anonymizers.config import Attention
    from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig, UNet
    from videoveil.encoders import create

    made = {
        "UNet 16 at 112": (
            PixelAnonymizer(PixelConfig((UNet(width=16),))).eval(),
            torch.zeros(1, 3, 112, 112),
        ),
        "UNet 64 at 112": (
            PixelAnonymizer(PixelConfig((UNet(width=64),))).eval(),
            torch.zeros(1, 3, 112, 112),
        ),
    }
    for name in ("tiny", "r3d.18", "resnet.18"):
        encoder = create(name, weights="random") if name != "tiny" else create(name)
        spec = encoder.input
        shape = (
            (1, 3, spec.frames, spec.size, spec.size)
            if encoder.kind == "video"
            else (1, 3, spec.size, spec.size)
        )
        made[name] = (encoder.eval(), torch.zeros(shape))
    config = LatentConfig(768, (Attention(depth=3, heads=8),), "clip", None)
    made["adapter of 768"] = (LatentAnonymizer(config).eval(), torch.zeros(8, 768))
    found = {}
    for name, (network, inputs) in made.items():
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network(inputs)
        found[name] = float(counter.get_total_flops())
    return found


def operations(folder: Path, features: Any) -> dict[str, float]:
    """Calls of two trainings from start to end."""
    from dataclasses import replace

    from tests.training import minimax_world
    from videoveil.recipes import fit, splavu_hmdb51

    found = {}
    recipe = replace(splavu_hmdb51(), epochs=3)
    with Calls() as calls:
        fit(recipe, {"action": features}, folder / "splavu", seed=0, device="cpu")
    found["SPLAVU, 3 epochs"] = float(calls.count)
    made = minimax_world.loop(minimax_world.videos(folder / "films"))
    with Calls() as calls:
        made.run()
    found["minimax, 2 epochs"] = float(calls.count)
    return found


# --- attacking ----------------------------------------------------------------------------------------------


def on_one_cast(folder: Path, seed: int) -> tuple[dict[str, float], dict[str, float], Any]:
    """What attackers find and what is kept, by name, and the raw training features."""
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.attacks.attributes import AttackConfig, AttributeAttack
    from videoveil.data import registry, twins
    from videoveil.data.twins.people import lead_attributes
    from videoveil.encoders import create
    from videoveil.features.anonymize import anonymize
    from videoveil.features.extract import extract, recipe_for
    from videoveil.features.store import FeatureStore
    from videoveil.recipes import fit, veil
    from videoveil.tasks.action.probe import ActionProbe
    from videoveil.tasks.base import Features

    twins.make("vphmdb", folder / "twin", seed=seed, size="tiny", processes=1)
    people = lead_attributes("vphmdb", folder / "twin", seed=seed, size="tiny")
    encoder = create("tiny")
    films, cut = registry.load("vphmdb", folder / "twin"), recipe_for(encoder, clips="3", static=2)
    extract(films, folder / "raw", encoder, cut)
    extract(films, folder / "drawn", encoder, cut, anonymizer=open_anonymizer(DRAWN), eight_bit=True)
    raw = Features(FeatureStore.open(folder / "raw"), split="train")
    made = fit(veil(), {"action": raw}, folder / "veil", seed=seed, device="cpu")
    anonymize(folder / "raw", folder / "veiled", made, labels=True)
    anonymize(folder / "raw", folder / "shipped", open_anonymizer(SHIPPED), labels=True)
    found, keeps = {}, {}
    for name, place in PLACES.items():
        store = FeatureStore.open(folder / place)
        train, test = (Features(store, split=split) for split in ("train", "test"))
        for shown in ("static", "clip"):
            attack = AttributeAttack(AttackConfig(input=shown, kinds=("linear", "kernel")), people)
            score = attack.fit(train, seed=seed, device="cpu").score(test)
            found[f"{name}, {'static' if shown == 'static' else 'moving'}"] = float(
                score.headline.value or 0.0
            )
        probe = ActionProbe().fit(train, seed=seed, device="cpu").score(test)
        keeps[name] = float(probe.headline.value or 0.0)
    return found, keeps, raw


def measure(folder: Path) -> Figures:
    """Everything the gate looks at."""
    found = [on_one_cast(folder / str(seed), seed) for seed in SEEDS]
    attacked, keeps = (
        {name: round(statistics.mean(one[place][name] for one in found), 4) for name in found[0][place]}
        for place in (0, 1)
    )
    finds = {name: value for name, value in attacked.items() if name.startswith(f"{RAW}, ")}
    return {
        "leaks": {name: value for name, value in attacked.items() if name not in finds},
        "finds": finds,
        "keeps": keeps,
        "flops": flops(),
        "operations": operations(folder, found[0][2]),
    }


# --- judging ------------------------------------------------------------------------------------------------


def worse(found: Mapping[str, Mapping[str, float]], recorded: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What got worse than recorded by more than its tolerance; what is measured no more is worse too."""
    said = []
    for kind, figures in recorded.items():
        for name, before in figures.items():
            now = found.get(kind, {}).get(name)
            if now is None:
                said.append(f"{kind}: {name} is recorded and was not measured")
                continue
            step = TOLERANCE[kind] * (before if kind in SHARES else 1)
            digits = "{:,.0f} to {:,.0f}" if kind in SHARES else "{:.3f} to {:.3f}"
            if kind in MAY_RISE and now < before - step:
                said.append(f"{kind}: {name} fell from {digits.format(before, now)}")
            elif kind not in MAY_RISE and now > before + step:
                said.append(f"{kind}: {name} rose from {digits.format(before, now)}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    print(json.dumps(found, indent=1))
    if asked.record:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    elif said := worse(found, json.loads(RECORDED.read_text())):
        sys.exit("\n".join(said))


if __name__ == "__main__":
    main()
