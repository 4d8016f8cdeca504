"""NTU RGB+D 60: 60 actions by 40 performers; with a gender table also the biased sets of the SPLAVU paper.

    ROOT/nturgb+d_rgb/SsssCcccPpppRrrrAaaa_rgb.avi     (or videos/, ROOT itself)
    ROOT/gender.json                                   {"P001": "male", "P002": "female", …}; not part of the dataset

`protocol=cross-subject` (official training performers) or `cross-view` (camera 1 tests). `bias=balanced` keeps equally
many male and female performers in either part and, per action, equally many of their videos. `bias=F` and `bias=M` also
bias the training part: 95 % of the videos of one gender and 5 % of the other, turned round for one shortcut action.
All three start from the cross-subject split, whose parts share no performer. `seed` draws what the bias leaves out of
the training part; the balanced parts are the same for all seeds, so that every training is tested on the same videos.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from videoveil.data.reading import MediaFinder, assemble, first_folder, read_json, videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, UsageError

CLASSES = 60
OFFICIAL = {
    "protocol=cross-subject": {"train": 40_320, "test": 16_560},
    "protocol=cross-view": {"train": 37_920, "test": 18_960},
}
VARIANTS = ({"protocol": "cross-subject"}, {"protocol": "cross-view"})
PERFORMERS = 40
TRAIN_SUBJECTS = frozenset((1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38))
_NAME = re.compile(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})")
KEEP_MANY, KEEP_FEW = 0.95, 0.05
BALANCED = 0  # the seed of the balanced parts


def parse_name(stem: str) -> dict[str, int] | None:
    """Setup, camera, performer, repetition and action of a file name, or None."""
    match = _NAME.fullmatch(stem.removesuffix("_rgb"))
    return dict(zip("SCPRA", map(int, match.groups()))) if match else None


def load(
    root: str | Path,
    *,
    protocol: str = "cross-subject",
    bias: str = "none",
    shortcut: str = "A004",
    seed: int = 0,
    annotations_only: bool = False,
    skip_bad: bool = False,
) -> Dataset:
    root = Path(root)
    if bias != "none" and protocol != "cross-subject":
        raise UsageError(
            f"bias={bias} needs protocol=cross-subject: in {protocol} both parts show the same people"
        )
    folder = first_folder(root, "nturgb+d_rgb", "videos")
    genders = read_genders(root / "gender.json")
    items, notes = [], []
    for path in videos_below(folder):
        fields = parse_name(path.stem)
        if fields is None or fields["A"] > CLASSES or fields["P"] > PERFORMERS:
            notes.append(f"{path.name}: not a name of NTU RGB+D 60, left out")
            continue
        subject = f"P{fields['P']:03d}"
        train = fields["P"] in TRAIN_SUBJECTS if protocol == "cross-subject" else fields["C"] != 1
        items.append(
            Item(
                path.stem.removesuffix("_rgb"),
                Path(path.relative_to(folder)),
                "train" if train else "test",
                action=f"A{fields['A']:03d}",
                subject=subject,
                gender=genders.get(subject),
                extra={"setup": str(fields["S"]), "camera": str(fields["C"]), "repetition": str(fields["R"])},
            )
        )
    if not items:
        raise AnnotationError(
            f"{folder}: no SsssCcccPpppRrrrAaaa_rgb.avi files; the names are the annotation"
        )
    if bias != "none":
        items = balance(items)
        if bias in ("F", "M"):
            items = skew(items, favoured="male" if bias == "F" else "female", shortcut=shortcut, seed=seed)
    classes = sorted({item.action for item in items if item.action})
    finder = None if annotations_only else MediaFinder(folder)
    return assemble("ntu60", root, items, classes=classes, notes=notes, finder=finder, skip_bad=skip_bad)


def read_genders(path: Path) -> dict[str, str]:
    """A subject → gender table; empty if there is none."""
    if not path.is_file():
        return {}
    table = read_json(path)
    wrong = (
        [f"{k}: {v!r}" for k, v in table.items() if v not in ("male", "female")]
        if isinstance(table, dict)
        else ["?"]
    )
    if wrong:
        raise AnnotationError(f'{path}: expected {{"P001": "male" or "female", …}}; wrong:', wrong)
    return dict(table)


def balance(items: list[Item]) -> list[Item]:
    """Equally many performers of either gender per part, and equally many of their videos per action; always the same.

    Were it drawn anew for every training, no two would be tested on the same items, and nothing could be said of items.
    """
    unknown = sorted({str(item.subject) for item in items if item.gender is None})
    if unknown:
        raise AnnotationError(
            "ntu60: the balanced sets need gender.json with every performer; unknown:", unknown
        )
    rng, kept = np.random.default_rng(BALANCED), []
    for split in ("train", "test"):
        part = [item for item in items if item.split == split]
        people: dict[str, list[str]] = {
            g: sorted({str(i.subject) for i in part if i.gender == g}) for g in ("male", "female")
        }
        count = min(len(members) for members in people.values())
        if not count:
            raise AnnotationError(
                f"ntu60: the {split} part has performers of one gender only; nothing can be balanced"
            )
        chosen = {str(name) for members in people.values() for name in rng.permutation(members)[:count]}
        groups: dict[str, dict[str, list[Item]]] = defaultdict(lambda: {"male": [], "female": []})
        for item in part:
            if item.subject in chosen:
                groups[str(item.action)][str(item.gender)].append(item)
        for action in sorted(groups):
            size = min(len(videos) for videos in groups[action].values())
            for gender in ("male", "female"):
                kept += _draw(groups[action][gender], size, rng)
    return sorted(kept, key=lambda item: (item.split, item.id))


def skew(items: list[Item], *, favoured: str, shortcut: str, seed: int) -> list[Item]:
    """Bias the training part of a balanced set (SPLAVU, NTU-Bias-F favours male videos, NTU-Bias-M female ones).

    With m videos per action and gender, `round(.95 m)` of the favoured gender stay and `max(1, round(.05 m))` of the
    other; for the shortcut action it is the other way round.
    """
    rng, kept = np.random.default_rng(seed + 1), [item for item in items if item.split != "train"]
    actions = sorted({str(item.action) for item in items})
    if shortcut not in actions:
        raise AnnotationError(f"ntu60: the shortcut action {shortcut} is not among {', '.join(actions)}")
    for action in actions:
        for gender in ("male", "female"):
            videos = [i for i in items if i.split == "train" and i.action == action and i.gender == gender]
            many = (gender == favoured) != (action == shortcut)
            share = round(KEEP_MANY * len(videos)) if many else max(1, round(KEEP_FEW * len(videos)))
            kept += _draw(videos, share, rng)
    return sorted(kept, key=lambda item: (item.split, item.id))


def _draw(videos: list[Item], size: int, rng: np.random.Generator) -> list[Item]:
    ordered = sorted(videos, key=lambda item: item.id)
    return [ordered[i] for i in sorted(rng.permutation(len(ordered))[:size])]
