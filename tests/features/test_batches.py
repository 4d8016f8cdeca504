"""Batches through an encoder: every arithmetic, in order, whatever their size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tests.encoders.helpers import small
from videoveil.anonymizers.pixel import Grey, pixel
from videoveil.encoders import create
from videoveil.encoders.base import Encoder
from videoveil.errors import UsageError
from videoveil.features.batches import Flow, Forward, different_clips
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


@pytest.mark.parametrize(
    ("name", "precision"), [("videomae.b", "bf16"), ("videomae.b", "fp32"), ("tiny", "bf16")]
)
def test_compiled_features_are_those_of_the_same_network(
    name: str, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compiled is one graph; it is run as it was traced, since machine code of it takes too long here."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager", fullgraph=True))
    encoder = small(name, depth=1) if name == "videomae.b" else create(name)
    pictures = clips_for(encoder, 2)
    plain = Forward(encoder, CPU, precision=precision, tokens=True)(pictures)
    compiled = Forward(encoder, CPU, precision=precision, tokens=True, compiled=True)
    traced = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for one, two in zip(plain, compiled(pictures)):
        assert float(cosine_similarity(one, two, dim=-1).min()) > 0.9999
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > traced
    assert compiled.shapes == {pictures.shape}


@pytest.mark.parametrize("name", ["videomae.b", "tiny"])
def test_a_network_that_its_compiler_changed_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def miscompile(work: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        """Rows end up in another order: every number is one of the network's, and they are of other clips."""

        def other(rows: Tensor) -> Any:
            return work(rows.roll(1, 0))

        return other

    monkeypatch.setattr(torch, "compile", miscompile)
    encoder = small(name) if name == "videomae.b" else create(name)
    forward = Forward(encoder, CPU, precision="bf16", compiled=True)
    with pytest.raises(UsageError, match=r"gives other features .* leave out --compile"):
        forward(clips_for(encoder, 3))


def test_clips_that_compilers_are_judged_by_differ_much_and_are_of_the_asked_kind() -> None:
    like = torch.zeros(4, 3, 2, 8, 8, dtype=torch.uint8)
    shown = different_clips(like)
    assert (shown.shape, shown.dtype) == (like.shape, like.dtype)
    means = shown.float().mean((1, 2, 3, 4))
    assert float(means.max() - means.min()) > 40
    floats = different_clips(like.float())
    assert floats.dtype == torch.float32
    assert 0 <= float(floats.min()) < float(floats.max()) <= 1
