from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import torch

from tests.media.make import picture
from videoveil.media.writer import VideoWriter
from videoveil.media.x264 import steady

TICK = Fraction(1, 25)


def test_small_pictures_give_the_same_bytes_every_time(tmp_path: Path) -> None:
    """With AVX-512 they did not: of sixty files of these pictures several were different."""
    images = [picture(number) for number in range(6)]
    found, litter = set(), []
    for turn in range(60):
        with VideoWriter(tmp_path / "out.mp4", width=96, height=64, time_base=TICK) as writer:
            for number, image in enumerate(images):
                writer.write(image, number * TICK)
        found.add((tmp_path / "out.mp4").read_bytes())
        litter.append(bytearray(97 * turn + 1))  # memory lies elsewhere each time
    assert len(found) == 1


@pytest.mark.parametrize(("processor", "kept"), [("AVX512", ["asm=avx2"]), ("AVX2", []), ("DEFAULT", [])])
def test_only_avx_512_is_left_out(processor: str, kept: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    assert steady() == ({"x264-params": "asm=avx2"} if kept else {})
    assert steady("threads=1") == {"x264-params": ":".join(["threads=1", *kept])}
