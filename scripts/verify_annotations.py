"""Check the loaders against the official annotation files of the real datasets.

    python scripts/verify_annotations.py DATA

DATA holds annotations/{ucf101,hmdb51,vispr,thumos14,ucf_crime,xd_violence,shanghaitech}, pa-hmdb51 and, with its
videos, hmdb51-12 (12 of the 51 classes). Exit code 1 if any number is not the published one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from videoveil.data.verify import Count, verify

EXPECTED: dict[
    str, tuple[str, dict[str, int]]
] = {  # dataset → folder, items with frame-level truth and the like
    "ucf101": ("annotations/ucf101", {}),
    "hmdb51": ("annotations/hmdb51", {}),
    "vispr": ("annotations/vispr", {}),
    "pa-hmdb51": ("pa-hmdb51", {"labelled_frames": 52_411}),
    "thumos14": ("annotations/thumos14", {}),
    "ucf-crime": ("annotations/ucf_crime", {"annotated": 140}),
    "xd-violence": ("annotations/xd_violence", {"annotated": 500}),
    "shanghaitech": ("annotations/shanghaitech", {"annotated": 107}),
}


def wrong(count: Count, expected: dict[str, int]) -> list[str]:
    found = [] if count.matches else [f"{count.splits}, published {count.official}"]
    return found + [
        f"{k} {getattr(count, k)}, not {v}" for k, v in expected.items() if getattr(count, k) != v
    ]


def main(root: Path) -> int:
    failures = 0
    for name, (folder, expected) in EXPECTED.items():
        report = verify(name, root / folder, annotations_only=True)
        problems = [*report.problems, *(w for count in report.counts for w in wrong(count, expected))]
        failures += bool(problems)
        counts = "; ".join(f"{c.variant or 'all'} {c.splits}" for c in report.counts)
        print(f"{name:13} {problems or 'ok'}  {counts}")
    report = verify("hmdb51", root / "hmdb51-12", options={"split": 1})
    (count,) = report.counts
    sound = not report.problems and (count.splits["train"], count.splits["test"]) == (840, 360)
    print(f"{'hmdb51-12':13} {'ok' if sound else report.problems[:5]}  {count.splits}, every clip decoded")
    return 1 if failures or not sound else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
