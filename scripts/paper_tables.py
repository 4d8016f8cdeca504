"""Write docs/guide/paper-tables.md: every table of the papers, with the command that makes our counterpart.

    python scripts/paper_tables.py            # writes the page
    python scripts/paper_tables.py --check    # exit code 1 if the page is not what would be written

Tables, protocols and what they need are read from the package; only which recipe makes which row is said here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from videoveil.data import twins
from videoveil.protocols import papers, registry
from videoveil.protocols.base import RAW, Evaluation
from videoveil.protocols.papers import PaperTable
from videoveil.protocols.subjects import COVERED, FACTORS, ROWS

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "paper-tables.md"
TITLES = {
    "spact": "SPAct",
    "ted_spad": "TeD-SPAD",
    "penalty": "the penalty-driven anonymizer",
    "splavu": "SPLAVU",
}
# rows of ablation tables → the recipe that makes them; rows of whole methods are known to the package
RECIPES: dict[str, dict[str, str]] = {
    "spact/T7": {
        "f_T R3D-18": "spact/f_T=r3d.18",
        "f_T R(2+1)D-18": "spact/f_T=r2plus1d.18",
        "f_T R3D-50": "spact/f_T=r3d.50",
    },
    "ted_spad/T2": {
        "CE": "ted-spad/temporal=none",
        "CE+L_D": "ted-spad/temporal=triplet",
        "CE+L_I": "ted-spad/w_I=1",  # its figures are those of that row of the supplement's Table 3
    },
    "ted_spad/T3": {
        "no temporal loss": "ted-spad/temporal=none",
        "LLTC": "ted-spad/temporal=lltc",
        "triplet": "ted-spad/temporal=triplet",
    },
    "ted_spad/T4": {
        f"w_temp={row}": f"ted-spad/w={value}"
        for row, value in {"0": "0", ".01": "0.01", ".1": "0.1", "1": "1", "10": "10"}.items()
    },
    "ted_spad/T5": {
        f"margin={row}": f"ted-spad/margin={value}"
        for row, value in {".5": "0.5", "1": "1", "2": "2"}.items()
    },
    "ted_spad/T6": {f"negative={row}": f"ted-spad/negative={row}" for row in ("random", "8", "32")},
    "ted_spad/S3": {
        f"w_inv={row}": f"ted-spad/w_I={value}"
        for row, value in {"0": "0", ".1": "0.1", ".5": "0.5", "1": "1", "2": "2"}.items()
    },
    "ted_spad/S4": {
        "f_T I3D": "ted-spad/f_T=i3d-r50",
        "f_T MViTv2": "ted-spad/f_T=mvitv2",
        "f_T R3D-18": "ted-spad/f_T=r3d.18",
    },
    "splavu/T3": {f"trained on {data}": f"table3/{data}" for data in ("K400", "UCF101", "HMDB51", "TSH")},
    "splavu/T4": {
        row: f"table4/{row}" for row in ("AR", "TAD", "AD", "AR+TAD", "AR+AD", "TAD+AD", "AR+TAD+AD")
    },
    "splavu/T5": {row: f"table5/{row}" for row in ("B+LC", "T+LC", "T+B", "T+B+LC")},
    "splavu/T6": {"with consistency": "table6/with_lc", "without consistency": "table6/without_lc"},
    "splavu/T8": {f"MLP-{depth}": f"table8/mlp{depth}" for depth in (1, 3, 5)}
    | {f"attention-{depth}": f"table8/attn{depth}" for depth in (1, 3, 5)},
    "splavu/T9": {f"w_LC={weight}": f"table9/{weight}" for weight in (0, 1, 10, 100, 1000)},
    "splavu/T10": {f"{heads} heads": f"table10/{heads}" for heads in (4, 8, 16)},
    "splavu/T12": {
        f"{encoder} / SPLAVU on {row}": f"table12/{encoder}/{data}"
        for encoder in ("InternVideo-H", "VideoMAEv2-G")
        for row, data in {"HMDB51": "hmdb51", "UCF101": "ucf101"}.items()
    },
    "splavu/T14": {"raw video": "splavu-hmdb51", "stored features": "splavu-hmdb51"},
}
BOUNDS = {f"Penalty B={bound}": f"penalty/B=0{bound}" for bound in (".3", ".5", ".7", ".9")}
# rows that nothing here makes, and why
WITHOUT = {
    "STPrivacy": "not implemented",
}
# rows whose recipe is here and whose encoder is not
WITHOUT_ENCODER = {
    "InternVideo-H": "its recipes are here, an encoder with its weights is not",
}
NEEDED = "needs the papers' datasets"
COUNTED = ("splavu/T13",)  # its rows are encoders, not anonymizers


def recipe_of(table: PaperTable, row: str) -> str:
    """The recipe that makes a row; "" for rows that need none, `KeyError` for one that is not known."""
    own = RECIPES.get(table.id, {})
    if row in own:
        return own[row]
    plain = row.rpartition(" / ")[2]
    if table.id in COUNTED or plain in (RAW, *FACTORS, *COVERED) or plain in WITHOUT:
        return ""
    if plain in BOUNDS:
        return BOUNDS[plain]
    return next(recipe for recipe, name in ROWS.items() if name == plain)


def protocols_of(table: PaperTable) -> list[Evaluation]:
    return [one for one in registry.EVALUATIONS.values() if table in one.tables]


def command(protocol: Evaluation) -> str:
    """As one would type it."""
    data = "".join(f" --data {name}:ROOT" for name in protocol.needs)
    run = " --run RUN" if protocol.needs else ""
    return f"veil evaluate {protocol.name}{data}{run} --out table/"


def _tables(paper: str) -> Iterator[str]:
    yield "| table | what it shows | figures | protocol | made by `veil train` |"
    yield "|---|---|---|---|---|"
    for table in papers.tables():
        if not table.id.startswith(f"{paper}/"):
            continue
        figures = sum(cell.value is not None for cell in table.cells())
        names = ", ".join(f"[`{one.name}`](#{one.name})" for one in protocols_of(table))
        recipes = list(dict.fromkeys(recipe_of(table, row) for row in table.rows))
        made = ", ".join(f"`{recipe}`" for recipe in recipes if recipe) or "–"
        if table.id in RECIPES:
            made = "[row by row](#rows-of-ablation-tables)"
        number = table.id.partition("/")[2]
        yield f"| `{number}` | {table.title} | {figures} | {names} | {made} |"


def _rows() -> Iterator[str]:
    yield "| table | row | recipe |"
    yield "|---|---|---|"
    for name, rows in RECIPES.items():
        for row, recipe in rows.items():
            yield f"| `{name}` | `{row}` | `{recipe}` |"


def _protocols() -> Iterator[str]:
    made = twins.names()
    for one in registry.EVALUATIONS.values():
        yield f"### {one.name}"
        yield ""
        yield f"{one.title}. Looks at {'features' if one.looks == 'features' else 'pictures'}."
        yield ""
        yield from [*([f"<!-- not run: {NEEDED} -->"] if one.needs else []), "```bash", command(one), "```"]
        yield ""
        needs = ", ".join(f"`{name}`" + ("" if name in made else " (no twin)") for name in one.needs)
        trained = (
            f" The papers train the anonymizer on {' or '.join(one.trained_on)}." if one.trained_on else ""
        )
        yield f"Data: {needs or 'none'}.{trained}{f' {one.note}' if one.note else ''}"
        yield ""


HEAD = """# From paper table to command

