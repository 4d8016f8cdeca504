"""Train the embedded encoder `tiny` on the theatre alone and write its weights.

    python scripts/train_tiny.py OUT.safetensors --clips 60000 --minutes 4      (one GPU with 16 cores)

Everything it learns from is rendered from seeds that no twin uses. It is trained on what happens *and* on who it
happens to, as encoders from large web data are in effect: raw features must leak for hiding to mean anything.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.data.theatre import stage
from videoveil.data.theatre.cast import AGES, BUILDS, CLOTH, FACINGS, GENDERS, HAIR, SKIN, identity
from videoveil.data.theatre.chance import generator
from videoveil.data.theatre.play import INCIDENTS, Play, facing_at
from videoveil.data.theatre.playwright import (
    ACTION_NAMES,
    SCENE_NAMES,
    photo,
    surveillance,
    trimmed,
    untrimmed,
)
from videoveil.encoders import create, save

WIDTH, HEIGHT, FRAMES = 160, 120, 16
POPULATION = 77_001  # not a seed of any twin
PEOPLE = 400
HELD_OUT = 10_000_000  # number of the first clip that is not learnt from
ACTIONS = (*ACTION_NAMES, "idle")
HEADS = {
    "action": len(ACTIONS),
    "incident": 1 + len(INCIDENTS),
    "scene": len(SCENE_NAMES),
    "skin": len(SKIN),
    "hair": len(HAIR),
    "gender": len(GENDERS),
    "age": len(AGES),
    "build": len(BUILDS),
    "top": len(CLOTH),
    "bottom": len(CLOTH),
    "facing": len(FACINGS),
    "bare": 2,
    "covered": 2,
    "people": 5,
    "personal": 2,
    "person": PEOPLE,
}
WEIGHTS = {"action": 3.0, "incident": 2.0}
UNKNOWN = -1


@dataclass(frozen=True)
class Example:
    play: Play
    start: int
    labels: dict[str, int]
    still: bool = False


def example(number: int) -> Example:
    """Clip `number`: mostly trimmed actions, some untrimmed, some surveillance, some photographs."""
    rng = generator("train-tiny", number)
    kind, key = rng.random(), ("train-tiny", number)
    who = int(rng.integers(PEOPLE))
    person, size = identity(POPULATION, who), {"width": WIDTH, "height": HEIGHT, "population": POPULATION}
    if kind < 0.6:
        action = ACTION_NAMES[int(rng.integers(len(ACTION_NAMES)))]
        play = trimmed(*key, action=action, person=person, frames=FRAMES, turns=0, **size)  # type: ignore[arg-type]
        return Example(
            play, 0, {"action": ACTIONS.index(action), "incident": 0, "person": who, **looks(play, 0)}
        )
    if kind < 0.7:
        play = untrimmed(*key, actions=ACTION_NAMES, person=person, frames=250, **size)  # type: ignore[arg-type]
        start = int(rng.integers(250 - FRAMES))
        inside = [m for m in play.roles[0].movements if m.first <= start and start + FRAMES <= m.stop]
        apart = all(m.stop <= start or m.first >= start + FRAMES for m in play.roles[0].movements)
        action = inside[0].action if inside else "idle"
        label = ACTIONS.index(action) if inside or apart else UNKNOWN
        return Example(play, start, {"action": label, "incident": 0, "person": who, **looks(play, start)})
    if kind < 0.88:
        incident = None if rng.random() < 0.4 else INCIDENTS[int(rng.integers(len(INCIDENTS)))]
        play = surveillance(*key, incident=incident, frames=200, **size)  # type: ignore[arg-type]
        start = int(rng.integers(200 - FRAMES))
        if play.incidents and rng.random() < 0.7:
            start = int(rng.integers(play.incidents[0].first, play.incidents[0].stop - FRAMES + 1))
        active = [i for i in play.incidents if i.first <= start and start + FRAMES <= i.stop]
        apart = all(i.stop <= start or i.first >= start + FRAMES for i in play.incidents)
        label = 1 + INCIDENTS.index(active[0].kind) if active else 0 if apart else UNKNOWN
        return Example(play, start, {"incident": label, "scene": SCENE_NAMES.index(play.scene.name)})
    play = photo(*key, **size)  # type: ignore[arg-type]
    return Example(play, 0, looks(play, 0), still=True)


def looks(play: Play, frame: int) -> dict[str, int]:
    """What can be seen of the leading actor, the company and the place."""
    labels = {
        "scene": SCENE_NAMES.index(play.scene.name),
        "people": len(play.roles),
        "personal": int(play.personal),
    }
    if not play.roles:
        return labels
    lead = play.roles[0]
    labels["covered"] = int(lead.costume.covered)
    labels["top"] = list(CLOTH).index(lead.costume.top) if not lead.costume.bare_torso else UNKNOWN
    if lead.costume.covered:
        return labels
    return labels | {
        "skin": list(SKIN).index(lead.person.skin),
        "hair": list(HAIR).index(lead.person.hair),
        "gender": GENDERS.index(lead.person.gender),
        "age": AGES.index(lead.person.age),
        "build": BUILDS.index(lead.person.build),
        "bottom": list(CLOTH).index(lead.costume.bottom),
        "facing": FACINGS.index(facing_at(lead, frame)),
        "bare": int(lead.costume.bare_torso),
    }


def render(number: int) -> tuple[np.ndarray, list[int]]:
    made = example(number)
    indices = [0] * FRAMES if made.still else list(range(made.start, made.start + FRAMES))
    pictures = stage.clip(made.play, [0])[[0] * FRAMES] if made.still else stage.clip(made.play, indices)
    return pictures, [made.labels.get(head, UNKNOWN) for head in HEADS]


def rendered(first: int, count: int, device: torch.device, processes: int) -> tuple[Tensor, Tensor]:
    """(count, T, H, W, 3) uint8 on the device, and (count, heads) labels."""
    clips = torch.empty((count, FRAMES, HEIGHT, WIDTH, 3), dtype=torch.uint8, device=device)
    labels = torch.empty((count, len(HEADS)), dtype=torch.long)
    with get_context("spawn").Pool(processes) as pool:
        for i, (pictures, found) in enumerate(pool.imap(render, range(first, first + count), chunksize=32)):
            clips[i] = torch.from_numpy(pictures).to(device)
            labels[i] = torch.tensor(found)
    return clips, labels.to(device)


def network_input(clips: Tensor, train: bool, rng: torch.Generator) -> Tensor:
    """uint8 (B, T, H, W, 3) → float (B, 3, T, 112, 112): the extraction's crop, jittered in place, size and light."""
    x = clips.permute(0, 4, 1, 2, 3).float().div_(255)
    side = 105.0  # 112 of a picture whose short side was brought from 120 to 128
    zoom, dx, dy, gain, flip = (torch.rand(len(x), generator=rng).to(x.device) for _ in range(5))
    if not train:
        zoom, dx, dy, gain, flip = (torch.full_like(v, 0.5) for v in (zoom, dx, dy, gain, flip))
    half = side / 2 * (0.9 + 0.2 * zoom)
    cx = WIDTH / 2 + (dx - 0.5) * 16
    cy = HEIGHT / 2 + (dy - 0.5) * 8
    grid = torch.linspace(-1, 1, 112, device=x.device)
    sign = torch.where(flip > 0.5, -1.0, 1.0) if train else torch.ones_like(flip)
    gx = ((cx[:, None] + half[:, None] * grid * sign[:, None]) / WIDTH * 2 - 1)[:, None, :].expand(
        -1, 112, -1
    )
    gy = ((cy[:, None] + half[:, None] * grid) / HEIGHT * 2 - 1)[:, :, None].expand(-1, -1, 112)
    place = torch.stack((gx, gy), -1).repeat_interleave(FRAMES, 0)
    flat = x.transpose(1, 2).flatten(0, 1)
    out = F.grid_sample(flat, place, mode="bilinear", padding_mode="border", align_corners=False)
    out = out.unflatten(0, (len(x), FRAMES)).transpose(1, 2)
    light = 0.85 + 0.3 * gain
    return (out * light[:, None, None, None, None]).clamp_(0, 1)


