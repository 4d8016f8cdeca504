"""The minimax loop: acts, turns, restarts, resuming, and stopping with a reason."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.minimax_world import QUICK, loop, settings, state, videos
from videoveil.data.records import Dataset
from videoveil.errors import CheckpointError, Diverged, NoHeadway, UsageError
from videoveil.training import checkpoints
from videoveil.training.minimax import CHECKPOINT, KEPT_FORMAT, Turns, acts, near_chance
from videoveil.training.minimax_settings import (
    Budget,
    Headway,
    MinimaxSettings,
    Penalty,
    Phase,
    Rates,
    Start,
    Utility,
)

PAIR = Budget(members=("mobilenet.v1-0.25",))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return videos(tmp_path_factory.mktemp("minimax"))


class Stopped(Exception):
    pass


def same(a: Any, b: Any) -> bool:
    first, second = state(a), state(b)
    return all(torch.equal(first[n][k], second[n][k]) for n in first for k in first[n])


def test_the_auxiliaries_learn_through_the_anonymizer_before_all_play(dataset: Dataset) -> None:
    made = loop(dataset)
    started = {k: v.clone() for k, v in made.anonymizer.state_dict().items()}
    seen: dict[str, bool] = {}

    def watch(done: int, total: int, value: float) -> None:
        act = ["utility start", "budget start", "minimax", "minimax"][(done - 1) // made.batches.steps]
        same_weights = all(torch.equal(v, started[k]) for k, v in made.anonymizer.state_dict().items())
        seen[act] = seen.get(act, True) and same_weights

    made.progress = watch
    history = made.run()
    assert seen == {"utility start": True, "budget start": True, "minimax": False}
    assert [record["act"] for record in history] == ["utility start", "budget start", "minimax", "minimax"]
    assert history[-1]["chance"] == pytest.approx(math.log(2 * 4 - 1))
    assert {"anonymizer", "utility", "budget", "penalty", "active", "rms", "right", "sure"} <= set(
        history[-1]
    )


def test_a_killed_run_goes_on_to_the_same_weights_and_history(dataset: Dataset, tmp_path: Path) -> None:
    own = settings(epochs=3, budget=replace(PAIR, restart=1, restart_steps=2))
    whole = loop(dataset, own, tmp_path / "whole")
    whole.run()

    def stop(done: int, total: int, value: float) -> None:
        if done == 3 * whole.batches.steps + 1:  # in the second epoch of the minimax
            raise Stopped

    cut = loop(dataset, own, tmp_path / "cut", progress=stop)
    with pytest.raises(Stopped):
        cut.run()
    again = loop(dataset, own, tmp_path / "cut")
    again.run()
    assert same(whole, again)
    for mine, other in zip(whole.history, again.history):
        assert {k: v for k, v in mine.items() if k != "seconds"} == {
            k: v for k, v in other.items() if k != "seconds"
        }


def test_the_same_seed_gives_the_same_weights_whatever_the_threads(dataset: Dataset) -> None:
    one, two = loop(dataset, settings(workers=1)), loop(dataset, settings(workers=3))
    one.run(), two.run()
    assert same(one, two)
    other = loop(dataset, seed=1)
    other.run()
    assert not same(one, other)


def test_a_run_with_other_settings_is_not_continued(dataset: Dataset, tmp_path: Path) -> None:
    loop(dataset, settings(epochs=1), tmp_path).run()
    with pytest.raises(CheckpointError, match="w_budget"):
        loop(dataset, settings(epochs=1, w_budget=2.0), tmp_path).run()
    free = loop(dataset, settings(epochs=1, workers=1, headway=Headway(epochs=9)), tmp_path)
    assert len(free.run()) == 3  # what changes nothing may change


def test_epochs_are_kept_for_looking_back(dataset: Dataset, tmp_path: Path) -> None:
    looked = []
    made = loop(dataset, settings(epochs=3, keep_every=2), tmp_path, look=lambda n, f: looked.append((n, f)))
    made.run()
    kept = sorted(path.name for path in (tmp_path / "epochs").iterdir())
    assert kept == ["0002.safetensors", "0003.safetensors"]
    assert [number for number, _ in looked] == [2, 3]
    tensors, facts = checkpoints.read(tmp_path / "epochs" / kept[-1], KEPT_FORMAT)
    assert facts == {"epoch": 3}
    assert all(torch.equal(tensors[k], v) for k, v in made.anonymizer.state_dict().items())
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2, 3, 4]


def test_restarted_budget_nets_begin_anew_and_learn_alone(dataset: Dataset) -> None:
    own = settings(budget=replace(PAIR, restart=1, restart_steps=3), epochs=2)
    made, turns, restarts = loop(dataset, own), [], []
    fresh = made.fresh
    assert fresh is not None
    made.fresh = lambda place, again: (restarts.append((place, again)), fresh(place, again))[1]
    made.set_up()
    take = made.step.take
    made.set_up = lambda: setattr(made.step, "take", lambda t, b: (turns.append(t), take(t, b))[1])  # type: ignore[method-assign]
    made.run()
    assert restarts == [(0, 1)]
    steps = made.batches.steps
    assert turns[3 * steps : 3 * steps + 3] == ["budget"] * 3
    assert turns[3 * steps + 3] == "anonymizer"


def test_training_that_hides_nothing_is_stopped_with_a_reason(dataset: Dataset, tmp_path: Path) -> None:
    own = settings(
        w_budget=0.0,
        epochs=4,
        headway=Headway(
            epochs=2, share=3.0
        ),  # nobody pushes L_B: it will not be three times its chance level
        start=Start(identity_epochs=0, utility_epochs=0, budget_epochs=1, rate=1e-3),
    )
    with pytest.raises(NoHeadway, match="its chance level"):
        loop(dataset, own, tmp_path).run()
    assert (tmp_path / CHECKPOINT).is_file()  # nothing is lost
    on = loop(dataset, replace(own, headway=Headway()), tmp_path)
    assert len(on.run()) == 5


@pytest.mark.parametrize(
    ("budgets", "share"), [([1.0, 3.0], 1.0), ([3.0, 0.0], 0.0), ([1.0, 1.5], 0.5), ([3.6], 1.2)]
)
def test_headway_is_the_last_loss_as_a_share_of_chance(budgets: list[float], share: float) -> None:
    played = [{"budget": value, "chance": 3.0} for value in budgets]
    assert near_chance(played) == pytest.approx(share)
    assert near_chance([{"utility": 1.0, "chance": 3.0}]) is None


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_term(dataset: Dataset) -> None:
    made = loop(dataset)
    with torch.no_grad():
        next(iter(made.utility.parameters())).fill_(float("nan"))
    with pytest.raises(Diverged, match=r"utility start diverged in epoch 1: utility_learning"):
        made.run()


def test_an_exploding_utility_loss_stops_the_run(dataset: Dataset) -> None:
    made = loop(dataset)
    made.history = [{"act": "minimax", "utility": 1.0}, {"act": "minimax", "utility": 50.0}]
    with pytest.raises(Diverged, match=r"L_T is 50"):
        made._require_sane()


# --- turns ---------------------------------------------------------------------------------------------------


def test_turns_alternate_batch_by_batch_as_published() -> None:
    turns, seen = Turns(MinimaxSettings().phases), []
    for _ in range(5):
        seen.append(turns.current.turn)
        turns.took({})
    assert seen == ["anonymizer", "auxiliary", "anonymizer", "auxiliary", "anonymizer"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 40))
def test_every_phase_gets_its_steps_in_every_cycle(lengths: list[int], count: int) -> None:
    names: list[Any] = ["anonymizer", "auxiliary", "utility", "budget"]
    turns = Turns(tuple(Phase(names[i], n) for i, n in enumerate(lengths)))
    cycle = [names[i] for i, n in enumerate(lengths) for _ in range(n)]
    for step in range(count):
        assert turns.current.turn == cycle[step % len(cycle)]
        turns.took({})


def test_a_phase_ends_early_when_what_it_waits_for_has_come() -> None:
    turns = Turns((Phase("budget", 50, until="budget", reach=0.9), Phase("anonymizer")))
    for value in (0.5, 0.6, 0.95, 0.95, 0.95, 0.95):
        assert turns.current.turn == "budget"
        turns.took({"sure": torch.tensor(value)})
    assert turns.current.turn == "anonymizer"


def test_acts_that_take_no_epochs_are_left_out() -> None:
    own = settings(start=Start(utility_epochs=0, budget_epochs=2))
    assert [(act.name, act.epochs) for act in acts(own)] == [("budget start", 2), ("minimax", 2)]
    assert [act.name for act in acts(replace(own, budget=None))] == ["minimax"]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"phases": ()}, "phases"),
        ({"budget": None, "phases": (Phase("hide"),)}, "hide"),
        ({"batch": 1}, "at least 2"),
        ({"w_budget": float("nan")}, "w_budget"),
        ({"epochs": -1}, "epochs"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        settings(**wrong)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Budget(members=()), "members"),
        (lambda: Budget(target="entropy"), "entropy"),
        (lambda: Budget(kind="clips", source="images"), "clips"),
        (lambda: Budget(pair="gap:0"), "pair"),
        (lambda: Utility(temporal="later"), "temporal"),  # type: ignore[arg-type]
        (lambda: Utility(margin=-1), "margin"),
        (lambda: Penalty(bound=float("inf")), "bound"),
        (lambda: Phase("sleep"), "turn"),  # type: ignore[arg-type]
        (lambda: Rates(budget=0), "budget"),
        (lambda: Start(rate=0), "rate"),
        (lambda: Headway(epochs=-1), "epochs"),
    ],
)
def test_records_refuse_what_they_do_not_know(make: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        make()


# --- several processes --------------------------------------------------------------------------------------

SEVERAL = """
import sys, torch
from pathlib import Path
from tests.training.minimax_world import loop, settings, state, videos
from videoveil import devices
from videoveil.objectives import nt_xent
from videoveil.training.minimax import _gather

