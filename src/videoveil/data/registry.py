"""Every dataset by name. A dataset is one module with `load(root, *, …options, annotations_only, skip_bad)`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from videoveil.data.records import Dataset
from videoveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class Option:
    """A choice a dataset offers; values arrive as text from the command line."""

    name: str
    default: int | str
    choices: tuple[int | str, ...] = ()

    def parse(self, text: str) -> int | str:
        value: int | str = text
        if isinstance(self.default, int):
            if not re.fullmatch(r"[0-9]{1,9}", text):
                raise UsageError(f"option {self.name}={text!r}: a whole number from 0 on is needed")
            value = int(text)
        if self.choices and value not in self.choices:
            raise UsageError(
                f"option {self.name}={text!r}: choose one of {', '.join(map(str, self.choices))}"
            )
        return value

    def __str__(self) -> str:
        return f"{self.name}={'|'.join(map(str, self.choices)) or self.default}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One dataset."""

    name: str
    title: str
    labels: str
    options: tuple[Option, ...] = ()
    file: str = ""  # the module, where it is not the name

    @property
    def module(self) -> ModuleType:
        return import_module(f"videoveil.data.{self.file or self.name.replace('-', '_')}")


_SPLIT = Option("split", 1, (1, 2, 3))
_SEED = Option("seed", 0)
_ENTRIES = (
    Entry("ucf101", "UCF101", "action", (_SPLIT,)),
    Entry("hmdb51", "HMDB51", "action", (_SPLIT,)),
    Entry("kinetics400", "Kinetics-400", "action"),
    Entry("vispr", "VISPR", "image attributes", (Option("attributes", "vispr1", ("vispr1", "vispr2")),)),
    Entry("pa-hmdb51", "PA-HMDB51", "action, attributes per frame"),
    Entry("vpucf", "VPUCF", "action, attributes", (_SPLIT,)),
    Entry("vphmdb", "VPHMDB", "action, attributes", (_SPLIT,)),
    Entry("phvu", "P-HVU", "actions, objects, scenes"),
    Entry("thumos14", "THUMOS14", "action segments"),
    Entry("ucf-crime", "UCF-Crime", "anomaly"),
    Entry("xd-violence", "XD-Violence", "anomaly"),
    Entry("shanghaitech", "ShanghaiTech (weakly supervised split)", "anomaly"),
    Entry(
        "ntu60",
        "NTU RGB+D 60",
        "action, subject, gender",
        (
            Option("protocol", "cross-subject", ("cross-subject", "cross-view")),
            Option("bias", "none", ("none", "balanced", "F", "M")),
            Option("shortcut", "A004"),
            _SEED,
        ),
    ),
    Entry("toyota-smarthome", "Toyota Smarthome", "action, subject, gender"),
    Entry("casia-b", "CASIA-B", "subject (gait)"),
    Entry("folder", "Your own: a folder per class", "action", (_SEED,), "own_folder"),
    Entry("csv", "Your own: videos with a CSV file", "any", (Option("file", "videos.csv"), _SEED), "own_csv"),
    Entry("videos", "Your own: videos without labels", "none", (), "own_videos"),
)
_BY_NAME = {entry.name: entry for entry in _ENTRIES}


def entries() -> tuple[Entry, ...]:
    return _ENTRIES


def names() -> tuple[str, ...]:
    return tuple(_BY_NAME)


def entry(name: str) -> Entry:
    if name not in _BY_NAME:
        raise UsageError(f"no dataset {name!r}; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def parse_options(name: str, options: Mapping[str, Any]) -> dict[str, int | str]:
    """Options of a dataset from text or values; unknown names and values are errors."""
    known = {option.name: option for option in entry(name).options}
    unknown = [key for key in options if key not in known]
    if unknown:
        offered = ", ".join(str(option) for option in known.values()) or "none"
        raise UsageError(f"{name} has no option {', '.join(unknown)}; its options: {offered}")
    return {key: known[key].parse(str(value)) for key, value in options.items()}


def load(
    name: str,
    root: str | Path,
    options: Mapping[str, Any] | None = None,
    *,
    annotations_only: bool = False,
    skip_bad: bool = False,
) -> Dataset:
    """Load a dataset from its root folder."""
    parsed = parse_options(name, options or {})
    root = Path(root)
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder; give the root of {entry(name).title}")
    dataset: Dataset = entry(name).module.load(
        root, **parsed, annotations_only=annotations_only, skip_bad=skip_bad
    )
    return dataset


def open_source(source: str, options: Mapping[str, Any] | None = None, *, skip_bad: bool = False) -> Dataset:
    """DATASET:ROOT, or a plain folder (videos anywhere below it, without labels)."""
    name, colon, root = source.partition(":")
    if colon and root and name in _BY_NAME:
        return load(name, root, options, skip_bad=skip_bad)
    if source and Path(source).is_dir():  # an empty word would be the folder one happens to be in
        return load("videos", source, options, skip_bad=skip_bad)
    raise UsageError(f"{source!r}: neither a folder nor DATASET:ROOT with one of {', '.join(_BY_NAME)}")
