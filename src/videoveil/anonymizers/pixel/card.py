"""What the model card of a pixel anonymizer says beside what all cards say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from videoveil.anonymizers.card import ANYWHERE, UNKNOWN, Account
from videoveil.anonymizers.pixel.capacity import capacity_bits, capacity_limit
from videoveil.anonymizers.pixel.config import NETWORKS, Outline

if TYPE_CHECKING:
    from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer


def account(anonymizer: PixelAnonymizer) -> Account:
    """Frames in, frames out."""
    return Account(
        heading="A pixel video anonymizer",
        purpose="It changes the frames of a video, one by one, so that they keep what happens and tell less about who "
        "it happens to. Frames in, frames of the same size out.",
        facts=_facts(anonymizer),
        usage=_usage(anonymizer),
        limits=_limits(anonymizer),
        reversible=NETWORKS,
        pipeline="video-to-video",
        tag="video-frames",
        output="frames",
    )


def _facts(anonymizer: PixelAnonymizer) -> list[str]:
    size, facts = anonymizer.config.size, []
    if size or anonymizer.networks:  # of what never learnt there is no such size
        facts.append(f"- Short side of the frames it was trained on: {f'{size} pixels' if size else UNKNOWN}")
    if size:
        bits = capacity_bits(anonymizer.config, size, size)
        facts.append(
            f"- A frame of {size}×{size} out of it tells at most {bits:,.0f} bits about the one that went in, "
            f"which had {24 * size * size:,}"
        )
    square, wide = (capacity_limit(anonymizer.config, *shape) for shape in ((1, 1), (9, 16)))
    if square and wide:
        facts.append(
            f"- However large frames are, a square one out of it tells at most {square:,.0f} bits about the one that "
            f"went in, one of 16:9 at most {wide:,.0f}"
        )
    return facts


def _usage(anonymizer: PixelAnonymizer) -> str:
    key = ', key=NoiseKey.load("noise.key")' if anonymizer.wants_noise else ""
    names = "NoiseKey, PixelAnonymizer" if key else "PixelAnonymizer"
    content = ", content=names_of_videos" if anonymizer.wants_content else ""
    return (
        f"from videoveil.anonymizers import {names}\n\n"
        f'anonymizer = PixelAnonymizer.from_pretrained("{anonymizer.card.name or ANYWHERE}"{key})\n'
        f"safe = anonymizer(frames{content})  # (N, 3, H, W) or (N, 3, T, H, W), RGB, in [0, 1] or bytes"
    )


def _limits(anonymizer: PixelAnonymizer) -> list[str]:
    lines = [
        "- It looks at single frames: how somebody moves is kept on purpose, and with it what can be told from that.",
    ]
    if anonymizer.config.size:
        lines.append("- The numbers hold for frames of the size that they were measured at.")
    if all(stage.kind in NETWORKS for stage in anonymizer.config.stages):
        lines.append(
            "- Every stage can be undone in principle: expect an attacker trained on the anonymized frames to find "
            "most of what an attacker finds on raw ones."
        )
    if any(stage.kind == Outline.kind for stage in anonymizer.config.stages):
        lines.append(
            "- Its lines hide colours and brightness, not shapes: size, build, the outlines of hair and clothes, and "
            "written words can still be seen."
        )
    if anonymizer.wants_noise:
        lines.append(
            "- The noise protects as long as its key is secret. The key is not in this folder. One key gives one "
            "frame the same noise every time; use one key per release."
        )
    if not anonymizer.exportable:
        lines.append(
            "- It cuts clips into frames in the released, scrambled way and is for comparison only: it refuses to "
            "export frames."
        )
    return lines
