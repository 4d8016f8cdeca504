"""A protocol from data and runs to a folder with figures, tables and pictures: what `veil evaluate` does.

OUT/evaluation.json       which protocol this folder is of
OUT/cells/, OUT/runs/     what has been measured and learnt; found again when the same is run again
OUT/boxes/                where people are, if they were looked for; with `cache` there
OUT/metrics.json          every cell, what it was measured on, and what was not run
OUT/comparison.md         the paper's tables with our columns beside theirs
OUT/TABLE.png             the same as a picture, for every table that has a figure of ours
OUT/speed-curves.png      of `speed`: Eq. 14 against the minutes of training
OUT/trade-off.png         of `trade-off`: every run in the plane of privacy and utility, every family a line
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import videoveil
from videoveil import files
from videoveil.audit.rules import Rules
from videoveil.errors import UsageError
from videoveil.protocols import registry, scales
from videoveil.protocols.base import RAW, Cell, Evaluation, pooled
from videoveil.protocols.intervals import ITEMS, SEEDS
from videoveil.protocols.strength import marked
from videoveil.protocols.subjects import COVERED, Subject, baseline, from_run
from videoveil.protocols.tables import Reduction, comparisons, reductions, reductions_text
from videoveil.protocols.workshop import Workshop, make_hint
from videoveil.report import comparison as report
from videoveil.report.comparison import ORIGINS, Comparison, Origin

if TYPE_CHECKING:
    from videoveil.anonymizers import NoiseKey
    from videoveil.anonymizers.obfuscate import Detector

FORMAT = "videoveil-evaluation-1"
CLAIM, METRICS, TABLES = "evaluation.json", "metrics.json", "comparison.md"


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    protocol: str
    out: Path
    data: Mapping[str, Path] = field(default_factory=dict)
    runs: Sequence[str] = ()  # [ROW=]RUN
    size: str = "small"
    seeds: Sequence[int] = (0,)
    encoder: str = "tiny"
    encoder_weights: str = ""
    encoder_size: int = 0  # of its pictures; 0: its own
    weights: Mapping[str, str] = field(default_factory=dict)
    key: NoiseKey | None = None
    detector: Detector | None = None  # of people, for blackening and blurring
    device: str = "auto"
    cache: Path | None = None
    baselines: bool = True  # downsampling; raw data is always measured
    partial: bool = False  # go on without data that is missing


@dataclass(frozen=True)
class Result:
    """What came of it."""

    protocol: Evaluation
    cells: tuple[Cell, ...]
    tables: tuple[Comparison, ...]
    missing: Mapping[str, str]  # `TABLE, COLUMN` → why it was not run
    reductions: tuple[Reduction, ...] = ()  # of rows against raw data


def evaluate(request: Request, say: Callable[[str], None] | None = None) -> Result:
    """Run a protocol, or what is missing of it, and write its folder."""
    protocol = registry.protocol(request.protocol)
    shops = [_workshop(request, protocol, seed, say) for seed in _seeds(request.seeds)]
    _require_data(protocol, request)
    _claim(request.out, protocol)
    subjects = gather(protocol, request)
    cells = marked(pooled([protocol.run(shop, subjects) for shop in shops]))
    origins = _origins(protocol, shops[0])
    tables = tuple(comparisons(protocol, cells, origins))
    result = Result(protocol, tuple(cells), tables, protocol.missing(shops[0]), tuple(reductions(cells)))
    _write(request, result, subjects, shops)
    return result


def gather(protocol: Evaluation, request: Request) -> list[Subject]:
    """Raw data, baselines and runs; two of one row are refused."""
    from videoveil.encoders.registry import resolve

    encoder = resolve(request.encoder)
    asked = [row for row in protocol.baselines if any(one.asks_for(row, encoder) for one in protocol.panels)]
    wanted = [row for row in protocol.baselines if row == RAW or (request.baselines and row in asked)]
    if request.detector is not None:
        wanted += [row for row in COVERED if any(panel.knows(row) for panel in protocol.panels)]
    boxes = (request.cache or request.out) / "boxes"
    found = [baseline(row, request.detector, boxes) for row in wanted]
    found += [from_run(word, request.key) for word in request.runs]
    rows = [subject.row for subject in found]
    if twice := sorted({row for row in rows if rows.count(row) > 1}):
        raise UsageError(f"two rows are called {', '.join(twice)}; name them yourself: --run NAME=RUN")
    return found


def _seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    if not seeds or len(set(seeds)) != len(seeds):
        raise UsageError(f"seeds {list(seeds)}: give at least one, and each once")
    return tuple(seeds)


def _workshop(
    request: Request, protocol: Evaluation, seed: int, say: Callable[[str], None] | None
) -> Workshop:
    from videoveil.encoders.registry import resolve

    return Workshop(
        request.out,
        {name: Path(root) for name, root in request.data.items()},
        scales.scale(request.size),
        seed,
        resolve(request.encoder),
        request.encoder_weights,
        request.encoder_size,
        dict(request.weights),
        request.device,
        request.cache,
        protocol.learned_encoder,
        say,
    )


def _require_data(protocol: Evaluation, request: Request) -> None:
    """Every dataset of the protocol, or with `partial` at least one that is of use."""
    if unused := [name for name in request.data if name not in (*protocol.needs, *protocol.may)]:
        looks = ", ".join(protocol.needs) or "no data"
        raise UsageError(f"{protocol.name} does not look at {', '.join(unused)}; it looks at {looks}")
    missing = [name for name in protocol.needs if name not in request.data]
    if missing and (not request.partial or len(missing) == len(protocol.needs)):
        hints = "\n".join(f"  --data {name}:ROOT{make_hint(name)}" for name in missing)
        raise UsageError(
            f"{protocol.name} looks at data that was not given:\n{hints}\n"
            "or measure what can be measured without it: --partial"
        )


def _claim(out: Path, protocol: Evaluation) -> None:
    path = out / CLAIM
    taken = out.is_dir() and any(not p.name.startswith(".") for p in out.iterdir())
    if taken and not path.is_file():  # in this order: an evaluation claims its folder first
        raise UsageError(f"{out}: is not empty and no evaluation; choose a new folder")
    files.create_json(path, {"format": FORMAT, "protocol": protocol.name})
    there = json.loads(path.read_text("utf-8"))
    if there.get("protocol") != protocol.name:
        raise UsageError(f"{out}: holds an evaluation of {there.get('protocol')}; choose another folder")


def _origins(protocol: Evaluation, shop: Workshop) -> tuple[Origin, ...]:
    """Columns that ours have even where nothing was run."""
    given = [name for name in protocol.needs if name in shop.roots]
    if not given:
        return ("counted",) if not protocol.needs else ("real",)
    kinds = {shop.data((name,)) for name in given}
    return tuple(origin for origin in ORIGINS if origin in kinds)


# --- the folder -----------------------------------------------------------------------------------------------


def metrics(request: Request, result: Result, subjects: Sequence[Subject], shop: Workshop) -> dict[str, Any]:
    """Everything but times and places: the same data and seeds give the same bytes."""
    return {
        "format": FORMAT,
        "software": f"videoveil {videoveil.__version__}",
        "protocol": result.protocol.name,
        "title": result.protocol.title,
        "size": request.size,
        "seeds": list(request.seeds),
        "encoder": shop.encoder_facts(Subject(RAW)),  # of rows without a network of their own
        "data": {name: shop.data((name,)) for name in sorted(shop.roots)},
        "subjects": [{**one.to_json(), "encoder": shop.encoder_facts(one)} for one in subjects],
        "cells": [cell.to_json() for cell in result.cells],
        "reductions": [asdict(one) for one in result.reductions],
        "not_run": dict(result.missing),
    }


def _write(request: Request, result: Result, subjects: Sequence[Subject], shops: Sequence[Workshop]) -> None:
    from videoveil.report import plots

    out = request.out
    files.write_json(out / METRICS, metrics(request, result, subjects, shops[0]))
    text = report.markdown(result.tables, result.protocol.title, _words(result, request))
    if lost := reductions_text(result.reductions):
        text += f"\n{lost}"
    files.write_text(out / TABLES, text)
    for table in result.tables:
        if any(one.origin != "paper" for one in table.figures):
            plots.write(report.picture(table), out / f"{table.name.replace('/', '-')}.png")
    if result.protocol.pictures is not None:
        for name, picture in result.protocol.pictures(shops, subjects, result.cells).items():
            plots.write(picture, out / f"{name}.png")


def _words(result: Result, request: Request) -> list[str]:
    words = [result.protocol.note] if result.protocol.note else []
    seeds = ", ".join(map(str, request.seeds))
    words.append(f"Protocol `{result.protocol.name}`, size `{request.size}`, seeds {seeds}.")
    if any(cell.data == "twin" for cell in result.cells):
        words.append(
            "Columns headed twin were measured on synthetic data with made-up people. They show that the protocol runs "
            "and how methods compare on it; they are no results on the real dataset."
        )
    if (least := scales.scale(request.size).least_items) < Rules.least_items:
        words.append(
            f"Size `{request.size}` shows that everything runs, from {least} test items on; a figure that means "
            f"something needs at least {Rules.least_items}, which the other sizes ask for."
        )
    words += _interval_words(result.cells)
    if any(cell.void for cell in result.cells):
        words.append(
            "Void: the interval of how far the figure of raw data lies above chance does not begin above "
            f"{100 * Rules.margin:g} points, so nothing follows from what is measured of anonymized data in that "
            "column. In pictures such figures are hollow."
        )
    reasons = sorted(set(result.missing.values()))
    words += [f"Not run: {reason}." for reason in reasons]
    return words


def _interval_words(cells: Sequence[Cell]) -> list[str]:
    """What the intervals of these cells are about."""
    over = {cell.interval_over for cell in cells if cell.interval is not None}
    words = []
    if ITEMS in over:
        words.append(
            "Square brackets: 95 % interval of the mean over seeds, by drawing seeds and test items (people with all "
            "of their items, where they are known) with repeats."
        )
    if SEEDS in over:
        whose = sorted({cell.column for cell in cells if cell.interval_over == SEEDS})
        named = "" if ITEMS not in over else f" in the columns {', '.join(whose)}"
        words.append(
            f"Square brackets{named}: 95 % interval of the mean over seeds alone, by Student's t; how much another "
            "choice of test items would change is not in it."
        )
    return words


def with_runs(request: Request, *runs: str) -> Request:
    """The same request for other runs."""
    return replace(request, runs=runs)
