"""With an anomaly model the service tells how unusual every moment of the anonymized video is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.serve.running import Server, film
from tests.tasks.make_store import seen
from tests.tasks.test_predict import stored
from videoveil.data.records import Item
from videoveil.tasks import mgfn
from videoveil.tasks.anomaly import AnomalyDetection
from videoveil.tasks.predict import predict
from videoveil.tasks.runs import Run, train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for real features of the encoder `tiny`, learnt from made-up ones."""
    folder, rng = tmp_path_factory.mktemp("anomaly"), np.random.default_rng(0)
    items = [Item(f"w{n}", Path("v.mp4"), "train", anomaly=n % 2 == 0) for n in range(6)]
    store = stored(folder / "store", items, [rng.random((8, 256)) for _ in items], (), "all")
    train(AnomalyDetection(mgfn.small(epochs=1, batch=2)), seen(store), folder / "run", device="cpu")
    return folder / "run"


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory, run: Path) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("watching") / "data", {"anomaly": str(run)}) as running:
        yield running


def test_the_curve_is_what_the_model_says_about_the_result(
    watching: Server, run: Path, tmp_path: Path
) -> None:
    job = watching.accepted(film(tmp_path / "film.mp4", 70))
    assert watching.ended(job)["state"] == "done"
    told = watching.ask("GET", f"/api/jobs/{job}/anomaly").json
    assert told["configured"] is True
    assert told["reason"] == ""
    result = tmp_path / "result.mp4"
    result.write_bytes(watching.ask("GET", f"/api/jobs/{job}/video").body)
    expected = predict(result, Run.open(run), "anomaly", device="cpu")
    assert told["duration"] == pytest.approx(expected.duration)
    assert [(s["start"], s["end"]) for s in told["spans"]] == [(s.start, s.end) for s in expected.spans]
    assert [s["score"] for s in told["spans"]] == pytest.approx([s.score for s in expected.spans], abs=1e-4)
    assert len(told["spans"]) >= 4
    assert b"anomaly score" in watching.ask("GET", f"/api/jobs/{job}/report.html").body


def test_a_model_that_cannot_say_anything_does_not_fail_the_job(watching: Server, tmp_path: Path) -> None:
    job = watching.accepted(film(tmp_path / "film.mp4", 3), "black")
    assert watching.ended(job)["state"] == "done"
    told = watching.ask("GET", f"/api/jobs/{job}/anomaly")
    assert told.status == 200
    assert told.json["reason"] or told.json["spans"]
    assert str(watching.data) not in told.body.decode()
