"""One step of the minimax: who moves, by which loss, and that it is the published loop."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.training.minimax_world import first_batch, loop, moved, settings, state, videos
from videoveil.anonymizers.pixel import NoiseFloor, PixelAnonymizer, PixelConfig, UNet
from videoveil.anonymizers.pixel.frames import to_frames
from videoveil.data.records import Dataset
from videoveil.objectives import nt_xent
from videoveil.training.minimax_settings import Budget, Penalty, Utility
from videoveil.training.minimax_step import _apart, _fold, _together, _unfold, sureness

LABELS = Budget(kind="labels", members=("mobilenet.v1-0.25",))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return videos(tmp_path_factory.mktemp("minimax"))


def ready(dataset: Dataset, **changes: Any) -> Any:
    made = loop(dataset, settings(**changes))
    made.set_up()
    return made


@pytest.mark.parametrize(
    ("turn", "movers"),
    [
        ("anonymizer", {"anonymizer"}),
        ("auxiliary", {"utility", "budget"}),
        ("utility", {"utility"}),
        ("budget", {"budget"}),
        ("hide", {"anonymizer"}),
        ("restore", {"anonymizer", "utility"}),
    ],
)
def test_a_turn_moves_only_its_players_weights_and_buffers(
    turn: Any, movers: set[str], dataset: Dataset
) -> None:
    made = ready(dataset)
    before, batch = state(made), first_batch(made)
    made.step.take(turn, batch)
    assert moved(before, made) == movers


def test_noisy_features_moves_the_anonymizer_alone(dataset: Dataset) -> None:
    made = ready(dataset, budget=None, utility=Utility(encoder="r3d.18", frames=8, stride=1))
    before = state(made)
    terms = made.step.take("restyle", first_batch(made))
    assert moved(before, made) == {"anonymizer"}
    assert terms["content"] > 0
    assert terms["style"] > 0


def test_step_one_leaves_train_mode_to_the_anonymizer_and_step_two_to_the_others(dataset: Dataset) -> None:
    made, seen = ready(dataset), []
    parts = {"anonymizer": made.anonymizer, "utility": made.utility, "budget": made.budgets[0]}
    for name, part in parts.items():
        hook = lambda module, _in, _out, name=name: seen.append((name, module.training))  # noqa: E731
        (part.stages[0] if name == "anonymizer" else part).register_forward_hook(hook)
    made.step.take("anonymizer", first_batch(made))
    assert set(seen) == {("anonymizer", True), ("utility", False), ("budget", False)}
    seen.clear()
    made.step.take("auxiliary", first_batch(made))
    assert set(seen) == {("anonymizer", False), ("utility", True), ("budget", True)}


def test_frozen_players_get_no_gradient_in_step_one_and_the_anonymizer_none_in_step_two(
    dataset: Dataset,
) -> None:
    made = ready(dataset)
    made.step.take("anonymizer", first_batch(made))
    assert all(p.grad is None for p in (*made.utility.parameters(), *made.budgets[0].parameters()))
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in made.anonymizer.parameters())
    made.step.take("auxiliary", first_batch(made))
    assert all(p.grad is None for p in made.anonymizer.parameters())
    assert all(p.requires_grad for p in made.anonymizer.parameters())


def through(f_a: Any, clips: Tensor, views: Tensor, *, together: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Slow twin: clips (N, V, 3, T, S, S) and pairs of views (P, 2, 3, S, S) through f_A, every frame by an index.

    In one pass, over all of which its batch norm counts, or in three: the clips, the first views, the second views.
    """
    network, (count, several, _, time) = f_a.stages[0], clips.shape[:4]
    frames = [clips[n, v, :, t] for n in range(count) for v in range(several) for t in range(time)]
    first, second = ([pair[which] for pair in views] for which in (0, 1))
    if together:
        out = network(torch.stack([*frames, *(view for pair in zip(first, second) for view in pair)]))
        rows, one, two = out[: len(frames)], out[len(frames) :: 2], out[len(frames) + 1 :: 2]
    else:
        rows, one, two = (network(torch.stack(part)) for part in (frames, first, second))
    shown = [torch.stack(list(rows[k * time : (k + 1) * time]), 1) for k in range(count * several)]
    return torch.stack(shown).unflatten(0, (count, several)), one, two


