"""A head is a run that can be given away: its weights, what they are for, and a card; no data and no paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tasks.make_store import action_store, grey_dataset, seen, unseen
from videoveil import shipped
from videoveil.anonymizers.card import Measurement, ModelCard
from videoveil.errors import CheckpointError, UsageError
from videoveil.tasks import heads
from videoveil.tasks.action.network import ActionNetwork, NetworkConfig
from videoveil.tasks.action.probe import ActionProbe, ProbeConfig
from videoveil.tasks.anomaly import FittedAnomaly
from videoveil.tasks.base import Clips
from videoveil.tasks.runs import METRICS, MODEL, RUN, Run, score, train

CARD = ModelCard(
    "made-up videos",
    (Measurement("raw features", "utility", "top-1", 0.75, None, 0.25, 0.7, 0.8),),
    "Known failures: all of them.",
    "mit",
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    train(
        ActionProbe(ProbeConfig(epochs=2)), seen(action_store(tmp_path / "s")), tmp_path / "run", device="cpu"
    )
    return Run.open(tmp_path / "run")


def test_a_head_answers_as_its_run_did_and_names_no_place(run: Run, tmp_path: Path) -> None:
    folder = heads.pack(run, tmp_path / "give" / "my-head", CARD)
    assert {path.name for path in folder.iterdir()} == {MODEL, RUN, heads.CARD}
    for path in folder.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()
    head = Run.open(folder)
    assert head.name == "my-head"
    test = unseen(action_store(tmp_path / "s"))
    assert score(head, test) == score(run, test)
    assert heads.card_of(folder) == CARD
    assert heads.parameters(head) == 12 * 3 + 3


def test_scoring_a_head_leaves_its_folder_as_it_is(run: Run, tmp_path: Path) -> None:
    folder = heads.pack(run, tmp_path / "head", CARD)
    score(Run.open(folder), unseen(action_store(tmp_path / "s")))
    assert not (folder / METRICS).exists()


def test_a_head_has_no_data_of_its_own_to_be_scored_on(run: Run, tmp_path: Path) -> None:
    folder = heads.pack(run, tmp_path / "head", CARD)
    with pytest.raises(UsageError, match="head: comes without its data; give features with --features"):
        score(Run.open(folder))


def test_weights_that_are_not_those_of_the_card_are_refused(run: Run, tmp_path: Path) -> None:
    folder = heads.pack(run, tmp_path / "head", CARD)
    other = run.fitted()
    other.layer.bias += 1
    other.save(folder / MODEL)
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors: not the weights that its run\.json names"
    ):
        Run.open(folder).fitted()


def test_the_card_tells_task_features_data_figures_and_failures(run: Run, tmp_path: Path) -> None:
    folder = heads.pack(run, tmp_path / "my-head", CARD)
    text = (folder / heads.CARD).read_text("utf-8")
    for words in (
        "license: mit",
        "# my-head",
        "`made-up`, hash `0000",
        "raw",
        "made-up videos",
        "| raw features | top-1 | 0.75 [0.7, 0.8] | 0.25 |",
        "all of them",
        "veil predict VIDEO-or-STORE --model my-head",
        Run.open(folder).weights,
    ):
        assert words in text


def test_a_card_can_be_written_anew_without_touching_the_weights(run: Run, tmp_path: Path) -> None:
    folder = heads.pack(run, tmp_path / "head", CARD)
    before = (folder / MODEL).read_bytes(), Run.open(folder)
    heads.describe(Run.open(folder), ModelCard("other videos", (), "notes", "mit"))
    assert ((folder / MODEL).read_bytes(), Run.open(folder)) == before
    assert heads.card_of(folder).training_data == "other videos"
    assert "other videos" in (folder / heads.CARD).read_text("utf-8")


def test_what_is_no_head_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no head with a card"):
        heads.card_of(run.folder)
    network = NetworkConfig(encoder="tiny", weights="random", size=32, epochs=1, batch=4, cache_gib=0.0)
    films = Clips(grey_dataset(tmp_path / "films", train=2, test=0), "train")
    train(ActionNetwork(network), films, tmp_path / "network", device="cpu")
    with pytest.raises(UsageError, match="only heads on features are packed"):
        heads.pack(Run.open(tmp_path / "network"), tmp_path / "head", CARD)
    assert json.loads((run.folder / RUN).read_text())["source"]["store"]


def test_what_a_batch_norm_counted_is_no_parameter() -> None:
    head = Run.open(shipped.head_place("anomaly-tiny"))
    fitted = head.fitted()
    assert isinstance(fitted, FittedAnomaly)
    learnt, counted = fitted.model.network.parameters(), dict(fitted.model.network.named_buffers())
    assert counted
    assert heads.parameters(head) == sum(one.numel() for one in learnt)
