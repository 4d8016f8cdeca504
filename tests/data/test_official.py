"""The published sizes that `veil data verify` holds a download to, once more by hand: a slip in either shows."""

from __future__ import annotations

from typing import Any

import pytest

from videoveil.data import hmdb51, pa_hmdb51, phvu, ucf101, vispr, vphmdb, vpucf

COUNTS: list[tuple[Any, str, dict[str, int]]] = [
    (ucf101, "split=1", {"train": 9537, "test": 3783}),
    (hmdb51, "split=1", {"train": 3570, "test": 1530, "unused": 1666}),
    (vispr, "", {"train": 10000, "val": 4167, "test": 8000}),
    (pa_hmdb51, "", {"test": 515}),
    (phvu, "", {"test": 16012}),
]


@pytest.mark.parametrize(
    ("dataset", "variant", "counts"), COUNTS, ids=lambda one: getattr(one, "__name__", "")
)
def test_items_by_split(dataset: Any, variant: str, counts: dict[str, int]) -> None:
    assert dataset.OFFICIAL[variant] == counts


@pytest.mark.parametrize(("dataset", "whole"), [(vpucf, 13320), (vphmdb, 6766)], ids=["VPUCF", "VPHMDB"])
def test_every_split_of_the_sets_of_video_privacy_has_all_videos(dataset: Any, whole: int) -> None:
    assert len(dataset.OFFICIAL) == 3
    assert {sum(counts.values()) for counts in dataset.OFFICIAL.values()} == {whole}


def test_frames_of_pa_hmdb51_with_all_five_attributes() -> None:
    assert pa_hmdb51.OFFICIAL_LABELLED_FRAMES == 52411


def test_how_often_vispr_has_each_attribute() -> None:
    shares = [count / 8000 for count in vispr.OFFICIAL_POSITIVES["test"].values()]
    assert len(shares) == 7
    assert 100 * sum(shares) / 7 == pytest.approx(24.8, abs=0.05)  # what a blind guess gets there
    assert sorted(vispr.OFFICIAL_POSITIVES["train"].values()) == [334, 588, 694, 2789, 3484, 4625, 4710]
