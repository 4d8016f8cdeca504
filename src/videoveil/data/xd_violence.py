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
    first_folder,
    numbered_lines,
    read_text,
    stem_of,
    videos_below,
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
    """The codes in a file name; empty for a normal video. ValueError where there is no label."""
    _, marker, label = name.rpartition("_label_")
    if not marker:
        raise ValueError(f"{name!r} has no _label_ part")
    return tuple(code for code in label.split("-") if code not in ("0", "A"))


def parse_spans(text: str, path: Path, complaints: Complaints) -> dict[str, tuple[FrameSpan, ...]]:
    """annotations.txt: name → abnormal frames."""
    found: dict[str, tuple[FrameSpan, ...]] = {}
    for line, row in numbered_lines(text):
        name, *numbers = row.split()
        edges = [int(n) for n in numbers if n.isdigit()]
        if len(edges) != len(numbers) or not edges or len(edges) % 2:
            complaints.add(path, line, f"expected '<name> start end …', found {row!r}")
            continue
        pairs = list(zip(edges[::2], edges[1::2]))
        if any(stop <= first for first, stop in pairs):
            complaints.add(path, line, f"a span ends before it starts: {row!r}")
            continue
        found[stem_of(name)] = tuple(FrameSpan(first, stop) for first, stop in pairs)
    return found


def parse_coded_spans(text: str, path: Path, complaints: Complaints) -> dict[str, tuple[FrameSpan, ...]]:
    """annotations_multiclasses.txt: name → abnormal frames with their code."""
    found: dict[str, tuple[FrameSpan, ...]] = {}
    for line, row in numbered_lines(text):
        name, *rest = row.split()
        triples = list(zip(rest[::3], rest[1::3], rest[2::3]))
        if not triples or len(rest) % 3 or not all(a.isdigit() and b.isdigit() for _, a, b in triples):
            complaints.add(path, line, f"expected '<name> code start end …', found {row!r}")
            continue
        found[stem_of(name)] = tuple(FrameSpan(int(a), int(b), code) for code, a, b in triples)
    return found


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    path = root / "annotations.txt"
    spans = parse_spans(read_text(path), path, complaints)
    coded = root / "annotations_multiclasses.txt"
    if coded.is_file():
        by_code = parse_coded_spans(read_text(coded), coded, complaints)
        # the plain file is the official truth; codes are taken over where both have the same spans
        spans = {name: _with_codes(rows, by_code.get(name, ())) for name, rows in spans.items()}
    stems: dict[str, list[str]] = {"train": [], "test": []}
    if not annotations_only:
        stems["train"] = [p.stem for part in ("train", *TRAIN_PARTS) for p in videos_below(root / part)]
        stems["test"] = [p.stem for p in videos_below(first_folder(root, "test", "videos"))]
    stems["test"] = [*stems["test"], *sorted(spans.keys() - set(stems["test"]))]
    items = []
    for split, names in stems.items():
        for stem in names:
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
            items.append(
                Item(
                    stem,
                    Path(f"{stem}.mp4"),
                    split,
                    anomaly=bool(codes),
                    anomaly_class="-".join(codes) or "A",
                    anomaly_spans=truth,
                )
            )
    complaints.settle("xd-violence")
    folders = (root / name for name in ("train", "test", "videos", *TRAIN_PARTS))
    finder = None if annotations_only else MediaFinder(*folders, root)
    notes = (
        ["normal videos are listed nowhere: only the violent test videos are known"]
        if annotations_only
        else []
    )
    return assemble(
        "xd-violence", root, items, classes=tuple(NAMES), notes=notes, finder=finder, skip_bad=skip_bad
    )


def _with_codes(rows: tuple[FrameSpan, ...], coded: tuple[FrameSpan, ...]) -> tuple[FrameSpan, ...]:
    codes = {(span.first, span.stop): span.value for span in coded}
    return tuple(FrameSpan(s.first, s.stop, codes.get((s.first, s.stop), "")) for s in rows)