class Student(nn.Module):
    """The encoder with one linear head per question."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = create("tiny", weights="random", seed=0)
        self.heads = nn.ModuleDict({name: nn.Linear(self.encoder.width, n) for name, n in HEADS.items()})

    def forward(self, clips: Tensor) -> dict[str, Tensor]:
        features = self.encoder(clips).float()
        return {name: head(features) for name, head in self.heads.items()}


def loss_of(scores: dict[str, Tensor], labels: Tensor) -> Tensor:
    total = labels.new_zeros((), dtype=torch.float32)
    for i, name in enumerate(HEADS):
        if (labels[:, i] != UNKNOWN).any():
            total = total + WEIGHTS.get(name, 1.0) * F.cross_entropy(
                scores[name], labels[:, i], ignore_index=UNKNOWN
            )
    return total


@torch.inference_mode()
def accuracy(
    model: Student, clips: Tensor, labels: Tensor, batch: int, rng: torch.Generator
) -> dict[str, float]:
    model.eval()
    guesses: dict[str, list[Tensor]] = {name: [] for name in HEADS}
    for part in clips.split(batch):
        for name, scores in model(network_input(part, False, rng)).items():
            guesses[name].append(scores.argmax(1))
    out = {}
    for i, name in enumerate(HEADS):
        known = labels[:, i] != UNKNOWN
        right = torch.cat(guesses[name])[known] == labels[known, i]
        out[name] = round(float(right.float().mean()), 4)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--clips", type=int, default=60_000)
    parser.add_argument("--held-out", type=int, default=4_000)
    parser.add_argument("--minutes", type=float, default=4.0, help="of training, after rendering")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument(
        "--epochs", type=int, default=20, help="of the schedule; the time limit may end it earlier"
    )
    parser.add_argument("--processes", type=int, default=16)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(0)
    began = time.perf_counter()
    test_clips, test_labels = rendered(HELD_OUT, options.held_out, device, options.processes)
    clips, labels = rendered(0, options.clips, device, options.processes)
    print(
        f"rendered {options.clips + options.held_out} clips in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    model = Student().to(device)
    steps = options.epochs * (options.clips // options.batch)
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=2e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps, pct_start=0.15)
    began, step = time.perf_counter(), 0
    for epoch in range(options.epochs):
        model.train()
        for index in torch.randperm(options.clips, generator=rng).to(device).split(options.batch):
            if len(index) < options.batch:
                continue
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                scores = model(network_input(clips[index], True, rng))
            loss = loss_of(scores, labels[index])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            schedule.step()
            step += 1
        spent = time.perf_counter() - began
        print(
            f"epoch {epoch} loss {loss.item():.3f} {step * options.batch / spent:.0f} clips/s {spent:.0f} s",
            flush=True,
        )
        if spent > 60 * options.minutes:
            print("time is up before the schedule ended", flush=True)
            break
    found = accuracy(model, test_clips, test_labels, options.batch, rng)
    print(json.dumps(found, indent=1))
    encoder = model.encoder.cpu().eval()
    facts = {"data": f"theatre, {options.clips} clips", "seed": "0", "held_out_accuracy": json.dumps(found)}
    save(encoder, options.out, facts)
    print(f"{options.out}: {options.out.stat().st_size} bytes, hash {encoder.content_hash()[:12]}")


if __name__ == "__main__":
    main()
