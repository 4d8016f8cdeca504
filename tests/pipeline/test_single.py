from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.pipeline import films
from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer
from videoveil.pipeline.checks import NOT_CHANGED, FrameChecks
from videoveil.pipeline.engines import NetworkWorker, Workshop
from videoveil.pipeline.options import Options
from videoveil.pipeline.single import one_picture

SIZE = (64, 96)


class Nothing(nn.Module):
    """Stands for a network that has learned to do nothing at all."""

    def __call__(self, x: torch.Tensor, context: object = None) -> torch.Tensor:
        return x


def network_worker(anonymizer: PixelAnonymizer, options: Options) -> NetworkWorker:
    worker = Workshop().worker(anonymizer, SIZE, 1, options)
    assert isinstance(worker, NetworkWorker)
    return worker


@pytest.mark.parametrize("inner", [None, 0, 48])
def test_a_picture_comes_out_changed_and_at_its_size(inner: int | None) -> None:
    network, raw = pixel(UNet(width=4), size=32), films.scene(0)
    worker = network_worker(network, Options(engine="torch", inner=inner))
    checked = one_picture(worker, FrameChecks(network), raw, None)
    assert not checked.reason
    assert checked.image.shape == raw.shape
    assert np.abs(checked.image.astype(int) - raw).mean() > 1
    assert np.array_equal(checked.image, worker([raw])[0])


@pytest.mark.parametrize("inner", [None, 0, 48])
def test_a_network_that_does_nothing_is_found_however_small_the_pictures_are_that_it_looks_at(
    inner: int | None,
) -> None:
    network, raw = pixel(UNet(width=4), size=32), films.scene(0)
    worker = network_worker(network, Options(engine="torch", inner=inner))
    worker.engine.stages = [Nothing()]
    checked = one_picture(worker, FrameChecks(network), raw, None)
    assert (checked.failed, checked.reason) == (True, NOT_CHANGED)
    assert checked.image.shape == raw.shape
    assert not checked.image.any()


def test_what_the_anonymizer_raises_is_raised_and_gives_no_picture() -> None:
    network = pixel(UNet(width=4), size=32)
    worker = network_worker(network, Options(engine="torch"))
    worker.engine.stages = [lambda x, context: x * float("nan")]
    with pytest.raises(Withheld):
        one_picture(worker, FrameChecks(network), films.scene(0), None)


def test_anonymizers_without_a_network_see_every_pixel() -> None:
    blur, raw = open_anonymizer("blur"), films.scene(0)
    worker = Workshop().worker(blur, SIZE, 1, Options())
    checked = one_picture(worker, FrameChecks(blur), raw, None)
    assert np.array_equal(checked.image, films.blurred([raw])[0])