fabric = devices.make_fabric("cpu")
root = Path(sys.argv[1])
rank = fabric.global_rank
# gathered negatives: the gradient of the whole batch's NT-Xent, rank by rank
torch.manual_seed(0)
rows = torch.randn(8, 5, dtype=torch.float64)
whole = rows.clone().requires_grad_()
nt_xent(whole[:4], whole[4:]).backward()
mine = torch.stack((rows[2 * rank : 2 * rank + 2], rows[4 + 2 * rank : 6 + 2 * rank])).requires_grad_()
gather = _gather(fabric)
nt_xent(gather(mine[0]), gather(mine[1])).backward()
expected = torch.stack((whole.grad[2 * rank : 2 * rank + 2], whole.grad[4 + 2 * rank : 6 + 2 * rank]))
assert torch.allclose(mine.grad / fabric.world_size, expected), (mine.grad, expected)
dataset = videos(root / f"videos{rank}")
made = loop(dataset, settings(batch=4, privacy_batch=4), root / "run", fabric=fabric)
made.run()
# what ends a phase is the same for both, else they would wait for each other for ever
agreed = made._agreed({"right": torch.tensor(float(rank)), "utility": torch.tensor(9.0)})
assert {k: float(v) for k, v in agreed.items()} == {"right": 0.5}, agreed
kept = {k: v for part in state(made).values() for k, v in part.items() if "num_batches" not in k}
torch.save(kept, root / f"{rank}.pt")
"""


@pytest.mark.slow
def test_two_processes_play_one_game_with_everybodys_negatives(tmp_path: Path) -> None:
    script = tmp_path / "several.py"
    script.write_text(SEVERAL)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    here = Path(__file__).parents[2]
    # two processes cannot share one GPU
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [*command, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=here,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    one, two = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert (tmp_path / "run" / CHECKPOINT).is_file()


def test_a_batch_that_cannot_be_shared_is_refused(dataset: Dataset) -> None:
    made = loop(dataset)
    with pytest.raises(UsageError, match="cannot be shared by 2"):
        next(iter(made.batches.epoch(0, 0, 2, torch.device("cpu"))))
    assert QUICK.batch == 3
