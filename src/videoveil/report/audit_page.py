"""The report of an audit as one page: the verdict in plain words first, then everything it rests on.

It is made of `metrics.json` alone (and of a picture, where there is one), so it can be made again at any time.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from videoveil.report import page, plots
from videoveil.report.page import Beside, Block, Facts, Page, Picture, Plot, Points, Section, Table, Text
from videoveil.report.plots import Group, Level, Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Metrics = Mapping[str, Any]
COLOURS = {"PASS": "var(--series-3)", "FAIL": "var(--series-1)", "NOT MEASURABLE": "var(--series-0)"}
MARKS = {"PASS": "✓", "FAIL": "✗", "NOT MEASURABLE": "?"}
METRIC_WORDS = {
    "cmap": "mean average precision over attributes (cMAP)",
    "top1": "share that is right at the first guess (top-1)",
    "rank1": "share of videos whose most similar video is of the same person (rank-1)",
    "auc": "area under the ROC curve (AUC)",
    "map": "mean average precision of detected actions, over overlaps of 0.3 to 0.7 (mAP)",
    "found": "share of the people found in raw frames that are found again",
    "psnr": "peak signal-to-noise ratio, decibels",
    "ssim": "structural similarity",
}
ATTACK_WORDS = {
    "map": "mean average precision of finding all videos of the same person (mAP)",
    "auc": "how often two videos of one person are more alike than two of different people (AUC)",
}
SHORT = {
    "cmap": "cMAP",
    "top1": "top-1",
    "rank1": "rank-1",
    "auc": "AUC",
    "map": "mAP",
    "psnr": "PSNR",
    "ssim": "SSIM",
}
SHARES = ("psnr",)  # metrics that are no shares
PRECISION = "ap"  # of one attribute
DRAWS = "reconstruction"  # who makes raw pictures of published ones
KEPT_BACK = (
    "What the reconstruction attack drew of test videos is not shown: of an anonymizer that hides little, such a "
    "drawing shows faces. `--pictures 2` shows it beside the published frames, with `--show-raw` the raw ones too."
)
NOT_FOUND = (
    "Nobody found these attributes even in raw videos, so nothing is known of whether they are hidden, and the verdict "
    "does not speak of them"
)
DEFINITIONS = (
    "Raw, anonymized: the score with its 95 % interval, over seeds (where there are several) and test videos. Chance: "
    "what knowing nothing of the videos gets.",
    "Void: the attacker did not clearly beat chance on raw videos (or nobody did by more than the luckiest of so many "
    "would), so its failure on anonymized ones says nothing; it is left out.",
    "Leakage: how much of what the best attacker finds in raw videos above chance is still found by the best attacker "
    "on anonymized ones. 100 %: nothing was hidden. 0 %: no better than guessing. More than 100 %: more was found than "
    "in raw videos.",
    "Where a question is measured in several ways (other metrics, other test videos), attackers are compared within "
    "each of them, and the largest leakage counts.",
    "Relative reduction: how much lower the score itself is, as papers print it; part of a score is chance, which no "
    "anonymizer can take away.",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A word in its colour, and why."""

    title: str
    word: str
    reasons: tuple[str, ...]

    def html(self) -> str:
        colour = COLOURS[self.word]
        lines = "".join(f"<p>{escape(one)}</p>" for one in self.reasons)
        return (
            f'<div style="border-left: .4rem solid {colour}; padding: .2rem 0 .2rem 1rem; margin: 1rem 0">'
            f'<p style="margin: 0; font-size: 1.15rem">{escape(self.title)}: '
            f'<strong style="color: {colour}">{MARKS[self.word]} {escape(self.word)}</strong></p>{lines}</div>'
        )


def write(
    metrics: Metrics,
    destination: str | Path,
    *,
    words: Mapping[str, str] | None = None,
    strip: Path | None = None,
    drawings: Sequence[Path] = (),
    command: str = "",
) -> None:
    """Render the page of `metrics`; `words` says what every participant does.

    `strip` is a picture of the output, `drawings` are of what an attacker reconstructed from it, one per video.
    """
    made = audit_page(metrics, words=words or {}, strip=strip, drawings=drawings, command=command)
    page.write(made, destination)