def clip_loss(f_t: Any, shown: Tensor, labels: Tensor) -> Tensor:
    """Slow twin: cross-entropy of the anchors; of triplets also .1 · the mean of max(0, |a − p| − |a − n| + 1)."""
    features = f_t.encoder(shown.flatten(0, 1))
    loss = F.cross_entropy(f_t.classifier.head(features[:: shown.shape[1]]), labels)
    if shown.shape[1] == 3:
        z = F.normalize(f_t.embed(features), dim=1)
        total = torch.zeros(())
        for anchor, positive, negative in zip(z[0::3], z[1::3], z[2::3]):
            near, far = ((anchor - other).square().sum().sqrt() for other in (positive, negative))
            total = total + (near - far + 1).clamp_min(0)
        loss = loss + 0.1 * total / len(shown)
    return loss


def require_same(mine: nn.Module, other: nn.Module) -> None:
    """The same gradients, weights that went by them, and statistics.

    But for noise of the last bits, which batch norm over a few flat frames makes larger, and whose sign is where Adam
    goes first: a bias before batch norm has no other gradient.
    """
    twins = {name: (weight, weight.grad) for name, weight in other.named_parameters()}
    whole = torch.stack([grad.norm() for _, grad in twins.values() if grad is not None]).norm()
    for name, weight in mine.named_parameters():
        twin, grad = twins[name]
        assert weight.grad is not None
        assert grad is not None
        assert (weight.grad - grad).norm() < 2e-3 * grad.norm() + 1e-5 * whole, name
        clear = grad.abs() > max(0.1 * grad.abs().max(), 1e-3 * whole)
        assert torch.allclose(weight[clear], twin[clear], atol=2e-5), name
    for name, buffer in mine.named_buffers():
        assert torch.allclose(buffer.float(), other.get_buffer(name).float(), atol=1e-4), name


TRIPLET = Utility(encoder="tiny", frames=8, stride=1, temporal="triplet")


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("w_utility", "utility"), [(1.0, settings().utility), (0.7, TRIPLET)], ids=["spact", "ted-spad"]
)
def test_both_steps_are_the_published_loop_written_plainly(
    w_utility: float, utility: Utility, together: bool, dataset: Dataset
) -> None:
    """SPAct's and TeD-SPAD's, .7·(CE + .1·L_D) − L_B; one Adam each: the same weights as ours."""
    changes: dict[str, Any] = {"one_pass": together, "utility": utility, "w_utility": w_utility}
    ours, plain = ready(dataset, **changes), ready(dataset, **changes)
    batch = first_batch(ours)
    assert batch.views is not None
    assert batch.clips.shape[1] == utility.views
    clips, views, labels = batch.clips, batch.views, batch.targets
    f_a, f_t, f_b = plain.anonymizer, plain.utility, plain.budgets[0]
    adam = {n: torch.optim.Adam(net.parameters(), lr=1e-3) for n, net in (("a", f_a), ("t", f_t), ("b", f_b))}

    def project(frames: Tensor) -> Tensor:
        return F.normalize(f_b.head(f_b.encoder(frames)), dim=1)

    # step 1
    ours.step.take("anonymizer", batch)
    f_a.train(), f_t.eval(), f_b.eval()
    shown, one, two = through(f_a, clips, views, together=together)
    budget = nt_xent(project(one), project(two))
    (w_utility * clip_loss(f_t, shown, labels) - budget).backward()
    adam["a"].step()
    require_same(ours.anonymizer, f_a)
    # step 2, from the same place
    f_a.load_state_dict(ours.anonymizer.state_dict())
    ours.step.take("auxiliary", batch)
    for optimizer in adam.values():
        optimizer.zero_grad()
    f_a.eval(), f_t.train(), f_b.train()
    with torch.no_grad():
        shown, one, two = through(f_a, clips, views, together=together)
    both = F.normalize(f_b.head(f_b.encoder(torch.stack((one, two), 1).flatten(0, 1))), dim=1)
    nt_xent(both[0::2], both[1::2]).backward()
    adam["b"].step()
    clip_loss(f_t, shown, labels).backward()
    adam["t"].step()
    require_same(ours.utility, f_t)
    require_same(ours.budgets[0], f_b)


