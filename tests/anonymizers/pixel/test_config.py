from __future__ import annotations

import json

import pytest

from videoveil.anonymizers import PixelConfig
from videoveil.anonymizers.pixel import (
    Grey,
    Levels,
    LowResolution,
    NoiseFloor,
    Outline,
    StageConfig,
    UNet,
    UNetPP,
    capacity_bits,
)
from videoveil.anonymizers.pixel.capacity import capacity_limit
from videoveil.anonymizers.pixel.config import KINDS, stage_from_json
from videoveil.errors import UsageError

from .pipelines import ALL


@pytest.mark.parametrize("name", ALL)
def test_a_configuration_survives_json(name: str) -> None:
    config = PixelConfig(ALL[name], size=112)
    assert PixelConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_every_kind_of_stage_is_in_the_tests() -> None:
    assert {stage.kind for stages in ALL.values() for stage in stages} == set(KINDS)


@pytest.mark.parametrize(
    "stage", [UNet(), UNetPP(), Grey(), LowResolution(3), Levels(), Outline(), NoiseFloor()]
)
def test_unknown_settings_are_refused_and_not_ignored(stage: StageConfig) -> None:
    with pytest.raises(UsageError, match=rf"{stage.kind.replace('+', '.')}: unknown settings depth"):
        stage_from_json({"kind": stage.kind, "depth": 3})


def test_unknown_kinds_and_fields_are_refused() -> None:
    with pytest.raises(UsageError, match="stage of kind 'mosaic': there are unet, unet"):
        PixelConfig.from_json({"stages": [{"kind": "mosaic"}]})
    with pytest.raises(UsageError, match="pixel anonymizer: unknown settings speed"):
        PixelConfig.from_json({"stages": [{"kind": "grey"}], "speed": 1})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UNet(0), "width=0"),
        (lambda: UNet(True), "width=True"),
        (lambda: UNet(out="tanh"), "out='tanh'"),
        (lambda: UNet(up="cubic"), "up='cubic'"),
        (lambda: UNet(bias=1), "bias=1"),
        (lambda: UNetPP("softmax"), "out='softmax'"),
        (lambda: LowResolution(), "give one of them"),
        (lambda: LowResolution(3, 4), "give one of them"),
        (lambda: LowResolution(factor=1), "factor=1"),
        (lambda: LowResolution(-2), "size=-2"),
        (lambda: LowResolution(3, mode="cubic"), "mode='cubic'"),
        (lambda: Levels(1), "levels=1"),
        (lambda: Levels(257), "levels=257"),
        (lambda: Levels(2, soft=-1), "soft=-1"),
        (lambda: Levels(2, soft=float("nan")), "soft=nan"),
        (lambda: Outline(1), "size=1"),
        (lambda: Outline(threshold=0.0), "threshold=0"),
        (lambda: Outline(threshold=float("nan")), "threshold=nan"),
        (lambda: Outline(threshold=1.5), "never exceeded"),
        (lambda: NoiseFloor(0), "sigma=0"),
        (lambda: NoiseFloor(float("nan")), "sigma=nan"),
        (lambda: NoiseFloor(0.1, per="clip"), "per='clip'"),
        (lambda: PixelConfig(()), "raw frames"),
        (lambda: PixelConfig(("grey",)), "is no stage"),
        (lambda: PixelConfig((Grey(),), size=-1), "size=-1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=message):
        make()


def test_the_code_has_the_asked_short_side_and_keeps_the_shape_of_the_frame() -> None:
    assert LowResolution(28).code(112, 112) == (28, 28)
    assert LowResolution(28).code(240, 320) == (28, 37)
    assert LowResolution(28).code(320, 240) == (37, 28)
    assert LowResolution(factor=4).code(241, 322) == (60, 80)
    assert LowResolution(factor=400).code(241, 322) == (1, 1)
    for stage, side in ((LowResolution(28), 28), (LowResolution(28), 20)):
        with pytest.raises(UsageError, match="throws nothing"):
            stage.code(side, side)


@pytest.mark.parametrize("shape", [(1, 1), (9, 16), (4, 3)])
def test_a_bound_that_does_not_grow_with_frames_is_that_of_all_large_ones(shape: tuple[int, int]) -> None:
    config = PixelConfig((UNet(), Outline(64)))
    limit = capacity_limit(config, *shape)
    for times in (80, 200, 480):
        assert capacity_bits(config, times * shape[0], times * shape[1]) == limit
    assert capacity_bits(config, 8 * shape[0], 8 * shape[1]) <= (limit or 0)  # a small frame has fewer pixels


def test_there_is_no_such_bound_where_larger_frames_tell_more() -> None:
    for stages in ((UNet(),), (Grey(), Levels(2)), (LowResolution(factor=4), Levels(2)), (NoiseFloor(0.5),)):
        assert capacity_limit(PixelConfig(stages), 1, 1) is None
    assert capacity_limit(PixelConfig((LowResolution(28, up="bilinear"), Levels(2))), 1, 1) is None
    assert capacity_limit(PixelConfig((Grey(), LowResolution(28), Levels(4))), 1, 1) == 2 * 28 * 28


def test_capacity_is_that_of_the_narrowest_stage() -> None:
    def bits(*stages: StageConfig) -> float:
        return capacity_bits(PixelConfig(stages), 112, 112)

    whole = 8 * 3 * 112 * 112
    assert bits(UNet()) == whole
    assert bits(UNet(), Grey(), LowResolution(28), Levels(2)) == 28 * 28
    assert bits(Grey(), LowResolution(28), Levels(2), UNet()) == 28 * 28
    assert bits(LowResolution(28), Levels(4), Grey()) == 2 * 3 * 28 * 28
    assert (
        bits(LowResolution(28, up="bilinear"), Levels(2)) == 3 * 112 * 112
    )  # levels come after the smoothing
    assert bits(Levels(2), UNet(), Levels(4)) == 3 * 112 * 112  # what is lost stays lost
    assert (
        bits(Outline(64)) == bits(UNet(), Outline(64), UNet()) == 64 * 64
    )  # a bit for every pixel of the drawing
    assert bits(Outline(200)) == 112 * 112
    assert bits(Outline(56), LowResolution(28, up="bilinear")) == 56 * 56
    assert bits(Outline(64), LowResolution(16), Levels(2)) == 16 * 16
    assert bits(NoiseFloor(0.5)) == pytest.approx(3 * 112 * 112 * 0.5)  # ½·log₂(1 + 1) each
    # many noisy looks at few values tell more of each, and less altogether
    assert bits(NoiseFloor(0.5)) > bits(LowResolution(28), NoiseFloor(0.5)) > bits(NoiseFloor(0.5)) / 16
