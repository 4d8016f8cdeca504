"""The auxiliary players: what they answer, and that every loss is its equation written slowly."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from videoveil.encoders import create, save
from videoveil.errors import CheckpointError, UsageError
from videoveil.training.minimax_nets import EMBEDDING, BudgetNet, UtilityNet, video_encoder
from videoveil.training.minimax_settings import Budget, Utility

SIZE, CLASSES = 32, 3
PLAIN = Utility(encoder="tiny", frames=8, stride=1)
IMAGE = "mobilenet.v1-0.25"


def utility(**changes: Any) -> UtilityNet:
    return UtilityNet(replace(PLAIN, **changes), SIZE, CLASSES, seed=1).eval()


def budget(labels: int = 0, name: str = IMAGE, **changes: Any) -> BudgetNet:
    settings = Budget(members=(name,), **changes)
    return BudgetNet(settings, name, SIZE, PLAIN, labels, seed=1).eval()


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def unit(rows: Tensor) -> Tensor:
    return rows / rows.square().sum(-1, keepdim=True).sqrt()


def slow_nt_xent(first: Tensor, second: Tensor, heat: float, *, one_way: bool = False) -> float:
    """Every vector is an anchor once, or those of `first` alone; its partner against all others."""
    rows = [*unit(first.detach().double()), *unit(second.detach().double())]
    count, total = len(first), 0.0
    anchors = range(count if one_way else 2 * count)
    for i in anchors:
        scores = {j: math.exp(float(rows[i] @ rows[j]) / heat) for j in range(2 * count) if j != i}
        total -= math.log(scores[(i + count) % (2 * count)] / sum(scores.values()))
    return total / len(anchors)


# --- utility ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("temporal", "views"), [("triplet", 3), ("local", 8), ("invariance", 2)])
def test_embeddings_of_all_views_have_length_one(temporal: Any, views: int) -> None:
    net = utility(temporal=temporal)
    logits, embedded = net(random(2, views, 3, 8, SIZE, SIZE))
    assert logits.shape == (2, CLASSES)
    assert embedded.shape == (2, views, EMBEDDING)
    assert torch.allclose(embedded.norm(dim=2), torch.ones(2, views), atol=1e-5)


def test_without_a_temporal_term_there_is_no_embedding_and_no_second_view() -> None:
    net = utility()
    logits, embedded = net(random(2, 1, 3, 8, SIZE, SIZE))
    assert embedded is None
    assert net.embed is None
    assert logits.shape == (2, CLASSES)


def test_the_action_is_that_of_the_anchor() -> None:
    net, views = utility(temporal="triplet"), random(2, 3, 3, 8, SIZE, SIZE)
    logits, _ = net(views)
    assert torch.allclose(logits, net.classifier(views[:, 0]), atol=1e-5)
    assert not torch.allclose(logits, net.classifier(views[:, 2]), atol=1e-3)


@pytest.mark.parametrize("temporal", ["triplet", "local", "invariance"])
def test_a_single_view_is_asked_for_its_action_alone(temporal: Any) -> None:
    net, views = utility(temporal=temporal).train(), random(2, 1, 3, 8, SIZE, SIZE)
    targets = torch.tensor([0, 2])
    out = net(views)
    found = net.loss(out, targets)
    assert out[1] is None
    assert torch.equal(found.total, found.action)
    assert torch.allclose(found.total, nn.functional.cross_entropy(net.classifier(views[:, 0]), targets))
    found.total.backward()
    assert net.embed is not None
    assert all(weight.grad is not None and not weight.grad.any() for weight in net.embed.parameters())


def test_a_temporal_term_of_weight_0_is_told_and_moves_nothing() -> None:
    net, targets = utility(temporal="triplet", w_temporal=0.0).train(), torch.tensor([0, 2])
    logits, embedded = net(random(2, 3, 3, 8, SIZE, SIZE))
    found = net.loss((logits, embedded), targets)
    assert found.temporal > 0
    assert torch.equal(found.total, found.action)
    assert torch.allclose(found.total, nn.functional.cross_entropy(logits, targets))
    found.total.backward()
    assert net.embed is not None
    assert all(weight.grad is not None and not weight.grad.any() for weight in net.embed.parameters())


def test_cross_entropy_of_actions_is_its_equation() -> None:
    net, logits = utility(), random(4, CLASSES) * 4
    targets = torch.tensor([0, 2, 1, 1])
    found = net.loss((logits, None), targets)
    rows = [row - math.log(sum(math.exp(float(v)) for v in row)) for row in logits]
    slow = -sum(float(row[int(target)]) for row, target in zip(rows, targets)) / 4
    assert float(found.action) == pytest.approx(slow, rel=1e-5)
    assert float(found.total) == float(found.action)
    assert float(found.temporal) == 0
    told = sum(
        int(max(range(CLASSES), key=lambda c: float(row[c]))) == int(t) for row, t in zip(logits, targets)
    )
    assert float(found.right) == told / 4


def test_several_tags_at_once_are_asked_one_by_one() -> None:
    logits, tags = random(3, CLASSES) * 4 - 2, (random(3, CLASSES, seed=1) > 0.5).float()
    found = utility(target="actions").loss((logits, None), tags)
    terms = [
        -math.log(p if tag else 1 - p)
        for p, tag in zip(logits.sigmoid().flatten().tolist(), tags.flatten().tolist())
    ]
    assert float(found.action) == pytest.approx(sum(terms) / len(terms), rel=1e-5)


def with_embeddings(net: UtilityNet, z: Tensor) -> tuple[float, float]:
    """The temporal term, and what it adds to the total."""
    targets = torch.zeros(len(z), dtype=torch.long)
    found = net.loss((torch.zeros(len(z), CLASSES), z), targets)
    return float(found.temporal), float(found.total - found.action)


@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
def test_the_triplet_is_its_equation(margin: float) -> None:
    z = unit(random(5, 3, 6) - 0.5)
    terms = [
        max(math.dist(a.tolist(), p.tolist()) - math.dist(a.tolist(), n.tolist()) + margin, 0.0)
        for a, p, n in z
    ]
    found, added = with_embeddings(utility(temporal="triplet", margin=margin, w_temporal=0.3), z)
    assert found == pytest.approx(sum(terms) / 5, abs=1e-4)
    assert added == pytest.approx(0.3 * found, abs=1e-5)


def test_the_same_moment_three_times_costs_the_margin() -> None:
    z = unit(random(4, 1, 6) - 0.5).expand(-1, 3, -1)
    assert with_embeddings(utility(temporal="triplet", margin=0.7), z)[0] == pytest.approx(0.7, abs=1e-4)


@pytest.mark.parametrize("heat", [0.1, 0.5])
def test_local_contrast_is_nt_xent_within_every_video(heat: float) -> None:
    z = unit(random(3, 8, 6) - 0.5)
    slow = sum(slow_nt_xent(video[:4], video[4:], heat) for video in z) / 3
    found, _ = with_embeddings(utility(temporal="local", temperature=heat), z)
    assert found == pytest.approx(slow, rel=1e-4)


def test_invariance_is_nt_xent_across_videos() -> None:
    z = unit(random(5, 2, 6) - 0.5)
    found, _ = with_embeddings(utility(temporal="invariance", temperature=0.2), z)
    assert found == pytest.approx(slow_nt_xent(z[:, 0], z[:, 1], 0.2, one_way=True), rel=1e-4)


def test_feature_maps_are_those_of_the_stages_and_a_network_without_them_is_refused() -> None:
    net = UtilityNet(Utility(encoder="r3d.18", frames=4, stride=1), SIZE, CLASSES)
    maps = net.eval().feature_maps(random(1, 3, 4, SIZE, SIZE))
    assert [one.shape[1] for one in maps] == [64, 128, 256, 512]
    assert not any(module._forward_hooks for module in net.modules())
    with pytest.raises(UsageError, match="tiny: has no layer1"):
        utility().feature_maps(random(1, 3, 8, SIZE, SIZE))


def test_networks_see_pixels_from_0_to_1_with_no_mean_subtracted() -> None:
    for encoder in (utility().encoder, budget().encoder):
        frames = random(1, 3, *((8,) if encoder.kind == "video" else ()), SIZE, SIZE)
        assert torch.equal(encoder._normalised(frames).view_as(frames), frames)


def test_dropout_is_before_the_layer_for_actions_and_only_while_f_t_learns() -> None:
    views = random(2, 3, 3, 8, SIZE, SIZE)
    for temporal in ("none", "triplet"):
        plain, dropping = utility(temporal=temporal), utility(temporal=temporal, dropout=0.5)
        assert torch.equal(plain(views)[0], dropping(views)[0])
        dropping.classifier.dropout.train()
        torch.manual_seed(0)
        once, again = dropping(views), dropping(views)
        assert not torch.equal(once[0], again[0])
        if once[1] is not None:  # moments are told apart by whole features
            assert torch.equal(once[1], again[1])


def test_a_start_belongs_to_its_seed() -> None:
    def weights(net: nn.Module) -> Tensor:
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    own = replace(PLAIN, temporal="triplet")
    one, two, other = (UtilityNet(own, SIZE, CLASSES, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(weights(one), weights(two))
    assert not torch.equal(weights(one), weights(other))
    assert not torch.equal(weights(budget()), weights(BudgetNet(Budget(), IMAGE, SIZE, PLAIN, 0, seed=2)))


# --- budget -------------------------------------------------------------------------------------------------


def test_a_budget_on_pairs_is_nt_xent_of_normalised_embeddings() -> None:
    net = budget(temperature=0.2)
    out = net(random(4, 2, 3, SIZE, SIZE))
    assert out.shape == (4, 2, EMBEDDING)
    losses = net.losses(5 * out, None)  # length does not matter
    assert losses.shape == (1,)
    assert float(losses.detach()) == pytest.approx(slow_nt_xent(out[:, 0], out[:, 1], 0.2), rel=1e-4)


def test_a_budget_on_rotations_sees_every_frame_in_four_ways() -> None:
    net, views = budget(kind="rotation"), random(3, 1, 3, SIZE, SIZE)
    out = net(views)
    assert out.shape == (12, 4)
    terms = torch.zeros(3)
    for sample in range(3):
        for turn in range(4):
            turned = torch.rot90(views[sample, 0], turn, (1, 2))[None]
            answer = net.head(net.encoder(turned))[0]
            row = turn * 3 + sample
            assert torch.allclose(answer, out[row], atol=1e-4)
            terms[sample] += -(answer[turn] - answer.exp().sum().log()) / 4
    assert torch.allclose(net.losses(out, None), terms, atol=1e-4)


def test_a_budget_on_labels_counts_known_ones_only() -> None:
    net = budget(labels=3, kind="labels")
    assert net(random(2, 1, 3, SIZE, SIZE)).shape == (2, 3)
    out = random(2, 3) * 4 - 2
    labels = torch.tensor([[1.0, 0.0, float("nan")], [float("nan"), 1.0, 1.0]])
    slow = []
    for logits, row in zip(out.tolist(), labels.tolist()):
        probabilities = [1 / (1 + math.exp(-value)) for value in logits]
        known = [-math.log(p if y else 1 - p) for p, y in zip(probabilities, row) if not math.isnan(y)]
        slow.append(sum(known) / len(known))
    assert net.losses(out, labels).tolist() == pytest.approx(slow, rel=1e-5)


@pytest.mark.parametrize("kind", ["labels", "rotation"])
def test_what_the_anonymizer_wishes_is_a_large_loss_or_an_unsure_net(kind: Any) -> None:
    shape, labels = ((2, 3), torch.tensor([[1.0, 0, 1], [0, 0, 1]])) if kind == "labels" else ((8, 4), None)
    out = random(*shape, seed=3) * 4 - 2
    nets = {aim: budget(labels=3, kind=kind, target=aim) for aim in ("negative", "entropy", "uniform")}
    found = {aim: net.wishes(out, labels) for aim, net in nets.items()}
    assert torch.allclose(found["negative"], -nets["negative"].losses(out, labels))
    entropy, uniform = [], []
    for row in out.tolist():
        if kind == "labels":
            p = [1 / (1 + math.exp(-value)) for value in row]
            entropy.append(sum(q * math.log(q) + (1 - q) * math.log(1 - q) for q in p) / len(p))
            uniform.append(-sum(math.log(q) / 2 + math.log(1 - q) / 2 for q in p) / len(p))
        else:
            p = [math.exp(value) / sum(map(math.exp, row)) for value in row]
            entropy.append(sum(q * math.log(q) for q in p))
            uniform.append(-sum(math.log(q) / 4 for q in p))
    if kind == "rotation":  # four turns of a sample lie as far apart as there are samples
        entropy, uniform = ([sum(rows[n::2]) / 4 for n in range(2)] for rows in (entropy, uniform))
    assert found["entropy"].tolist() == pytest.approx(entropy, rel=1e-4)
    assert found["uniform"].tolist() == pytest.approx(uniform, rel=1e-4)
    unsure = torch.zeros(shape)
    for aim in ("entropy", "uniform"):
        assert (nets[aim].wishes(unsure, labels) <= found[aim]).all()


def test_chance_is_the_loss_of_a_net_that_knows_nothing() -> None:
    pairs = budget()
    same = torch.ones(6, 2, EMBEDDING)
    assert pairs.chance(6, None) == pytest.approx(math.log(11))
    assert float(pairs.losses(same, None)) == pytest.approx(pairs.chance(6, None), rel=1e-5)
    turns = budget(kind="rotation")
    assert float(turns.losses(torch.zeros(8, 4), None).mean()) == pytest.approx(turns.chance(2, None))
    labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    named = budget(labels=2, kind="labels")
    prior = labels.mean(0).logit().expand(4, -1)  # always the share of a label
    assert float(named.losses(prior, labels).mean()) == pytest.approx(named.chance(4, labels), rel=1e-5)
    part = torch.tensor([[1.0, float("nan")], [0.0, 1.0], [float("nan"), 1.0], [1.0, 0.0]])
    # by sample: of "1, ?" the first label counts twice
    shares, weights = [3 / 4, 3 / 4], [4 / 8, 4 / 8]
    slow = sum(-w * (p * math.log(p) + (1 - p) * math.log(1 - p)) for p, w in zip(shares, weights))
    assert named.chance(4, part) == pytest.approx(slow, rel=1e-5)


@pytest.mark.parametrize("gaps", [0.0, 0.2, 0.5])
def test_chance_is_the_lowest_that_a_blind_net_comes_to_whatever_is_not_known(gaps: float) -> None:
    labels = (random(40, 3) < torch.tensor([0.2, 0.5, 0.8])).float()
    unknown = random(40, 3, seed=1) < gaps
    unknown[:, 0] = False  # something is known of every sample
    labels[unknown] = float("nan")
    net = budget(labels=3, kind="labels")
    logits = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=100, tolerance_grad=1e-9, tolerance_change=0)

    def loss() -> Tensor:
        optimizer.zero_grad()
        found = net.losses(logits.expand(40, -1), labels).mean()
        found.backward()
        return found

    optimizer.step(loss)
    assert float(loss().detach()) == pytest.approx(net.chance(4, labels), rel=1e-5)


def test_a_label_that_nobody_knows_takes_no_part_in_chance() -> None:
    net = budget(labels=2, kind="labels")
    labels = torch.tensor([[1.0, float("nan")], [0.0, float("nan")]])
    assert net.chance(2, labels) == pytest.approx(math.log(2))


def test_a_budget_on_clips_compares_two_clips() -> None:
    net = budget(name="tiny", kind="clips")
    out = net(random(3, 2, 3, 8, SIZE, SIZE))
    assert out.shape == (3, 2, EMBEDDING)
    assert float(net.losses(out, None).detach()) == pytest.approx(
        slow_nt_xent(out[:, 0], out[:, 1], 0.1), rel=1e-3
    )
    assert net.chance(3, None) == pytest.approx(math.log(5))


@pytest.mark.parametrize("kind", ["pairs", "labels", "rotation"])
def test_budget_nets_start_from_their_weights_with_a_head_of_their_own(kind: Any, tmp_path: Path) -> None:
    learnt = create(IMAGE, weights="random", seed=9)
    path = tmp_path / "learnt.safetensors"
    save(learnt, path, {})
    own = Budget(kind=kind, members=(IMAGE,), weights=str(path))
    one, two = (BudgetNet(own, IMAGE, SIZE, PLAIN, 3, seed=seed) for seed in (1, 2))
    for net in (one, two):
        state = net.encoder.network.state_dict()
        assert all(torch.equal(value, learnt.network.state_dict()[key]) for key, value in state.items())
        frame = random(1, 3, SIZE, SIZE)
        assert torch.equal(net.encoder._normalised(frame), learnt._normalised(frame))
        assert not torch.equal(net.encoder._normalised(frame)[:, :, 0], frame)
    assert not torch.equal(next(one.head.parameters()), next(two.head.parameters()))


def learnt(name: str, folder: Path) -> tuple[str, dict[str, Tensor]]:
    """A member that names its own start, and the weights there."""
    network = create(name, weights="random", seed=9)
    save(network, folder / f"{name}.safetensors", {})
    return f"{name}@{folder / name}.safetensors", network.network.state_dict()


def test_budget_nets_of_different_networks_start_from_weights_of_their_own(tmp_path: Path) -> None:
    members, begun = zip(*(learnt(name, tmp_path) for name in (IMAGE, "resnet.18")))
    own = Budget(members=members)
    for member, state in zip(members, begun):
        net = BudgetNet(own, member, SIZE, PLAIN, 0, seed=1)
        found = net.encoder.network.state_dict()
        assert all(torch.equal(value, state[key]) for key, value in found.items())
        assert net.encoder.options["norm"] == "native"
    both = replace(own, members=(f"{IMAGE}@scratch", members[1]), weights="nowhere.safetensors")
    fresh = BudgetNet(both, both.members[0], SIZE, PLAIN, 0, seed=1)
    plain = budget()
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), plain.parameters(), strict=True))
    assert fresh.encoder.options["norm"] == "zero_one"


def test_one_file_for_different_networks_is_refused_with_the_way_to_give_several(tmp_path: Path) -> None:
    member, _ = learnt(IMAGE, tmp_path)
    path = member.partition("@")[2]
    own = Budget(members=(IMAGE, "resnet.18"), weights=path)
    said = r"holds weights of mobilenet.*in members: resnet\.18@FILE"
    with pytest.raises(CheckpointError, match=said):
        BudgetNet(own, "resnet.18", SIZE, PLAIN, 0)
    with pytest.raises(CheckpointError, match="holds weights of mobilenet") as caught:
        BudgetNet(own, f"resnet.18@{path}", SIZE, PLAIN, 0)
    assert "in members" not in str(caught.value)


def test_a_budget_on_clips_may_start_from_weights_too() -> None:
    net = budget(name="tiny", kind="clips", weights="own")
    own = create("tiny", weights="own").network.state_dict()
    assert all(torch.equal(value, own[key]) for key, value in net.encoder.network.state_dict().items())
    named = budget(name="tiny@own", kind="clips").encoder
    assert named.content_hash() == net.encoder.content_hash()


# --- what does not fit --------------------------------------------------------------------------------------


def test_networks_of_the_wrong_kind_are_refused_by_name() -> None:
    with pytest.raises(
        UsageError, match=r"resnet\.18: looks at single frames; the utility net needs a video"
    ):
        video_encoder("resnet.18", "", SIZE, 8, 1, 0)
    with pytest.raises(
        UsageError, match="tiny: is a video network; a budget on pairs needs an image network"
    ):
        budget(name="tiny")
    with pytest.raises(UsageError, match="looks at single frames"):
        budget(kind="clips")
    with pytest.raises(UsageError, match="comes without weights of its own"):
        budget(weights="own")
    with pytest.raises(CheckpointError, match="nowhere"):
        budget(weights="nowhere.safetensors")
    with pytest.raises(UsageError, match=r"no encoder 'resnet\.19'"):
        budget(name="resnet.19")
