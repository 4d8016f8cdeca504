"""The promises of a latent anonymizer: one clip at a time, the same every time, finite or nothing."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from videoveil.anonymizers import (
    MLP,
    Attention,
    AttentionOnly,
    Erase,
    LatentAnonymizer,
    LatentConfig,
    MissingKey,
    MissingStatic,
    Noise,
    NoiseKey,
    NotExportable,
    NotFitted,
    Quantise,
    Rank,
    ShapeMismatch,
    StaticResidual,
    Withheld,
    latent,
    require_exportable,
)
from videoveil.errors import UsageError

from .pipelines import ALL, KEY, WHOLE, WIDTH, features, fitted, normal, videos

PIPELINES = {name: fitted(stages) for name, stages in ALL.items()}
every = pytest.mark.parametrize("name", ALL)
OTHER_KEY = NoiseKey(b"another key, also for tests only")


def apart(first: Tensor, second: Tensor) -> float:
    """Largest difference, relative to numbers above 1."""
    return float(((first - second).abs() / second.abs().clamp_min(1)).max())


# --- shape, batch, order, padding ----------------------------------------------------------------------------


@every
@pytest.mark.parametrize("shape", [(7, WIDTH), (7, 1, WIDTH), (3, 5, WIDTH), (0, WIDTH), (0, 4, WIDTH)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@torch.no_grad()
def test_shape_and_type_out_are_shape_and_type_in(
    name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = normal(*shape).to(dtype)
    out = PIPELINES[name](x, static=features(shape[0]))
    assert (out.shape, out.dtype) == (x.shape, x.dtype)


@every
@pytest.mark.parametrize("tokens", [1, 4])
@torch.no_grad()
def test_a_clip_does_not_depend_on_its_batch_or_place_in_it(name: str, tokens: int) -> None:
    anonymizer = PIPELINES[name]
    x, still = features(64 * tokens).view(64, tokens, WIDTH), features(64, seed=5)
    whole = anonymizer(x, static=still)
    for i in (0, 63):
        assert apart(anonymizer(x[i : i + 1], static=still[i : i + 1]), whole[i : i + 1]) < 1e-6
    for size in (2, 33):
        assert apart(anonymizer(x[:size], static=still[:size]), whole[:size]) < 1e-6
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    assert apart(anonymizer(x[order], static=still[order]), whole[order]) < 1e-6


@given(
    name=st.sampled_from(sorted(ALL)),
    picks=st.lists(st.integers(0, 99), min_size=1, max_size=40),
    tokens=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_any_selection_of_clips_gives_what_each_gives_alone(name: str, picks: list[int], tokens: int) -> None:
    anonymizer, x = PIPELINES[name], features(100 * tokens, seed=3).view(100, tokens, WIDTH)
    with torch.no_grad():
        together = anonymizer(x[picks], static=x[picks].mean(1))
        last = x[picks[-1:]]
        assert apart(anonymizer(last, static=last.mean(1)), together[-1:]) < 1e-6


@every
@torch.no_grad()
def test_one_vector_per_clip_is_one_token_per_clip(name: str) -> None:
    x = features(5)
    assert torch.equal(PIPELINES[name](x, static=x), PIPELINES[name](x[:, None], static=x)[:, 0])


@every
@pytest.mark.parametrize("rubbish", [1e9, float("nan")])
@torch.no_grad()
def test_padding_has_no_influence_and_comes_out_as_0(name: str, rubbish: float) -> None:
    anonymizer, still = PIPELINES[name], features(3, seed=5)
    x = features(12).view(3, 4, WIDTH)
    mask = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])
    out = anonymizer(x.masked_fill(~mask[..., None], rubbish), static=still, mask=mask)
    assert not bool(out[~mask].any())
    for i, real in enumerate((4, 2, 1)):
        alone = anonymizer(x[i : i + 1, :real], static=still[i : i + 1])
        assert apart(out[i : i + 1, :real], alone) < 1e-6


@torch.no_grad()
def test_a_large_adapter_before_a_quantiser_is_batch_invariant_to_the_last_level() -> None:
    """In float32 a few of thousands of values land on the other side of a step, as often as kernels differ."""
    anonymizer = latent(256, Attention(init="default"), Quantise(4096))
    x = features(400, 256)
    anonymizer.fit_from(x)
    x = x[:40]
    whole = anonymizer(x)
    alone = torch.cat([anonymizer(row) for row in x.split(1)])
    assert apart(alone, whole) < 1e-6


@torch.no_grad()
def test_changed_weights_change_the_output_at_once() -> None:
    """What is kept between calls, weights in float64 among it, follows the weights."""
    anonymizer, x = latent(WIDTH, MLP(1)), features(4)
    layer = anonymizer.stages[0].layers[0][0]
    other = latent(WIDTH, MLP(1), seed=7).state_dict()
    for change in (lambda: layer.weight.mul_(2), lambda: anonymizer.load_state_dict(other)):
        before = anonymizer(x)
        change()
        assert not torch.equal(anonymizer(x), before)
    with torch.inference_mode():
        inside = anonymizer(x)
    assert torch.equal(anonymizer(x), inside)
    with torch.enable_grad():
        anonymizer(x).sum().backward()
    assert layer.weight.grad is not None


# --- determinism, noise, keys --------------------------------------------------------------------------------


@every
@torch.no_grad()
def test_eval_is_deterministic_and_leaves_the_random_state_alone(name: str) -> None:
    x = features(6)
    torch.manual_seed(1)
    first = PIPELINES[name](x, static=x)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    assert torch.equal(PIPELINES[name](x, static=x), first)
    twin = copy.deepcopy(PIPELINES[name])
    assert torch.equal(twin(x, static=x), first)


@every
@torch.no_grad()
def test_autocast_of_the_caller_does_not_change_what_is_exported(name: str) -> None:
    x = features(6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = PIPELINES[name](x, static=x)
    assert torch.equal(inside, PIPELINES[name](x, static=x))


@torch.no_grad()
def test_the_same_key_gives_the_same_noise_and_another_key_other_noise() -> None:
    anonymizer, x = fitted((Noise(0.5),)), features(200)
    first = anonymizer(x)
    assert torch.equal(anonymizer(x), first)
    average = torch.stack([anonymizer(x) for _ in range(5)]).mean(0)
    error = (first - x).square().mean()
    assert float((average - x).square().mean()) == pytest.approx(
        float(error), rel=1e-4
    )  # averaging gains nothing
    anonymizer.key = OTHER_KEY
    second = anonymizer(x)
    correlation = torch.corrcoef(torch.stack(((first - x).flatten(), (second - x).flatten())))[0, 1]
    assert float((second - first).abs().min(1).values.max()) > 0
    assert abs(float(correlation)) < 0.1


@torch.no_grad()
def test_rows_of_one_content_share_their_noise_and_nothing_else_does() -> None:
    anonymizer, x = fitted((Noise(0.5, clip=100),)), features(4)
    noise = anonymizer(x, content=["a", "b", "a", b"a"]) - x
    assert torch.allclose(noise[0], noise[2], atol=1e-4)
    assert torch.allclose(noise[0], noise[3], atol=1e-4)
    assert float((noise[0] - noise[1]).abs().max()) > 0.1
    by_row = anonymizer(x) - x
    assert float((by_row[0] - by_row[2]).abs().max()) > 0.1
    with pytest.raises(ShapeMismatch, match="content names 3 rows of 4"):
        anonymizer(x, content=["a", "b", "c"])


@torch.no_grad()
def test_two_anonymizers_with_one_key_do_not_share_noise() -> None:
    """Else the difference of two exports of a clip would be free of noise."""
    one, two = fitted((MLP(1), Noise(0.5, clip=100)), seed=0), fitted((MLP(1), Noise(0.5, clip=100)), seed=1)
    x = features(300)
    noises = []
    for anonymizer in (one, two):
        silent = copy.deepcopy(anonymizer)
        silent.stages = silent.stages[:1]
        noises.append(((anonymizer(x) - silent(x)) / anonymizer.stages[1].spread).flatten())
    assert abs(float(torch.corrcoef(torch.stack(noises))[0, 1])) < 0.05
    before = one(x)
    one.stages[0].layers[0][0].weight[0, 0] += 1e-3  # a changed weight is another anonymizer
    assert float((one(x) - before).abs().median()) > 0.01


@torch.no_grad()
def test_two_noise_stages_of_one_pipeline_are_independent() -> None:
    anonymizer = fitted((Noise(0.5, clip=100, learned=False), Noise(0.5, clip=100, learned=False)))
    x = features(2000)
    scale = anonymizer.stages[0].spread.square() * 0.25 + anonymizer.stages[1].spread.square() * 0.25
    assert float(((anonymizer(x) - x).var(0) / scale).mean()) == pytest.approx(1, rel=0.03)


def test_training_draws_fresh_noise_that_a_seed_repeats() -> None:
    anonymizer, x = fitted((Noise(0.5),)).train(), features(3)
    torch.manual_seed(0)
    first = anonymizer(x)
    assert not torch.equal(anonymizer(x), first)
    torch.manual_seed(0)
    assert torch.equal(anonymizer(x), first)


@torch.no_grad()
def test_without_a_key_noise_is_not_exported() -> None:
    anonymizer = fitted((Noise(),))
    anonymizer.key = None
    with pytest.raises(MissingKey, match="needs a secret"):
        anonymizer(features(2))


# --- failing closed ------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_features_that_are_no_numbers_are_withheld(name: str, bad: float, training: bool) -> None:
    """Also where a stage would turn infinity into a number, as clipping does."""
    anonymizer, x = copy.deepcopy(PIPELINES[name]).train(training), features(6)
    x[4, 3] = bad
    with pytest.raises(Withheld, match="clip 4 are NaN or infinite before"):
        anonymizer(x, static=features(6))


@every
@torch.no_grad()
def test_a_broken_weight_gives_an_error_and_never_the_input(name: str) -> None:
    anonymizer = copy.deepcopy(PIPELINES[name])
    tensor = next(t for t in anonymizer.state_dict().values() if t.is_floating_point() and t.numel() > 1)
    tensor.fill_(float("nan"))
    with pytest.raises(Withheld, match=r"stage 0 \(.*\) gave NaN or infinite"):
        anonymizer(features(6), static=features(6))


@torch.no_grad()
def test_what_does_not_fit_its_type_is_withheld() -> None:
    anonymizer = latent(WIDTH, Rank(2))
    anonymizer.fit_from(features(50))
    anonymizer.stages[0].up.mul_(1e5)
    with pytest.raises(Withheld, match="too large for their type"):
        anonymizer(features(3).half())


def test_wrong_shapes_are_named() -> None:
    anonymizer = fitted(WHOLE["all"])
    x, still = features(4), features(4)
    ones = torch.ones(4, 1, dtype=torch.bool)
    for call, message in (
        (lambda: anonymizer(features(4, 16)), rf"\(N, {WIDTH}\) or .* not \(4, 16\)"),
        (lambda: anonymizer(x[0]), r"not \(32,\)"),
        (lambda: anonymizer(x.long()), "int64"),
        (lambda: anonymizer(x, static=still[:3]), r"static features must be \(4, 32\).*not \(3, 32\)"),
        (lambda: anonymizer(x, static=still, mask=ones.float()), "mask must be bool"),
        (lambda: anonymizer(x, static=still, mask=ones[:2]), r"mask must be bool \(4, 1\)"),
        (lambda: anonymizer(x, static=still, mask=~ones), "no real token"),
    ):
        with pytest.raises(ShapeMismatch, match=message):
            call()
    with pytest.raises(MissingStatic):
        anonymizer(x)
    with pytest.raises(Withheld, match="static features are NaN"):
        anonymizer(x, static=still * float("nan"))
    with pytest.raises(UsageError, match="at least one stage"):
        latent(WIDTH)


@torch.no_grad()
def test_several_static_clips_count_by_their_mean() -> None:
    anonymizer, x, still = fitted((StaticResidual(),)), features(4), videos(4, 3)
    assert torch.allclose(anonymizer(x, static=still), anonymizer(x, static=still.mean(1)))


# --- export --------------------------------------------------------------------------------------------------


@every
def test_every_pipeline_of_the_house_may_export(name: str) -> None:
    require_exportable(PIPELINES[name])
    assert PIPELINES[name].exportable


@pytest.mark.parametrize("stage", [Attention(cross_sample=True), AttentionOnly(cross_sample=True)])
def test_attention_across_the_batch_may_not_export(stage: Attention) -> None:
    anonymizer = latent(WIDTH, stage)
    assert not anonymizer.exportable
    with pytest.raises(NotExportable, match="attends across the batch"):
        require_exportable(anonymizer)


def test_what_else_keeps_features_from_being_exported() -> None:
    for anonymizer, message in (
        (latent(WIDTH, Attention()).train(), r"call \.eval\(\)"),
        (latent(WIDTH, Quantise()), "has not been fitted"),
        (latent(WIDTH, Noise()), "has no key"),
        (torch.nn.Linear(3, 3), "does not say so"),
    ):
        with pytest.raises(NotExportable, match=message):
            require_exportable(anonymizer)


# --- identity, fitting, training -----------------------------------------------------------------------------


@torch.no_grad()
def test_a_new_adapter_is_the_identity() -> None:
    x = features(5)
    assert torch.equal(latent(WIDTH, Attention(), AttentionOnly())(x), x)


def test_the_hash_is_of_what_the_output_depends_on() -> None:
    first = latent(WIDTH, Attention(init="default"))
    assert first.content_hash() == latent(WIDTH, Attention(init="default"), key=KEY).content_hash()
    assert first.content_hash() != latent(WIDTH, Attention(init="default"), seed=1).content_hash()
    assert first.content_hash() != latent(WIDTH, Attention(init="default", heads=4)).content_hash()
    batch = latent(WIDTH, MLP())
    before = batch.content_hash()
    for module in batch.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.num_batches_tracked += 1
    assert batch.content_hash() == before


def test_building_leaves_the_random_state_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    latent(WIDTH, Attention(init="default"), Rank(3))
    assert torch.equal(torch.rand(1), expected)


def test_a_stage_is_fitted_to_what_arrives_at_it() -> None:
    anonymizer = latent(WIDTH, Rank(4), Quantise(8), key=KEY)
    x = features(300)
    anonymizer.fit_from(x)
    with torch.no_grad():
        arriving = anonymizer.stages[0](x[:, None])[:, 0]
    low, high = arriving.double().quantile(0.01, 0), arriving.double().quantile(0.99, 0)
    assert torch.allclose(anonymizer.stages[1].low.double(), low, atol=1e-4)
    assert torch.allclose(anonymizer.stages[1].log_width.exp().double(), high - low, atol=1e-3)


def test_fitting_is_repeatable_and_keeps_the_mode() -> None:
    twins = [LatentAnonymizer(LatentConfig(WIDTH, WHOLE["all"])) for _ in range(2)]
    for anonymizer in twins:
        anonymizer.fit_from(features(200), static=features(200, seed=2), videos=videos(50, 3))
        assert anonymizer.training
        assert anonymizer.fitted
    assert twins[0].content_hash() == twins[1].content_hash()


def test_erasing_behind_an_adapter_uses_the_adapters_space() -> None:
    """Static clips go through the stages before the eraser, or it would erase the wrong directions."""
    anonymizer = latent(WIDTH, MLP(1, residual=True), Erase(3))
    clips = videos(80, 4)
    anonymizer.fit_from(clips.mean(1), videos=clips)
    from videoveil.anonymizers.erase import static_directions

    with torch.no_grad():
        moved = anonymizer.stages[0](clips.view(-1, 1, WIDTH)).view_as(clips)
    wanted = static_directions(moved, 3).float()
    assert float(torch.linalg.svdvals(wanted @ anonymizer.stages[1].directions.float()).min()) > 0.999


def test_an_unfitted_stage_gives_nothing() -> None:
    with pytest.raises(NotFitted):
        latent(WIDTH, Quantise())(features(2))


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_gradients_reach_every_learned_weight_through_the_whole_pipeline(name: str) -> None:
    anonymizer = fitted(WHOLE[name]).train()
    x = features(16).requires_grad_()
    (anonymizer(x, static=features(16)) - 1).square().mean().backward()
    learned = {key: p for key, p in anonymizer.named_parameters() if p.requires_grad}
    silent = [key for key, p in learned.items() if p.grad is None or not bool(p.grad.any())]
    assert not [key for key in silent if "qkv" not in key]  # one token: queries and keys have no say
    assert x.grad is not None
    assert bool(x.grad.any())


def test_transform_is_what_training_sees_without_the_checks() -> None:
    from videoveil.anonymizers import Attention, Erase

    anonymizer = fitted((Erase(4), Attention(1, 4, dropout=0.0, init="default")))
    x = features(6)
    with torch.no_grad():
        assert torch.allclose(anonymizer.transform(x), anonymizer(x), atol=1e-4)
        anonymizer.train()
        assert torch.allclose(anonymizer.transform(x), anonymizer(x), atol=1e-6)
        assert anonymizer.transform(x[:, None].expand(-1, 3, -1)).shape == (6, 3, WIDTH)
    x.requires_grad_(True)
    anonymizer.transform(x).sum().backward()
    assert x.grad is not None