<!-- written by scripts/paper_tables.py; change that, not this page -->

Every printed table of the four papers is stored as data (`src/videoveil/protocols/papers`), and every figure of
it belongs to a protocol. `veil evaluate PROTOCOL` measures our counterpart and writes the paper's table with our
column beside theirs: `comparison.md`, `metrics.json` and a picture. Real results and twin results never share a
column, and what was not run stays visible.

One needs no data at all:

```console
$ veil evaluate parameters --out weights/
# Weights that are trained, in millions
…
| row | pixel methods M ↓: paper | … ours, counted | SPLAVU M ↓: paper | SPLAVU M ↓: ours, counted |
|---|---|---|---|---|
| I3D | 55.2 | 55.5 | 25.6 | 25.6 |
| VideoMAE-B | 129.4 | 129.4 | 14.6 | 14.5 |
…
10 cells → weights/metrics.json, weights/comparison.md
```

The others need the datasets named below, which their owners give out, or their twins (`veil data make NAME ROOT`).
A twin shows that the protocol runs and how methods compare on made-up people; it is no result on the real dataset.
`--size tiny` only sees that everything works, `small` (the default) is for two cores, `paper` is as published and
needs a GPU and the papers' pretrained networks (`--weights NETWORK=FILE`).

## The way to a figure

1. Find the table below: it names its protocol and the recipes of its rows.
2. Make the anonymizer: `veil train RECIPE --data ucf101:ROOT --out RUN` for pixels,
   `veil train RECIPE --features STORE --out RUN` for features, or with `--data hmdb51:ROOT --encoder videomae.b
   --weights FILE` from videos with the frozen encoder in the loop (the row `raw video` of SPLAVU's Table 14).
3. Run the protocol with `--run RUN`. Rows of whole methods are recognised by their recipe; rows of ablation tables
   are named: `--run 'w_LC=10=runs/lc10'`. Raw data are always measured, downsampling where the table has it;
   blackening and blurring need `--detector FILE.onnx`. Features are those of `tiny` unless
   `--encoder videomae.b --encoder-weights FILE` says otherwise.
4. Three seeds give means and intervals; `--seed N`, repeatable, asks for others. Intervals are over seeds and test
   items where the answers to every item are kept, else over seeds alone; the text says which. Below the tables are
   the reductions against raw data, relative as papers print them and above chance. Run again and only what is
   missing is done; labels, weights or a version of the package that changed count as missing.

Why ours may differ from theirs: [FAQ](faq.md#how-do-i-compare-with-the-paper).
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for paper, title in TITLES.items():
        tables = [one for one in papers.tables() if one.id.startswith(f"{paper}/")]
        parts.append(f"## Tables of {title}\n\n{tables[0].paper}\n\n" + "\n".join(_tables(paper)) + "\n")
    without = "\n".join(f"- `{row}`: {why}." for row, why in {**WITHOUT, **WITHOUT_ENCODER}.items())
    parts.append(f"Rows that nothing here makes:\n\n{without}\n")
    parts.append("## Rows of ablation tables\n\n" + "\n".join(_rows()) + "\n")
    parts.append("## Protocols\n\n" + "\n".join(_protocols()))
    return "\n".join(parts).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="only say whether the page is current")
    arguments = parser.parse_args()
    made = page()
    if arguments.check:
        current = PAGE.is_file() and PAGE.read_text("utf-8") == made
        print(f"{PAGE.name}: {'current' if current else 'not current; run scripts/paper_tables.py'}")
        return 0 if current else 1
    PAGE.write_text(made, encoding="utf-8")
    print(f"{PAGE.name}: {len(papers.tables())} tables, {len(registry.EVALUATIONS)} protocols")
    return 0


if __name__ == "__main__":
    sys.exit(main())
