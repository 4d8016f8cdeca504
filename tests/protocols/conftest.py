"""Twins, rendered when a test asks for them, and two anonymizers that take a second to make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from videoveil.data import registry, twins
from videoveil.data.twins.plan import SCALES
from videoveil.protocols.scales import TINY
from videoveil.protocols.subjects import raw
from videoveil.protocols.workshop import Workshop
from videoveil.recipes import fit, fit_pixel, pixel_recipe, recipe
from videoveil.tasks.base import Clips

SIDE = 48  # of the encoder's pictures: a fifth of the time of its own 112
# evaluations of size `tiny` look at two watched videos of a kind: a quarter of the frames is enough to choose from
WATCHED = ("ucf-crime", "xd-violence", "shanghaitech")
SHORT = replace(SCALES["tiny"], untrimmed=3, long_frames=150)

Twin = Callable[[str], Path]


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    """The folder of a twin by name."""
    top = tmp_path_factory.mktemp("twins")

    def made(name: str) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            if name in WATCHED:
                patch.setitem(SCALES, "tiny", SHORT)
            twins.make(name, top / name, seed=0, size="tiny")
        return top / name

    return made


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features, shared by all tests."""
    return tmp_path_factory.mktemp("features")


@pytest.fixture(scope="session")
def shop(twin: Twin, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    out = tmp_path_factory.mktemp("shop")
    return Workshop(out, {"hmdb51": twin("hmdb51")}, TINY, encoder_size=SIDE, device="cpu", cache=cache)


@pytest.fixture(scope="session")
def latent_run(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe `veil`, in closed form."""
    folder = tmp_path_factory.mktemp("runs") / "veil"
    fit(recipe("veil"), {"action": shop.features("hmdb51", raw(), "train")}, folder, device="cpu")
    return folder


@pytest.fixture(scope="session")
def trained_run(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short training of SPLAVU."""
    folder = tmp_path_factory.mktemp("runs") / "splavu"
    short = replace(recipe("splavu-hmdb51"), epochs=3, batch=8)
    fit(short, {"action": shop.features("hmdb51", raw(), "train")}, folder, device="cpu")
    return folder


@pytest.fixture(scope="session")
def pixel_run(twin: Twin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe `veil-pixel`, which trains nothing."""
    folder = tmp_path_factory.mktemp("runs") / "veil-pixel"
    videos = Clips(registry.load("ucf101", twin("ucf101")), "train")
    fit_pixel(pixel_recipe("veil-pixel"), videos, folder, device="cpu")
    return folder