def audit_page(
    metrics: Metrics,
    *,
    words: Mapping[str, str],
    strip: Path | None = None,
    drawings: Sequence[Path] = (),
    command: str = "",
) -> Page:
    sections = [
        _verdict(metrics),
        _overview(metrics),
        *_attacks(metrics),
        *_utilities(metrics),
        *_attributes(metrics),
        *_pictures(metrics, strip, drawings),
        _risks(metrics),
        _not_tested(metrics, words),
        _who(metrics, words),
        _again(metrics, command),
    ]
    return Page(f"Audit of {metrics['anonymizer']} on {metrics['data']['name']}", summary(metrics), sections)


# --- words --------------------------------------------------------------------------------------------------


def summary(metrics: Metrics) -> str:
    """The verdict in two sentences."""
    verdict, limit = metrics["verdict"], metrics["rules"]["max_leakage"]
    worst, alone = _worst(metrics), _alone(metrics)
    failed = "does not hide enough: attackers still find too much"
    if all(one is None or (one["leakage"]["low"] or 0.0) <= limit for one in (worst, alone)):
        failed = "has not been shown to hide enough"
    untested = "could not be tested for privacy"
    if any(one["verdict"] != "NOT MEASURABLE" for one in _judged(metrics)):
        missing = ", ".join(one["name"] for one in _open(metrics))
        untested = f"could not be tested for all that has to be hidden ({missing})"
    privacy = {
        "PASS": "hides enough of what the attackers of this audit find in raw videos",
        "FAIL": failed,
        "NOT MEASURABLE": untested,
    }[verdict["privacy"]]
    utility = {
        "PASS": "what happens in the videos can still be recognised",
        "FAIL": "what happens in the videos can no longer be recognised well enough",
        "NOT MEASURABLE": "whether the videos are still useful could not be measured",
    }[verdict["utility"]]
    told = ""
    if worst is not None:
        average = "on average " if worst["parts"] else ""
        told = f" Largest leakage: {worst['name']}, {average}{_range(worst['leakage'])}"
    if alone is not None:
        told += f"{', and' if told else ' Leakage:'} {_range(alone['leakage'])} of {alone['name']} alone"
    told += "." if told else ""
    joint = "and" if verdict["privacy"] == verdict["utility"] else "but"
    if "NOT MEASURABLE" in (verdict["privacy"], verdict["utility"]):
        joint = "and"
    return f"This anonymizer {privacy}, {joint} {utility}.{told}"


def _judged(metrics: Metrics) -> list[Mapping[str, Any]]:
    """Questions of attackers by which something is decided."""
    return [one for one in _questions(metrics, "attack") if one["judged"]]


def _open(metrics: Metrics) -> list[Mapping[str, Any]]:
    """Those that could be asked of these data and were not answered."""
    return [q for q in _judged(metrics) if q["verdict"] == "NOT MEASURABLE" and q.get("possible", True)]


def _worst(metrics: Metrics) -> Mapping[str, Any] | None:
    known = [one for one in _judged(metrics) if one["leakage"]["value"] is not None]
    return max(known, key=lambda one: one["leakage"]["value"], default=None)


def _alone(metrics: Metrics) -> Mapping[str, Any] | None:
    """The attribute that leaks most, where the average hides that it leaks more than is allowed."""
    limit = metrics["rules"]["max_leakage"]
    hidden = [
        one
        for one in _judged(metrics)
        if (one["leakage"]["low"] or 0.0) <= limit and len(one["parts"]) + len(one.get("unproven", ())) > 1
    ]
    over = [part for one in hidden for part in one["parts"] if (part["leakage"]["value"] or 0.0) > limit]
    shown = [part for part in over if (part["leakage"]["low"] or 0.0) > limit]
    return max(shown or over, key=lambda part: part["leakage"]["value"], default=None)


def _unproven(metrics: Metrics) -> list[str]:
    """Attributes that nobody found, on either side."""
    return [name for one in _judged(metrics) for name in one.get("unproven", ())]


def _questions(metrics: Metrics, role: str) -> list[Mapping[str, Any]]:
    return [one for one in metrics["questions"] if one["role"] == role]


