"""Write the tables of docs/*.md from the figures in docs/data: no number in them is typed by hand.

    python scripts/results.py                                   # writes every table anew
    python scripts/results.py --check                           # exit code 1 if a page is not what would be written
    python scripts/results.py --store NAME OUT/results.json     # takes what a benchmark found into docs/data first
    python scripts/results.py --add NAME OUT/results.json       # only the cells it has; raw ones must be those stored

A table stands in its page between `<!-- table NAME -->` and `<!-- end NAME -->`. It is made by the benchmark that
measures it, from the rows that it writes; here rows get their order and the names that people read. What papers report
is written from their printed tables, which the package stores.
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
PAPERS = ROOT / "src" / "videoveil" / "protocols" / "papers"
KEPT = (  # of a record; tables need no more
    "value",
    "chance",
    "kept",
    "leakage",
    "measures",
    "low",
    "high",
    "videos",
    "raw_trained",
)
LEFT_OUT = ("per_class", "baseline", "headline", "seconds", "store")  # of everything else
RAW = {"raw": "raw"}
CARDS = (  # figures that no page shows: those of the cards of shipped models
    "shipped-latent",
    "shipped-veil-tiny",
    "shipped-splavu-tiny",
    "shipped-pixels-twins",
    "shipped-pixels-real",
    "shipped-detectors-real",
)
PIXEL = {
    **RAW,
    "downsample 2×": "downsample 2×",
    "downsample 4×": "downsample 4×",
    "blacken": "blacken people (boxes without mistakes)",
    "strong blur": "strong blur of people",
    "weak blur": "weak blur of people",
    "SPAct": "SPAct",
    "SPAct, UNet++": "SPAct with TeD-SPAD's network",
    "TeD-SPAD": "TeD-SPAD",
    "penalty, B=0.15": "penalty, B = .15",
    "penalty, B=0.3": "penalty, B = .3",
    "penalty, B=0.5": "penalty, B = .5",
    "penalty, B=0.7": "penalty, B = .7",
    "penalty, B=0.9": "penalty, B = .9",
    "VITA, told": "VITA, its budget net told the labels",
    "Noisy-Features": "Noisy-Features (an approximation of it)",
    "veil-pixel": "`veil-pixel`, our default: a line drawing",
    "blacken, then veil-pixel": "people black, then the line drawing",
    "veil-pixel, no attackers": "a UNet in front of it, trained for actions",
    "veil-pixel, attackers": "and against restarted budget nets",
    "grey code": "grey, 16 pixels a side, 4 levels",
}
TWO_CORES = {
    **PIXEL,
    "veil-pixel, attackers": "a UNet in front of it, trained for actions and against budget nets",
}
REAL_PIXEL = {
    **PIXEL,
    "blacken": "blacken people and faces that detectors find",
    "strong blur": "strong blur of the same",
    "weak blur": "weak blur of the same",
    "blacken, then veil-pixel": "people and faces black, then the line drawing",
    "grey code": "grey, 28 pixels a side, 4 levels",
    "blacken faces": "blacken faces alone",
    "blacken faces, then veil-pixel": "faces black, then the line drawing",
    "blacken faces, then veil-unet": "faces black, then `veil-unet`",
    "=veil-unet": "`veil-unet`, as it comes with the package",
    "=penalty-unet": "`penalty-unet`, as it comes with the package",
}
REAL_TWO_CORES = {**REAL_PIXEL, "grey code": PIXEL["grey code"]}
REAL_PIXELS = (  # what `real_pixels.py` finds
    "pixels-real",
    "pixels-real-cpu",
    "pixels-real-seeds",
    "shipped-pixels-real",
)
DETECTED = {
    **RAW,
    "veil-pixel": "`veil-pixel`, our default: a line drawing",
    "blur": "blur of the whole picture",
    "downsample:4": "downsample 4×",
    "blacken-people": "people blackened, found by HOG",
    "blur-faces": "faces blurred, found by CenterFace",
    "blacken-faces+veil-pixel": "faces blackened, found by CenterFace, then the line drawing",
}
BIAS = {
    **RAW,
    "splavu": "`splavu`",
    "splavu-adversaries": "`splavu-adversaries`",
    "veil": "`veil`, our default",
    "veil-erase": "`veil-erase`",
    "veil-static": "`veil-static`",
}
KEEP = {
    **RAW,
    "keep 1/8": "`veil`: keep 1/8",
    "keep 1/16": "keep 1/16",
    "erase both 1/8": "`veil-erase`: erase both 1/8",
}
AGAIN = {
    **RAW,
    "keep 1/8": "`veil`: keep 1/8",
    **{name: name for name in ("SPLAVU, action", "SPLAVU, adversaries", "rank 32", "noise 1", "residual")},
    **{name: name for name in ("erase static", "erase 1/8, adversaries")},
}
SIX = {**RAW, "keep 1/8": "`veil`, six seeds"}
LATENT = {
    **RAW,
    "splavu-hmdb51": "`splavu-hmdb51`, as published",
    "veil": "`veil`, our default",
    "veil+spare": "`veil`, keeping the action head's directions",
    "veil-erase": "`veil-erase`",
    "veil-erase+spare": "`veil-erase`, sparing the action head",
    "veil-erase@0.45+spare": "the same with a share of 0.45",
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
    "veil": "`veil`, our default",
    "veil-erase": "`veil-erase`",
    "erase-moving": "erase moving",
    "veil-noise": "`veil-noise`",
    "veil-adversaries": "`veil-adversaries`",
    "veil-gait": "`veil-gait`",
}


AUDITS = {
    "identity": "nothing at all",
    "splavu": "SPLAVU",
    "downsample:4": "downsample 4×",
    "canary": "black but for a corner that tells women from men",
    "veil-pixel": "`veil-pixel`, our default: a line drawing",
    "veil-pixel-attackers": "UNet and line drawing, trained against attackers",
    "blur": "strong blur of the whole picture",
    "black": "black frames",
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
    later: bool = False  # its figures may not be there yet

    @property
    def source(self) -> Path:
        return DOCS / "data" / f"{self.data}.json"


@dataclass(frozen=True)
class Printed:
    """What a paper reports, as it prints it: columns of one of its tables, or of several with the same rows."""

    page: str
    data: str  # the paper, by the name of its file
    called: str
    columns: tuple[
        tuple[str, str, str, str], ...
    ]  # table, its column, and words: where it stands, what it is

    @property
    def source(self) -> Path:
        return PAPERS / f"{self.data}.json"


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


def _whole_videos(rows: Any) -> str:
    from benchmarks import latent_study

    return latent_study.whole_videos(rows)


def _twin_tasks(rows: Any) -> str:
    from benchmarks import twin_tasks

    return twin_tasks.page(rows)


def _real_tasks(rows: Any) -> str:
    from benchmarks import real_tasks

    return real_tasks.page(rows)


def _bias(rows: Any) -> str:
    from benchmarks import bias

    return bias.page(rows)


def _detected(rows: Any) -> str:
    from benchmarks import detectors

    return detectors.table(rows)


def _speeds(rows: Any) -> str:
    from benchmarks import table

    return table.table(rows)


def _growth(rows: Any) -> str:
    from benchmarks import growth

    return growth.table(rows)


def _unseen(rows: Any) -> str:
    from benchmarks import latent_unseen

    return latent_unseen.table(rows)


def _heads(rows: Any) -> str:
    from benchmarks import heads

    return heads.table(rows)


def _audits(rows: Any) -> str:
    from benchmarks import audit

    return audit.page(rows)


def _real_pixels(rows: Any) -> str:
    """What `benchmarks/real_pixels.py` found: what is seen in what is published, and in what is drawn again from it."""
    seen = [("action", 100, 1), ("kept", 1, 2), ("faces", 100, 1), ("leakage", 1, 2)]
    drawn = [
        ("psnr_published", 1, 1),
        ("drawn", 1, 1),
        ("ssim_drawn", 1, 2),
        ("psnr_faces", 1, 1),
        ("drawn_faces", 100, 1),
        ("drawn_leakage", 1, 2),
    ]
    heads = (
        "anonymizer | action top-1 | kept | faces, cMAP | leakage",
        "anonymizer | clips: published, dB | drawn again | SSIM drawn again | faces: drawn again, dB |"
        " cMAP in drawn faces | leakage",
    )
    lines: list[str] = []
    for head, columns in zip(heads, (seen, drawn)):
        lines += ["", f"| {head} |", "|---" * (len(columns) + 1) + "|"]
        for name, found in rows.items():
            if columns is drawn and name in RAW:
                continue  # is not drawn again
            cells = [estimate(found.get(key), scale, digits) for key, scale, digits in columns]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def estimate(one: Any, scale: float, digits: int) -> str:
    """A figure with its interval where it has one; what was not measured says so."""
    if one is None:
        return "not run"
    value, low, high = (one.get(key) for key in ("value", "low", "high"))
    shown = [f"{scale * part:.{digits}f}" for part in (value, low, high) if part is not None]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]" if len(shown) == 3 else shown[0]


NOT_YET = "Not run yet."  # in place of a table
GAIT_HEADS = ("anonymizer", "actions kept, %", "cosine", "left", "learnt", "left", "on others", "left")
FOUND_HEADS = (
    "frames",
    "found again, %",
    "in another film's, %",
    "score lowered, %",
    "in another film's, %",
    "detections a frame",
)
PENALTY = (
    ("UCF101 top-1", "UCF101", "top-1, % ↑"),
    ("VISPR1 cMAP", "VISPR1", "cMAP, % ↓"),
    ("VISPR1 F1", "VISPR1", "F1 ↓"),
    ("PA-HMDB51 top-1", "PA-HMDB51", "top-1, % ↑"),
    ("PA-HMDB51 cMAP", "PA-HMDB51", "cMAP, % ↓"),
    ("PA-HMDB51 F1", "PA-HMDB51", "F1 ↓"),
)
TABLES: dict[str, Table | Printed] = {
    "tasks-twins": Table("results.md", "tasks-twins", _twin_tasks, {}),
    "tasks-twins-starts": Table("results.md", "tasks-twins", _twin_tasks, {}, number=1),
    "tasks-real": Table("results.md", "tasks-real", _real_tasks, {}),
    "heads": Table("results.md", "shipped-heads", _heads, {}),
    "bias": Table("results.md", "bias-twins", _bias, BIAS),
    "pixels-real": Table("results.md", "pixels-real", _real_pixels, REAL_PIXEL),
    "pixels-real-drawn": Table("results.md", "pixels-real", _real_pixels, REAL_PIXEL, number=1),
    "pixels-real-cpu": Table("results.md", "pixels-real-cpu", _real_pixels, REAL_TWO_CORES),
    "pixels-real-cpu-drawn": Table("results.md", "pixels-real-cpu", _real_pixels, REAL_TWO_CORES, number=1),
    "pixels-real-seeds": Table("results.md", "pixels-real-seeds", _real_pixels, REAL_PIXEL, later=True),
    "detected-faces": Table("results.md", "detectors-real", _detected, DETECTED, heads=FOUND_HEADS),
    "detected-people": Table(
        "results.md", "detectors-real", _detected, DETECTED, number=1, heads=FOUND_HEADS
    ),
    "detected-photographs": Table(
        "results.md", "detectors-real", _detected, DETECTED, number=2, heads=FOUND_HEADS
    ),
    "pixels": Table("results.md", "pixels-twins", _pixels, PIXEL),
    "drawn": Table("results.md", "pixels-twins", _drawn, PIXEL),
    "pixels-cpu": Table("results.md", "pixels-cpu-twins", _pixels, TWO_CORES, columns=(0, 1, 2, 3, 4)),
    "latent-keep-real-utility": Table("results.md", "latent-keep-real", _real_latent, LATENT),
    "latent-keep-real-attacks": Table("results.md", "latent-keep-real", _real_latent, LATENT, number=1),
    "latent-real-utility": Table("results.md", "latent-real", _real_latent, LATENT),
    "latent-real-attacks": Table("results.md", "latent-real", _real_latent, LATENT, number=1),
    "latent-real-faces": Table("results.md", "latent-real", _real_latent, LATENT, number=2),
    "speed-h200": Table("benchmarks.md", "benchmarks-h200", _speeds, {}),
    "speed-2cores": Table("benchmarks.md", "benchmarks-2cores", _speeds, {}),
    "growth": Table("benchmarks.md", "benchmarks-growth", _growth, {}),
    "audits": Table("audit.md", "audits-twins", _audits, AUDITS),
    "latent": Table("latent.md", "latent-twins", _latent, {}),
    "latent-more": Table("latent.md", "latent-more-twins", _latent, {}),
    "latent-keep": Table("latent.md", "latent-keep-twins", _latent, KEEP),
    "latent-adversaries": Table("latent.md", "latent-adversaries-twins", _latent, {}),
    "latent-again": Table("latent.md", "latent-again-twins", _latent, AGAIN),
    "latent-six": Table("latent.md", "latent-six-twins", _latent, SIX),
    "latent-videos": Table("latent.md", "latent-six-twins", _whole_videos, SIX),
    "latent-unseen": Table("latent.md", "latent-unseen-twins", _unseen, {}),
    "gait": Table(
        "latent.md", "gait-twins", _gait, GAIT, columns=(0, 2, 3, 6, 7, 10, 11, 12), heads=GAIT_HEADS
    ),
    "paper-spact": Printed(
        "results.md",
        "spact",
        "SPAct",
        (
            ("T3", "R3D-18 top-1", "Table 3, UCF101", "R3D-18 top-1, % ↑"),
            ("T3", "R(2+1)D-18 K400 top-1", "Table 3, UCF101", "R(2+1)D-18 from Kinetics top-1, % ↑"),
            ("T4", "ResNet-50 cMAP", "Table 4, VISPR1", "fresh ResNet-50 cMAP, % ↓"),
            ("T4", "ResNet-50 F1", "Table 4, VISPR1", "F1 ↓"),
            ("T5", "ResNet-50 cMAP", "Table 5, VISPR1", "ResNet-50 from ImageNet cMAP, % ↓"),
            ("T5", "ResNet-50 F1", "Table 5, VISPR1", "F1 ↓"),
        ),
    ),
    "paper-ted-spad": Printed(
        "results.md",
        "ted_spad",
        "TeD-SPAD",
        (
            ("S2", "UCF-Crime AUC", "supplement, Table 2, UCF-Crime", "frame AUC, % ↑"),
            ("S2", "XD-Violence AP", "supplement, Table 2, XD-Violence", "frame AP, % ↑"),
            ("S2", "ShanghaiTech AUC", "supplement, Table 2, ShanghaiTech", "frame AUC, % ↑"),
            ("S2", "VISPR cMAP", "supplement, Table 2, VISPR", "cMAP, % ↓"),
        ),
    ),
    "paper-penalty": Printed(
        "results.md",
        "penalty",
        "penalty",
        tuple(("T1", column, f"Table 1, {data}", figure) for column, data, figure in PENALTY),
    ),
    "paper-splavu": Printed(
        "results.md",
        "splavu",
        "SPLAVU",
        (
            ("T1", "Kinetics-400 top-1", "Table 1, Kinetics-400", "top-1, % ↑"),
            ("T1", "UCF101 top-1", "Table 1, UCF101", "top-1, % ↑"),
            ("T1", "THUMOS14 mAP", "Table 1, THUMOS14", "mAP, % ↑"),
            ("T1", "UCF-Crime AUC", "Table 1, UCF-Crime", "frame AUC, % ↑"),
            ("T1", "VISPR cMAP", "Table 1, VISPR", "cMAP, % ↓"),
        ),
    ),
}


# --- tables -------------------------------------------------------------------------------------------------


def written(table: Table | Printed) -> str:
    """The Markdown of a table."""
    if isinstance(table, Table) and table.later and not table.source.is_file():
        return NOT_YET
    stored = json.loads(table.source.read_text("utf-8"))
    if isinstance(table, Printed):
        return printed(table, stored)
    rows = stored["rows"]
    require_names(table, rows)
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


def require_names(table: Table, rows: Mapping[str, Any]) -> None:
    """Every row of a table must have a name for people."""
    if table.names and (unknown := set(rows) - set(table.names)):
        raise SystemExit(f"docs/data/{table.data}.json: no names for the rows {', '.join(sorted(unknown))}")


def printed(table: Printed, stored: Any) -> str:
    """What a paper prints, cell by cell; what it leaves out is a dash."""
    from videoveil.protocols import papers

    found = papers.parse(table.data, stored)
    rows = list(found[f"{table.data}/{table.columns[0][0]}"].rows)
    heads = [f"{table.called}, {where}: {figure}" for _, _, where, figure in table.columns]
    lines = [["row", *heads], ["---"] * (len(heads) + 1)]
    for row in rows:
        cells = [found[f"{table.data}/{name}"].value(row, column) for name, column, _, _ in table.columns]
        lines.append([row, *("–" if cell is None else f"{cell:g}" for cell in cells)])
    return (
        "\n".join(f"| {' | '.join(line)} |" for line in lines)
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
        return {key: slim(one) for key, one in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        return [slim(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value


def store(name: str, source: Path, *, add: bool = False) -> None:
    tables = [table for table in TABLES.values() if isinstance(table, Table)]
    known = {table.data for table in tables} | set(CARDS)
    if name not in known:
        raise SystemExit(f"{name}: neither a table nor a card is made from it; there are {sorted(known)}")
    found = json.loads(source.read_text("utf-8"))
    if found.get("quick") or found.get("limit") or found.get("scale") == "try":
        raise SystemExit(
            f"{source}: was made with --quick, --limit or --scale try, which try a script and give no results"
        )
    if name in REAL_PIXELS:
        for row, cells in found["rows"].items():
            cells |= fidelity(source.parent, row, found["seeds"])
    if name in CARDS:
        found["rows"] = {called(row): cells for row, cells in found["rows"].items()}
    found, path = slim(found), DOCS / "data" / f"{name}.json"
    if add:
        found = joined(json.loads(path.read_text("utf-8")), found, source)
    for table in tables:
        if table.data == name:  # before anything is written, or no page could be
            require_names(table, found["rows"])
    kept = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    path.write_text(kept.replace('},"', '},\n"') + "\n", "utf-8")


def joined(stored: Any, found: Any, source: Path) -> Any:
    """What is stored, with the cells that were found since: runs whose raw videos gave the same figures are one run."""
    for key in ("seeds", "frames", "scale"):  # what all rows of a table share
        if (there := stored.get(key)) != (here := found.get(key)):
            raise SystemExit(f"{source}: has {key} {here}, stored are {there}")
    rows = {name: dict(cells) for name, cells in stored["rows"].items()}
    for name, cells in found["rows"].items():
        new = {key: cell for key, cell in cells.items() if cell is not None}
        if not new:  # not reached in that run
            continue
        row = rows.setdefault(name, dict.fromkeys(cells))
        if name in RAW and (other := [k for k, cell in new.items() if row.get(k) not in (None, cell)]):
            raise SystemExit(
                f"{source}: raw {', '.join(other)} is not what is stored: shares of the two cannot be compared; run "
                "all rows again"
            )
        row |= new
    clock = [*stored.get("clock", ()), *found.get("clock", ())]
    return {**stored, **({"clock": clock} if clock else {}), "rows": rows}


def called(row: str) -> str:
    """A model's row by its name, whatever folder it was in: `=OUT/veil-unet` is `=veil-unet`."""
    return f"{row[:1] if row.startswith('=') else ''}{Path(row.removeprefix('=')).name}"