def test_one_pass_gives_every_network_the_same_frames_as_separate_passes(dataset: Dataset) -> None:
    made = ready(dataset)
    batch = first_batch(made)
    assert batch.views is not None
    frames = _fold([batch.clips, batch.views])
    clips, views = _unfold(frames, [batch.clips, batch.views])
    assert torch.equal(clips, batch.clips)
    assert torch.equal(views, batch.views)
    assert torch.equal(frames[5], batch.clips[0, 0, :, 5])  # a true RGB frame
    assert len(frames) == batch.clips.shape[0] * batch.clips.shape[3] + 2 * len(batch.views)


def passes(made: Any, turn: Any = "anonymizer") -> list[int]:
    """Frames of every pass through f_A in a turn."""
    found: list[int] = []
    hook = made.anonymizer.stages[0].register_forward_hook(
        lambda _m, inputs, _o: found.append(len(inputs[0]))
    )
    made.step.take(turn, first_batch(made))
    hook.remove()
    return found


@pytest.mark.parametrize("turn", ["anonymizer", "auxiliary"])
def test_images_have_passes_of_their_own_and_frames_of_videos_go_with_the_clips(
    turn: Any, dataset: Dataset
) -> None:
    pairs = {source: replace(LABELS, kind="pairs", source=source) for source in ("video", "images")}
    assert passes(ready(dataset, budget=pairs["video"]), turn) == [3 * 8 + 2 * 4]
    assert passes(ready(dataset, budget=pairs["images"]), turn) == [3 * 8, 4, 4]
    assert passes(ready(dataset, budget=pairs["images"], one_pass=True), turn) == [3 * 8 + 2 * 4]
    assert passes(ready(dataset, budget=pairs["video"], one_pass=False), turn) == [3 * 8, 4, 4]
    assert passes(ready(dataset, budget=replace(LABELS, source="images")), turn) == [3 * 8, 4]


@pytest.mark.parametrize(("source", "one_pass"), [("video", True), ("images", False)])
def test_the_default_moves_weights_and_statistics_as_the_passes_that_it_stands_for(
    source: Any, one_pass: bool, dataset: Dataset
) -> None:
    states = []
    for asked in (None, one_pass):
        made = ready(dataset, budget=replace(LABELS, kind="pairs", source=source), one_pass=asked)
        for turn in ("anonymizer", "auxiliary", "anonymizer"):
            made.step.take(turn, first_batch(made))
        states.append(state(made))
    one, two = states
    assert all(torch.equal(one[name][key], two[name][key]) for name in one for key in one[name])


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize("kind", ["pairs", "clips"])
def test_noise_of_one_draw_per_video_is_drawn_so_in_training_too(
    kind: Any, one_pass: bool, learning: bool, dataset: Dataset
) -> None:
    member = "tiny" if kind == "clips" else "mobilenet.v1-0.25"
    utility = Utility(encoder="tiny", frames=8, stride=1, temporal="triplet")
    own = settings(utility=utility, budget=Budget(kind=kind, members=(member,)), one_pass=one_pass)
    made = loop(dataset, own)
    made.anonymizer = PixelAnonymizer(PixelConfig((NoiseFloor(0.2, learned=True, per="video"),)))
    made.set_up()
    batch = first_batch(made)
    assert batch.views is not None
    grey = replace(batch, clips=torch.full_like(batch.clips, 0.5), views=torch.full_like(batch.views, 0.5))
    shown = made.step._anonymized(grey, learning=learning)
    for before, after in zip((batch.clips, batch.views), shown):
        assert after is not None
        assert after.shape == before.shape
        frames = to_frames(_together(after)).unflatten(0, (len(after), -1))
        assert torch.equal(frames, frames[:, :1].expand_as(frames)), "a video has noise of its own"
        assert not torch.equal(frames[0, 0], frames[1, 0]), "and no other's"