def _figure(value: float | None, metric: str = "") -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if metric in SHARES else f"{100 * value:.1f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _range(estimate: Mapping[str, Any]) -> str:
    """`42 % (38 to 47 %)`."""
    if estimate["low"] is None or estimate["high"] is None:
        return _percent(estimate["value"])
    return f"{_percent(estimate['value'])} ({100 * estimate['low']:.0f} to {_percent(estimate['high'])})"


def _cell(estimate: Mapping[str, Any], metric: str) -> str:
    """`61.3 [55.0, 67.1]`."""
    if estimate["low"] is None or estimate["high"] is None:
        return _figure(estimate["value"], metric)
    return (
        f"{_figure(estimate['value'], metric)} "
        f"[{_figure(estimate['low'], metric)}, {_figure(estimate['high'], metric)}]"
    )


# --- sections -----------------------------------------------------------------------------------------------


def _verdict(metrics: Metrics) -> Section:
    verdict, rules = metrics["verdict"], metrics["rules"]
    blocks = []
    for title in ("privacy", "utility"):
        own = [one.partition(", ")[2] or one for one in verdict["reasons"] if one.startswith(title)]
        shown = tuple(_sentence(one) for one in own)
        blocks.append(cast(Block, Verdict(title.capitalize(), verdict[title], shown)))
    limit, level = _percent(rules["max_leakage"]), _percent(rules["level"])
    rule = (
        f"When privacy passes: the attackers named below find at most {limit} of what they find in raw videos above "
        f"chance. For every question the upper end of the {level} interval of the leakage must be within this limit; "
        "for private attributes that of their average, and the estimate of each of them. Doubt counts against privacy, "
        "because people who are filmed are not asked; so does a question that could be asked and was not answered. "
        "Nothing is said of other attackers.",
        f"When utility passes: by its estimate at least {_percent(rules['min_utility'])} of the raw score is kept, and "
        "chance is clearly beaten.",
        f"Who counts: whoever beats chance by at least {100 * rules['margin']:g} points with the lower end of its "
        "interval, on raw videos or, as an attacker, on anonymized ones; of several, the best must do so with what the "
        "luckiest of them would gain taken off.",
        *_least_found(rules),
    )
    unknown = _unproven(metrics)
    nothing = (f"{NOT_FOUND}: {', '.join(unknown)}.",) if unknown else ()
    synthetic = (
        (
            "The people in these videos are synthetic: the figures show how methods compare, not what happens to "
            "real people.",
        )
        if metrics["data"]["synthetic"]
        else ()
    )
    return Section("Verdict", [*blocks, Text((*nothing, *rule, *synthetic))])


def _least_found(rules: Mapping[str, Any]) -> tuple[str, ...]:
    if "least_found" not in rules:  # metrics of before there was such a rule
        return ()
    least = _percent(rules["least_found"])
    return (
        f"Nothing passes where the best attacker finds less than {least} of what could be known in raw videos.",
    )


def _sentence(reason: str) -> str:
    question, _, rest = reason.partition(": ")
    word, _, why = rest.partition(": ")
    return f"{question.capitalize()}: {word}{': ' if why else ''}{why}."


def _overview(metrics: Metrics) -> Section:
    """The trade-off, with the limits."""
    worst, rules = _worst(metrics), metrics["rules"]
    known = [q for q in _questions(metrics, "utility") if q["kept"]["value"] is not None]
    useful = min(known, key=lambda q: q["kept"]["value"], default=None)
    if worst is None or useful is None:
        return Section("Privacy against utility", [Text(("One of the two could not be measured.",))])
    left, kept = worst["leakage"], useful["kept"]
    alone, kind = _alone(metrics), "largest leakage of any question"
    points = [
        Point("raw videos", kind, 1.0, 1.0),
        Point(
            metrics["anonymizer"],
            kind,
            left["value"],
            kept["value"],
            kept["low"],
            kept["high"],
            left["low"],
            left["high"],
            filled=True,
        ),
    ]
    if alone is not None:  # a mean left of the limit must not look like a pass
        own = alone["leakage"]
        point = Point(metrics["anonymizer"], "one attribute alone", own["value"], kept["value"])
        points.append(replace(point, left=own["low"], right=own["high"], filled=True))
    chart = plots.tradeoff(
        points,
        "leakage above chance  (← more private)",
        "share of raw utility kept",
        (Level("limit", rules["max_leakage"]),),
    )
    axes = chart.axes[0]
    beyond = 0.0 if alone is None else 1.1 * alone["leakage"]["value"]
    axes.set_xlim(min(-0.08, left["low"] or 0.0), max(1.12, left["high"] or 0.0, beyond))
    axes.set_ylim(0.0, max(1.12, (kept["high"] or 0.0) + 0.05))
    alt = f"leakage {_range(left)}, utility kept {_range(kept)}"
    caption = (
        f"{worst['name'].capitalize()}, worst attacker ({worst['strongest']}), against {useful['name']} "
        f"({useful['strongest']}). Left and up is better; bars are 95 % intervals; raw videos are at (1, 1)."
    )
    if alone is not None:
        caption += f" Of {alone['name']} alone {alone['strongest']} finds {_range(alone['leakage'])}."
    return Section("Privacy against utility", [Plot(plots.svg(chart, "tradeoff"), alt, caption)])


