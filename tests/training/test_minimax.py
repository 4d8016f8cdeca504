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

from tests.training.minimax_world import LATER, QUICK, first_batch, loop, settings, state, videos
from videoveil.data.records import Dataset
from videoveil.encoders import create, save
from videoveil.errors import CheckpointError, Diverged, NoHeadway, UsageError
from videoveil.training import checkpoints, minimax
from videoveil.training.minimax import (
    CHECKPOINT,
    KEPT_FORMAT,
    Turns,
    acts,
    begins_anew,
    low_headway,
    near_chance,
)
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
BEAM = (Phase("hide", 3), Phase("budget", 4), Phase("restore", 2))  # longer than an epoch of two steps


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
    require_the_same_after_a_kill(
        dataset, settings(epochs=3, budget=replace(PAIR, restart=1, restart_steps=2)), tmp_path
    )


@pytest.mark.parametrize(
    "reach", [0.0, 2.0]
)  # ends after the four batches that it is judged by, or never early
def test_a_killed_run_goes_on_in_the_middle_of_a_phase(
    reach: float, dataset: Dataset, tmp_path: Path
) -> None:
    waiting = Phase("budget", 6, until="budget", reach=reach)
    own = settings(epochs=5, phases=(Phase("hide"), waiting, Phase("restore", 2)))
    turns = require_the_same_after_a_kill(dataset, own, tmp_path)
    cycle = ["hide", *["budget"] * (4 if reach == 0 else 6), "restore", "restore"]
    assert turns[4:] == (cycle * 2)[:10]


TUNED = Start(
    identity_epochs=0,
    utility_epochs=4,
    budget_epochs=1,
    utility_rate=1e-3,
    utility_warmup=2,
    utility_cosine=True,
    utility_freeze_norm=True,
)
LEARNT = Utility(encoder="tiny", weights="own", frames=8, stride=1, dropout=0.5)


@pytest.mark.parametrize("epochs", [1, 2, 3])  # in the warm-up, as it ends, on the way down
def test_a_killed_run_goes_on_in_the_middle_of_a_start(epochs: int, dataset: Dataset, tmp_path: Path) -> None:
    require_the_same_after_a_kill(
        dataset, settings(epochs=1, start=TUNED, utility=LEARNT), tmp_path, after=epochs
    )


def require_the_same_after_a_kill(
    dataset: Dataset, own: MinimaxSettings, folder: Path, after: int = 3
) -> list[str]:
    """A run, and one that is killed `after` so many epochs and goes on; the turns of the whole one."""
    whole = loop(dataset, own, folder / "whole")
    turns = watched(whole)
    whole.run()

    def stop(done: int, total: int, value: float) -> None:
        if done == after * whole.batches.steps + 1:
            raise Stopped

    cut = loop(dataset, own, folder / "cut", progress=stop)
    with pytest.raises(Stopped):
        cut.run()
    again = loop(dataset, own, folder / "cut")
    again.run()
    assert same(whole, again)
    for mine, other in zip(whole.history, again.history):
        assert {k: v for k, v in mine.items() if k != "seconds"} == {
            k: v for k, v in other.items() if k != "seconds"
        }
    return turns


def watched(made: Any) -> list[str]:
    """Grows with every turn that a loop takes."""
    turns: list[str] = []
    made.set_up()
    take = made.step.take
    made.set_up = lambda: setattr(made.step, "take", lambda t, b: (turns.append(t), take(t, b))[1])
    return turns


# --- the start of f_T ---------------------------------------------------------------------------------------


def test_the_published_start_warms_up_for_five_epochs_and_falls_along_half_a_cosine() -> None:
    start = Start(utility_epochs=100, utility_rate=1e-4, utility_warmup=5, utility_cosine=True)
    found = [start.rate_of_utility(epoch) / 1e-4 for epoch in range(100)]
    assert found[:5] == pytest.approx([0.01, 0.2575, 0.505, 0.7525, 1.0])
    assert found[5:] == pytest.approx([(1 + math.cos(math.pi * k / 95)) / 2 for k in range(95)])
    assert found[-1] > 0  # the last epoch teaches something too
    assert {Start(rate=0.5).rate_of_utility(epoch) for epoch in range(3)} == {0.5}
    assert Start(utility_rate=0.25, utility_warmup=1).rate_of_utility(1) == 0.25


