"""Whole networks on clips of real videos: trained, resumed, fine-tuned with frozen norms, scored and kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.attacks.pictures import Changed
from tests.tasks.make_store import action_store, grey_dataset, reordered, seen
from videoveil.data.records import Dataset, Item
from videoveil.encoders import create, save
from videoveil.errors import BadItems, CheckpointError, Diverged, UsageError
from videoveil.media import sampling
from videoveil.media.reader import open_video
from videoveil.media.sampling import equidistant_spact
from videoveil.media.transforms import EvalTransform, preset
from videoveil.tasks.action.network import (
    ENCODER,
    FORMAT,
    MODEL,
    ActionNetwork,
    FittedNetwork,
    NetworkConfig,
    PaperConfig,
    build,
    fine_tune,
    long_enough,
    scratch,
    spact,
    ted_spad,
)
from videoveil.tasks.base import Clips
from videoveil.training import checkpoints, seeds
from videoveil.training.clip_batches import ClipBatches, Frames
from videoveil.training.supervised import as_kept

QUICK = NetworkConfig(
    encoder="tiny",
    weights="random",
    size=32,
    epochs=2,
    batch=3,
    warmup_epochs=0,
    checkpoint_every=1,
    dropout=0.3,
    cache_gib=0.0,
)


@pytest.fixture(scope="module")
def greys(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return grey_dataset(tmp_path_factory.mktemp("greys"))


@pytest.fixture(scope="module")
def fitted(greys: Dataset) -> FittedNetwork:
    return train(greys)


def quick(**changes: Any) -> NetworkConfig:
    return dataclasses.replace(QUICK, **changes)


def train(dataset: Dataset, config: NetworkConfig = QUICK, **options: Any) -> FittedNetwork:
    return ActionNetwork(config).fit(Clips(dataset, "train"), device="cpu", **options)


def weights(fitted: FittedNetwork) -> dict[str, torch.Tensor]:
    return fitted.network.state_dict()


def equal(one: FittedNetwork, two: FittedNetwork) -> bool:
    mine, theirs = weights(one), weights(two)
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_epoch_that_is_best_on_test_videos_is_told_beside_the_last_and_chooses_nothing(
    greys: Dataset, tmp_path: Path
) -> None:
    config, test = quick(epochs=5), Clips(greys, "test")
    plain = train(greys, config)
    kept = ActionNetwork(config, keep_every=2).fit(Clips(greys, "train"), run=tmp_path, device="cpu")
    assert equal(plain, kept)
    assert [path.name for path in kept.kept] == [f"{epoch:04d}.safetensors" for epoch in (2, 4, 5)]
    assert all(
        torch.equal(t, weights(kept)[n]) for n, t in as_kept(kept.network, kept.kept[-1]).state_dict().items()
    )
    one, two = plain.score(test), kept.score(test)
    values = [
        dataclasses.replace(kept, network=as_kept(kept.network, path), kept=()).score(test)["top1"].value
        for path in kept.kept
    ]
    assert two.metrics[:-1] == one.metrics
    assert two.metrics[-1].name == "best_selected_on_test_top1"
    assert (two.metrics[-1].value, two.metrics[-1].chance) == (max(values), one["top1"].chance)  # type: ignore[type-var]
    assert FittedNetwork.load(tmp_path / MODEL).score(test) == two
    assert not train(greys, config, run=tmp_path / "other").kept
    for every, run in ((1, None), (-1, tmp_path / "third")):
        with pytest.raises(UsageError, match=f"keep_every={every}: .* kept in a run folder"):
            ActionNetwork(config, keep_every=every).fit(Clips(greys, "train"), run=run, device="cpu")


# --- learning -----------------------------------------------------------------------------------------------


def test_a_network_learns_what_is_on_the_videos(greys: Dataset) -> None:
    fitted = train(greys, quick(epochs=8, cache_gib=1.0, learning_rate=3e-3, dropout=0.0))
    assert fitted.history[-1]["loss"] < 0.5 * fitted.history[0]["loss"]
    score = fitted.score(Clips(greys, "test"))
    assert (score.task, score.items) == ("action-network", 4)
    assert score["top1"].value == 1.0
    assert score["top1"].chance == 0.5
    assert set(score.per_class) == {"above", "below"}


def test_tags_are_learnt_from_clips_too(greys: Dataset) -> None:
    items = tuple(dataclasses.replace(item, actions=(str(item.action), "seen")) for item in greys)
    tagged = dataclasses.replace(greys, items=items)
    fitted = train(tagged, quick(target="actions", epochs=1))
    assert fitted.names == ("above", "below", "seen")
    score = fitted.score(Clips(tagged, "test"))
    assert score.headline.name == "cmap"
    assert score.per_class["seen"] == {"ap": 1.0, "chance": 1.0}


# --- repeatability and resuming -----------------------------------------------------------------------------


def test_workers_cache_and_order_of_items_do_not_change_what_is_learnt(
    greys: Dataset, fitted: FittedNetwork
) -> None:
    torch.rand(3)
    assert equal(fitted, train(reordered(greys), quick(workers=1, cache_gib=1.0)))
    assert not equal(fitted, train(greys, seed=1))


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_very_same_weights(
    greys: Dataset, fitted: FittedNetwork, tmp_path: Path
) -> None:
    def kill(step: int, total: int, loss: float) -> None:
        if step == 3:  # in the second of two epochs of two steps
            raise Killed

    with pytest.raises(Killed):
        train(greys, run=tmp_path, progress=kill)
    steps: list[int] = []
    again = train(greys, run=tmp_path, progress=lambda s, *_: steps.append(s))
    assert steps == [3, 4]
    assert equal(fitted, again)
    assert list(fitted.history) == list(again.history)
    for name, changed in {
        "learning_rate": quick(learning_rate=0.5),
        "augment": quick(augment="simclr"),
        "start": quick(weights=str(tmp_path / ENCODER)),
    }.items():
        with pytest.raises(CheckpointError, match=rf"with other [a-z_, ]*{name}"):
            train(greys, changed, run=tmp_path)
    with pytest.raises(CheckpointError, match="with other data;"):
        train(greys.where(lambda item: item.id != "f00"), run=tmp_path)


# --- batch norm ---------------------------------------------------------------------------------------------


def norm_buffers(fitted: FittedNetwork) -> dict[str, torch.Tensor]:
    return {name: t for name, t in weights(fitted).items() if "running" in name or "num_batches" in name}


def test_frozen_norms_keep_their_statistics_while_the_weights_move(greys: Dataset) -> None:
    start = build(QUICK, 2, 0).state_dict()
    frozen, free = (train(greys, quick(freeze_norm=choice, epochs=1)) for choice in (True, False))
    assert len(norm_buffers(frozen)) > 3
    assert all(torch.equal(value, start[name]) for name, value in norm_buffers(frozen).items())
    assert not any(
        torch.equal(value, start[name]) for name, value in norm_buffers(free).items() if "running" in name
    )
    moved = [name for name, p in frozen.network.named_parameters() if not torch.equal(p, start[name])]
    assert any("conv.weight" in name for name in moved)
    assert "head.weight" in moved


def test_the_presets_are_the_published_settings() -> None:
    assert (scratch().encoder, scratch().clips, scratch().freeze_norm) == ("r3d.18", 10, False)
    tuned = fine_tune()
    assert (tuned.optimizer, tuned.learning_rate, tuned.freeze_norm, tuned.clips) == ("adam", 1e-4, True, 10)


# --- as the papers do it ------------------------------------------------------------------------------------


def papers(config: PaperConfig, **changes: Any) -> PaperConfig:
    """On the smallest network, for two epochs."""
    small = {"encoder": "tiny", "weights": "random", "size": 32, "epochs": 2, "batch": 3, "warmup_epochs": 0}
    return dataclasses.replace(config, **{**small, **changes})


def test_settings_of_the_papers_change_nothing_of_other_networks() -> None:
    """Names of stored results are made of these fields."""
    names = {field.name for field in dataclasses.fields(NetworkConfig)}
    own = {field.name for field in dataclasses.fields(PaperConfig)} - names
    assert own == {"placing", "test", "plateau", "patience"}
    assert type(scratch()) is type(fine_tune()) is NetworkConfig


@pytest.mark.parametrize(
    ("config", "rule", "test"),
    [
        (spact(), sampling.random_clip_spact, "spact-test"),
        (ted_spad(), sampling.random_clip_ted_spad, "ted-spad-test"),
    ],
)
def test_clips_of_the_papers_have_their_stride_their_places_and_their_crops(
    greys: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: PaperConfig, rule: Any, test: str
) -> None:
    items, config = greys.split("train"), papers(config)
    batches = config.batches(
        items,
        torch.zeros(len(items)),
        frames=Frames(),
        length=16,
        stride=2,
        preset=preset("weak", 32),
        batch=2,
        seed=3,
        workers=1,
    )
    for number, item in enumerate(items):
        total = Frames().count(item)
        rng = seeds.rng(3, "clip", 5, item.id)
        chosen = rule(total, 16, 2, rng)
        shown = batches.decide(number, 5).frames
        assert torch.equal(shown, Frames().read(item, chosen.indices))
    plain: list[Any] = []
    monkeypatch.setattr(ClipBatches, "place", lambda *_: plain.append(1))
    fitted = train(greys, config, run=tmp_path)
    assert not plain  # nothing was placed in the usual way
    assert fitted.network.encoder.input.stride == 2
    (item,) = greys.split("test")[:1]
    places = fitted.places(Frames().count(item))
    frames = Frames().read(item, places[0].indices).numpy()
    assert torch.equal(fitted.clips_of(item)[0], preset(test, 32).evaluate(frames))
    back = FittedNetwork.load(tmp_path / MODEL)
    assert back.config == config
    assert np.array_equal(back.probabilities([item]), fitted.probabilities([item]))


def test_the_rate_falls_on_a_plateau_and_training_ends_when_it_is_nothing() -> None:
    config = papers(spact(), epochs=40)
    losses = [3.0, 2.0, 2.5, 1.0, 1.0]
    rates = [config.rate(len(losses[:n]), losses[:n]) for n in range(len(losses) + 1)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-3, 1e-4, 1e-4, 1e-5])
    assert not config.over(losses)
    assert config.over([1.0] * 30)
    patient = dataclasses.replace(config, patience=1)
    assert patient.rate(5, losses) == pytest.approx(1e-3)
    cosine = papers(ted_spad(), epochs=4)
    assert cosine.rate(2.0, [1.0] * 30) == pytest.approx(5e-5)
    assert not cosine.over([1.0] * 30)


def test_videos_too_short_for_the_papers_are_left_out_and_most_of_them_an_error(greys: Dataset) -> None:
    items = greys.split("train")
    lengths = {item.id: 60 for item in items} | {items[0].id: 16}  # 9 of 16 frames decode
    config, spec = papers(spact()), create("tiny", weights="random", size=32, stride=2).input
    frames = Frames()
    frames._counts = dict(lengths)
    assert long_enough(items, frames, config, spec) == items
    frames._counts[items[0].id] = 15
    assert long_enough(items, frames, config, spec) == items[1:]
    assert long_enough(items, frames, papers(ted_spad()), spec) == items  # with stride 1
    assert long_enough(items, frames, quick(), spec) == items
    frames._counts = dict.fromkeys(lengths, 15)
    with pytest.raises(BadItems, match="too short for clips of 16 frames with stride 2") as caught:
        long_enough(items, frames, config, spec)
    assert len(caught.value.offenders) == len(items)


# --- scoring ------------------------------------------------------------------------------------------------


def test_a_video_is_the_mean_softmax_of_ten_equidistant_clips(greys: Dataset, fitted: FittedNetwork) -> None:
    """The slow, obvious twin: decode everything, cut every clip, run them one by one."""
    items = greys.split("test")
    found = fitted.probabilities(items)
    transform = EvalTransform(37, 32, as_float=True)
    for n, item in enumerate(items):
        with open_video(item.path) as video:
            frames = np.stack([frame.image for frame in video.frames()])
        answers = []
        for k in range(10):
            start = round(k * (len(frames) - 16) / 9)
            clip = transform(frames[start : start + 16])[None]
            with torch.inference_mode():
                answers.append(fitted.network(clip).softmax(1)[0].numpy())
        np.testing.assert_allclose(found[n], np.mean(answers, 0), atol=1e-5)
        assert len(fitted.places(len(frames))) == 10


def test_the_published_sampler_can_be_chosen_and_falls_back_where_it_has_no_clip(
    fitted: FittedNetwork,
) -> None:
    other = FittedNetwork(fitted.network, fitted.names, fitted.prior, quick(sampler="spact"))
    assert other.places(60) == equidistant_spact(60, 10, 16, 1) != fitted.places(60)
    assert len(other.places(3)) >= 1


def test_scores_do_not_depend_on_order_company_or_threads(greys: Dataset, fitted: FittedNetwork) -> None:
    items = greys.split("test")
    together = fitted.probabilities(items, workers=3)
    for n, item in enumerate(items):
        assert np.array_equal(fitted.probabilities([item], workers=1)[0], together[n])
    assert fitted.score(Clips(greys, "test")) == fitted.score(Clips(reordered(greys), "test"))


# --- through an anonymizer ----------------------------------------------------------------------------------


def test_a_fresh_network_learns_and_is_scored_on_what_the_anonymizer_leaves(greys: Dataset) -> None:
    config = quick(epochs=8, cache_gib=1.0, learning_rate=3e-3, dropout=0.0, clips=2)
    turned = Changed("upside down").train()
    seen_through = Clips(greys, "train", turned)
    fitted = ActionNetwork(config).fit(seen_through, device="cpu")
    assert fitted.score(seen_through.with_split("test"))["top1"].value == 1.0
    assert fitted.score(Clips(greys, "test"))["top1"].value == 0.0  # raw clips are the other way round to it
    assert {shape[1:] for shape in turned.shapes} == {(3, 16, 32, 32)}
    assert set(turned.modes) == {(False, False)}
    assert turned.training
    hidden = Clips(greys, "train", Changed("constant"))
    blind = ActionNetwork(quick(epochs=1)).fit(hidden, device="cpu").score(hidden.with_split("test"))
    assert blind["top1"].value == 0.5


def test_a_run_belongs_to_its_anonymizer_and_not_to_its_workers(greys: Dataset, tmp_path: Path) -> None:
    config = quick(epochs=1)
    dim = Clips(greys, "train", Changed("dim", 0.5))
    first = ActionNetwork(config).fit(dim, device="cpu", run=tmp_path)
    again = ActionNetwork(dataclasses.replace(config, workers=1, cache_gib=1.0, clips=3)).fit(
        dim, device="cpu", run=tmp_path
    )
    assert equal(first, again)
    for other in (
        dim.with_anonymizer(None),
        dim.with_anonymizer(Changed("dim", 0.4)),
        dim.with_anonymizer(dim.anonymizer, True),
    ):
        with pytest.raises(CheckpointError, match="with other anonymizer;"):
            ActionNetwork(config).fit(other, device="cpu", run=tmp_path)


def test_people_covered_in_whole_frames_are_covered_for_learning_and_for_scoring(greys: Dataset) -> None:
    """Black frames say nothing; a run on them is another run, and says so."""

    class Black:
        def __call__(self, item: Item, indices: Any, images: np.ndarray) -> np.ndarray:
            return np.zeros_like(images)

        def content_hash(self) -> str:
            return "black"

    black = Clips(greys, "train", paint=Black())
    assert black.describe()["paint"] == "black"
    fitted = ActionNetwork(quick(epochs=1, augment="ted-spad-weak")).fit(black, device="cpu")
    assert fitted.score(black.with_split("test"))["top1"].value == 0.5
    rows = fitted.probabilities(greys.split("test"), paint=black.paint)
    assert np.ptp(rows, axis=0).max() < 1e-6


def test_noise_is_fresh_in_every_step_and_the_same_in_every_score(greys: Dataset) -> None:
    noisy = Clips(greys, "train", Changed("noise", 0.2))
    one, two = (ActionNetwork(quick(epochs=1)).fit(noisy, device="cpu") for _ in range(2))
    assert equal(one, two)
    test = noisy.with_split("test")
    assert one.score(test) == one.score(dataclasses.replace(test, dataset=reordered(greys)))
    items = greys.split("test")
    assert np.array_equal(
        one.probabilities(items, veil=test.veil())[:1], one.probabilities(items[:1], veil=test.veil())
    )
    assert not np.array_equal(one.probabilities(items), one.probabilities(items, veil=test.veil()))


# --- on disk ------------------------------------------------------------------------------------------------


def test_a_saved_network_and_its_encoder_say_the_same(greys: Dataset, tmp_path: Path) -> None:
    fitted = train(greys, quick(epochs=1), run=tmp_path)
    back = ActionNetwork().load(tmp_path / MODEL)
    assert equal(fitted, back)
    assert back.config == fitted.config
    assert np.array_equal(back.probabilities(greys.items[:2]), fitted.probabilities(greys.items[:2]))
    encoder = create("tiny", weights=tmp_path / ENCODER)
    clip = torch.rand(1, 3, 16, 32, 32)
    with torch.inference_mode():
        assert torch.equal(encoder(clip), fitted.network.encoder(clip))


def test_a_fine_tuned_network_keeps_the_input_its_weights_were_made_for(
    greys: Dataset, tmp_path: Path
) -> None:
    """The weight file, not the settings, says that clips are 8 frames, every second one, of 32 pixels."""
    save(
        create("tiny", weights="random", frames=8, size=32, stride=2, norm="imagenet"),
        tmp_path / "w.safetensors",
    )
    config = quick(weights=str(tmp_path / "w.safetensors"), size=0, epochs=1)
    fitted = train(greys, config, run=tmp_path / "run")
    (tmp_path / "w.safetensors").unlink()  # no longer needed
    back = FittedNetwork.load(tmp_path / "run" / MODEL)
    assert back.network.encoder.input == fitted.network.encoder.input
    assert (back.network.encoder.input.frames, back.network.encoder.input.stride) == (8, 2)
    assert np.array_equal(back.probabilities(greys.items[:2]), fitted.probabilities(greys.items[:2]))


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "m.safetensors", FORMAT, {"x": torch.zeros(1)}, {"names": ["a"]})
    with pytest.raises(CheckpointError, match="description is damaged"):
        FittedNetwork.load(tmp_path / "m.safetensors")


# --- what goes wrong ----------------------------------------------------------------------------------------


def never(*_: object) -> None:
    raise AssertionError("training has started")


def test_broken_videos_and_labels_are_listed_in_one_error_before_training(
    greys: Dataset, tmp_path: Path
) -> None:
    (tmp_path / "text.mp4").write_text("not a video")
    (tmp_path / "cut.mp4").write_bytes(greys.items[0].path.read_bytes()[:900])
    bad = tuple(
        Item(name, tmp_path / f"{name}.mp4", "train", action="above") for name in ("cut", "gone", "text")
    )
    mute = dataclasses.replace(greys.items[0], id="mute", action=None)
    odd = dataclasses.replace(greys.items[0], id="odd", action="beside")
    with pytest.raises(BadItems) as caught:
        train(dataclasses.replace(greys, items=(*greys.items, *bad, mute, odd)), progress=never)
    assert sorted(line.partition(":")[0] for line in caught.value.offenders) == [
        "cut",
        "gone",
        "mute",
        "odd",
        "text",
    ]


def test_an_empty_split_is_refused_for_training_and_scoring(greys: Dataset, fitted: FittedNetwork) -> None:
    with pytest.raises(BadItems, match="no videos"):
        ActionNetwork(QUICK).fit(Clips(greys, "val"), device="cpu", progress=never)
    with pytest.raises(BadItems, match="no videos"):
        fitted.score(Clips(greys, "val"))


def test_divergence_is_reported(greys: Dataset) -> None:
    wild = quick(learning_rate=1e30, optimizer="sgd", gradient_clip=0.0, epochs=20)
    with pytest.raises(Diverged, match=r"training of tiny diverged in step \d+ \(epoch \d+, items f0"):
        train(greys, wild)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"clips": 0}, "clips=0"),
        ({"workers": 0}, "workers=0"),
        ({"sampler": "random"}, "sampler='random'"),
        ({"augment": "mirror"}, "mirror"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        quick(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"placing": "all"}, "placing='all'"),
        ({"placing": "spact"}, "unknown sampler 'spact'"),
        ({"test": "weak"}, "test='weak'"),
        ({"plateau": 1.5}, r"factor=1\.5"),
        ({"patience": -1}, "patience=-1"),
    ],
)
def test_impossible_settings_of_papers_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        papers(spact(), **changes)


def test_an_encoder_of_single_frames_is_refused() -> None:
    with pytest.raises(UsageError, match="looks at single frames"):
        build(quick(encoder="resnet.18", size=0), 2, 0)


def test_features_are_not_clips(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a network learns from clips"):
        ActionNetwork(QUICK).fit(seen(action_store(tmp_path / "s")))  # type: ignore[arg-type]


def test_training_leaves_the_global_random_state_alone(greys: Dataset) -> None:
    torch.manual_seed(4)
    before = torch.get_rng_state()
    fitted = train(greys, quick(epochs=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(fitted.network, nn.Module)
    assert not fitted.network.training
