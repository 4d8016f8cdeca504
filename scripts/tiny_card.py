"""The card of the embedded encoder: what it could tell of clips that it had not seen, beside a blind guess.

`scripts/train_tiny.py` keeps its accuracies in the weights. Which clips they were scored on follows from their numbers,
and so do a blind guess and the number of clips that have an answer: nothing is rendered for that.
`scripts/models.py --cards` writes the card, `--check` compares it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.train_tiny import HEADS, HELD_OUT, PEOPLE, UNKNOWN, example

from videoveil import shipped
from videoveil.audit.risk import wilson
from videoveil.encoders import create
from videoveil.encoders.checkpoints import read_safetensors

ROOT = Path(__file__).parents[1]
NAME, CLIPS = "tiny", 4000
WORDS = {
    "action": "action",
    "incident": "incident, or none",
    "scene": "scene",
    "skin": "skin tone",
    "hair": "hair colour",
    "gender": "gender presentation",
    "age": "age",
    "build": "build",
    "top": "colour of the upper clothes",
    "bottom": "colour of the lower clothes",
    "facing": "which way somebody faces",
    "bare": "bare torso or not",
    "covered": "hidden by overall and helmet, or not",
    "people": "how many people",
    "personal": "a couple or not",
    "person": f"which of {PEOPLE} people",
}


@dataclass(frozen=True)
class Asked:
    """A question of the held-out clips."""

    clips: int  # that have an answer
    chance: float  # share of the commonest one


def held_out(count: int = CLIPS) -> dict[str, Asked]:
    answers: dict[str, Counter[int]] = {name: Counter() for name in HEADS}
    for number in range(HELD_OUT, HELD_OUT + count):
        for name, label in example(number).labels.items():
            if label != UNKNOWN:
                answers[name][label] += 1
    return {name: Asked(some.total(), max(some.values()) / some.total()) for name, some in answers.items()}


def accuracies() -> dict[str, float]:
    """As `train_tiny.py` wrote them beside the weights."""
    _, metadata = read_safetensors(shipped.ENCODERS / f"{NAME}.safetensors")
    found: dict[str, float] = json.loads(json.loads(metadata["provenance"])["held_out_accuracy"])
    return found


def real() -> list[dict[str, Any]]:
    """The linear probe on its features of real clips, one record per seed."""
    found: Any = json.loads((ROOT / "docs" / "data" / "tasks-real.json").read_text("utf-8"))["rows"]["probe"]
    return [{"seed": one["seed"], "items": one["items"], **one["metrics"]["top1"]} for one in found]


def share(value: float, trials: int) -> str:
    """`98.9 [98.5, 99.2]`, in percent, of a share that was rounded when it was stored: so many were right."""
    value = round(value * trials) / trials
    low, high = wilson(value, trials)
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def card() -> str:
    encoder, asked = create(NAME), held_out()
    parameters = sum(p.numel() for p in encoder.parameters())
    rows = [
        f"| {WORDS[name]} | {HEADS[name]} | {asked[name].clips:,} | {share(value, asked[name].clips)} | "
        f"{100 * asked[name].chance:.1f} |"
        for name, value in accuracies().items()
    ]
    probes = [
        f"| 12 actions of HMDB51, a linear probe, seed {one['seed']} | {one['items']} | "
        f"{share(one['value'], one['items'])} | {100 * one['chance']:.1f} |"
        for one in real()
    ]
    seeds = " ".join(str(one["seed"]) for one in real())
    return TEXT.format(
        parameters=f"{parameters:,}",
        width=encoder.width,
        hash=encoder.content_hash(),
        clips=f"{CLIPS:,}",
        count=CLIPS,
        people=PEOPLE,
        held_out="\n".join(rows),
        real="\n".join(probes),
        seeds=seeds,
    )


TEXT = """\
# `tiny.safetensors`

Weights of the embedded encoder `tiny` ({parameters} parameters, 16 frames of 112², {width} features, 8 temporal
tokens). MIT licence.

- **Content hash**: `{hash}`
- **Made by** `python scripts/train_tiny.py OUT --clips 44000 --held-out {count} --epochs 24`, seed 0, on one H200
  (batch 256, AdamW, bf16).
- **Data**: the theatre only, rendered from seeds that no twin uses. No real footage.
- **Taught**: action, incident, scene and the private attributes of the people in it, on purpose: like encoders from web
  data, its raw features leak, so that hiding can be measured.

## Measured on held-out clips of the theatre

By the linear heads that it was trained with, on {clips} clips of other seeds and of the same population of {people}
people: it has seen those people, not those films. Accuracy in percent with a binomial 95 % interval (Wilson's) over
the clips that have an answer; one training, so the interval does not hold what another would change. Chance is always
giving the commonest answer.

| question | answers | clips | right, % | chance, % |
|---|---|---|---|---|
{held_out}

Measured by the command that made it.

## Measured on real clips

Its features as they are, of the test clips of 12 classes of HMDB51 (split 1); top-1, intervals as above, as if clips
were independent. They were cut from 128 films and are not, so that the intervals should be wider. The probe learnt from
the 840 training clips.

| task | clips | right, % | chance, % |
|---|---|---|---|
{real}

Measured by `python benchmarks/real_tasks.py DATA OUT --seeds {seeds}` (docs/results.md).

## Known limits

It has never seen a real video. Use it for the demo, the tests and the twins; use a real encoder on real data.
"""


def path() -> Path:
    return shipped.ENCODERS / shipped.CARD


def stale() -> list[str]:
    """Its name, where its card is not what would be written now."""
    return [] if path().read_text("utf-8") == card() else [NAME]


def write_card() -> None:
    for name in stale():
        path().write_text(card(), "utf-8")
        print(f"{name}: card written")