def steps_and_rates(dataset: Dataset, own: MinimaxSettings) -> list[tuple[str, float, int]]:
    """By epoch: the act, f_T's rate, and how many steps its optimiser remembers at the end."""
    made = loop(dataset, own)
    found: list[tuple[float, int]] = []

    def watch(done: int, total: int, value: float) -> None:
        if done % made.batches.steps == 0:
            optimizer = made.players.optimizers["utility"]
            known = [int(state["step"]) for state in optimizer.state.values()]
            found.append((optimizer.param_groups[0]["lr"], max(known, default=0)))

    made.progress = watch
    history = made.run()
    return [(record["act"], *one) for record, one in zip(history, found, strict=True)]


TRIPLET = Utility(encoder="tiny", frames=8, stride=1, temporal="triplet", w_temporal=5.0)


def test_f_t_learns_actions_of_single_clips_before_the_game_whatever_the_game_asks(dataset: Dataset) -> None:
    """The same start with and without a temporal term, in batches of its own, until the game begins."""
    start = Start(identity_epochs=0, utility_epochs=2, utility_batch=2, budget_epochs=1, rate=1e-3)
    states, shapes = [], []
    for utility in (TRIPLET, replace(TRIPLET, temporal="none")):
        made = loop(dataset, settings(epochs=1, utility=utility, start=start))
        seen: list[tuple[str, tuple[int, ...]]] = []
        kept: dict[str, torch.Tensor] = {}
        made.set_up()
        take = made.step.take

        def watch(turn: Any, batch: Any, made: Any = made, seen: Any = seen, take: Any = take) -> Any:
            seen.append((turn, tuple(batch.clips.shape[:2])))
            return take(turn, batch)

        def keep(done: int, total: int, value: float, made: Any = made, kept: Any = kept) -> None:
            assert total == 2 * 3 + 2 + 2
            if done == 6:
                state = made.utility.state_dict()
                kept |= {k: v.clone() for k, v in state.items() if not k.startswith("embed")}

        made.set_up = lambda made=made, watch=watch: setattr(made.step, "take", watch)  # type: ignore[method-assign]
        made.progress = keep
        history = made.run()
        assert [record["act"] for record in history] == ["utility start"] * 2 + ["budget start", "minimax"]
        states.append(kept)
        shapes.append(seen)
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])
    assert shapes[0][:6] == shapes[1][:6] == [("utility", (2, 1))] * 6
    assert [shape for _, shape in shapes[0][6:]] == [(3, 3)] * 4
    assert [shape for _, shape in shapes[1][6:]] == [(3, 1)] * 4


def test_the_start_before_a_game_of_triplets_is_gone_on_with(dataset: Dataset, tmp_path: Path) -> None:
    own = settings(epochs=1, utility=TRIPLET, start=replace(TUNED, utility_freeze_norm=False))
    require_the_same_after_a_kill(dataset, own, tmp_path, after=2)


def test_f_t_forgets_the_moments_of_another_loss(dataset: Dataset) -> None:
    found = steps_and_rates(dataset, settings(epochs=1, utility=TRIPLET))
    assert [(act, steps) for act, _, steps in found] == [
        ("utility start", 2),
        ("budget start", 2),
        ("minimax", 1),
    ]


def test_a_start_that_learnt_a_temporal_term_too_is_not_gone_on_with(
    dataset: Dataset, tmp_path: Path
) -> None:
    own = settings(epochs=1, utility=TRIPLET)
    loop(dataset, own, tmp_path).run()
    tensors, facts = checkpoints.read(tmp_path / CHECKPOINT, minimax.FORMAT)
    assert facts["identity"].pop("utility_start") == "actions"
    checkpoints.write(tmp_path / CHECKPOINT, minimax.FORMAT, tensors, facts)
    with pytest.raises(CheckpointError, match="with other utility_start;"):
        loop(dataset, own, tmp_path).run()


