"""One picture of what a model says about a video over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from videoveil.report.plots import require_format, write
from videoveil.tasks.predict import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUTH = "#c9d7e8"
INK = "#22303f"
CURVE = "#b4432e"
MOST_ROWS = 12


def draw(prediction: Prediction, destination: str | Path) -> None:
    """Write the picture, whole or not at all; its suffix says how. Equal predictions give equal bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    destination = Path(destination)
    require_format(destination)
    rows = _rows(prediction)
    height = 2.6 if prediction.task == "anomaly" else 1.1 + 0.3 * len(rows)
    figure = Figure(figsize=(10, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    (_curve if prediction.task == "anomaly" else _bars)(axes, prediction, rows)
    axes.set_xlim(0, max(prediction.duration, 1e-3))
    axes.set_xlabel("seconds")
    axes.set_title(_title(prediction), loc="left", fontsize=10, color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    write(figure, destination)


def _title(prediction: Prediction) -> str:
    name = Path(prediction.video).name
    if prediction.task == "action" and prediction.answer:
        label, score = prediction.answer[0]
        return f"{name}: {label} ({100 * score:.0f} %)"
    if prediction.task == "anomaly" and prediction.answer:
        return f"{name}: anomaly score, highest {prediction.answer[0][1]:.2f}"
    return f"{name}: {len(prediction.spans)} actions found"


def _rows(prediction: Prediction) -> list[str]:
    """Labels from the most certain down, those of the truth included, at most a dozen."""
    if prediction.task == "anomaly":
        return []
    best: dict[str, float] = {span.label: 2.0 for span in prediction.truth}
    for span in prediction.spans:
        best[span.label] = max(best.get(span.label, 0.0), span.score)
    return sorted(best, key=lambda label: -best[label])[:MOST_ROWS]


def _bars(axes: Axes, prediction: Prediction, rows: list[str]) -> None:
    """A row per label: true stretches as pale bars, what was found as dark ones, the darker the more certain."""
    place = {label: len(rows) - 1 - row for row, label in enumerate(rows)}
    for span in prediction.truth:
        if span.label in place:
            axes.broken_barh(
                [(span.start, span.end - span.start)], (place[span.label] - 0.45, 0.9), color=TRUTH, lw=0
            )
    for span in sorted(prediction.spans, key=lambda span: span.score):
        if span.label in place:
            axes.broken_barh(
                [(span.start, span.end - span.start)],
                (place[span.label] - 0.25, 0.5),
                facecolor=CURVE,
                alpha=0.1 + 0.9 * min(max(span.score, 0.0), 1.0),
                edgecolor="white",
                linewidth=0.6,
            )
    axes.set_yticks(list(place.values()), list(place))
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
    if prediction.truth:
        _legend(axes, "found (darker: more certain)")


def _curve(axes: Axes, prediction: Prediction, _rows: list[str]) -> None:
    """The score of every clip as a step, with the true stretches shaded."""
    for span in prediction.truth:
        axes.axvspan(span.start, span.end, color=TRUTH, lw=0)
    times = [span.start for span in prediction.spans] + [prediction.spans[-1].end]
    scores = [span.score for span in prediction.spans]
    axes.step(times, [*scores, scores[-1]], where="post", color=CURVE, lw=1.6)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("score")
    if prediction.truth:
        _legend(axes, "score")


def _legend(axes: Axes, found: str) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=CURVE, label=found), Patch(color=TRUTH, label="truth")]
    # above the axes, beside the title: nothing that was found is hidden
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, frameon=False, ncols=2)
