from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.anonymizers import MLP, Attention, AttentionOnly, Noise, latent
from videoveil.errors import UsageError
from videoveil.objectives import SplavuWeights, nt_xent, temporal_budget
from videoveil.training.latent_step import TERMS, Moment, Objective, Step, TaskRows, pooled, singled_out

WIDTH, COUNT = 16, 12


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def moment(tokens: int = 0) -> Moment:
    shape = (COUNT, tokens, WIDTH) if tokens else (COUNT, WIDTH)
    return Moment(
        clip=normal(*shape, seed=1),
        first=normal(COUNT, WIDTH, seed=2),
        second=normal(COUNT, WIDTH, seed=3),
        other=normal(*shape, seed=4),
        alone=torch.arange(COUNT) == 5,
        labels=torch.arange(COUNT) % 3,
        still=normal(COUNT, WIDTH, seed=5),
    )


def step(objective: Objective | None = None, *, init: str = "default", **options: object) -> Step:
    torch.manual_seed(0)
    anonymizer = latent(WIDTH, Attention(1, 4, dropout=0.0, init=init))  # type: ignore[arg-type]
    return Step(anonymizer.train(), objective or Objective(), nn.Linear(WIDTH, 3), **options)  # type: ignore[arg-type]


def terms(found: Tensor) -> dict[str, float]:
    return dict(zip(TERMS, found.tolist()))


def test_the_total_is_eq_7_of_the_terms_written_out() -> None:
    weights = SplavuWeights(consistency=7.0, utility=2.0, budget=3.0, temporal=0.5)
    one, now = step(Objective(weights)), moment()
    found = one(now)
    assert one.head is not None
    g, a, b, other = (one.anonymizer.transform(x) for x in (now.clip, now.first, now.second, now.other))
    consistency = (now.clip - g).square().mean()
    action = F.cross_entropy(one.head(g), now.labels)
    budget = nt_xent(a, b)
    temporal = temporal_budget(g, other, a[:, None], b[:, None], actions=singled_out(now.labels, now.alone))
    total = 7 * consistency + 2 * action - 3 * budget - 0.5 * temporal
    assert float(found.total.detach()) == pytest.approx(float(total.detach()), rel=1e-5)
    assert terms(found.terms)["budget"] == pytest.approx(float(budget.detach()), rel=1e-5)
    assert terms(found.terms)["temporal"] == pytest.approx(float(temporal.detach()), rel=1e-5)
    assert terms(found.terms)["action"] == pytest.approx(float(action.detach()), rel=1e-5)


def test_without_a_reference_the_temporal_budget_compares_moving_clips_as_they_are() -> None:
    one, now = step(Objective(SplavuWeights(0.0, 0.0, 0.0, 1.0), reference="none")), moment()
    g, other = (one.anonymizer.transform(x) for x in (now.clip, now.other))
    centre = torch.cat((g, other)).mean(0)
    expected = nt_xent(g - centre, other - centre, groups=singled_out(now.labels, now.alone))  # type: ignore[arg-type]
    assert terms(one(now).terms)["temporal"] == pytest.approx(float(expected.detach()), rel=1e-5)
    scrambled = one(replace(now, first=normal(COUNT, WIDTH, seed=21), second=normal(COUNT, WIDTH, seed=22)))
    assert terms(scrambled.terms)["temporal"] == terms(one(now).terms)["temporal"]
    with pytest.raises(UsageError, match="reference='wrong'"):
        Objective(reference="wrong")  # type: ignore[arg-type]


def test_heads_get_nothing_from_budget_and_consistency_and_the_anonymizer_from_each_term() -> None:
    for name in ("consistency", "utility", "budget", "temporal"):
        off = {"consistency": 0.0, "utility": 0.0, "budget": 0.0, "temporal": 0.0}
        one = step(Objective(SplavuWeights(**{**off, name: 1.0})))
        one(moment()).total.backward()
        assert one.head is not None
        head = [p.grad for p in one.head.parameters()]
        if name == "utility":
            assert all(g is not None and float(g.abs().sum()) > 0 for g in head)
        else:
            assert all(g is None or float(g.abs().sum()) == 0 for g in head)
        learned = [p.grad for p in one.anonymizer.parameters() if p.grad is not None]
        assert sum(float(g.abs().sum()) for g in learned) > 0, name


def test_a_zero_initialised_anonymizer_is_the_identity_in_its_first_step() -> None:
    found = terms(step(init="zero")(moment()).terms)
    now = moment()
    assert found["consistency"] == 0.0
    assert found["budget"] == pytest.approx(float(nt_xent(now.first, now.second)), rel=1e-6)