def test_videos_too_short_for_triplets_still_teach_f_t_their_action(dataset: Dataset) -> None:
    made = loop(dataset, settings(utility=replace(TRIPLET, negative=52)))
    assert made.batches.videos.short
    first = made._batches_of(acts(made.settings)[0])
    assert first is made._batches_of(acts(made.settings)[0]) is not made.batches
    assert len(first.videos.samples) == 6
    assert first.privacy is None
    plain = loop(dataset, settings())
    assert plain._batches_of(acts(plain.settings)[0]) is plain.batches


def test_a_rate_that_moves_within_the_start_takes_no_moments_away(dataset: Dataset) -> None:
    own = settings(start=TUNED, utility=LEARNT, epochs=1)
    found = steps_and_rates(dataset, own)
    start = [one for one in found if one[0] == "utility start"]
    assert [rate for _, rate, _ in start] == pytest.approx([1e-5, 1e-3, 1e-3, 5e-4])
    assert [steps for *_, steps in start] == [2, 4, 6, 8]
    assert found[-1] == ("minimax", own.rates.utility, 1)  # another rate: begun anew


def test_an_act_with_the_rate_of_the_one_before_goes_on_with_its_moments(dataset: Dataset) -> None:
    found = steps_and_rates(dataset, settings(epochs=1))
    assert [(act, steps) for act, _, steps in found] == [
        ("utility start", 2),
        ("budget start", 2),
        ("minimax", 3),
    ]
    other = settings(epochs=1, rates=replace(QUICK.rates, utility=5e-4))
    assert steps_and_rates(dataset, other)[-1] == ("minimax", 5e-4, 1)


@pytest.mark.parametrize(("weights", "keeps"), [("own", True), ("", False)])
def test_batch_norm_is_kept_for_the_start_alone_and_only_where_weights_bring_it(
    weights: str, keeps: bool, dataset: Dataset
) -> None:
    own = settings(epochs=1, start=TUNED, utility=replace(LEARNT, weights=weights))
    made = loop(dataset, own)
    names = [n for n, _ in made.utility.classifier.named_buffers() if "running_mean" in n]
    begun = {n: made.utility.classifier.get_buffer(n).clone() for n in names}
    still: dict[str, bool] = {}

    def watch(done: int, total: int, value: float) -> None:
        act = "start" if done <= 4 * made.batches.steps else "game"
        still[act] = all(torch.equal(made.utility.classifier.get_buffer(n), begun[n]) for n in names)

    made.progress = watch
    made.run()
    assert still == {"start": keeps, "game": False}


def test_the_same_seed_gives_the_same_weights_whatever_the_threads(dataset: Dataset) -> None:
    one, two = loop(dataset, settings(workers=1)), loop(dataset, settings(workers=3))
    one.run(), two.run()
    assert same(one, two)
    other = loop(dataset, seed=1)
    other.run()
    assert not same(one, other)


