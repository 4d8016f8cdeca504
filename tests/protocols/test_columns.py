from __future__ import annotations

import pytest

from videoveil.protocols.columns import on_features, on_pictures
from videoveil.protocols.measures import (
    Action,
    ActionProbe,
    Anomaly,
    Attributes,
    Detection,
    FeatureAttributes,
    FrameAttributes,
    PixelAttributes,
)
from videoveil.protocols.registry import protocol


def test_columns_on_pictures_take_network_and_data_from_the_table() -> None:
    wants = on_pictures("spact/T2", size=112, frozen=True).wants
    assert wants["VISPR1 cMAP"].measure == Attributes("vispr", "resnet.50", 112, frozen=True)
    assert wants["VISPR2 F1"].measure == Attributes("vispr", "resnet.50", 112, "vispr2", frozen=True)
    assert wants["PA-HMDB51 cMAP"].measure == Attributes(
        "vispr", "resnet.50", 112, test="pa-hmdb51", frozen=True
    )
    assert {name: want.metric for name, want in wants.items()}["VISPR2 F1"] == "f1"
    wants = on_pictures("penalty/T1", size=224, only=("UCF101",)).wants
    assert {name: want.measure for name, want in wants.items()} == {
        "UCF101 top-1": Action("ucf101", "i3d.resnet50", 224)
    }


def test_columns_on_features_take_the_published_attacker() -> None:
    wants = on_features("splavu/T1").wants
    assert wants["VISPR cMAP"].measure == FeatureAttributes("mlp2")
    assert wants["VISPR cMAP"].metric == "cmap_mlp2"
    assert wants["Kinetics-400 top-1"].measure == ActionProbe("kinetics400")
    assert wants["THUMOS14 mAP"].measure == Detection("thumos14")
    assert wants["UCF-Crime AUC"].measure == Anomaly("ucf-crime")


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("cross-dataset", {"ucf101", "vispr"}),
        ("pa-hmdb51", {"pa-hmdb51", "vispr"}),
        ("same-dataset", {"phvu"}),
        ("novel", {"hmdb51", "pa-hmdb51", "vispr"}),
        ("vp", {"vphmdb"}),
        ("vp-novel", {"vpucf"}),
        ("raw-pretrained", {"vispr", "pa-hmdb51"}),
        ("practical", {"ucf101", "vispr"}),
        ("anomaly", {"vispr", "ucf-crime", "xd-violence", "shanghaitech"}),
        ("feature-leakage", {"vispr"}),
        ("five-tasks", {"vispr", "kinetics400", "ucf101", "thumos14", "ucf-crime"}),
        ("ntu-bias", {"ntu60"}),
        ("smarthome", {"toyota-smarthome"}),
        ("gait", {"vispr", "casia-b"}),
        ("trade-off", {"vispr", "pa-hmdb51"}),
        ("parameters", set()),
    ],
)
def test_protocols_look_at_the_data_of_the_papers(name: str, needs: set[str]) -> None:
    assert set(protocol(name).needs) == needs


def test_features_are_extracted_as_ted_spad_does_it_in_its_own_tables_alone() -> None:
    asked = {
        want.measure.clips
        for panel in protocol("anomaly").panels
        for want in panel.wants.values()
        if isinstance(want.measure, Anomaly)
    }
    assert asked == {"ted-spad"}
    assert Anomaly("ucf-crime").clips == "all"
    assert repr(Anomaly("ucf-crime")) == "Anomaly(dataset='ucf-crime')"  # cells are remembered by it


def test_leakage_is_looked_for_in_pictures_cut_as_in_ted_spads_tests_and_elsewhere_as_the_encoder_asks() -> (
    None
):
    for panel in protocol("feature-leakage").panels:
        measures = {want.measure for want in panel.wants.values()}
        assert measures == {PixelAttributes("mlp5")}
    for name in ("five-tasks", "gait"):
        asked = {want.measure for panel in protocol(name).panels for want in panel.wants.values()}
        assert {m for m in asked if isinstance(m, FeatureAttributes)} == {FeatureAttributes("mlp2")}
    assert (PixelAttributes.clips, FeatureAttributes.clips) == ("ted-spad", "all")
    assert repr(FeatureAttributes()) == "FeatureAttributes(kind='mlp2', dataset='vispr')"


def test_frames_of_pa_hmdb51_are_judged_by_the_papers_own_rule() -> None:
    (panel,) = protocol("pa-hmdb51-features").panels
    measure = panel.wants["PA-HMDB51 cMAP"].measure
    assert isinstance(measure, FrameAttributes)
    assert measure.rule == "splavu"