def _attacks(metrics: Metrics) -> list[Section]:
    own = _questions(metrics, "attack")
    tables: list[Block | Beside] = []
    for one in own:
        if one["attempts"]:
            tables += [_table(one), *_ways(one), *_reductions(one)]
    return [Section("What attackers find", [*tables, Points(DEFINITIONS)])] if tables else []


def _utilities(metrics: Metrics) -> list[Section]:
    tables: list[Block | Beside] = []
    for one in _questions(metrics, "utility"):
        if one["attempts"]:
            tables += [_table(one), *_kept(one)]
    return [Section("What can still be recognised", tables)] if tables else []


def _table(question: Mapping[str, Any]) -> Table:
    attack, every = question["role"] == "attack", question["attempts"]
    metrics = list(dict.fromkeys(one["metric"] for one in every))
    sizes = sorted({one["items"] for one in every})
    ways = {one["strongest"] for one in question.get("groups", ())}
    rows = []
    order = sorted(
        every,
        key=lambda a: (
            bool(a["void"]),
            a["name"] != question["strongest"],
            metrics.index(a["metric"]),
            -(a["anonymized"]["above"]["value"] or -9.0),
            a["name"],
        ),
    )
    for one in order:
        note = "best of its kind" if one["name"] in ways else ""
        if one["void"]:  # without figures there is room to say why
            note = "void" if one["raw"]["score"]["value"] is not None else f"void: {one['void']}"
        if one["name"] == question["strongest"]:
            note = "strongest, counts" if attack else "best, counts"
        metric = one["metric"]
        cells = [_cell(one[side]["score"], metric) for side in ("raw", "anonymized")]
        way = (SHORT.get(metric, metric),) if len(metrics) > 1 else ()
        count = (str(one["items"]),) if len(sizes) > 1 else ()
        rows.append((one["name"], *way, *count, *cells, _figure(one["anonymized"]["chance"], metric), note))
    words = {**METRIC_WORDS, **(ATTACK_WORDS if attack else {})}
    measured = "; ".join(f"{words.get(one, one)}{'' if one in SHARES else ', in %'}" for one in metrics)
    counted = f"{sizes[0]} test videos" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} test videos"
    caption = f"{question['name'].capitalize()}: {measured}; {counted}, {every[0]['seeds']} seeds"
    way = ("metric",) if len(metrics) > 1 else ()
    count = ("videos",) if len(sizes) > 1 else ()
    header = ("attacker" if attack else "model", *way, *count, "raw", "anonymized", "chance", "")
    return Table(header, tuple(rows), caption)


def _ways(question: Mapping[str, Any]) -> list[Block]:
    """What was compared with what, where a question is measured in several ways."""
    groups = question.get("groups", ())
    if len(groups) < 2:
        return []
    rows = tuple(
        (
            f"{SHORT.get(one['metric'], one['metric'])}, {one['items']} videos",
            _range(one["leakage"]),
            one["strongest"],
            "largest, counts" if number == 0 else "",
        )
        for number, one in enumerate(groups)
    )
    header = ("measured by", "leakage", "found best by", "")
    caption = f"{question['name'].capitalize()}, leakage in every way of measuring"
    return [Table(header, rows, caption)]


