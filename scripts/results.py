"""Write the tables of docs/*.md from the figures in docs/data: no number in them is typed by hand.

    python scripts/results.py                                   # writes every table anew
    python scripts/results.py --check                           # exit code 1 if a page is not what would be written
    python scripts/results.py --store NAME OUT/results.json     # takes what a benchmark found into docs/data first

A table stands in its page between `<!-- table NAME -->` and `<!-- end NAME -->`. It is made by the benchmark that
measures it, from the rows that it writes; here rows get their order and the names that people read.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

DOCS = ROOT / "docs"
KEPT = ("value", "chance", "kept", "leakage", "measures", "low", "high")  # of a record; tables need no more
RAW = {"raw": "raw"}
PIXEL = {
    **RAW,
    "downsample 2×": "downsample 2×",
    "downsample 4×": "downsample 4×",
    "blacken": "blacken people (boxes without mistakes)",
    "strong blur": "strong blur of people",
    "weak blur": "weak blur of people",
    "SPAct": "SPAct",
    "TeD-SPAD": "TeD-SPAD",
    "penalty, B=0.3": "penalty, B = .3",
    "penalty, B=0.5": "penalty, B = .5 (.7 and .9: the same weights)",
    "VITA, told": "VITA, its budget net told the labels",
    "Noisy-Features": "Noisy-Features (an approximation of it)",
    "veil-pixel": "`veil-pixel`, our default: a line drawing",
    "veil-pixel, no attackers": "a UNet in front of it, trained for actions",
    "veil-pixel, attackers": "and against restarted budget nets",
    "grey code": "grey, 16 pixels a side, 4 levels",
}
LATENT = {
    **RAW,
    "splavu-hmdb51": "`splavu-hmdb51`, as published",
    "veil": "`veil`, our default",
    "veil+spare": "`veil`, sparing the action head",
    "veil@0.45+spare": "the same with a share of 0.45",
    "rank-24": "rank 24",
    "rank-24~0.3": "rank 24 and noise 0.3",
    "motion-0": "`veil-motion`: motion only",
    "motion-4": "motion, and 4 numbers of the still frames",
    "motion-8": "motion, and 8 numbers of the still frames",
}
GAIT = {
    **RAW,
    "splavu-hmdb51": "SPLAVU (Table 6, with LC)",
    "table6/without_lc": "SPLAVU (Table 6, without LC)",
    "temporal budget alone": "SPLAVU + temporal budget only",
    "splavu-gait without temporal": "`splavu-gait` without its temporal budget",
    "splavu-gait": "`splavu-gait`",
    "splavu-adversaries": "`splavu-adversaries`",
    "veil": "`veil`",
    "erase-moving": "erase moving",
    "veil-noise": "`veil-noise`",
    "veil-adversaries": "`veil-adversaries`",
    "veil-gait": "`veil-gait`",
}


@dataclass(frozen=True)
class Table:
    """One table of a page."""

    page: str
    data: str
    made: Callable[[Any], str]  # rows → Markdown, of which the `number`-th table is taken
    names: Mapping[str, str]  # row → what people read, in this order; empty: as they come
    number: int = 0
    columns: tuple[int, ...] = ()  # which of them; empty: all
    heads: tuple[str, ...] = ()  # other words for theirs


def _pixels(rows: Any) -> str:
    from benchmarks import pixel_study

    return pixel_study.table(rows)


def _drawn(rows: Any) -> str:
    from benchmarks import pixel_study

    return pixel_study.drawn_again(rows)


def _real_latent(rows: Any) -> str:
    from benchmarks import real_splavu

    return "\n".join(real_splavu.tables(rows))


def _gait(rows: Any) -> str:
    from benchmarks import gait

    return gait.table(rows)


def _latent(rows: Any) -> str:
    from benchmarks import latent_study

    return latent_study.table(rows)


GAIT_HEADS = ("anonymizer", "actions kept, %", "cosine", "left", "learnt", "left", "on others", "left")
TABLES = {
    "pixels": Table("results.md", "pixels-twins", _pixels, PIXEL),
    "drawn": Table("results.md", "pixels-twins", _drawn, PIXEL),
    "latent-real-utility": Table("results.md", "latent-real", _real_latent, LATENT),
    "latent-real-attacks": Table("results.md", "latent-real", _real_latent, LATENT, number=1),
    "latent-real-faces": Table("results.md", "latent-real", _real_latent, LATENT, number=2),
    "latent": Table("latent.md", "latent-twins", _latent, {}),
    "gait": Table(
        "latent.md", "gait-twins", _gait, GAIT, columns=(0, 2, 3, 6, 7, 10, 11, 12), heads=GAIT_HEADS
    ),
}


# --- tables -------------------------------------------------------------------------------------------------


def written(table: Table) -> str:
    """The Markdown of a table."""
    stored = json.loads((DOCS / "data" / f"{table.data}.json").read_text("utf-8"))
    rows = stored["rows"]
    if table.names and (unknown := set(rows) - set(table.names)):
        raise SystemExit(f"docs/data/{table.data}.json: no names for the rows {', '.join(sorted(unknown))}")
    order = [name for name in table.names if name in rows] or list(rows)
    lines = blocks(table.made({name: rows[name] for name in order}))[table.number]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if table.columns:
        cells = [[row[i] for i in table.columns] for row in cells]
    if table.heads:
        cells[0] = list(table.heads)
    for row in cells[2:]:
        if row[0] in RAW:
            row[1:] = [plain(cell) for cell in row[1:]]
        row[0] = table.names.get(row[0], row[0])
    cells[1] = ["---"] * len(cells[0])
    return (
        "\n".join(f"| {' | '.join(row)} |" for row in cells)
        .replace("| --- ", "|---")
        .replace("--- |", "---|")
    )


def blocks(text: str) -> list[list[str]]:
    """The tables in a piece of Markdown."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [lines for lines in found if lines]