def fidelity(out: Path, row: str, seeds: Sequence[int]) -> dict[str, Any]:
    """How near published and drawn pictures are to raw ones, which `real_pixels.py` keeps beside its results."""
    wanted = {
        "psnr_published": ("drawn", "psnr_published"),
        "ssim_drawn": ("drawn", "ssim_unet"),
        "psnr_faces": ("drawn_faces", "psnr_unet"),
    }
    from benchmarks.real_pixels import place

    found: dict[str, Any] = {}
    for key, (part, measure) in wanted.items():
        name = place(row)
        paths = [out / f"seed{seed}" / name / f"{part}.json" for seed in seeds]
        if all(path.is_file() for path in paths):
            values = [json.loads(path.read_text("utf-8"))["measures"][measure]["value"] for path in paths]
            found[key] = {"value": sum(values) / len(values)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--store", nargs=2, metavar=("NAME", "RESULTS"))
    parser.add_argument("--add", nargs=2, metavar=("NAME", "RESULTS"))
    asked = parser.parse_args()
    if asked.store:
        store(asked.store[0], Path(asked.store[1]))
    if asked.add:
        store(asked.add[0], Path(asked.add[1]), add=True)
    stale = [name for name in pages() if page(name) != (DOCS / name).read_text("utf-8")]
    if asked.check:
        sys.exit(f"not what docs/data says: {', '.join(stale)}" if stale else 0)
    for name in stale:
        (DOCS / name).write_text(page(name), "utf-8")
        print(f"docs/{name}: written")


if __name__ == "__main__":
    main()
