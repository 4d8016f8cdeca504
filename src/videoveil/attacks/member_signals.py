"""What may tell that a video was in an anonymizer's training set: how the anonymizer treats it.

A model fits what it has seen: it may change it less, or answer more steadily when it is shown a little differently.
The signals of the raw video alone, without the anonymizer, are the control: they tell two groups of videos apart that
differ anyway.

Shapes: m frames of side s of one video, r rows of width d.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from videoveil.training import seeds

if TYPE_CHECKING:
    from videoveil.features.pixels import PixelVeil

Signals = dict[str, float]  # by name; the lower, the more like a member
SHAKE = 0.02  # standard deviation of the noise that answers are tried with
DIM = 0.9
TINY = 1e-9


def trained(anonymizer: Any) -> bool:
    """Whether there is anything in it that training can have set."""
    parts = [getattr(anonymizer, name) for name in ("first", "second") if hasattr(anonymizer, name)]
    if parts:
        return any(trained(part) for part in parts)
    parameters: Callable[[], Any] | None = getattr(anonymizer, "parameters", None)
    return parameters is not None and any(True for _ in parameters())


@torch.no_grad()
def picture_signals(frames: Tensor, veil: PixelVeil, seed: int) -> tuple[Signals, Tensor]:
    """Frames (m, 3, s, s) in [0, 1] → how the anonymizer treats them, and what it makes of them."""
    noise = seeds.number(seed, "noise")  # one draw for all: differences are not those of the draw

    def made(x: Tensor) -> Tensor:
        return veil(x[:, :, None], seed=noise)[:, :, 0]

    published = made(frames)
    shake = SHAKE * torch.randn(frames.shape, generator=seeds.generator(seed, "shake")).to(frames.device)
    change = (published - frames).abs().flatten(1).mean(1)  # (m,)
    return {
        "change": float(change.mean()),
        "rms": float((published - frames).square().mean().sqrt()),
        "spread": float(change.std(correction=0)),
        "mirror": float((made(frames.flip(-1)).flip(-1) - published).abs().mean()),
        "shake": float((made((frames + shake).clamp(0, 1)) - published).abs().mean()),
        "dim": float((made(DIM * frames) - DIM * published).abs().mean()),
    }, published


def picture_control(frames: Tensor) -> Signals:
    """Frames (m, 3, s, s) → what they are like by themselves."""
    edges = (frames[..., 1:] - frames[..., :-1]).abs().mean() + (
        frames[..., 1:, :] - frames[..., :-1, :]
    ).abs().mean()
    colour = frames.mean((0, 2, 3))
    return {
        "bright": float(frames.mean()),
        "contrast": float(frames.std(correction=0)),
        "edges": float(edges),
        "red": float(colour[0] - colour.mean()),
        "blue": float(colour[2] - colour.mean()),
        "motion": float(frames.std(0, correction=0).mean()),
    }


def feature_signals(raw: np.ndarray, published: np.ndarray) -> Signals:
    """Rows (r, d) of one video, before and after → how they were changed."""
    before, after = raw.astype(np.float64), published.astype(np.float64)
    length, new = np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1)
    cosine = (before * after).sum(1) / np.maximum(length * new, TINY)
    return {
        "change": float(np.mean(np.linalg.norm(after - before, axis=1) / np.maximum(length, TINY))),
        "turn": float(1 - cosine.mean()),
        "norm": float(np.mean(np.abs(np.log(np.maximum(new, TINY) / np.maximum(length, TINY))))),
        "spread": float(after.std(0).mean()),
    }


@torch.no_grad()
def feature_response(raw: np.ndarray, anonymizer: Any, seed: int) -> Signals:
    """How steadily an anonymizer of features answers to rows (r, d) that were moved a little."""
    x = torch.from_numpy(raw.astype(np.float32))
    scale = x.std() if x.numel() > 1 else torch.tensor(1.0)
    shake = SHAKE * scale * torch.randn(x.shape, generator=seeds.generator(seed, "shake"))
    with torch.random.fork_rng(devices=[]):
        answers = []
        for rows in (x, x + shake):
            torch.manual_seed(seeds.number(seed, "noise"))
            answers.append(anonymizer.transform(rows))
    moved = (answers[1] - answers[0]).norm(dim=1) / shake.norm(dim=1).clamp_min(TINY)
    return {"shake": float(moved.mean())}


def feature_control(raw: np.ndarray) -> Signals:
    """Rows (r, d) → what they are like by themselves."""
    x = raw.astype(np.float64)
    return {
        "norm": float(np.linalg.norm(x, axis=1).mean()),
        "mean": float(x.mean()),
        "peak": float(np.abs(x).max()),
        "spread": float(x.std(0).mean()),
    }


def table(signals: list[Signals]) -> tuple[tuple[str, ...], np.ndarray]:
    """Names, and a matrix (n, signals)."""
    names = tuple(signals[0])
    return names, np.array([[one[name] for name in names] for one in signals])


def with_losses(
    signals: Signals, losses: Mapping[str, Callable[..., float]], item: Any, shown: Tensor
) -> Signals:
    """The signals with the losses of networks that were trained together with the anonymizer."""
    return {**signals, **{f"loss {name}": float(loss(item, shown)) for name, loss in losses.items()}}
