"""Several threads that each compute frames of their own: how many, and with how many threads of torch each.

A network that is split over the cores makes them wait for each other at every layer. Where decoding and encoding run on
the same cores, one is always late, and all wait for it. Frames that are each computed by one core need no waiting.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer

HANDS = 8  # at most
MEMORY = 2**29  # bytes that the hands of a network may take together
_KEEPS = (nn.Conv2d, nn.ConvTranspose2d, nn.Upsample, nn.MaxPool2d)  # layers with an output of their own
_SETTING = threading.Lock()


def affordable_hands(anonymizer: PixelAnonymizer, size: tuple[int, int], batch: int, wanted: int) -> int:
    """How many threads should each compute frames of its own: one per core, as long as memory does not mind."""
    if wanted == 1:
        return 1
    return hands_within(max(1, batch) * size[0] * size[1] * max(1.0, bytes_per_pixel(anonymizer)), wanted)


def hands_within(each: float, wanted: int) -> int:
    """As many threads as are wanted, have a core and may take `each` bytes."""
    return max(1, min(wanted, HANDS, torch.get_num_threads(), int(MEMORY // each)))


@torch.no_grad()
def bytes_per_pixel(anonymizer: PixelAnonymizer) -> float:
    """What its largest network holds while it computes, for each pixel of a picture: the outputs of all layers."""
    return 4.0 * max((_numbers(network, 64) / 64**2 for network in anonymizer.networks), default=0.0)


def _numbers(network: nn.Module, side: int) -> int:
    """Numbers that the layers give out for one square picture."""
    sizes: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, out: sizes.append(out.numel()))
        for layer in network.modules()
        if isinstance(layer, _KEEPS)
    ]
    try:
        network(next(network.parameters()).new_zeros(1, 3, side, side))
    finally:
        for hook in hooks:
            hook.remove()
    return sum(sizes)


def share(hands: int) -> int:
    """Threads of torch for each of so many hands; to be asked before they begin."""
    return max(1, torch.get_num_threads() // hands)


def own_threads(count: int) -> None:
    """From now on torch computes with so many threads where this thread calls it; others keep theirs.

    Setting the number also sets it for all threads that are yet to come, so another thread sets that back.
    """
    if torch.get_num_threads() == count:
        return
    with _SETTING, ThreadPoolExecutor(1) as other:
        usual = other.submit(torch.get_num_threads).result()  # what a new thread is given
        torch.set_num_threads(count)
        other.submit(torch.set_num_threads, usual).result()
