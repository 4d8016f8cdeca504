"""Real clips and pictures as datasets, for the benchmarks that are given a folder with them.

DATA/hmdb51-12   12 classes of HMDB51 in the official layout, 15 frames per second
DATA/pa-hmdb51   PrivacyAttributes/<class>.json of PA-HMDB51, in the frame numbers of the original 30 per second
DATA/kth         <action>/personNN_<action>_dN_uncomp.mp4: 25 people, 6 actions, 4 scenarios
DATA/utkface     faces with labels.csv: file, age, gender (0 m, 1 f), race (0 to 4)
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from videoveil import files
from videoveil.anonymizers import LatentAnonymizer
from videoveil.data import hmdb51, pa_hmdb51
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError
from videoveil.features.store import FeatureStore
from videoveil.tasks.feature_set import FeatureSet
from videoveil.training import seeds

RATE = 15  # frames per second of the HMDB51 files here
AGES = (20, 40, 60)  # first year of every age group but the youngest
RACES = ("white", "black", "asian", "indian", "other")
AGE_GROUPS = tuple(
    f"age {low}-{high - 1}" if high else f"age {low}+" for low, high in zip((0, *AGES), (*AGES, 0))
)
KTH_SPLITS = {  # people, the original protocol
    "train": (11, 12, 13, 14, 15, 16, 17, 18),
    "val": (19, 20, 21, 23, 24, 25, 1, 4),
    "test": (22, 2, 3, 5, 6, 7, 8, 9, 10),
}
KTH_NAME = re.compile(r"person(\d\d)_([a-z]+)_(d\d)_uncomp")


def actions(data: Path, limit: int | None = None) -> Dataset:
    """hmdb51-12, split 1; every clip with the film it was cut from."""
    found = hmdb51.load(data / "hmdb51-12", split=1)
    items = tuple(replace(item, extra={"source": hmdb51.film(item)}) for item in found)
    return thinned(replace(found, items=items), limit)


def film(item: Item) -> str:
    """Clips of one film show the same people; photographs are by themselves."""
    return str(item.extra.get("source", item.id))


def kth(data: Path, limit: int | None = None) -> Dataset:
    """KTH with the original split of the people."""
    root, wrong, items = data / "kth", [], []
    part = {number: name for name, people in KTH_SPLITS.items() for number in people}
    for path in sorted(root.glob("*/*.mp4")):
        match = KTH_NAME.fullmatch(path.stem)
        if match is None or match.group(2) != path.parent.name or int(match.group(1)) not in part:
            wrong.append(str(path.relative_to(root)))
            continue
        person, action, scenario = match.groups()
        id_ = f"{action}/person{person}_{scenario}"
        extra = {"source": f"person{person}", "scenario": scenario}
        items.append(
            Item(id_, path, part[int(person)], action=action, subject=f"person{person}", extra=extra)
        )
    if wrong or not items:
        raise AnnotationError(
            f"{root}: {len(items)} KTH clips, {len(wrong)} files that are not named like one:", wrong
        )
    classes = sorted({item.action for item in items if item.action is not None})
    return thinned(Dataset("kth", root, tuple(items), classes=tuple(classes)), limit)


def faces(data: Path, limit: int | None = None) -> Dataset:
    """UTKFace: gender, race and age group of every picture; 60/20/20 by the hash of the picture's bytes."""
    root, items = data / "utkface", []
    with (root / "labels.csv").open(encoding="utf-8", newline="") as handle:
        for row in csv.reader(handle):
            if row[0] == "file":
                continue
            name, age, gender, race = row
            path = root / name
            items.append(
                Item(
                    path.stem,
                    path,
                    split_by_hash(path),
                    "image",
                    attributes=face_attributes(int(age), int(gender), int(race)),
                )
            )
    names = ("female", *RACES, *AGE_GROUPS)
    return thinned(
        Dataset("utkface", root, tuple(sorted(items, key=lambda i: i.id)), attributes=names), limit
    )


def face_attributes(age: int, gender: int, race: int) -> dict[str, int]:
    """One 0/1 per attribute: female, five races, four age groups."""
    group = sum(age >= first for first in AGES)
    found = {"female": int(gender == 1)}
    found |= {name: int(race == place) for place, name in enumerate(RACES)}
    found |= {name: int(group == place) for place, name in enumerate(AGE_GROUPS)}
    return found


def split_by_hash(path: Path) -> str:
    """60/20/20: equal pictures are in one part, whatever they are called."""
    share = int(files.file_hash(path)[:8], 16) / 16**8
    return "train" if share < 0.6 else "val" if share < 0.8 else "test"


def thinned(dataset: Dataset, limit: int | None) -> Dataset:
    """About `limit` items, as many of every class and split as their share: for a quick look, never for a result."""
    if limit is None or len(dataset) <= limit:
        return dataset
    kinds: dict[tuple[str | None, str], list[Item]] = {}
    for item in dataset:
        kinds.setdefault((item.action, item.split), []).append(item)
    kept: set[str] = set()
    for items in kinds.values():
        order = seeds.rng(0, "thinned", items[0].split, str(items[0].action)).permutation(len(items))
        count = max(2, round(limit * len(items) / len(dataset)))
        kept |= {items[i].id for i in order[:count]}
    return dataset.where(lambda item: item.id in kept)