def test_compiled_players_take_the_same_steps(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every player is one graph, run as it was traced, since machine code of three networks takes too long here."""
    compile_, compiled = torch.compile, []

    def traced(network: Any, **options: Any) -> Any:
        compiled.append(network)
        return compile_(network, backend="aot_eager", fullgraph=True, **options)

    monkeypatch.setattr(torch, "compile", traced)
    plain, fast = loop(dataset), loop(dataset, settings(compile=True))
    for one in (plain, fast):
        one.set_up()
    assert len(compiled) == 3
    batch, rate = first_batch(plain), QUICK.rates.anonymizer
    for turn in ("auxiliary", "anonymizer"):
        terms, others = plain.step.take(turn, batch), fast.step.take(turn, batch)
        assert {k: float(v) for k, v in others.items()} == pytest.approx(
            {k: float(v) for k, v in terms.items()}, rel=1e-4, abs=1e-5
        )
    for player, tensors in state(plain).items():
        for name, tensor in state(fast)[player].items():
            # a first step of Adam moves a weight by its rate, whose sign is chance where there is no gradient
            assert float((tensor.double() - tensors[name].double()).abs().max()) <= 2.01 * rate, (
                player,
                name,
            )


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
    made, restarts = loop(dataset, own), []
    fresh = made.fresh
    assert fresh is not None
    made.fresh = lambda place, again: (restarts.append((place, again)), fresh(place, again))[1]
    turns = watched(made)
    made.run()
    assert restarts == [(0, 1)]
    steps = made.batches.steps
    assert turns[3 * steps : 3 * steps + 3] == ["budget"] * 3
    assert turns[3 * steps + 3] == "anonymizer"


def test_restarted_budget_nets_begin_from_their_weights_again(dataset: Dataset, tmp_path: Path) -> None:
    (member,) = PAIR.members
    learnt = create(member, weights="random", seed=9, size=QUICK.size)
    save(learnt, tmp_path / "learnt.safetensors", {})
    weights = str(tmp_path / "learnt.safetensors")
    own = settings(budget=replace(PAIR, weights=weights, restart=1, restart_steps=1), epochs=2)
    made = loop(dataset, own)
    made.set_up()
    take, begun, restarted = made.step.take, learnt.network.state_dict(), []

    def watch(turn: Any, batch: Any) -> Any:
        if turn == "budget":
            state = made.players.members()[0].encoder.network.state_dict()
            restarted.append(all(torch.equal(value, begun[name]) for name, value in state.items()))
        return take(turn, batch)

    made.set_up = lambda: setattr(made.step, "take", watch)  # type: ignore[method-assign]
    made.run()
    assert restarted == [True, False, True]  # the start's two batches, then the one after the restart


def test_different_budget_nets_begin_from_their_own_weights_again(dataset: Dataset, tmp_path: Path) -> None:
    networks = [create(name, weights="random", seed=9) for name in ("mobilenet.v1-0.25", "resnet.18")]
    for network in networks:
        save(network, tmp_path / f"{network.name}.safetensors", {})
    members = tuple(f"{one.name}@{tmp_path / one.name}.safetensors" for one in networks)
    made = loop(dataset, settings(budget=replace(PAIR, members=members, restart=1), epochs=2))
    made.set_up()
    made.step.take("budget", next(iter(made.batches.epoch(0, 0, 1, torch.device("cpu")))))
    plan = [act for act in acts(made.settings) for _ in range(act.epochs)]

    def as_begun() -> list[bool]:
        return [
            torch.equal(
                torch.cat([p.flatten() for p in net.encoder.network.state_dict().values()]),
                torch.cat([p.flatten() for k, p in one.network.state_dict().items() if not one.is_head(k)]),
            )
            for net, one in zip(made.players.members(), networks, strict=True)
        ]

    assert as_begun() == [False, False]
    made._restart(plan, len(plan) - 1)
    assert as_begun() == [True, True]


def hides_nothing(epochs: int) -> MinimaxSettings:
    return settings(
        w_budget=0.0,
        epochs=epochs,
        headway=Headway(epochs=2, share=3.0),  # nobody pushes L_B: it won't be three times its chance level
        start=Start(identity_epochs=0, utility_epochs=0, budget_epochs=1, rate=1e-3),
    )


def test_training_that_hides_nothing_is_stopped_with_a_reason(dataset: Dataset, tmp_path: Path) -> None:
    own = hides_nothing(epochs=4)
    with pytest.raises(NoHeadway, match="its chance level"):
        loop(dataset, own, tmp_path).run()
    assert (tmp_path / CHECKPOINT).is_file()  # nothing is lost
    on = loop(dataset, replace(own, headway=Headway()), tmp_path)
    assert len(on.run()) == 5


@pytest.mark.parametrize("epochs", [2, 3])  # stopped after the last epoch, and before it
@pytest.mark.parametrize("checkpoint_every", [1, 100])
def test_the_same_command_does_not_finish_a_training_that_was_stopped(
    epochs: int, checkpoint_every: int, dataset: Dataset, tmp_path: Path
) -> None:
    own = replace(hides_nothing(epochs), checkpoint_every=checkpoint_every)
    steps = []
    for _ in range(3):
        made = loop(dataset, own, tmp_path, progress=lambda done, total, value: steps.append(done))
        with pytest.raises(NoHeadway, match="after 2 epochs the budget nets still win"):
            made.run()
        assert len(made.history) == 3
    assert steps == list(range(1, 7))  # of the first time: nothing is tried again


def test_the_same_command_does_not_finish_a_training_that_diverged(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minimax, "EXPLODED", 1e-3)
    for _ in range(2):
        with pytest.raises(Diverged, match="the minimax diverged in epoch 1"):
            loop(dataset, settings(epochs=1), tmp_path).run()


def test_no_headway_is_told_by_the_last_epoch_in_which_f_a_met_the_budget_nets(dataset: Dataset) -> None:
    made = loop(dataset, settings(headway=Headway(epochs=2)))
    made.history = [{"act": "minimax", "budget": 0.1, "chance": 2.0}, {"act": "minimax", "chance": 2.0}]
    made.chance = 2.0
    assert isinstance(stop := made._reason_to_stop(), NoHeadway)
    assert "L_B is 0.100, 5% of its chance level 2.000" in str(stop)


@pytest.mark.parametrize(
    ("budgets", "share"), [([1.0, 3.0], 1.0), ([3.0, 0.0], 0.0), ([1.0, 1.5], 0.5), ([3.6], 1.2)]
)
def test_headway_is_the_last_loss_as_a_share_of_chance(budgets: list[float], share: float) -> None:
    played = [{"budget": value, "chance": 3.0} for value in budgets]
    assert near_chance(played) == pytest.approx(share)
    assert near_chance([{"utility": 1.0, "chance": 3.0}]) is None


def test_a_game_that_hid_little_is_told_whether_it_was_to_be_stopped_or_not() -> None:
    def told(share: float, *budgets: float, **more: Any) -> str:
        history = [{"act": "budget start", "budget_learning": 9.0, "chance": 4.0}]
        history += [{"act": "minimax", "budget": value, "chance": 4.0, **more} for value in budgets]
        return low_headway(history, settings(headway=Headway(share=share)))

    assert "L_B was 1.000, 25% of its chance level 4.000" in told(0.5, 3.0, 1.0)
    assert told(0.5, 1.0, 2.0) == told(0.25, 3.0, 1.0) == told(0.5) == ""
    assert "headway" not in told(0.5, 1.0)  # there is nothing to go on with
    assert low_headway([{"act": "minimax", "utility": 1.0}], settings()) == ""


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_term(dataset: Dataset) -> None:
    made = loop(dataset)
    with torch.no_grad():
        next(iter(made.utility.parameters())).fill_(float("nan"))
    with pytest.raises(Diverged, match=r"utility start diverged in epoch 1: utility_learning"):
        made.run()


def test_an_exploding_utility_loss_stops_the_run(dataset: Dataset) -> None:
    made = loop(dataset)
    made.history = [{"act": "minimax", "utility": 1.0}, {"act": "minimax", "utility": 50.0}]
    assert isinstance(stop := made._reason_to_stop(), Diverged)
    assert "L_T is 50" in str(stop)


@pytest.mark.parametrize(
    ("losses", "diverged"),
    [
        ((0.05, 1.05), False),  # f_T knew the clips by heart; a guess costs 0.69
        ((0.05, 7.5), True),
        ((None, 2.3), False),  # nobody looked at L_T in the first epoch
        ((None, 2.3, 22.0), False),
        ((None, 2.3, 24.0), True),
        ((2.3, 24.0, None), False),  # what is not known is no reason
    ],
)
def test_an_utility_loss_has_exploded_when_it_is_many_times_its_first_and_a_guess(
    losses: tuple[float | None, ...], diverged: bool, dataset: Dataset
) -> None:
    made = loop(dataset)
    made.history = [{"act": "minimax", **({"utility": loss} if loss is not None else {})} for loss in losses]
    stop = made._reason_to_stop()
    assert isinstance(stop, Diverged) == diverged
    assert stop is None or f"L_T is {losses[-1]:g}" in str(stop)


def test_a_guess_costs_ln_c_and_of_tags_ln_2(dataset: Dataset) -> None:
    made = loop(dataset)
    assert made._guess() == pytest.approx(math.log(2))
    made.utility.classifier.head = torch.nn.Linear(1, 101)
    assert made._guess() == pytest.approx(4.615, abs=1e-3)
    sample = made.batches.videos.samples[0]
    made.batches.videos.samples[0] = replace(sample, value=torch.zeros(101))
    assert made._guess() == pytest.approx(math.log(2))


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


def test_a_cycle_that_is_longer_than_an_epoch_comes_to_all_of_its_phases(dataset: Dataset) -> None:
    made = loop(dataset, settings(epochs=6, phases=BEAM))
    turns = watched(made)
    made.run()
    assert made.batches.steps == 2
    assert turns[4:] == ["hide"] * 3 + ["budget"] * 4 + ["restore"] * 2 + ["hide"] * 3


def test_the_published_alternation_begins_anew_with_every_epoch(dataset: Dataset) -> None:
    made = loop(dataset, settings(batch=2, privacy_batch=2))
    turns = watched(made)
    made.run()
    assert made.batches.steps == 3
    assert turns[6:] == ["anonymizer", "auxiliary", "anonymizer"] * 2
    ours = (Phase("anonymizer", 3), Phase("auxiliary"))
    assert begins_anew(ours, 4)
    assert not begins_anew(ours, 3)  # the others would never learn
    assert not begins_anew((Phase("budget"), Phase("utility"), Phase("anonymizer")), 1000)


@given(st.lists(st.floats(0, 1, width=32), max_size=20), st.integers(0, 20))
def test_turns_go_on_from_their_state_as_if_nothing_had_been(values: list[float], cut: int) -> None:
    phases = (Phase("budget", 7, until="budget", reach=0.5), Phase("hide", 2))
    straight, going = Turns(phases), Turns(phases)
    for place, value in enumerate(values):
        if place == cut:
            going = Turns(phases, **json.loads(json.dumps(going.state())))
        assert going.current == straight.current
        for turns in (straight, going):
            turns.took({"sure": torch.tensor(value)})
    assert going.current == straight.current


def test_a_checkpoint_of_before_turns_were_kept_is_gone_on_from(dataset: Dataset, tmp_path: Path) -> None:
    loop(dataset, settings(epochs=1), tmp_path).run()
    tensors, facts = checkpoints.read(tmp_path / CHECKPOINT, minimax.FORMAT)
    del facts["turns"]
    checkpoints.write(tmp_path / CHECKPOINT, minimax.FORMAT, tensors, facts)
    assert len(loop(dataset, settings(epochs=1), tmp_path).run()) == 3


def test_a_checkpoint_of_before_a_setting_was_known_is_one_with_its_default(
    dataset: Dataset, tmp_path: Path
) -> None:
    own = settings(epochs=2)
    loop(dataset, own, tmp_path / "whole").run()

    def stop(done: int, total: int, value: float) -> None:
        if done == 7:
            raise Stopped

    with pytest.raises(Stopped):
        loop(dataset, own, tmp_path / "cut", progress=stop).run()
    path = tmp_path / "cut" / CHECKPOINT
    tensors, facts = checkpoints.read(path, minimax.FORMAT)
    for part, names in LATER.items():
        for name in names:
            del facts["identity"][part][name]
    checkpoints.write(path, minimax.FORMAT, tensors, facts)
    with pytest.raises(CheckpointError, match="with other utility;"):
        loop(dataset, replace(own, utility=replace(own.utility, sampler="spact")), tmp_path / "cut").run()
    assert len(loop(dataset, own, tmp_path / "cut").run()) == 4


@pytest.mark.parametrize(("source", "goes_on"), [("video", True), ("images", False)])
def test_a_checkpoint_of_before_images_had_passes_of_their_own_is_gone_on_from_where_that_changes_nothing(
    source: Any, goes_on: bool, dataset: Dataset, tmp_path: Path
) -> None:
    own = settings(epochs=1, budget=replace(PAIR, source=source))
    loop(dataset, own, tmp_path).run()
    tensors, facts = checkpoints.read(tmp_path / CHECKPOINT, minimax.FORMAT)
    facts["identity"]["one_pass"] = True
    checkpoints.write(tmp_path / CHECKPOINT, minimax.FORMAT, tensors, facts)
    assert len(loop(dataset, replace(own, one_pass=True), tmp_path).run()) == 3
    if goes_on:
        assert len(loop(dataset, own, tmp_path).run()) == 3
    else:
        with pytest.raises(CheckpointError, match="with other one_pass;"):
            loop(dataset, own, tmp_path).run()


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
        ({"precision": "16-mixed"}, "use 'bf16-mixed'"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        settings(**wrong)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Budget(members=()), "members"),
        (lambda: Budget(members=("resnet.50@",)), "members"),
        (lambda: Budget(members=("@file",)), "members"),
        (lambda: settings(start=Start(utility_batch=1)), "utility_batch"),
        (lambda: Start(utility_batch=-1), "utility_batch"),
        (lambda: Budget(target="entropy"), "entropy"),
        (lambda: Budget(kind="clips", source="images"), "clips"),
        (lambda: Budget(pair="gap:0"), "pair"),
        (lambda: Utility(temporal="later"), "temporal"),  # type: ignore[arg-type]
        (lambda: Utility(margin=-1), "margin"),
        (lambda: Utility(sampler="spakt"), "sampler"),  # type: ignore[arg-type]
        (lambda: Utility(dropout=1.0), "dropout"),
        (lambda: Utility(dropout=-0.1), "dropout"),
        (lambda: Start(utility_warmup=-1), "utility_warmup"),
        (lambda: Start(utility_rate=float("nan")), "utility_rate"),
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
from dataclasses import replace
from pathlib import Path
from tests.training.minimax_world import QUICK, loop, settings, state, videos
from videoveil import devices
from videoveil.objectives import nt_xent, rms_penalty
from videoveil.training.minimax import _gather
from videoveil.training.minimax_settings import Penalty

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
# one penalty of the whole batch, also where only one process is above the bound
raw, shown = torch.rand(2, 4, 1, 3, 2, 8, 8, dtype=torch.float64).unbind()
shown[2:] = raw[2:] + 0.1 * (shown[2:] - raw[2:])
asked = Penalty(bound=0.1)
whole = shown.clone().requires_grad_()
expected = rms_penalty(raw, whole, asked.bound)
expected.backward()
part = slice(2 * rank, 2 * rank + 2)
mine = shown[part].clone().requires_grad_()
found = rms_penalty(raw[part], mine, asked.bound, gather=gather)
found.backward()
assert rms_penalty(raw[2:], shown[2:], asked.bound) == 0 < expected
assert torch.allclose(found, expected), (found, expected)
assert torch.allclose(mine.grad / fabric.world_size, whole.grad[part])
dataset = videos(root / f"videos{rank}")
both = replace(QUICK.utility, temporal="triplet")  # f_T's embedding has nothing to do before the game
own = settings(batch=4, privacy_batch=4, utility=both, penalty=Penalty(bound=0.01))
made = loop(dataset, own, root / "run", fabric=fabric)
made.run()
# the players' own penalty is that of the whole batch as well
both_raw, both_shown = raw.float(), shown.float()
value = made.step._penalty(both_raw[part], both_shown[part])
assert torch.allclose(value, rms_penalty(both_raw, both_shown, 0.01)), value
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