def plain(cell: str) -> str:
    """What raw is of raw needs no interval."""
    return re.sub(r"^([\d.]+) \[\1, \1\]$", r"\1", cell)


def page(name: str) -> str:
    """A page with its tables as they should be."""
    text = (DOCS / name).read_text("utf-8")
    for key, table in TABLES.items():
        if table.page != name:
            continue
        begin, end = f"<!-- table {key} -->\n", f"\n<!-- end {key} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"docs/{name}: must have {begin.strip()} and {end.strip()} once each")
        before, rest = text.split(begin)
        text = f"{before}{begin}{written(table)}{end}{rest.split(end)[1]}"
    return text


def pages() -> Sequence[str]:
    return sorted({table.page for table in TABLES.values()})


# --- figures ------------------------------------------------------------------------------------------------


def slim(value: Any) -> Any:
    """What tables need of a benchmark's records."""
    if isinstance(value, dict):
        if "value" in value:
            return {key: slim(one) for key, one in value.items() if key in KEPT}
        return {key: slim(one) for key, one in value.items()}
    if isinstance(value, list):
        return [slim(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value


def store(name: str, source: Path) -> None:
    if name not in {table.data for table in TABLES.values()}:
        raise SystemExit(
            f"{name}: no table is made from it; there are {sorted(t.data for t in TABLES.values())}"
        )
    found = json.loads(source.read_text("utf-8"))
    kept = json.dumps(slim(found), ensure_ascii=False, separators=(",", ":"))
    (DOCS / "data" / f"{name}.json").write_text(kept.replace('},"', '},\n"') + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--store", nargs=2, metavar=("NAME", "RESULTS"))
    asked = parser.parse_args()
    if asked.store:
        store(asked.store[0], Path(asked.store[1]))
    stale = [name for name in pages() if page(name) != (DOCS / name).read_text("utf-8")]
    if asked.check:
        sys.exit(f"not what docs/data says: {', '.join(stale)}" if stale else 0)
    for name in stale:
        (DOCS / name).write_text(page(name), "utf-8")
        print(f"docs/{name}: written")


if __name__ == "__main__":
    main()