@pytest.mark.parametrize("shape", [(2, 3, 3, 4, 5, 5), (2, 2, 3, 5, 5)])
def test_all_that_is_seen_of_a_video_is_one_clip_and_comes_apart_again(shape: tuple[int, ...]) -> None:
    part = torch.rand(shape)
    assert torch.equal(_apart(_together(part), part), part)
    assert torch.equal(to_frames(_together(part)), _fold([part]))  # each a true frame, in the same order


def test_a_turn_of_hiding_tells_the_loss_of_the_net_that_knows_most(dataset: Dataset) -> None:
    made = ready(dataset, budget=replace(LABELS, members=("mobilenet.v1-0.25",) * 2, target="entropy"))
    batch = first_batch(made)
    assert batch.views is not None
    made.anonymizer.train(), made.budgets[0].eval(), made.budgets[1].eval()
    with torch.no_grad():
        views = made.anonymizer.stages[0](batch.views.flatten(0, 1))[:, None]
        losses = [float(net.losses(net(views), batch.labels).mean()) for net in made.budgets]
    assert losses[0] != losses[1]
    assert float(made.step.take("hide", batch)["budget"]) == pytest.approx(min(losses), abs=1e-4)


LIKELY = math.log(3)  # a logit by which a label is there three times in four
KNOWN, UNSURE, MISSED = (
    math.log(4 / 3),
    math.log(2),
    math.log(4),
)  # its loss where that is right, of 0, where wrong


def two_nets(dataset: Dataset, **changes: Any) -> Any:
    return ready(dataset, budget=replace(LABELS, members=("mobilenet.v1-0.25",) * 2, **changes))


def entropy(share: float) -> float:
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


