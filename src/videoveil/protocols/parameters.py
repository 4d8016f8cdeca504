"""How many weights are trained: pixel methods train UNet, attacker and encoder; SPLAVU its adapter and a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from videoveil.protocols.base import Cell, Evaluation, Panel
from videoveil.protocols.papers import table

if TYPE_CHECKING:
    from videoveil.protocols.subjects import Subject
    from videoveil.protocols.workshop import Workshop

ENCODERS = {
    "I3D": ("i3d.inception", ""),
    "VideoMAE-B": ("videomae.b", ""),
    "V-JEPA-H": ("vjepa2.h", "V-JEPA 2, whose encoder is of the same width"),
    "InternVideo-H": ("videomae.h", "VideoMAE-H, of the same shape"),
    "VideoMAEv2-G": ("videomaev2.g", ""),
}
TABLE = table("splavu/T13")
CLASSES = 400  # Kinetics-400
MILLION = 1e6


def adapter_weights(width: int, depth: int = 3, heads: int = 8) -> int:
    """Of SPLAVU's adapter, counted on the real layers, which are not filled."""
    import torch

    from videoveil.anonymizers import Attention, build_stage

    with torch.device("meta"):
        stage = build_stage(width, Attention(depth=depth, heads=heads))
    return sum(weight.numel() for weight in stage.parameters())


def unet_weights() -> int:
    """Of SPAct's anonymizer."""
    import torch

    from videoveil.anonymizers.pixel.config import UNet as Config
    from videoveil.anonymizers.pixel.unet import UNet

    with torch.device("meta"):
        network = UNet(Config())
    return sum(weight.numel() for weight in network.parameters())


def counted(block: str) -> tuple[float, float, str]:
    """Millions of pixel methods and of SPLAVU, and what the encoder stands for."""
    from videoveil.encoders.registry import info

    name, note = ENCODERS[block]
    encoder = info(name)
    pixel = unet_weights() + info("resnet.50").parameters + encoder.parameters
    latent = adapter_weights(encoder.width) + CLASSES * encoder.width + CLASSES
    return pixel / MILLION, latent / MILLION, note


def finish(workshop: Workshop, subjects: Sequence[Subject], cells: Sequence[Cell]) -> list[Cell]:
    found = []
    for block in ENCODERS:
        pixel, latent, note = counted(block)
        for column, value in (("pixel methods", pixel), ("SPLAVU", latent)):
            found.append(Cell(TABLE.id, block, column, value, None, "counted", (), (value,), note, unit="M"))
    return found


PROTOCOLS = (
    Evaluation(
        "parameters",
        "Weights that are trained, in millions",
        (Panel(TABLE, {"pixel methods": None, "SPLAVU": None}),),
        baselines=(),
        finish=finish,
        note="Encoders with their published classification layer, ResNet-50 with its 1000 outputs.",
    ),
)