def _reductions(question: Mapping[str, Any]) -> list[Block]:
    if not question["judged"]:
        return [Text(("Shown; nothing is decided by it.",))]
    if question["leakage"]["value"] is None:
        return [Text((f"Not measurable: {question['reason']}.",))]
    pairs = (
        ("leakage", _range(question["leakage"])),
        ("reduction above chance", _range(question["reduction"])),
        ("relative reduction", _range(question["relative"])),
        ("best on raw videos", str(question["strongest_raw"])),
        ("best on anonymized", str(question["strongest"])),
    )
    return [Facts(pairs)]


def _kept(question: Mapping[str, Any]) -> list[Block]:
    """Both shares: a score may keep nine tenths while half of what it tells above chance is gone."""
    if question["kept"]["value"] is None:
        return []
    pairs = (
        ("kept of the raw score, which decides", _range(question["kept"])),
        ("kept above chance", _range(question["leakage"])),
    )
    return [Facts(pairs)]


def _attributes(metrics: Metrics) -> list[Section]:
    parts = [part for one in _questions(metrics, "attack") for part in one["parts"]]
    unknown, limit = _unproven(metrics), metrics["rules"]["max_leakage"]
    nothing = [Text((f"{NOT_FOUND}: {', '.join(unknown)}.",))] if unknown else []
    if not parts:
        return [Section("Attribute by attribute", nothing)] if nothing else []
    groups = [
        Group(
            _wrapped(one["name"]),
            {"raw": one["raw"]["value"], "anonymized": one["anonymized"]["value"]},
            one["chance"],
        )
        for one in parts
    ]
    bars = plots.bars(groups, "average precision of the attacker that does best")
    _error_bars(bars, [one[side] for one in parts for side in ("raw", "anonymized")])
    chart = plots.svg(bars, "attributes")
    alt = "; ".join(_heard(one) for one in parts)
    caption = (
        "The farther the lower bar reaches beyond the line across, the more is found out about this attribute. Thin "
        "lines along the bars are 95 % intervals."
    )
    rows = tuple(
        (
            one["name"],
            _within(one["leakage"], limit),
            _range(one["leakage"]),
            _cell(one["raw"], PRECISION),
            _cell(one["anonymized"], PRECISION),
            _figure(one["chance"], PRECISION),
            one["strongest"],
        )
        for one in parts
    )
    header = (
        "attribute",
        f"limit {_percent(limit)}",
        "leakage",
        "raw",
        "anonymized",
        "chance",
        "found best by",
    )
    table = Table(header, rows, "Average precision in %, and leakage, each with its 95 % interval")
    return [Section("Attribute by attribute", [Plot(chart, alt, caption), table, *nothing])]


def _error_bars(bars: Figure, estimates: Sequence[Mapping[str, Any]]) -> None:
    """The interval of every bar that was drawn, in the order of the bars; none where it is not known."""
    (axes,) = bars.axes
    drawn = [one for one in estimates if one["value"] is not None]
    for (bar,), one in zip(cast(Any, axes.containers), drawn, strict=True):
        if one["low"] is not None and one["high"] is not None:
            middle = bar.get_y() + bar.get_height() / 2
            axes.hlines(middle, one["low"], one["high"], color=plots.INK, lw=1.2)


def _heard(part: Mapping[str, Any]) -> str:
    """A row of the picture for whoever cannot see it."""
    raw, veiled = (_cell(part[side], PRECISION) for side in ("raw", "anonymized"))
    chance = _figure(part["chance"], PRECISION)
    return (
        f"{part['name']}: raw {raw}, anonymized {veiled}, chance {chance}, leakage {_range(part['leakage'])}"
    )


def _within(leakage: Mapping[str, Any], limit: float) -> str:
    if (leakage["low"] or 0.0) > limit:
        return "over"
    if (leakage["value"] or 0.0) > limit:
        return "over, not surely"
    return "within, not surely" if leakage["high"] is None or leakage["high"] > limit else "within"


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 22)) or name


def _pictures(metrics: Metrics, strip: Path | None, drawings: Sequence[Path]) -> list[Section]:
    blocks: list[Block | Beside] = []
    if strip is not None:
        alt = "frames of test videos as the anonymizer leaves them"
        blocks.append(Picture(strip, alt, "Frames of test videos."))
    for number, path in enumerate(drawings, 1):
        alt = f"frames of test video {number} as published and as an attacker reconstructed them"
        caption = (
            f"Test video {number}: what the reconstruction attack, which has learnt from raw and published training "
            "videos, makes of the published frames."
        )
        blocks.append(Picture(path, alt, caption))
    if DRAWS in metrics["took_part"] and not drawings:
        blocks.append(Text((KEPT_BACK,)))
    return [Section("Pictures", blocks)] if blocks else []


