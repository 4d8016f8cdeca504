from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import detectors
from benchmarks.detectors import Looker

from videoveil.anonymizers.obfuscate import Fixed
from videoveil.data.records import Item

FACE = [10.0, 10.0, 30.0, 30.0]
AWAY = [60.0, 60.0, 80.0, 80.0]
ALONE = [f"film {n}" for n in range(100)]


def boxes(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32).reshape(-1, 5)


def looker(times: int = 1) -> Looker:
    return Looker("eye", "faces", Fixed(boxes([*FACE, 0.9])), 0.5, times)


def items(count: int) -> list[Item]:
    return [Item(f"{n}", Path(f"{n}.mp4"), "test", extra={"source": f"film {n // 2}"}) for n in range(count)]


def figures(raw: detectors.Found, seen: detectors.Found) -> dict[str, object]:
    parts = ({"test": found, "tuning": found} for found in (raw, seen))
    found = detectors.figures(
        next(parts), next(parts), looker(), items(len(raw)), dict.fromkeys(raw, (100, 100))
    )
    assert found is not None
    return found


def test_only_detections_at_the_place_and_score_of_a_raw_one_count_as_found() -> None:
    raw = {
        str(n): [boxes([*FACE, 0.8], [*AWAY, 0.2])] for n in range(4)
    }  # the second is no reference: below .5
    seen = {
        "0": [boxes([*FACE, 0.7])],  # found
        "1": [boxes([*AWAY, 0.9])],  # elsewhere
        "2": [boxes([*FACE, 0.4])],  # not certain enough
        "3": [boxes()],
    }
    found = figures(raw, seen)
    assert found["reference"] == 4
    assert found["found"]["value"] == 0.25  # type: ignore[index]
    assert found["per_frame"] == 0.5


def test_what_other_films_hit_by_accident_is_told_beside() -> None:
    middle = {str(n): [boxes([*FACE, 0.8])] for n in range(6)}
    assert figures(middle, middle)["found"]["chance"] == 1.0  # type: ignore[index]
    apart = {str(n): [boxes([*(FACE if n < 2 else AWAY), 0.8])] for n in range(4)}  # two films
    assert figures(apart, apart)["found"] == {"value": 1.0, "low": 1.0, "high": 1.0, "chance": 0.0}


def test_a_lowered_score_allows_one_false_alarm_in_ten_frames_and_never_rises_above_the_default() -> None:
    raw = {str(n): [boxes([*FACE, 0.8])] for n in range(20)}
    seen = {str(n): [boxes([*AWAY, 0.1 + 0.01 * n])] for n in range(20)}
    score = detectors.lowered(raw, seen, 0.5)
    alarms = [frames[0][0, 4] for frames in seen.values() if frames[0][0, 4] >= score]
    assert len(alarms) == 2
    loud = {name: [boxes([*AWAY, 0.9])] for name in raw}
    assert detectors.lowered(raw, loud, 0.5) == 0.5
    assert detectors.lowered(raw, {name: [boxes()] for name in raw}, 0.5) == detectors.LEAST


def test_finding_nothing_has_an_upper_end() -> None:
    none = detectors.interval(np.ones(100), np.zeros(100), ALONE)
    assert none["value"] == none["low"] == 0.0
    assert none["high"] == pytest.approx(1 - 0.025 ** (1 / 100))
    half = detectors.interval(np.ones(100), np.arange(100) % 2, ALONE)
    assert half["low"] == pytest.approx(0.4, abs=0.03)
    assert half["high"] == pytest.approx(0.6, abs=0.03)


def test_clips_of_one_film_count_as_one() -> None:
    films = [f"film {n // 10}" for n in range(100)]
    none = detectors.interval(np.ones(100), np.zeros(100), films)
    assert none["high"] == pytest.approx(1 - 0.025 ** (1 / 10))
    whole = detectors.interval(np.ones(100), (np.arange(100) // 10 % 2).astype(float), films)
    assert whole["low"] == pytest.approx(0.2, abs=0.05)
    assert whole["high"] == pytest.approx(0.8, abs=0.05)


def test_an_enlarged_look_gives_boxes_in_pixels_of_the_frame() -> None:
    frame = np.zeros((48, 64, 3), np.uint8)
    assert looker(2).boxes(frame)[0, :4].tolist() == [value / 2 for value in FACE]


def test_rows_survive_being_written_down(tmp_path: Path) -> None:
    looks = {"clips": {"test": {"eye": {"a/b": [boxes([*FACE, 0.5]), boxes()]}}}}
    for _ in range(2):  # made, then read
        kept = detectors.kept(tmp_path / "row.json", lambda: looks)
        found = kept["clips"]["test"]["eye"]["a/b"]
        assert [one.shape for one in found] == [(1, 5), (0, 5)]
        assert np.array_equal(found[0], looks["clips"]["test"]["eye"]["a/b"][0])


def test_the_one_who_finds_most_is_shown_and_tables_come_in_a_fixed_order() -> None:
    there = {str(n): [boxes([*FACE, 0.8])] for n in range(4)}
    raw: detectors.Looks = {"clips": {part: {"eye": there, "far": there} for part in detectors.PARTS}}
    mine = {"clips": {part: dict(raw["clips"][part]) for part in detectors.PARTS}}
    for part in detectors.PARTS:
        mine["clips"][part]["eye"] = {str(n): [boxes()] for n in range(4)}
    eyes = {"clips": (looker(), Looker("far", "faces", Fixed(boxes()), 0.5, 2))}
    found = detectors.row(raw, mine, eyes, {"clips": {"test": items(4)}}, dict.fromkeys("0123", (100, 100)))
    assert found["faces in clips"]["by"] == "far"
    assert found["faces in clips"]["found"]["value"] == 1.0
    one = found["faces in clips"]
    text = detectors.table({"raw": {"people in clips": one, "faces in clips": one}})
    assert text.index("faces in clips") < text.index("people in clips")