# --- private attributes of HMDB51 clips ---------------------------------------------------------------------


def people(data: Path) -> dict[str, Item]:
    """PA-HMDB51's labels by item id, in the frame numbers of the files here."""
    found = pa_hmdb51.load(data / "pa-hmdb51", annotations_only=True)
    return {item.id: item for item in pa_hmdb51.at_rate(found, RATE)}


def person_attributes(values: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The six labels of the paper's rule, and the values themselves: who is female, which skin, any bare skin."""
    found = pa_hmdb51.binary(values, "splavu")
    found |= {"nudity": int(any(values["nudity"])), "female": int(2 in values["gender"])}
    return found | {f"skin_{tone}": int(tone in values["skin_color"]) for tone in (1, 2, 3)}


def in_frames(item: Item, first: int, stop: int) -> dict[str, int] | None:
    """What holds in most of the labelled frames of [first, stop); None where none is labelled."""
    votes: Counter[str] = Counter()
    frames = 0
    for span in item.attribute_spans:
        common = min(stop, span.stop) - max(first, span.first)
        if common > 0 and len(span.values) == len(pa_hmdb51.ATTRIBUTES):
            frames += common
            for name, value in person_attributes(span.values).items():
                votes[name] += common * value
    return {name: int(2 * count > frames) for name, count in votes.items()} if frames else None


def halves(sources: list[str]) -> dict[str, int]:
    """Source → fold 0 or 1; the folds have about equally many items, and no source is in both."""
    sizes = Counter(sources)
    names = sorted(sizes)
    order = [names[i] for i in seeds.rng(0, "halves").permutation(len(names))]
    fold: dict[str, int] = {}
    filled = [0, 0]
    for name in sorted(order, key=lambda name: -sizes[name]):
        fold[name] = int(filled[1] < filled[0])
        filled[fold[name]] += sizes[name]
    return fold


# --- features in memory -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Videos:
    """Features of n items: M moving clips one after the other, K static clips of each; width d."""

    name: str
    items: tuple[Item, ...]
    clip: np.ndarray  # (M, d) float32; rows offsets[i] to offsets[i + 1] are those of item i
    offsets: np.ndarray  # (n + 1,)
    starts: np.ndarray  # (M,) first frame of each clip
    static: np.ndarray  # (n, K, d) float32
    frames: np.ndarray  # (n, K) where the static clips were taken

    def owners(self) -> np.ndarray:
        """The item of every moving clip, (M,)."""
        return np.repeat(np.arange(len(self.items)), np.diff(self.offsets))

    def part(self, split: str) -> FeatureSet:
        """The moving clips of a split, as a probe takes them."""
        chosen = [i for i, item in enumerate(self.items) if item.split == split]
        rows = [self.clip[self.offsets[i] : self.offsets[i + 1]] for i in chosen]
        offsets = np.concatenate(([0], np.cumsum([len(r) for r in rows]))).astype(np.int64)
        return FeatureSet(tuple(self.items[i] for i in chosen), np.concatenate(rows), offsets)


def read(store: FeatureStore, name: str) -> Videos:
    """A dataset of a store, by id."""
    entries = sorted(store.items(name), key=lambda entry: entry.item.id)
    found = [store.read(entry) for entry in entries]
    static = [f.static for f in found if f.static is not None]
    frames = [f.static_frames for f in found if f.static_frames is not None]
    return Videos(
        name,
        tuple(entry.item for entry in entries),
        np.concatenate([f.clip for f in found]),
        np.concatenate(([0], np.cumsum([len(f.clip) for f in found]))).astype(np.int64),
        np.concatenate([f.starts for f in found]),
        np.stack(static),
        np.stack(frames),
    )


def through(videos: Videos, anonymizer: LatentAnonymizer) -> Videos:
    """The same features anonymized; each clip's noise, where there is any, is named by its video and place."""
    count, each, width = videos.static.shape
    owners, still = videos.owners(), videos.static.astype(np.float64).mean(1).astype(np.float32)
    moving = [f"{videos.items[i].id} clip {start}" for i, start in zip(owners, videos.starts.tolist())]
    names = [
        f"{item.id} static {frame}"
        for item, row in zip(videos.items, videos.frames)
        for frame in row.tolist()
    ]
    static = _through(videos.static.reshape(-1, width), np.repeat(still, each, 0), names, anonymizer)
    return replace(
        videos,
        clip=_through(videos.clip, still[owners], moving, anonymizer),
        static=static.reshape(count, each, width),
    )


@torch.inference_mode()
def _through(
    rows: np.ndarray, still: np.ndarray, names: list[str], anonymizer: LatentAnonymizer
) -> np.ndarray:
    parts = []
    for begin in range(0, len(rows), 4096):
        some = slice(begin, begin + 4096)
        context = torch.from_numpy(still[some]) if anonymizer.wants_static else None
        done = anonymizer(torch.from_numpy(rows[some]), static=context, content=names[some])
        parts.append(done.numpy())
    return np.concatenate(parts)
