"""Batches through an encoder: every arithmetic, in order, whatever their size."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tests.encoders.helpers import small
from videoveil.anonymizers.pixel import Grey, pixel
from videoveil.encoders.base import Encoder
from videoveil.features.batches import Flow, Forward
from videoveil.features.pixels import PixelVeil
from videoveil.features.store import Precision

CPU = torch.device("cpu")
# no 3D convolutions: those of a CPU in bfloat16 take minutes
NAMES = ("videomae.b", "timesformer.b", "mobilenet.v1-0.25")


def clips_for(encoder: Encoder, count: int) -> Tensor:
    spec = encoder.input
    shape = (count, 3, spec.frames, spec.size, spec.size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_gives_nearly_the_features_of_single_precision(name: str) -> None:
    encoder = small(name)
    pictures = clips_for(encoder, 3)
    with torch.inference_mode():
        wanted = encoder.vector_and_tokens(pictures.float() / 255)
    exact = Forward(encoder, CPU, tokens=True)(pictures)
    rounded = Forward(encoder, CPU, precision="bf16", tokens=True)(pictures)
    for one, two, three in zip(wanted, exact, rounded):
        assert torch.equal(one, two)
        assert three is not None
        assert three.dtype == torch.float32
        assert float(cosine_similarity(three, one, dim=-1).min()) > 0.999
        assert not torch.equal(three, one)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_do_not_depend_on_the_batch_they_came_in(name: str, precision: Precision) -> None:
    encoder = small(name)
    pictures = clips_for(encoder, 4)
    forward = Forward(encoder, CPU, precision=precision)
    together, _ = forward(pictures)
    for place in range(4):
        alone, _ = forward(pictures[place : place + 1])
        assert float(cosine_similarity(alone, together[place : place + 1]).min()) > 0.9999
        assert float(cosine_similarity(alone, together[place - 1 : place or None]).min()) < 1 - 1e-6


def test_without_tokens_none_are_made() -> None:
    encoder = small("videomae.b")
    pictures = clips_for(encoder, 2)
    vector, tokens = Forward(encoder, CPU, precision="bf16")(pictures)
    assert (vector.shape, tokens) == ((2, encoder.width), None)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_goes_in_first_comes_out_first_and_stills_stand(precision: Precision) -> None:
    """Three batches, the last one short and of a still picture, against one clip at a time."""
    encoder = small("videomae.b")
    spec = encoder.input
    pictures = [*clips_for(encoder, 5), clips_for(encoder, 6)[5][:, :1]]
    flow = Flow(Forward(encoder, CPU, precision=precision), 3, (3, spec.frames, spec.size, spec.size))
    found = []
    for rows in (pictures[:2], pictures[2:5], pictures[5:]):
        flow.submit(rows, [""] * len(rows), full=True)
        vectors, _ = flow.collect()
        assert len(vectors) == 3  # filled up
        found += [*vectors[: len(rows)]]
    alone = Forward(encoder, CPU, precision=precision)
    for row, vector in zip(pictures, found, strict=True):
        wanted, _ = alone(row.expand(3, spec.frames, -1, -1)[None])
        assert float(cosine_similarity(vector[None], wanted).min()) > 0.9999


def test_pictures_go_through_a_veil_in_single_precision_before_anything_is_rounded() -> None:
    encoder, grey = small("videomae.b"), pixel(Grey())
    pictures = clips_for(encoder, 2)
    forward = Forward(encoder, CPU, precision="bf16", veil=PixelVeil(grey))
    shown = grey(pictures.float() / 255)
    rewritten = encoder.lowered()
    assert rewritten is not None
    with torch.inference_mode():
        assert torch.equal(forward(pictures)[0], rewritten(shown)[0])


def test_compiled_features_are_those_of_the_same_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole path is one graph; it is run as it was traced, since making machine code of it takes too long here."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager", fullgraph=True))
    encoder = small("videomae.b", depth=1)
    pictures = clips_for(encoder, 2)
    plain = Forward(encoder, CPU, precision="bf16", tokens=True)(pictures)
    compiled = Forward(encoder, CPU, precision="bf16", tokens=True, compiled=True)
    assert isinstance(compiled.compute, torch._dynamo.OptimizedModule)
    for one, two in zip(plain, compiled(pictures)):
        assert float(cosine_similarity(one, two, dim=-1).min()) > 0.9999