def _risks(metrics: Metrics) -> Section:
    rows, words = [], []
    for one in metrics["risks"]:
        if one["risk"] is None:
            rows.append((one["kind"], "not measured", "–", "–", "–"))
            words.append(f"{one['kind'].capitalize()}: not measured; {one['reason']}.")
            continue
        between = {"value": one["risk"], "low": one["low"], "high": one["high"]}
        rows.append(
            (
                one["kind"],
                _range(between),
                _percent(one["main"]),
                _percent(one["control"]),
                _percent(one["baseline"]),
            )
        )
        words.append(f"{one['kind'].capitalize()}: {one['words']} {_told(one)}")
    table = Table(("risk", "risk (95 % interval)", "attack", "control", "guess"), tuple(rows))
    note = (
        "The three risks that European data protection authorities ask about (WP 216). Attack: how often it succeeds. "
        "Control: how often the same attack succeeds when the videos have been exchanged between people. Risk: the "
        "part of what the control leaves open that the attack closes. These are risks under the attackers of this "
        "audit, measured, not a promise that data are anonymous."
    )
    return Section("Risks in plain words", [table, Points(tuple(words)), Text((note,))])


def _told(one: Mapping[str, Any]) -> str:
    members = one["kind"] == "membership"
    counted = f"{one['trials']} {'videos of either kind' if members else 'test videos'}"
    without = "from the raw videos alone, or by chance," if members else "without anything about the person"
    return (
        f"This succeeded in {100 * one['main']:.0f} of 100 cases ({one['attacker']}, {counted}); "
        f"{without} it does in {100 * one['control']:.0f}."
    )


def _not_tested(metrics: Metrics, words: Mapping[str, str]) -> Section:
    blocks: list[Block | Beside] = []
    left = [
        f"{one['name']} ({words.get(one['name'], 'an attacker')}): {one['reason']}."
        for one in metrics["left_out"]
    ]
    if left:
        blocks += [Text(("Left out of this audit:",)), Points(tuple(left))]
    if metrics["not_measurable"]:
        blocks += [Text(("About the data:",)), Points(tuple(f"{one}." for one in metrics["not_measurable"]))]
    blocks += [
        Text(("Never part of an audit:",)),
        Points(tuple(f"{one}." for one in metrics["never_tested"])),
    ]
    return Section("What was not tested", blocks)


def _who(metrics: Metrics, words: Mapping[str, str]) -> Section:
    pairs = tuple((name, words.get(name, "")) for name in metrics["took_part"])
    return Section("Who took part", [Facts(pairs) if pairs else Text(("Nobody.",))])


def _again(metrics: Metrics, command: str) -> Section:
    data = metrics["data"]
    items = ", ".join(f"{count} {split}" for split, count in sorted(data["items"].items()))
    pairs: Sequence[tuple[str, str]] = (
        ("data", f"{data['name']}: {items}"),
        ("attributes", ", ".join(data["attributes"]) or "none"),
        ("encoder", data["encoder"]),
        ("attackers saw", data.get("seen", "what the two folders hold")),
        ("seeds", ", ".join(map(str, metrics["seeds"]))),
        ("resamples", f"{metrics['rules']['resamples']} draws of seeds and test videos"),
        ("command", command or "veil audit with the settings of config.yaml, beside this file"),
        ("files", "metrics.json, config.yaml, environment.json, timing.json and results/ beside this file"),
    )
    note = (
        "The same data, seed, machine and attackers give the same metrics.json. Where a budget chose the attackers, "
        "the clock had a part in it: this folder keeps to its plan.json, and --only with its names asks the same ones "
        "elsewhere. A run that was stopped goes on where it was when it is started again."
    )
    private = (
        "To be handed on: this page and metrics.json. What lies beside them, and the cache, holds features of raw "
        "videos, answers about every test video and networks that raw pictures taught: as private as the videos."
    )
    return Section("How to repeat it", [Facts(tuple(pairs)), Text((note, private))])
