"""The report of a job: what was done, by which model, and what is known of that model."""

from __future__ import annotations

import time
from typing import Any

from videoveil.report.page import POLICY, Facts, Page, Points, Section, Table, Text, render
from videoveil.serve.store import Job

__all__ = ["POLICY", "gather", "page"]

CAREFUL = (
    "These figures are measured risk under the attackers that are named, on the data that are named, and nothing more: "
    "a stronger attacker, other data or side information can find more."
)


def gather(job: Job, done: dict[str, Any], model: dict[str, Any], anomaly: dict[str, Any]) -> dict[str, Any]:
    """The report as a value; no paths, no owner."""
    return {
        "job": {"id": job.id, "model": job.model, "bytes": job.bytes, "audio": job.audio, "tries": job.tries},
        "ended": None if job.ended is None else _clock(job.ended),
        "run": done,
        "model": model,
        "anomaly": anomaly,
    }


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def page(facts: dict[str, Any]) -> str:
    """The report as one HTML file."""
    run, model = facts["run"], facts["model"]
    summary = (
        f"{run['frames']} frames of {run['width']} × {run['height']} went through {model['name']}; "
        f"{run['black_frames']} of them are black in the result."
    )
    return render(
        Page(
            "Anonymized video",
            summary,
            [
                Section("What was done", [_run(facts), *_black(run)]),
                Section("What is known of the model", _model(model)),
                Section("Anomalies", [_anomaly(facts["anomaly"])]),
            ],
        )
    )


def _run(facts: dict[str, Any]) -> Facts:
    run, engine = facts["run"], facts["run"].get("engine") or {}
    pairs = [
        ("Job", facts["job"]["id"]),
        ("Ended", facts["ended"] or "–"),
        ("Model", facts["model"]["name"]),
        ("Content hash of the model", str(run["anonymizer"])),
        ("Engine", str(engine.get("name", "–"))),
        ("Seconds", f"{run['seconds']:.1f}"),
        ("Frames per second", f"{run['fps']:.1f}"),
        ("Slowest stage", str(run["bottleneck"])),
        ("Sound", "kept as it was" if run["audio"] else "dropped"),
    ]
    return Facts(tuple(pairs))


def _black(run: dict[str, Any]) -> list[Table | Points]:
    found: list[Table | Points] = []
    if run["black"]:
        rows = tuple(
            (f"{span['first']} to {span['stop'] - 1}", str(span["reason"])) for span in run["black"][:100]
        )
        found.append(Table(("frames", "black because"), rows))
    if run["notes"]:
        found.append(Points(tuple(map(str, run["notes"]))))
    return found


def _model(model: dict[str, Any]) -> list[Table | Text]:
    figures = model.get("figures") or []
    if not figures:
        words = "Nothing was measured of this model. Treat its videos as raw until you have attacked them yourself."
        return [Text((words,))]
    rows = tuple(
        (
            str(one["name"]),
            str(one["kind"]),
            str(one["metric"]),
            _number(one["value"]),
            _interval(one),
            _number(one["raw"]),
            _number(one["chance"]),
        )
        for one in figures
    )
    header = ("attacker or use", "about", "metric", "anonymized", "interval", "raw", "chance")
    words = "Privacy figures should be near chance, utility figures near those of raw videos. "
    return [Text((words + CAREFUL,)), Table(header, rows)]


def _interval(one: dict[str, Any]) -> str:
    if one["low"] is None or one["high"] is None:
        return "not measured"
    return f"{_number(one['low'])} to {_number(one['high'])}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _anomaly(anomaly: dict[str, Any]) -> Table | Text:
    if anomaly.get("reason") or not anomaly.get("spans"):
        return Text((str(anomaly.get("reason") or "The video is too short to say anything.") + ".",))
    rows = tuple((f"{s['start']:.2f} to {s['end']:.2f}", f"{s['score']:.3f}") for s in anomaly["spans"][:500])
    return Table(("seconds", "anomaly score"), rows)