def test_one_step_on_the_budget_alone_lowers_the_likeness_of_static_pairs() -> None:
    one = step(Objective(SplavuWeights(0.0, 0.0, 1.0)), init="zero")
    same = normal(COUNT, WIDTH, seed=2)
    now = replace(moment(), first=same, second=same + 0.7 * normal(COUNT, WIDTH, seed=9))
    optimizer = torch.optim.SGD(one.anonymizer.parameters(), lr=0.3)

    def likeness() -> float:
        a, b = (one.anonymizer.transform(x) for x in (now.first, now.second))
        return float(F.cosine_similarity(a, b).mean().detach())

    before = likeness()
    found = one(now)
    found.total.backward()
    optimizer.step()
    assert likeness() < before - 1e-3
    assert terms(one(now).terms)["budget"] > terms(found.terms)["budget"]


@pytest.mark.parametrize("pairs", ["moving", "mixed"])
def test_other_pairs_compare_moving_clips(pairs: str) -> None:
    one, now = step(Objective(pairs=pairs)), moment()  # type: ignore[arg-type]
    found = terms(one(now).terms)["budget"]
    g, other, a = (one.anonymizer.transform(x) for x in (now.clip, now.other, now.first))
    if pairs == "mixed":
        assert found == pytest.approx(float(nt_xent(g, a).detach()), rel=1e-5)
    else:
        groups = singled_out(torch.zeros(COUNT, dtype=torch.int64), now.alone)
        assert found == pytest.approx(float(nt_xent(g, other, groups=groups).detach()), rel=1e-5)


def test_a_video_with_one_clip_has_no_part_in_pairs_of_moving_clips() -> None:
    """Its clip would be its own partner: a perfect bond that says nothing."""
    one, now = step(Objective(SplavuWeights(0, 0, 1.0), pairs="moving")), moment()
    assert now.other is not None
    changed = now.other.clone()
    changed[5] += 10
    assert torch.equal(one(now).terms, one(replace(now, other=changed)).terms)


def test_a_source_without_second_clips_says_so() -> None:
    with pytest.raises(UsageError, match="two moving clips"):
        step(Objective(pairs="moving"))(replace(moment(), other=None))
    with pytest.raises(UsageError, match="pairs='wrong'"):
        Objective(pairs="wrong")  # type: ignore[arg-type]


def test_rows_of_tasks_count_for_utility_and_consistency() -> None:
    one, now = step(Objective(SplavuWeights(1.0, 1.0, 0.0))), moment()
    rows = normal(9, WIDTH, seed=8)
    chosen = torch.tensor([0, 4, 8])
    task = TaskRows(rows, chosen, lambda x: x.square().sum())
    found = terms(one(now, {"anomaly": task}).terms)
    g, rest = one.anonymizer.transform(now.clip), one.anonymizer.transform(rows)
    difference = torch.cat((now.clip - g, (rows - rest)[chosen])).square().mean()
    assert found["anomaly"] == pytest.approx(float(rest.square().sum()), rel=1e-5)
    assert found["consistency"] == pytest.approx(float(difference), rel=1e-5)
    lent = terms(one(replace(now, labels=None), {"anomaly": task}).terms)
    alone = (rows - rest)[chosen].square().mean()
    assert lent["consistency"] == pytest.approx(float(alone), rel=1e-5)
    assert lent["action"] == 0.0


def test_temporal_tokens_are_consistent_one_by_one_and_pooled_for_everything_else() -> None:
    one, now = step(), moment(tokens=4)
    found = terms(one(now).terms)
    g = one.anonymizer.transform(now.clip)
    assert g.shape == now.clip.shape
    assert one.head is not None
    assert found["consistency"] == pytest.approx(float((now.clip - g).square().mean()), rel=1e-5)
    assert found["action"] == pytest.approx(float(F.cross_entropy(one.head(pooled(g)), now.labels)), rel=1e-5)


def test_the_released_block_sees_each_batch_by_itself() -> None:
    """Attention across samples must not mix clips with static clips that only this code put beside them."""
    torch.manual_seed(0)
    anonymizer = latent(WIDTH, AttentionOnly(1, 4, init="default", cross_sample=True)).train()
    one, now = Step(anonymizer, Objective()), moment()
    assert terms(one(now).terms)["consistency"] == pytest.approx(
        float((now.clip - anonymizer.transform(now.clip)).square().mean()), rel=1e-5
    )


@pytest.mark.parametrize("stages", [(Attention(1, 4),), (MLP(1),), (Attention(1, 4), Noise(0.3))])
def test_a_step_never_asks_the_device_for_a_value(stages: tuple) -> None:
    """Shapes without values: whatever would wait for a number raises here, and would break a captured step."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    anonymizer = latent(WIDTH, *stages)
    anonymizer.fit_from(normal(50, WIDTH))
    weights = SplavuWeights(temporal=1.0)
    one = Step(anonymizer.train(), Objective(weights, margin=1.0), nn.Linear(WIDTH, 3))
    now = moment()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = Moment(*(mode.from_tensor(t) for t in vars(now).values()))
        found = one(fake)
    assert found.terms.shape == (len(TERMS),)
