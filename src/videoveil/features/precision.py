"""The arithmetic an encoder runs in.

`fp32`: IEEE single precision everywhere, on every device. `tf32`: single precision, but factors of products rounded to
10 bits on GPUs that have such units; a CPU has none and computes as for fp32. `bf16`: products in bfloat16, their sums,
norms and the features in single precision. What is stored names its arithmetic (`FeatureRecipe.precision`): features of
two of them differ in the third digit, and are not mixed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from videoveil.features.store import Precision

# The first GPUs on which cuDNN's attention is faster than the flash kernel that torch carries, and the last cuDNN whose
# attention was wrong for lengths that are no multiple of 128.
HOPPER, WRONG_CUDNN = (9, 0), 91500


def attention_order(device: torch.device) -> list[SDPBackend]:
    """Which attention kernels may be used, the best first; always the same on the same kind of GPU."""
    order = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    hopper = device.type == "cuda" and torch.cuda.get_device_capability(device) >= HOPPER
    if hopper and (torch.backends.cudnn.version() or 0) > WRONG_CUDNN:
        return [SDPBackend.CUDNN_ATTENTION, *order]
    return order


@contextlib.contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """A block in which networks on `device` compute in `precision`; the process's own settings come back after it."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_rounded(precision == "tf32"))
        if precision == "bf16":
            stack.enter_context(torch.autocast(device.type, torch.bfloat16))
            if device.type == "cuda":
                stack.enter_context(sdpa_kernel(attention_order(device), set_priority=True))
        yield


@contextlib.contextmanager
def _rounded(tf32: bool) -> Iterator[None]:
    """Factors of products rounded or not. torch has two switches for that, and refuses to read the older one in a
    process that has used the newer one."""
    matmul, cudnn = (
        torch.backends.cuda.matmul,
        cast(Any, torch.backends.cudnn),
    )  # whose `conv` no checker sees
    try:
        older = matmul.allow_tf32, cudnn.allow_tf32
    except RuntimeError:
        switches = (matmul, cudnn.conv, cudnn.rnn)
        newer = [one.fp32_precision for one in switches]
        try:
            for one in switches:
                one.fp32_precision = "tf32" if tf32 else "ieee"
            yield
        finally:
            for one, value in zip(switches, newer):
                one.fp32_precision = value  # what it read, be it inherited from a wider switch or its own
        return
    matmul.allow_tf32 = cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = older
