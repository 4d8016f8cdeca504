"""Scores of whole videos of any length, one video at a time, in pieces of bounded size.

A video is never padded, cut or put in a batch with another, so its scores cannot depend on what else is scored. The
glance stages see the whole video, as published; they are 64 channels wide, and attention never holds T² numbers. The
wide focus stages run over overlapping pieces: a piece carries `halo` snippets of context on either side, which is all
that can reach its middle, so the pieces together give what one pass would. Memory then grows only by the 64-channel
tokens (about a kilobyte per snippet and crop), and the place of the pieces depends on nothing but T and n.

Shapes: T snippets, n crops, C channels, d channels inside.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from videoveil.tasks.mgfn.network import MGFN
from videoveil.tasks.mgfn.segments import with_magnitude

PIECE = 2048  # snippets times crops that the wide stages work on at once


@torch.inference_mode()
def snippet_scores(network: MGFN, features: np.ndarray, piece: int = PIECE) -> np.ndarray:
    """(T, n, C) float32 → (T,) float32, the mean over crops of every snippet's score; eval mode only."""
    if network.training:
        raise ValueError("the network is in training mode: its scores would depend on batch statistics")
    length, crops, _ = features.shape
    step = max(1, piece // crops)
    tokens = _tokens(network, features, step)  # (n, d, T)
    tokens = network.run_stages(tokens, range(network.local_stages.start))
    scores = np.empty(length, dtype=np.float32)
    for middle, around in _pieces(length, step, network.halo):
        local = network.run_stages(tokens[..., around.start : around.stop], network.local_stages)
        wanted = local[..., middle.start - around.start : middle.stop - around.start]
        crop_scores, _ = network.head(wanted)  # (n, piece)
        scores[middle.start : middle.stop] = crop_scores.mean(0).cpu().numpy()
    return scores


def _tokens(network: MGFN, features: np.ndarray, step: int) -> Tensor:
    """Tokens (n, d, T) of the features; the copy with a magnitude channel exists for one piece at a time."""
    weight = network.to_tokens.weight
    reach = weight.shape[-1] // 2
    length, crops, _ = features.shape
    tokens = torch.empty(crops, weight.shape[0], length, dtype=weight.dtype, device=weight.device)
    for middle, around in _pieces(length, step, reach):
        rows = torch.from_numpy(features[around.start : around.stop]).to(weight.device)
        folded = with_magnitude(rows).permute(1, 2, 0)  # (n, C+1, piece)
        start = middle.start - around.start
        tokens[..., middle.start : middle.stop] = network.tokens(folded)[..., start : start + len(middle)]
    return tokens


def _pieces(length: int, step: int, halo: int) -> Iterator[tuple[range, range]]:
    """Consecutive ranges of at most `step` that cover `length`, each with the range that has its context."""
    for start in range(0, length, step):
        stop = min(start + step, length)
        yield range(start, stop), range(max(0, start - halo), min(length, stop + halo))
