from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.protocols.conftest import Twin
from videoveil.attacks import GaitAttack, GaitConfig
from videoveil.data.records import Dataset
from videoveil.protocols.base import Reading
from videoveil.protocols.measures import (
    CONDITIONS,
    Action,
    Attributes,
    FeatureAttributes,
    FrameAttributes,
    Gait,
    PixelAttributes,
)
from videoveil.protocols.registry import protocol
from videoveil.protocols.scales import PAPER, SMALL, TINY
from videoveil.protocols.subjects import Subject, raw
from videoveil.protocols.workshop import Workshop
from videoveil.tasks.action.network import ActionNetwork
from videoveil.tasks.base import Features
from videoveil.tasks.outcomes import MeanOutcome


@pytest.fixture(scope="module")
def walks(shop: Workshop, twin: Twin, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return replace(shop, out=tmp_path_factory.mktemp("walks"), roots={"casia-b": twin("casia-b")})


def test_every_labelled_frame_of_pa_hmdb51_is_scored_at_the_papers_size(tmp_path: Path) -> None:
    frames = Attributes(model="resnet.50", test="pa-hmdb51")
    published = Workshop(tmp_path, {}, PAPER)
    task = frames._task(published)
    assert (task.config.frame_stride, frames.about(published, raw())) == (1, "")
    assert Attributes(model="resnet.50")._task(published).config.frame_stride == 0
    assert (
        frames.about(replace(published, scale=SMALL), raw())
        == "tiny instead of resnet.50, 5 frames of every video"
    )
    assert FrameAttributes().about(published, raw()) == "features of tiny, 10 frames of every video"


def test_images_are_seen_once_in_an_epoch_of_the_papers_size_and_cut_as_their_paper_cuts_them(
    tmp_path: Path,
) -> None:
    published = Workshop(tmp_path, {}, PAPER)
    for size, test in ((112, "spact-test-image"), (224, "ted-spad-test")):
        for measure in (Attributes(size=size), Attributes(size=size, test="pa-hmdb51")):
            config = measure._task(published).config
            assert (config.per_video, config.test, config.size) == (1, test, size)
    assert Attributes("vphmdb", size=224)._task(published).config.per_video == 4  # frames of videos


class Asked(Exception):
    """Ends a measurement when what was to be seen is known."""


def test_leakage_of_ted_spad_is_measured_on_features_of_its_test_crop(
    shop: Workshop, twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(shop, out=tmp_path, roots={"vispr": twin("vispr")})
    found = []

    def end(workshop: Workshop, train: Features, kind: str) -> None:
        found.append((train.store.recipe.crop, train.store.recipe.stride))
        raise Asked

    monkeypatch.setattr("videoveil.protocols.measures.attack_on_features", end)
    for measure in (PixelAttributes("mlp5"), FeatureAttributes("mlp5")):
        with pytest.raises(Asked):
            measure.run(own, raw())
    assert found == [("ted-spad", 2), ("short-edge", 1)]


def test_a_network_on_raw_videos_learns_as_long_as_published_for_them(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = []

    def end(task: ActionNetwork, *_: object, **__: object) -> None:
        epochs.append(task.config.epochs)
        raise Asked

    monkeypatch.setattr(ActionNetwork, "fit", end)
    own = replace(shop, out=tmp_path, scale=PAPER)
    for subject in (raw(), Subject("SPAct", identity="x")):
        for size in (224, 112):
            with pytest.raises(Asked):
                Action("hmdb51", "i3d.resnet50", size).run(own, subject)
    assert epochs == [100, 150, 50, 150]


def test_a_stride_looks_at_every_so_many_frames(shop: Workshop, twin: Twin, tmp_path: Path) -> None:
    roots = {"vispr": twin("vispr"), "pa-hmdb51": twin("pa-hmdb51")}
    own = replace(shop, out=tmp_path, roots=roots, scale=replace(TINY, frame_stride=8))
    measure = Attributes(model="tiny", size=32, test="pa-hmdb51")
    test = own.clips("pa-hmdb51", raw(), "test")
    fitted = measure._task(own).fit(own.clips("vispr", raw(), "train"), device="cpu")
    (said,) = fitted.answers(test).values()
    frames = [int(item.attribute_spans[-1].stop) for item in test.items()]
    assert len(said.videos) >= sum(math.ceil(count / 8) for count in frames) > TINY.views * len(frames)


def test_walks_with_a_bag_in_a_coat_and_from_other_sides_are_told_apart(walks: Workshop) -> None:
    usual, sides = (walks.measured(Gait(exclude_same_view=strict), raw()) for strict in (False, True))
    gallery = walks.features("casia-b", raw(), "gallery")
    for found, strict in ((usual, False), (sides, True)):
        people = {entry.item.subject for entry in gallery.items()}
        config = GaitConfig(trained=len(people) >= 8, exclude_same_view=strict)
        score = GaitAttack(config).fit(gallery, device="cpu").score(gallery.with_split("probe"))
        for condition in CONDITIONS:
            assert found[f"cosine_{condition}"].value == score[f"cosine_{condition}"].value
            assert strongest(found, condition) == found[f"top1_{condition}"].value
    assert usual["top1_nm"] == usual["top1"]
    assert any(sides[f"cosine_{one}"].value != usual[f"cosine_{one}"].value for one in CONDITIONS)


def strongest(found: Mapping[str, Reading], condition: str) -> float:
    """The best of the attackers that look among all people."""
    own = [
        one.value
        for name, one in found.items()
        if name.startswith(("cosine_", "enrolled_")) and condition in name
    ]
    return max(value for value in own if value is not None)


def test_conditions_that_nobody_walks_in_and_a_single_side_are_not_measurable(
    walks: Workshop, tmp_path: Path
) -> None:
    whole = walks.dataset("casia-b")
    own = replace(walks, out=tmp_path, cache=tmp_path / "features")
    own._datasets[_only(own, whole)] = whole.where(
        lambda item: item.extra["view"] == "090" and item.extra["condition"] != "cl"
    )
    usual, sides = (own.measured(Gait(exclude_same_view=strict), raw()) for strict in (False, True))
    assert usual["cosine_bg"].value is not None
    assert usual["cosine_cl"] == usual["top1_cl"] == Reading(None)
    assert {one.value for one in sides.values()} == {None}


def test_the_best_of_several_attackers_is_told_with_all_of_them() -> None:
    """Of features, and of walks; attackers that look among half of the people are not among them."""
    said = {name: MeanOutcome("top1", ("a",), np.array([right])) for name, right in (("x", 0.0), ("y", 1.0))}
    found = {f"cmap_{name}": Reading(1.0, 0.5, one) for name, one in said.items()}
    found["cmap"] = Reading(1.0, 0.5, said["y"])
    for measure in (FeatureAttributes(), FrameAttributes()):
        assert measure.complete(found)["cmap"].among == tuple(said.values())
    walks = {f"top1_{one}": Reading(None) for one in CONDITIONS}
    walks |= {f"{name}_nm": Reading(1.0, 0.5, said["x"]) for name in ("cosine", "enrolled", "open_rows")}
    walks["top1_nm"] = Reading(1.0, 0.5, said["x"])
    read = Gait().complete(walks)
    assert (len(read["top1_nm"].among), read["top1_bg"].among) == (2, ())
    lost = replace(found["cmap_x"], outcome=None)
    assert FeatureAttributes().complete({**found, "cmap_x": lost})["cmap"].among == ()


def _only(shop: Workshop, whole: Dataset) -> str:
    """The name under which a workshop remembers a dataset that was loaded as it is."""
    shop.dataset(whole.name)
    (key,) = shop._datasets
    return key


def test_gait_has_a_column_for_every_condition_side_and_attacker() -> None:
    (panel,) = protocol("gait").panels
    wants = panel.wants
    assert wants["CASIA-B top-1"].metric == "cosine_nm"  # the paper's
    assert wants["CASIA-B top-1, with a bag"].metric == "cosine_bg"
    assert wants["CASIA-B top-1, in a coat, strongest attacker"].metric == "top1_cl"
    assert wants["CASIA-B top-1, other sides only"].measure == Gait(exclude_same_view=True)
    asked = {(want.measure, want.metric) for want in wants.values()}
    for measure in (Gait(), Gait(exclude_same_view=True)):
        for condition in CONDITIONS:
            assert {(measure, f"cosine_{condition}"), (measure, f"top1_{condition}")} <= asked
