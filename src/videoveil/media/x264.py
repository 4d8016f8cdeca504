"""The same pictures, the same bytes: how x264 is kept to that."""

from __future__ import annotations


def steady(parameters: str = "") -> dict[str, str]:
    """Options with x264's own `parameters` that give the same bytes every time.

    Its AVX-512 code gives now these, now those bytes for the same small pictures. That of AVX2 does not, and gives the
    bytes of the older instruction sets; where the processor has no AVX-512 nothing is changed.
    """
    import torch  # here, because whoever only names datasets does without it

    kept = "asm=avx2" if torch.backends.cpu.get_cpu_capability() == "AVX512" else ""
    joined = ":".join(part for part in (parameters, kept) if part)
    return {"x264-params": joined} if joined else {}
