"""Every dataset by name, and its options from text."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from hypothesis import given

from tests.data.trees import nasty_text, quick, touch
from videoveil.data.registry import Option, entries, entry, load, names, open_source, parse_options
from videoveil.errors import UsageError


def test_every_entry_has_a_loader_that_takes_its_options_and_defaults() -> None:
    for found in entries():
        parameters = inspect.signature(found.module.load).parameters
        assert {"annotations_only", "skip_bad"} <= set(parameters), found.name
        own = {
            name: p.default
            for name, p in parameters.items()
            if name not in ("root", "annotations_only", "skip_bad")
        }
        assert own == {option.name: option.default for option in found.options}, found.name
        assert all(option.default in option.choices for option in found.options if option.choices), found.name
        assert isinstance(found.module.OFFICIAL, dict), found.name  # what verify compares with


def test_names_are_unique_and_say_what_the_help_says() -> None:
    assert len(set(names())) == len(entries()) == 18
    assert entry("pa-hmdb51").module.__name__ == "videoveil.data.pa_hmdb51"
    assert entry("folder").module.__name__ == "videoveil.data.own_folder"
    assert [str(option) for option in entry("vispr").options] == ["attributes=vispr1|vispr2"]
    assert str(Option("seed", 0)) == "seed=0"


def test_an_unknown_dataset_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'imagenet'.*ucf101.*casia-b"):
        entry("imagenet")


def test_options_come_from_text_or_values() -> None:
    assert parse_options("ucf101", {"split": "2"}) == {"split": 2}
    assert parse_options("ucf101", {"split": 3}) == {"split": 3}
    assert parse_options("ntu60", {"bias": "F", "seed": "7", "shortcut": "A001"}) == {
        "bias": "F",
        "seed": 7,
        "shortcut": "A001",
    }
    assert parse_options("casia-b", {}) == {}


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("ucf101", {"split": "4"}, "one of 1, 2, 3"),
        ("ucf101", {"split": "one"}, "whole number"),
        ("ucf101", {"split": ""}, "whole number"),
        ("ucf101", {"split": "²"}, "whole number"),
        ("folder", {"seed": "--1"}, "whole number"),
        ("folder", {"seed": "-1"}, "from 0 on"),
        ("folder", {"seed": "9" * 5000}, "whole number"),
        ("folder", {"seed": True}, "whole number"),
        ("ntu60", {"bias": "f"}, "none, balanced, F, M"),
        ("vispr", {"attributes": "vispr3"}, "vispr1, vispr2"),
        ("vispr", {"spilt": "1", "x": "2"}, "no option spilt, x; its options: attributes="),
        ("videos", {"split": "1"}, "its options: none"),
    ],
)
def test_wrong_options_are_usage_errors_that_say_what_there_is(name: str, options: dict, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_options(name, options)


@quick
@given(nasty_text)
def test_any_text_is_a_choice_or_a_usage_error(text: str) -> None:
    for option in (Option("split", 1, (1, 2, 3)), Option("seed", 0)):
        try:
            value = option.parse(text)
        except UsageError:
            continue
        assert isinstance(value, int)
        assert value >= 0
        assert not option.choices or value in option.choices


def test_a_root_that_is_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    for root in (tmp_path / "nowhere", touch(tmp_path, "file.avi") / "file.avi"):
        with pytest.raises(UsageError, match="no such folder; give the root of HMDB51"):
            load("hmdb51", root)


def test_load_hands_options_and_switches_to_the_loader(tmp_path: Path) -> None:
    touch(tmp_path, *(f"walk/{n}.mp4" for n in range(12)))
    plain, seeded = load("folder", str(tmp_path)), load("folder", tmp_path, {"seed": "1"})
    assert plain.counts() != seeded.counts() or [i.split for i in plain] != [i.split for i in seeded]
    assert plain.items[0].path == tmp_path / "walk/0.mp4"
    only = load("folder", tmp_path, annotations_only=True)
    assert only.items[0].path == Path("walk/0.mp4")


def test_a_source_is_a_dataset_with_its_root_or_a_plain_folder(tmp_path: Path) -> None:
    touch(tmp_path, *(f"walk/{n}.mp4" for n in range(12)))
    named = open_source(f"folder:{tmp_path}", {"seed": "1"})
    assert named == load("folder", tmp_path, {"seed": 1})
    assert {item.action for item in named} == {"walk"}
    plain = open_source(str(tmp_path))
    assert plain.name == "videos"
    assert {item.action for item in plain} == {None}
    assert len(plain) == 12


def test_a_folder_whose_name_has_a_colon_is_still_a_folder(tmp_path: Path) -> None:
    touch(tmp_path / "12:30", "a.mp4")
    assert len(open_source(str(tmp_path / "12:30"))) == 1


@pytest.mark.parametrize("source", ["nowhere", "imagenet:.", "", ":", "ucf-101:.", "ucf101:"])
def test_what_is_neither_a_dataset_nor_a_folder_is_refused(source: str) -> None:
    with pytest.raises(UsageError, match=r"neither a folder nor DATASET:ROOT with one of ucf101, .*videos"):
        open_source(source)


def test_options_and_skipping_reach_the_loader_of_a_source(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder; give the root of UCF101"):
        open_source("ucf101:nowhere")
    with pytest.raises(UsageError, match="videos has no option seed"):
        open_source(str(touch(tmp_path, "a.mp4")), {"seed": "1"})
    with pytest.raises(UsageError, match="choose one of 1, 2, 3"):
        open_source(f"ucf101:{tmp_path}", {"split": "9"})
