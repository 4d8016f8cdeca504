"""XD-Violence: films and internet videos, labels in the file names, frame-level truth for the violent test videos.

    ROOT/train/*.mp4, ROOT/test/*.mp4      names end in _label_A (normal) or _label_<codes>, e.g. _label_B1-B2-0
                                           (test also in videos/, training also in the official part folders)
    ROOT/annotations.txt                   "<name> start end …", one line per violent test video, end excluded
    ROOT/annotations_multiclasses.txt      optional: "<name> code start end [code start end …]"

Codes: B1 fighting, B2 shooting, B4 riot, B5 abuse, B6 car accident, G explosion. There is no list of the normal videos:
without the media only the violent test videos are known.
"""

from __future__ import annotations

from pathlib import Path

from videoveil.data.reading import (
    Complaints,
    MediaFinder,
    assemble,
    numbered_lines,
    read_text,
    stem_of,
    videos_below,
    whole,
)
from videoveil.data.records import Dataset, FrameSpan, Item

NAMES = {
    "B1": "fighting",
    "B2": "shooting",
    "B4": "riot",
    "B5": "abuse",
    "B6": "car accident",
    "G": "explosion",
}
CLASSES = len(NAMES)
OFFICIAL = {"": {"train": 3954, "test": 800}}
OFFICIAL_ANNOTATIONS = {"": {"test": 500}}  # the violent test videos, all that the annotations name
TRAIN_PARTS = ("1-1004", "1005-2004", "2005-2804", "2805-3319", "3320-3954")


def codes_of(name: str) -> tuple[str, ...]:
    """The codes in a file name; empty for a normal video. ValueError where there is no label or an unknown one."""
    _, marker, label = name.rpartition("_label_")
    if not marker:
        raise ValueError(f"{name!r} has no _label_ part")
    unknown = [code for code in label.split("-") if code not in (*NAMES, "0", "A")]
    if unknown:
        raise ValueError(f"{name!r} has the unknown label {', '.join(map(repr, unknown))}")
    return tuple(code for code in label.split("-") if code in NAMES)


def parse_spans(text: str, path: Path, complaints: Complaints) -> dict[str, tuple[FrameSpan, ...]]:
    """annotations.txt: name → abnormal frames."""
    found: dict[str, tuple[FrameSpan, ...]] = {}
    for line, row in numbered_lines(text):
        name, *numbers = row.split()
        try:
            if not numbers or len(numbers) % 2:
                raise ValueError("pairs of frames are needed")
            pairs = zip(numbers[::2], numbers[1::2])
            spans = tuple(_span(first, stop) for first, stop in pairs)
        except ValueError as error:
            complaints.add(path, line, f"expected '<name> start end …', found {row!r} ({error})")
            continue
        if stem_of(name) in found:
            complaints.add(path, line, f"{name} has two rows")
        found[stem_of(name)] = spans
    return found


def _span(first: str, stop: str, code: str = "") -> FrameSpan:
    span = FrameSpan(whole(first), whole(stop), code)
    if not 0 <= span.first < span.stop:
        raise ValueError(f"{first} to {stop} is no span of frames")
    return span


def parse_coded_spans(text: str, path: Path, complaints: Complaints) -> dict[str, tuple[FrameSpan, ...]]:
    """annotations_multiclasses.txt: name → abnormal frames with their code."""
    found: dict[str, tuple[FrameSpan, ...]] = {}
    for line, row in numbered_lines(text):
        name, *rest = row.split()
        try:
            if not rest or len(rest) % 3:
                raise ValueError("a code and two frames are needed each time")
            triples = zip(rest[::3], rest[1::3], rest[2::3])
            found[stem_of(name)] = tuple(_span(first, stop, code) for code, first, stop in triples)
        except ValueError as error:
            complaints.add(path, line, f"expected '<name> code start end …', found {row!r} ({error})")
    return found


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    path = root / "annotations.txt"
    spans = parse_spans(read_text(path), path, complaints)
    coded = root / "annotations_multiclasses.txt"
    if coded.is_file():
        by_code = parse_coded_spans(read_text(coded), coded, complaints)
        for name in sorted(by_code.keys() - spans.keys()):
            complaints.add(coded, None, f"{name} is not in {path.name}")
        # the plain file is the official truth; codes are taken over where both have the same spans
        spans = {name: _with_codes(rows, by_code.get(name, ())) for name, rows in spans.items()}
    found = {"train": [], "test": []} if annotations_only else _on_disk(root)
    listed = {path.stem for path in found["test"]}
    found["test"] += [Path("test", f"{stem}.mp4") for stem in sorted(spans.keys() - listed)]
    items = []
    for split, paths in found.items():
        for relative in paths:
            stem = stem_of(relative.name)
            try:
                codes = codes_of(stem)
            except ValueError as error:
                complaints.add(path, None, str(error))
                continue
            if split == "test" and bool(codes) != (stem in spans):
                complaints.add(
                    path, None, f"{stem}: its name and annotations.txt disagree about being violent"
                )
            truth = spans.get(stem, ()) if split == "test" else ()
            label = "-".join(codes) or "A"
            items.append(
                Item(stem, relative, split, anomaly=bool(codes), anomaly_class=label, anomaly_spans=truth)
            )
    complaints.settle("xd-violence")
    finder = None if annotations_only else MediaFinder(root)
    notes = (
        ["normal videos are listed nowhere: only the violent test videos are known"]
        if annotations_only
        else []
    )
    return assemble(
        "xd-violence", root, items, classes=tuple(NAMES), notes=notes, finder=finder, skip_bad=skip_bad
    )


def _on_disk(root: Path) -> dict[str, list[Path]]:
    """Relative paths of the videos of either split."""
    folders = {"train": ("train", *TRAIN_PARTS), "test": ("test", "videos")}
    return {
        split: [path.relative_to(root) for name in names for path in videos_below(root / name)]
        for split, names in folders.items()
    }


def _with_codes(rows: tuple[FrameSpan, ...], coded: tuple[FrameSpan, ...]) -> tuple[FrameSpan, ...]:
    codes = {(span.first, span.stop): span.value for span in coded}
    return tuple(FrameSpan(s.first, s.stop, codes.get((s.first, s.stop), "")) for s in rows)