@pytest.mark.parametrize(
    ("target", "knows", "does_not"),
    [
        ("negative", -KNOWN, -UNSURE),
        ("entropy", -entropy(0.75), -entropy(0.5)),
        ("uniform", (KNOWN + MISSED) / 2, UNSURE),
    ],
    ids=["negative", "entropy", "uniform"],
)
@pytest.mark.parametrize("combine", ["mean", "strongest"])
def test_of_an_ensemble_f_a_fights_for_every_sample_the_net_that_knows_most(
    combine: Any, target: Any, knows: float, does_not: float, dataset: Dataset
) -> None:
    """VITA's max over J: each of two nets knows one of two samples, and of the other nothing."""
    made = two_nets(dataset, target=target, combine=combine)
    guesses = [torch.tensor([[LIKELY], [0.0]]), torch.tensor([[0.0], [LIKELY]])]
    for guess in guesses:
        guess.requires_grad_()
    wish, terms = made.step._wish(guesses, torch.ones(2, 1))
    assert float(wish.detach()) == pytest.approx(
        knows if combine == "strongest" else (knows + does_not) / 2, abs=1e-6
    )
    assert float(terms["budget"]) == pytest.approx((KNOWN + UNSURE) / 2, abs=1e-6)
    wish.backward()
    pushed = [[bool(row) for row in guess.grad] for guess in guesses if guess.grad is not None]
    if combine == "strongest":
        assert pushed == [[True, False], [False, True]]
    elif target == "negative":
        assert pushed == [[True, True], [True, True]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_turn_of_hiding_is_against_the_one_net_whose_mean_loss_is_lowest(
    order: tuple[int, int], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K-Beam's k*: neither the mean over nets, nor for every sample the net that knows it best."""
    made = two_nets(dataset, combine="strongest")
    rows = [torch.tensor([[LIKELY], [-LIKELY]]), torch.tensor([[0.0], [LIKELY]])]
    for net, place in zip(made.budgets, order):
        monkeypatch.setattr(net, "forward", lambda views, row=rows[place]: row + 0 * views.sum())
    terms = made.step.take("hide", replace(first_batch(made), labels=torch.ones(2, 1)))
    assert (KNOWN + MISSED) / 2 > (UNSURE + KNOWN) / 2
    assert float(terms["hidden"]) == pytest.approx((UNSURE + KNOWN) / 2, abs=1e-6)


@pytest.mark.parametrize("temporal", ["triplet", "local", "invariance"])
def test_temporal_terms_reach_the_anonymizer_and_the_embedding(temporal: Any, dataset: Dataset) -> None:
    utility = Utility(encoder="tiny", frames=8, stride=1, temporal=temporal, w_temporal=1.0)
    made = ready(dataset, utility=utility)
    batch = first_batch(made)
    assert batch.clips.shape[1] == utility.views
    terms = made.step.take("anonymizer", batch)
    assert terms["temporal"] > 0
    assert torch.isclose(terms["utility"], terms["action"] + terms["temporal"])
    before = state(made)["utility"]["embed.0.weight"]
    made.step.take("auxiliary", batch)
    assert not torch.equal(before, made.utility.embed[0].weight)


def test_the_action_is_asked_of_the_anchor_alone(dataset: Dataset) -> None:
    utility = Utility(encoder="tiny", frames=8, stride=1, temporal="triplet", w_temporal=0.0)
    made = ready(dataset, utility=utility)
    made.utility.eval()
    batch = first_batch(made)
    changed = batch.clips.clone()
    changed[:, 1:] = 0.5
    first, second = (made.utility.loss(made.utility(c), batch.targets).action for c in (batch.clips, changed))
    assert torch.allclose(first, second, atol=1e-6)


@pytest.mark.parametrize("target", ["negative", "entropy", "uniform"])
@pytest.mark.parametrize("combine", ["mean", "strongest"])
def test_supervised_budgets_hide_labels_by_every_aim(target: Any, combine: Any, dataset: Dataset) -> None:
    budget = replace(LABELS, target=target, combine=combine, members=("mobilenet.v1-0.25",) * 2)
    made = ready(dataset, budget=budget, w_utility=0.0)
    batch = first_batch(made)
    assert batch.labels is not None
    assert batch.labels.isnan().any()  # an unknown label is no label
    before = state(made)
    terms = made.step.take("anonymizer", batch)
    assert moved(before, made) == {"anonymizer"}
    made.anonymizer.train(), made.budgets[0].eval(), made.budgets[1].eval()
    wishes = torch.stack([b.wishes(b(batch.views), batch.labels) for b in made.budgets])
    assert wishes.shape == (2, len(batch.labels))
    assert torch.isfinite(terms["anonymizer"])


def test_rotation_budget_learns_which_way_up_a_frame_is(dataset: Dataset) -> None:
    made = ready(dataset, budget=Budget(kind="rotation", members=("mobilenet.v1-0.25",)))
    batch = first_batch(made)
    values = [float(made.step.take("budget", batch)["budget_learning"]) for _ in range(12)]
    assert values[-1] < values[0]
    assert made.chance == pytest.approx(1.3863, abs=1e-4)


def test_clip_budget_tells_videos_apart_by_two_clips(dataset: Dataset) -> None:
    made = ready(dataset, budget=Budget(kind="clips", members=("tiny",)))
    batch = first_batch(made)
    assert batch.views is not None
    assert batch.views.shape == (4, 2, 3, 8, 32, 32)
    values = [float(made.step.take("budget", batch)["budget_learning"]) for _ in range(8)]
    assert values[-1] < values[0]


@pytest.mark.parametrize(("bound", "passed"), [(0.0, True), (1.0, False)])
@pytest.mark.parametrize("differentiable", [True, False])
def test_the_penalty_pulls_exactly_when_the_bound_is_passed(
    bound: float, passed: bool, differentiable: bool, dataset: Dataset
) -> None:
    """And the released form never does: it is a value in the log, and the step is that without a penalty."""
    free = ready(dataset)
    leashed = ready(dataset, w_penalty=100.0, penalty=Penalty(bound=bound, differentiable=differentiable))
    batch = first_batch(free)
    before = state(free)["anonymizer"]
    assert free.step.take("anonymizer", batch)["penalty"] == 0
    terms = leashed.step.take("anonymizer", batch)
    assert (terms["active"], terms["penalty"] > 0) == (float(passed), passed)
    one, two = state(free)["anonymizer"], state(leashed)["anonymizer"]
    assert any(not torch.equal(before[name], one[name]) for name in one)
    same = all(torch.equal(one[name], two[name]) for name in one)
    assert same == (not (passed and differentiable))


def test_the_penalty_brings_the_anonymizer_back(dataset: Dataset) -> None:
    made = ready(dataset, w_utility=0.0, w_budget=0.0, penalty=Penalty(bound=0.0))
    batch = first_batch(made)
    values = [float(made.step.take("anonymizer", batch)["penalty"]) for _ in range(15)]
    assert values[-1] < values[0]


@pytest.mark.parametrize(("raw", "made", "shown"), [(1.0, 1.5, 0.0), (0.5, 3.0, 0.5), (0.25, -9.0, 0.25)])
def test_the_penalty_is_on_what_will_be_shown(
    raw: float, made: float, shown: float, dataset: Dataset
) -> None:
    step = ready(dataset, penalty=Penalty(bound=0.0)).step
    clips = torch.full((2, 1, 3, 4, 8, 8), raw)
    assert float(step._penalty(clips, torch.full_like(clips, made))) == pytest.approx(shown, abs=1e-4)


def test_without_an_activation_the_change_on_record_is_of_what_will_be_shown(dataset: Dataset) -> None:
    made = loop(dataset, settings(penalty=Penalty(bound=0.0)))
    made.anonymizer = PixelAnonymizer(PixelConfig((UNet(width=4, out="none"),)))
    with torch.no_grad():
        for weight in list(made.anonymizer.parameters())[-2:]:
            weight.mul_(100)  # of the last layer: far outside [0, 1]
    made.set_up()
    terms = made.step.take("anonymizer", first_batch(made))
    assert 0 < terms["rms"] < 1
    assert torch.isclose(terms["penalty"], terms["rms"], atol=1e-4)


def test_the_penalty_on_features_is_measured_by_the_utility_net(dataset: Dataset) -> None:
    made = ready(dataset, w_budget=0.0, w_utility=0.0, penalty=Penalty(bound=0.0, of="features"))
    terms = made.step.take("anonymizer", first_batch(made))
    assert terms["penalty"] > 0


def test_budget_nets_of_an_ensemble_learn_as_if_they_were_alone(dataset: Dataset) -> None:
    together = ready(dataset, budget=Budget(members=("mobilenet.v1-0.25", "mobilenet.v1-0.25")))
    alone = ready(dataset)
    alone.budgets[0].load_state_dict(together.budgets[0].state_dict())
    batch = first_batch(together)
    for made in (together, alone):
        made.step.take("budget", batch)
    for key, value in alone.budgets[0].state_dict().items():
        assert torch.allclose(value.float(), together.budgets[0].state_dict()[key].float(), atol=1e-6)


def test_sureness_is_the_share_of_partners_found() -> None:
    class Net:
        settings = Budget()

    rows = torch.eye(4)[:, None].repeat(1, 2, 1)
    assert sureness([Net()], [rows], None) == 1  # type: ignore[list-item]
    crossed = torch.stack((torch.eye(4), torch.eye(4).roll(1, 0)), 1)
    assert sureness([Net()], [crossed], None) == 0  # type: ignore[list-item]


def test_frozen_batch_norm_stays_as_it_came(dataset: Dataset) -> None:
    made = ready(dataset, utility=Utility(encoder="tiny", frames=8, stride=1, freeze_norm=True))
    names = [n for n, _ in made.utility.named_buffers() if "running_mean" in n]
    before = {n: made.utility.get_buffer(n).clone() for n in names}
    made.step.take("utility", first_batch(made))
    assert all(torch.equal(made.utility.get_buffer(n), before[n]) for n in names)


def test_low_precision_trains_and_keeps_losses_in_float32(tmp_path: Path, dataset: Dataset) -> None:
    made = ready(dataset, precision="bf16-mixed")
    terms = made.step.take("anonymizer", first_batch(made))
    assert terms["anonymizer"].dtype == torch.float32
    assert torch.isfinite(terms["anonymizer"])
