"""The picture of a prediction: written whole or not at all, the same every time, and with everything on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor

from videoveil.errors import UsageError
from videoveil.report import timeline
from videoveil.report.timeline import CURVE, MOST_ROWS, TRUTH, draw
from videoveil.tasks.predict import Prediction, Span

TRUE = (Span(1.0, 3.0, "wave", 1.0),)
SPANS = {
    "action": tuple(Span(k, k + 1.0, ("wave", "walk")[k % 2], 0.4 + 0.1 * k) for k in range(5)),
    "detection": (Span(0.5, 2.5, "wave", 0.9), Span(3.0, 4.5, "jump", 0.3)),
    "anomaly": tuple(Span(k, k + 1.0, "anomaly", 0.2 * k) for k in range(5)),
}


def made(task: str, truth: tuple[Span, ...] = (), **changes: object) -> Prediction:
    values: dict[str, object] = {"spans": SPANS[task], "answer": (("wave", 0.8),), "truth": truth, **changes}
    return Prediction(task, "clips/film.mp4", 5.0, "run", **values)  # type: ignore[arg-type]


def share(path: Path, colour: str, tolerance: int = 2) -> float:
    """The part of the picture that has a colour."""
    image = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return float((abs(image - ImageColor.getrgb(colour)).max(2) <= tolerance).mean())


@pytest.mark.parametrize("task", list(SPANS))
def test_truth_is_on_the_picture_where_it_is_given_and_only_there(tmp_path: Path, task: str) -> None:
    draw(made(task, TRUE), tmp_path / "with.png")
    draw(made(task), tmp_path / "without.png")
    assert share(tmp_path / "with.png", TRUTH) > 0.01
    assert share(tmp_path / "without.png", TRUTH) == 0
    width, height = Image.open(tmp_path / "with.png").size
    assert width == 1200
    assert height > 100


@pytest.mark.parametrize("task", list(SPANS))
def test_what_was_found_is_on_the_picture(tmp_path: Path, task: str) -> None:
    sure = tuple(Span(s.start, s.end, s.label, 1.0) for s in SPANS[task])
    draw(made(task, spans=sure), tmp_path / "a.png")
    assert share(tmp_path / "a.png", CURVE, 8) > 0.0005
    draw(made(task, spans=tuple(Span(s.start, s.end, s.label, 0.1) for s in SPANS[task])), tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()


def test_shading_lies_where_the_truth_is(tmp_path: Path) -> None:
    """Of a five-second video, truth from 1 to 3 s fills the second and third fifth of the axis."""
    draw(made("anomaly", TRUE), tmp_path / "a.png")
    image = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    row = (abs(image - ImageColor.getrgb(TRUTH)).max(2) <= 2)[image.shape[0] // 2]
    columns = np.flatnonzero(row)
    axis = (abs(image - ImageColor.getrgb("#000000")).max(2) <= 60).sum(
        0
    )  # the y axis is the tallest dark line
    left = int(axis.argmax())
    per_second = (columns[-1] + 1 - columns[0]) / 2
    assert columns[0] - left == pytest.approx(per_second, rel=0.02)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
@pytest.mark.parametrize("task", list(SPANS))
def test_the_same_prediction_gives_the_same_bytes(tmp_path: Path, suffix: str, task: str) -> None:
    for name in ("one", "two"):
        draw(made(task, TRUE), tmp_path / f"{name}{suffix}")
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert one.startswith(starts[suffix.lower()])


def test_a_picture_that_fails_leaves_nothing_and_an_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(made("action"), tmp_path / "a.png")
    before = (tmp_path / "a.png").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    with pytest.raises(OSError, match="no space"):
        draw(made("detection"), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == before


def test_a_format_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for name in ("a.jpg", "a", "a.png.txt"):
        with pytest.raises(UsageError, match=r"pictures are written as \.png, \.svg, \.pdf"):
            draw(made("action"), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_nothing_found_is_a_picture_too(tmp_path: Path) -> None:
    draw(made("detection", spans=(), answer=()), tmp_path / "a.png")
    draw(made("detection", TRUE, spans=(), answer=()), tmp_path / "b.png")
    assert share(tmp_path / "b.png", TRUTH) > 0.01


def test_labels_are_rows_with_those_of_the_truth_first_and_not_too_many() -> None:
    many = tuple(Span(0, 1, f"label {n}", n / 40) for n in range(30))
    rows = timeline._rows(made("detection", TRUE, spans=many))
    assert rows[:3] == ["wave", "label 29", "label 28"]
    assert len(rows) == MOST_ROWS


def test_drawing_leaves_the_settings_of_other_plots_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw(made("action"), tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before
