"""The supervised loop: its rates, its steps against a twin written out by hand, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from videoveil import devices
from videoveil.errors import CheckpointError, Diverged, UsageError
from videoveil.training.supervised import (
    CHECKPOINT,
    Batch,
    Batches,
    Decay,
    Judge,
    Loop,
    Plateau,
    Schedule,
    binary_cross_entropy,
    cross_entropy,
)

# --- rates --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 200),
    st.integers(0, 250),
    st.floats(1e-8, 1e3),
    st.sampled_from(["cosine", "constant"]),
    st.floats(0, 1),
)
def test_the_rate_is_never_negative_and_never_above_the_base_rate(
    epochs: int, warmup: int, base: float, decay: Decay, part: float
) -> None:
    schedule = Schedule(epochs=epochs, batch=1, learning_rate=base, warmup_epochs=warmup, decay=decay)
    epoch = part * epochs
    rate = schedule.rate(epoch)
    assert 0 <= rate <= base * (1 + 1e-12)
    if epoch < warmup:  # a straight line from 0
        assert rate == pytest.approx(base * epoch / warmup)
    elif decay == "constant":
        assert rate == base
    else:
        later = schedule.rate(min(epoch + 0.1, epochs))
        assert later <= rate * (1 + 1e-12)
    if warmup < epochs:
        assert schedule.rate(warmup) == pytest.approx(base)
        assert schedule.rate(epochs) == pytest.approx(0 if decay == "cosine" else base, abs=1e-9 * base)
        middle = (warmup + epochs) / 2
        assert schedule.rate(middle) == pytest.approx(base / 2 if decay == "cosine" else base)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 5), max_size=20), st.integers(0, 3))
def test_a_plateau_divides_the_rate_whenever_patience_is_over(losses: list[int], patience: int) -> None:
    """The slow, obvious twin: count by hand from every point in time."""
    schedule = Plateau(epochs=50, batch=1, learning_rate=1.0, patience=patience)
    rate, best, bad = 1.0, math.inf, 0
    for loss in losses:
        if loss < best:
            best, bad = loss, 0
        else:
            bad += 1
        if bad == patience + 1:
            rate, bad = rate / 5, 0
    assert schedule.rate(len(losses), losses) == pytest.approx(rate)
    assert schedule.over(losses) == (rate < 1e-12)


def test_the_published_rule_divides_after_every_epoch_that_is_not_the_best() -> None:
    schedule = Plateau(epochs=100, batch=1, learning_rate=1e-3)
    rates = [schedule.rate(n, [3.0, 2.0, 2.0, 2.5, 1.0][:n]) for n in range(6)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-3, 2e-4, 4e-5, 4e-5])
    assert schedule.over([1.0] * 14)
    assert not schedule.over([1.0] * 13)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("epochs", "batch", "checkpoint_every") for value in (0, -1)),
        *(("learning_rate", value) for value in (0.0, -1e-3, math.nan, math.inf)),
        *(("weight_decay", value) for value in (-1e-3, math.nan, math.inf)),
        *(("gradient_clip", value) for value in (-1.0, math.nan)),
        ("warmup_epochs", -1),
        *(("momentum", value) for value in (-0.1, 1.0, math.nan)),
        ("optimizer", "lion"),
        ("decay", "linear"),
    ],
)
def test_impossible_schedules_are_refused_naming_field_and_value(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name}=.*{value}"):
        Schedule(**{"epochs": 1, "batch": 1, "learning_rate": 0.1, name: value})


# --- losses -------------------------------------------------------------------------------------------------


def test_losses_equal_their_formulas() -> None:
    logits = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]])
    classes, tags = torch.tensor([2, 1]), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    for row in range(2):
        values = logits[row].tolist()
        total = sum(math.exp(v) for v in values)
        expected = -math.log(math.exp(values[classes[row]]) / total)
        assert float(cross_entropy(logits, classes)[row]) == pytest.approx(expected, rel=1e-5)
        chance = [1 / (1 + math.exp(-v)) for v in values]
        terms = [-math.log(p if t else 1 - p) for p, t in zip(chance, tags[row].tolist())]
        assert float(binary_cross_entropy(logits, tags)[row]) == pytest.approx(sum(terms) / 3, rel=1e-5)


# --- the loop -----------------------------------------------------------------------------------------------


class Points(Batches):
    """Ten points on a line that is to be found, four at a time: the last step has two."""

    steps = 3

    def __init__(self, poison: int | None = None):
        self.x = torch.linspace(-1, 1, 10)[:, None]
        self.poison = poison

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        for step in range(3):
            x = self.x[4 * step : 4 * step + 4].clone()
            if self.poison == number * 3 + step:
                x[0] = math.nan
            yield Batch(x, 3 * x + 1, len(x), tuple(f"p{4 * step + i}" for i in range(len(x))))


def squares(found: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return (found - truth).square().mean(1)


def line() -> nn.Linear:
    layer = nn.Linear(1, 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def loop(network: nn.Module, schedule: Schedule, folder: Path | None = None, **options: Any) -> Loop:
    batches = options.pop("batches", None) or Points()
    return Loop(network, batches, squares, schedule, 0, devices.make_fabric("cpu"), folder, **options)


SGD = Schedule(
    epochs=3, batch=4, learning_rate=0.2, optimizer="sgd", momentum=0.5, weight_decay=0.01, warmup_epochs=1
)


@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_every_step_is_what_the_textbook_says(clip: float) -> None:
    """The slow, obvious twin: gradients of a mean square by hand, SGD with momentum and decay on two numbers."""
    network, schedule = line(), replace(SGD, gradient_clip=clip)
    history = loop(network, schedule).run()
    w = b = vw = vb = 0.0
    xs = torch.linspace(-1, 1, 10).tolist()
    for epoch in range(3):
        losses = []
        for step in range(3):
            part = xs[4 * step : 4 * step + 4]
            errors = [w * x + b - (3 * x + 1) for x in part]
            losses.append(sum(e * e for e in errors) / len(part))
            gw = sum(2 * e * x for e, x in zip(errors, part)) / len(part)
            gb = sum(2 * e for e in errors) / len(part)
            norm = math.hypot(gw, gb)
            if clip and norm > clip:
                gw, gb = gw * clip / (norm + 1e-6), gb * clip / (norm + 1e-6)
            rate = schedule.rate(epoch + step / 3)
            vw, vb = (gw + 0.01 * w + 0.5 * vw, gb + 0.01 * b + 0.5 * vb)
            w, b = w - rate * vw, b - rate * vb
        assert history[epoch]["loss"] == pytest.approx(sum(losses) / 3, rel=1e-4)
    assert network.weight.item() == pytest.approx(w, rel=1e-4)
    assert network.bias.item() == pytest.approx(b, rel=1e-4)


class Killed(Exception):
    pass


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize("after", [1, 5, 9])
def test_an_interrupted_loop_ends_as_an_uninterrupted_one(tmp_path: Path, optimizer: Any, after: int) -> None:
    schedule = Schedule(epochs=4, batch=4, learning_rate=0.1, optimizer=optimizer, warmup_epochs=1)

    def noisy() -> nn.Module:  # dropout draws from the seed and the epoch
        return nn.Sequential(nn.Dropout(0.5), line())

    def kill(step: int, total: int, loss: float) -> None:
        if step == after:
            raise Killed

    straight, cut, again = noisy(), noisy(), noisy()
    history = loop(straight, schedule).run()
    with pytest.raises(Killed):
        loop(cut, schedule, tmp_path, progress=kill).run()
    torch.rand(after)  # the global generator takes no part
    assert loop(again, schedule, tmp_path).run() == history
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), again.parameters()))


class Heaviest(Judge):
    """Keeps the largest weight it has seen."""

    def __init__(self) -> None:
        self.kept = torch.zeros(())
        self.modes: list[tuple[bool, bool]] = []

    def look(self, network: nn.Module, epoch: int) -> dict[str, float]:
        self.modes.append((network.training, torch.is_grad_enabled()))
        self.kept = torch.maximum(self.kept, network.get_parameter("weight").detach().max().clone())
        return {"heaviest": float(self.kept)}

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"kept": self.kept}

    def restore(self, tensors: Any, history: Any) -> None:
        self.kept = tensors["kept"]
        assert float(self.kept) == history[-1]["heaviest"]


def test_a_judge_looks_after_every_epoch_and_goes_on_where_it_was(tmp_path: Path) -> None:
    first, second = Heaviest(), Heaviest()
    straight = loop(line(), replace(SGD, epochs=4), judge=first).run()
    assert [record["heaviest"] for record in straight] == sorted(record["heaviest"] for record in straight)
    assert first.modes == [(False, False)] * 4

    def kill(step: int, total: int, loss: float) -> None:
        if step == 8:
            raise Killed

    with pytest.raises(Killed):
        loop(line(), replace(SGD, epochs=4), tmp_path, judge=Heaviest(), progress=kill).run()
    assert loop(line(), replace(SGD, epochs=4), tmp_path, judge=second).run() == straight
    assert len(second.modes) == 2  # the epochs that were left


def test_a_training_ends_when_its_rate_is_too_small_to_matter_and_is_kept(tmp_path: Path) -> None:
    """A rate at which float32 sees no progress at all: the loss is never lower than in the first epoch."""
    schedule = Plateau(epochs=50, batch=4, learning_rate=1e-9, weight_decay=0.0, checkpoint_every=40)
    history = loop(line(), schedule, tmp_path).run()
    assert len(history) == 6  # 1e-9 / 5⁵ is below 1e-12
    assert loop(line(), schedule, tmp_path).run() == history  # nothing more is learnt


def test_what_is_free_may_change_and_nothing_else(tmp_path: Path) -> None:
    history = loop(line(), SGD, tmp_path, identity={"workers": 1, "data": [1, 2]}, free=("workers",)).run()
    same = {"workers": 7, "data": (1, 2)}
    assert loop(line(), SGD, tmp_path, identity=same, free=("workers",)).run() == history
    with pytest.raises(CheckpointError, match="with other data;"):
        loop(line(), SGD, tmp_path, identity={"workers": 1, "data": [3]}, free=("workers",)).run()


def test_the_callers_random_state_is_left_alone() -> None:
    network = nn.Sequential(nn.Dropout(0.5), line())
    torch.manual_seed(5)
    before = torch.get_rng_state()
    loop(network, SGD).run()
    assert torch.equal(torch.get_rng_state(), before)


def test_divergence_names_step_epoch_and_items() -> None:
    with pytest.raises(Diverged, match=r"diverged in step 6 \(epoch 2, items p8, p9\): loss nan"):
        loop(line(), SGD, batches=Points(poison=5)).run()
    huge = Schedule(epochs=50, batch=4, learning_rate=1e20, optimizer="sgd")
    with pytest.raises(Diverged, match=r"step \d+ \(epoch \d+.*lower learning_rate=1e\+20"):
        loop(line(), huge).run()


def test_a_step_that_diverges_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(Diverged):
        loop(line(), SGD, tmp_path, batches=Points(poison=5)).run()
    network = line()
    resumed = loop(network, SGD, tmp_path)  # with sound data it goes on from the first epoch
    assert [row["epoch"] for row in resumed.run()] == [0, 1, 2]
    straight = line()
    loop(straight, SGD).run()
    assert torch.equal(network.weight, straight.weight)


def test_the_network_ends_in_eval_mode_and_may_choose_how_it_trains() -> None:
    modes: list[bool] = []
    network = nn.Sequential(line(), nn.BatchNorm1d(1))

    def frozen(module: nn.Module) -> None:
        module.train()
        network[1].eval()

    def look(*_: object) -> None:
        modes.append((network[0].training, network[1].training))  # type: ignore[arg-type]

    loop(network, SGD, train_mode=frozen, progress=look).run()
    assert set(modes) == {(True, False)}
    assert not network.training
    assert not network[0].training


def test_checkpoints_of_other_formats_or_longer_runs_are_refused(tmp_path: Path) -> None:
    from videoveil.training import checkpoints

    loop(line(), SGD, tmp_path, identity={"data": "a"}).run()
    with pytest.raises(CheckpointError, match="with other data;"):
        loop(line(), SGD, tmp_path, identity={"data": "b"}).run()
    checkpoints.write(tmp_path / CHECKPOINT, "other-1", {"x": torch.zeros(1)}, {})
    with pytest.raises(CheckpointError, match="expected 'videoveil-supervised-1'"):
        loop(line(), SGD, tmp_path).run()


def test_a_loss_that_explodes_without_becoming_infinite_is_divergence_too(tmp_path: Path) -> None:
    unstable = Schedule(epochs=5, batch=4, learning_rate=1.5, optimizer="sgd", decay="constant")
    with pytest.raises(Diverged, match=r"diverged in epoch \d: its loss is \S+, that of the first epoch was"):
        loop(line(), unstable, tmp_path).run()
