"""The arithmetic of an encoder: set for a block, given back after it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.nn.attention import SDPBackend

from videoveil.features.precision import arithmetic, attention_order
from videoveil.features.store import PRECISIONS, Precision

CPU = torch.device("cpu")


def settings() -> tuple[bool, bool, bool]:
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.is_autocast_enabled("cpu"),
    )


@pytest.mark.parametrize(
    ("precision", "inside"),
    [("fp32", (False, False, False)), ("tf32", (True, True, False)), ("bf16", (False, False, True))],
)
def test_a_block_has_its_arithmetic_and_gives_the_process_its_own_back(
    precision: Precision, inside: tuple[bool, bool, bool]
) -> None:
    before = settings()
    with arithmetic(precision, CPU):
        assert settings() == inside
    assert settings() == before

    def fails() -> None:
        with arithmetic(precision, CPU):
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails()
    assert settings() == before


NEWER = """
import torch
from videoveil.features.precision import arithmetic

matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn.conv
{how}
rnn = torch.backends.cudnn.rnn
before = matmul.fp32_precision, conv.fp32_precision, rnn.fp32_precision
for precision, inside in (("fp32", "ieee"), ("tf32", "tf32"), ("bf16", "ieee")):
    with arithmetic(precision, torch.device("cpu")):
        assert (matmul.fp32_precision, conv.fp32_precision, rnn.fp32_precision) == (inside,) * 3
    assert (matmul.fp32_precision, conv.fp32_precision, rnn.fp32_precision) == before
"""


@pytest.mark.parametrize(
    "how",
    [
        "torch.backends.fp32_precision = 'tf32'",
        "matmul.fp32_precision, conv.fp32_precision = 'tf32', 'ieee'",
    ],
)
def test_a_process_that_uses_the_newer_switches_of_torch_keeps_them(how: str) -> None:
    """In a process of its own: there is no way back to the older ones."""
    subprocess.run([sys.executable, "-c", NEWER.format(how=how)], check=True, timeout=300)


def test_products_are_rounded_as_the_name_says() -> None:
    a = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))
    found = {}
    for precision in PRECISIONS:
        with arithmetic(precision, CPU), torch.inference_mode():
            found[precision] = a @ a.T
    assert torch.equal(found["fp32"], a @ a.T)
    assert torch.equal(found["tf32"], found["fp32"])  # a CPU has no such units
    assert found["bf16"].dtype == torch.bfloat16


def test_the_order_of_attention_kernels_ends_with_one_that_always_works() -> None:
    order = attention_order(CPU)
    assert order[-1] == SDPBackend.MATH
    assert len(set(order)) == len(order)
