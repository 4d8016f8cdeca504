"""Fresh networks on pictures: what they learn, what they may not learn from, and that nothing depends on chance."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.attacks.pictures import Changed, people, relabelled
from tests.tasks.make_store import action_store, reordered, seen
from videoveil.attacks import ClipAttack, ClipConfig, FrameAttack, FrameConfig
from videoveil.attacks.frames import MODEL, FittedPictureAttack, spact, ted_spad
from videoveil.attacks.metrics import attribute_report
from videoveil.attacks.picture_training import ENCODER
from videoveil.data.records import Dataset, Item
from videoveil.data.theatre.cast import SKIN, identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import MP4, shoot
from videoveil.encoders import Classifier, create, save
from videoveil.errors import AnnotationError, BadItems, CheckpointError, UsageError
from videoveil.tasks.base import Clips
from videoveil.training.supervised import kept_epochs

QUICK = FrameConfig(
    networks=("tiny",),
    size=16,
    epochs=3,
    batch=8,
    per_video=2,
    frames=3,
    learning_rate=3e-3,
    patience=3,
    checkpoint_every=1,
    validation=0.25,
)
LONG = dataclasses.replace(QUICK, epochs=8, per_video=3)
MOVING = ClipConfig(
    networks=("tiny",),
    size=16,
    epochs=3,
    batch=8,
    per_video=2,
    clips=2,
    learning_rate=3e-3,
    patience=3,
    checkpoint_every=1,
    validation=0.25,
)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return people(tmp_path_factory.mktemp("people"))


@pytest.fixture(scope="module")
def fitted(films: Dataset) -> FittedPictureAttack:
    return fit(films)


def fit(
    dataset: Dataset, config: FrameConfig = QUICK, anonymizer: Any = None, **options: Any
) -> FittedPictureAttack:
    return FrameAttack(config).fit(Clips(dataset, "train", anonymizer), device="cpu", **options)


def quick(**changes: Any) -> FrameConfig:
    return dataclasses.replace(QUICK, **changes)


def weights(fitted: FittedPictureAttack) -> list[torch.Tensor]:
    both = [network for one in fitted.attackers for network in (one.chosen, one.last)]
    return [tensor for network in both for tensor in network.state_dict().values()]


def equal(one: FittedPictureAttack, two: FittedPictureAttack) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))


@pytest.mark.parametrize("knowledge", ["fresh", "fine-tuned"])
def test_the_epoch_that_is_best_on_test_videos_is_told_beside_and_chooses_nothing(
    knowledge: Any, films: Dataset, tmp_path: Path
) -> None:
    config = quick(networks=("tiny", "tiny@own"), knowledge=knowledge)
    test, train = Clips(films, "test"), Clips(films, "train")
    plain = FrameAttack(config).fit(train, device="cpu")
    kept = FrameAttack(config, keep_every=2).fit(train, run=tmp_path, device="cpu")
    assert equal(plain, kept)
    one, two = plain.score(test), kept.score(test)
    assert two.metrics[: len(one.metrics)] == one.metrics
    assert [metric.name for metric in two.metrics[len(one.metrics) :]] == [
        "best_selected_on_test_cmap",
        "best_selected_on_test_cmap_video",
    ]
    folders = {path.parent.parent for path in tmp_path.rglob("epochs/*.safetensors")}
    assert folders == {path.parent for path in tmp_path.glob("*/checkpoint.safetensors")}
    for folder in folders:
        assert [path.name for path in kept_epochs(folder)] == ["0002.safetensors", "0003.safetensors"]
    for words in ("", "_video"):
        values = [
            one[f"cmap{words}_{net.title}{last}"].value for net in plain.attackers for last in ("", "_last")
        ]
        for net in kept.attackers:
            early = dataclasses.replace(kept, attackers=(net.at(net.kept[0]),)).score(test)
            values.append(early[f"cmap{words}"].value)
        assert two[f"best_selected_on_test_cmap{words}"].value == max(values)  # type: ignore[type-var]
    assert FittedPictureAttack.load(tmp_path / MODEL, FrameAttack()).score(test) == two


# --- what is found ------------------------------------------------------------------------------------------


def test_an_attribute_that_raw_frames_show_is_found(films: Dataset) -> None:
    score = fit(films, LONG).score(Clips(films, "test"))
    assert (score.task, score.items, score.headline.name) == ("frame-attack", 8, "cmap")
    assert score.per_class["above"]["ap"] == pytest.approx(1.0)
    assert score.per_class["above"]["ap_video"] == pytest.approx(1.0)
    assert score.per_class["above"]["chance"] == pytest.approx(0.5)


@pytest.mark.parametrize("task", [FrameAttack(QUICK), ClipAttack(MOVING)])
def test_pictures_that_are_all_the_same_are_worth_exactly_chance(films: Dataset, task: Any) -> None:
    hidden = Clips(films, "train", Changed("constant"))
    score = task.fit(hidden, device="cpu").score(hidden.with_split("test"))
    for name in ("cmap", "cmap_video"):
        assert score[name].value == pytest.approx(score[name].chance)
    assert all(one["ap"] == pytest.approx(one["chance"]) for one in score.per_class.values())


def test_skin_is_found_on_raw_theatre_frames_far_above_chance(tmp_path: Path) -> None:
    """Two actors' tones that differ most, other people in training and in the test."""
    tones = (next(iter(SKIN)), tuple(SKIN)[-1])
    cast: dict[str, list[Any]] = {tone: [] for tone in tones}
    number = 0
    while min(len(found) for found in cast.values()) < 14:
        person = identity(3, number)
        number += 1
        if person.skin in cast and len(cast[person.skin]) < 14:
            cast[person.skin].append(person)
    items = []
    for tone, found in cast.items():
        for k, person in enumerate(found):
            path = tmp_path / f"{tone}-{k}.mp4".replace(" ", "-")
            play = trimmed(
                "skin", tone, k, action="wave", person=person, width=64, height=64, frames=6, bystanders=0
            )
            shoot(play, path, MP4)
            known = {"dark": int(tone == tones[-1])}
            items.append(Item(path.stem, path, "train" if k < 9 else "test", attributes=known))
    theatre = Dataset("theatre", tmp_path, tuple(items), attributes=("dark",))
    score = fit(theatre, quick(networks=("tiny@own",), size=64, epochs=4, per_video=2)).score(
        Clips(theatre, "test")
    )
    assert score["cmap"].chance == pytest.approx(0.5)
    assert score["cmap_video"].value > 0.7  # type: ignore[operator]


def test_an_attacker_that_never_saw_the_anonymizer_is_weaker_than_one_that_learnt_it(films: Dataset) -> None:
    turned = Changed("upside down")
    raw = fit(films, LONG)
    fresh = fit(films, LONG, turned)
    test = Clips(films, "test").with_anonymizer(turned)
    assert raw.score(test).per_class["above"]["ap"] < 0.6  # type: ignore[operator]
    assert fresh.score(test).per_class["above"]["ap"] == pytest.approx(1.0)


def test_the_network_that_does_best_counts_and_each_is_told(films: Dataset) -> None:
    both = fit(films, quick(networks=("tiny", "mobilenet.v1-0.25"), epochs=2))
    score = both.score(Clips(films, "test"))
    for kind in ("cmap", "cmap_video"):
        each = [score[f"{kind}_{name}"].value for name in ("tiny", "mobilenet.v1-0.25")]
        assert score[kind].value == max(each)  # type: ignore[type-var]
    reports = both.reports(Clips(films, "test"))
    for name in ("tiny", "mobilenet.v1-0.25"):
        last = reports.get(f"{name}_last", reports[name])
        assert score[f"cmap_{name}_last"].value == last[0].cmap
    assert {record["network"] for record in both.history} == {"tiny", "mobilenet.v1-0.25"}


def test_a_video_network_looks_at_single_frames_as_clips_that_stand_still(films: Dataset) -> None:
    """`tiny@own` begins with the weights of the package; the anonymizer still gets each frame once."""
    config = quick(networks=("tiny@own", "tiny"), epochs=1)
    networks = [config.build(name, start, 2, 0) for name, start in config.attackers()]
    assert networks[0].encoder.content_hash() != networks[1].encoder.content_hash()
    views = torch.rand(2, 3, 1, 16, 16)
    with torch.inference_mode():
        assert torch.equal(
            networks[0](views), Classifier.forward(networks[0], views.expand(-1, -1, 16, -1, -1))
        )
    made = fit(films, config)
    assert [one.title for one in made.attackers] == ["tiny@own", "tiny"]


def test_clips_show_what_moves(films: Dataset) -> None:
    fitted = ClipAttack(dataclasses.replace(MOVING, epochs=8)).fit(Clips(films, "train"), device="cpu")
    score = fitted.score(Clips(films, "test"))
    assert score.task == "clip-attack"
    assert score.per_class["above"]["ap_video"] == pytest.approx(1.0)


def test_an_image_network_pooled_over_a_clip_finds_what_its_frames_show(films: Dataset) -> None:
    """MobileNet on four frames of a clip; black frames tell it exactly nothing."""
    config = dataclasses.replace(
        MOVING,
        networks=("mobilenet.v1-0.25",),
        frames=4,
        stride=2,
        size=32,
        epochs=12,  # with fewer looks at so few videos, the last bits of the sums decide whether it gets there
        patience=12,
        per_video=6,
        learning_rate=1e-2,
    )
    assert config.lens(config.build("mobilenet.v1-0.25", "scratch", 2, 0)).length == 4
    train = Clips(films, "train")
    score = ClipAttack(config).fit(train, device="cpu").score(Clips(films, "test"))
    assert score.per_class["above"]["ap_video"] == pytest.approx(1.0)
    black = ClipAttack(dataclasses.replace(config, epochs=1)).fit(
        train.with_anonymizer(Changed("constant", 0.0)), device="cpu"
    )
    blind = black.score(Clips(films, "test", Changed("constant", 0.0)))
    assert blind["cmap_video"].value == pytest.approx(blind["cmap_video"].chance)
    with pytest.raises(UsageError, match="pooling='most'"):
        dataclasses.replace(config, pooling="most")


# --- what an attacker knows ---------------------------------------------------------------------------------


def test_a_raw_attacker_learns_from_raw_videos_and_looks_at_published_ones(films: Dataset) -> None:
    turned = Changed("upside down")
    raw = fit(films, dataclasses.replace(LONG, knowledge="raw"), turned)
    assert [one.title for one in raw.attackers] == ["tiny-raw"]
    assert not turned.shapes  # the anonymizer had no part in its training
    assert equal(raw, fit(films, LONG))
    assert raw.score(Clips(films, "test")).per_class["above"]["ap"] == pytest.approx(1.0)
    assert raw.score(Clips(films, "test", turned)).per_class["above"]["ap"] < 0.6  # type: ignore[operator]


def test_a_fine_tuned_attacker_begins_with_what_raw_videos_taught_it(films: Dataset, tmp_path: Path) -> None:
    turned = Changed("upside down")
    config = dataclasses.replace(LONG, knowledge="fine-tuned", tuning=1.0)
    tuned = fit(films, config, turned, run=tmp_path)
    assert [one.title for one in tuned.attackers] == ["tiny-fine-tuned"]
    assert tuned.score(Clips(films, "test", turned)).per_class["above"]["ap"] == pytest.approx(1.0)
    barely = fit(films, quick(epochs=1, knowledge="fine-tuned", tuning=1e-9), turned)
    raw = fit(films, quick(epochs=1, knowledge="raw"), turned)
    (before,), (after,) = ([one.chosen.head.weight for one in f.attackers] for f in (raw, barely))
    assert torch.allclose(before, after, atol=1e-6)
    again = FrameAttack(config).load(tmp_path / MODEL)
    assert again.score(Clips(films, "test", turned)) == tuned.score(Clips(films, "test", turned))
    assert equal(tuned, fit(films, config, turned, run=tmp_path))  # a finished run is found, not repeated


def test_raw_videos_can_come_from_another_folder(films: Dataset) -> None:
    """Where a tool of others anonymized the videos: two datasets instead of one with an anonymizer."""
    blank = Clips(relabelled(films, "train", None), "train")
    with pytest.raises(AnnotationError, match="nothing is known"):
        FrameAttack(dataclasses.replace(QUICK, knowledge="raw")).fit(blank, device="cpu")
    task = FrameAttack(dataclasses.replace(QUICK, knowledge="raw"), raw=Clips(films, "train"))
    assert equal(task.fit(blank, device="cpu"), fit(films))
    other = relabelled(films, "train", {"tall": 1})
    with pytest.raises(UsageError, match="raw videos know above, even and anonymized ones tall"):
        FrameAttack(dataclasses.replace(QUICK, knowledge="fine-tuned"), raw=Clips(films, "train")).fit(
            Clips(other, "train"), device="cpu"
        )
    with pytest.raises(UsageError, match="choose one of fresh, raw, fine-tuned"):
        quick(knowledge="omniscient")


def test_outcomes_are_what_the_score_is_made_of(films: Dataset, fitted: FittedPictureAttack) -> None:
    test = Clips(films, "test")
    outcomes, score = fitted.outcomes(test), fitted.score(test)
    assert set(outcomes) == {"tiny", "tiny_video"}
    for name, metric in (("tiny", "cmap_tiny"), ("tiny_video", "cmap_video_tiny")):
        found = outcomes[name].measure()
        assert found.value == pytest.approx(score[metric].value)
        assert found.chance == pytest.approx(score[metric].chance)
        assert outcomes[name].items == tuple(f"p{n:02d}" for n in range(12, 20))


# --- what must not matter -----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_another_one_others(
    films: Dataset, fitted: FittedPictureAttack
) -> None:
    torch.rand(3)
    assert equal(fitted, fit(reordered(films), quick(workers=1, cache_gib=0.0)))
    assert not equal(fitted, fit(films, seed=1))


def test_test_labels_and_test_videos_have_no_part_in_training(
    films: Dataset, fitted: FittedPictureAttack
) -> None:
    other = relabelled(films, "test", {"above": 1, "even": 0, "new": 1})
    assert equal(fitted, fit(other))
    assert equal(fitted, fit(films.where(lambda item: item.split == "train")))


def test_scores_depend_neither_on_order_nor_on_company(films: Dataset, fitted: FittedPictureAttack) -> None:
    test = Clips(films, "test", Changed("noise", 0.2))
    assert fitted.score(test) == fitted.score(dataclasses.replace(test, dataset=reordered(films)))
    together = fitted.answers(test)["tiny"]
    for number, item in enumerate(sorted(test.items(), key=lambda one: one.id)):
        alone = dataclasses.replace(test, dataset=films.where(lambda one, kept=item: one.id == kept.id))
        mine = together.logits[together.videos == number]
        assert np.array_equal(fitted.answers(alone)["tiny"].logits, mine)


def test_a_video_is_anonymized_once_for_all_networks_that_look_at_it_alike(films: Dataset) -> None:
    both = quick(networks=("tiny@own", "tiny@scratch"), epochs=1)
    fitted = FrameAttack(both).fit(Clips(films, "train"), device="cpu")
    noise = Changed("noise", 0.2)
    together = fitted.answers(Clips(films, "test", noise))
    assert len(noise.shapes) == len(films.split("test"))
    for one in fitted.attackers:  # the slow way: each network by itself
        alone = dataclasses.replace(fitted, attackers=(one,)).answers(Clips(films, "test", noise))
        for name, said in alone.items():
            assert np.array_equal(said.logits, together[name].logits)


def test_a_global_random_state_is_left_alone(films: Dataset) -> None:
    torch.manual_seed(4)
    before = torch.get_rng_state()
    fit(films, quick(epochs=1), Changed("noise")).score(Clips(films, "test", Changed("noise")))
    assert torch.equal(torch.get_rng_state(), before)


# --- views and videos ---------------------------------------------------------------------------------------


def test_a_video_is_the_mean_logit_of_its_frames(films: Dataset, fitted: FittedPictureAttack) -> None:
    """The slow, obvious twin."""
    said = fitted.answers(Clips(films, "test"))["tiny"]
    assert len(said.logits) == 8 * 3
    items = sorted(films.split("test"), key=lambda item: item.id)
    truth = np.array([[float(item.attributes[name]) for name in fitted.names] for item in items])  # type: ignore[index]
    mean = np.stack([sum(said.logits[3 * n + k] for k in range(3)) / 3 for n in range(8)])
    slow = attribute_report(truth, 1 / (1 + np.exp(-mean)), fitted.names)
    score = fitted.score(Clips(films, "test"))
    assert score["cmap_video"].value == pytest.approx(slow.cmap)
    assert score["f1_video"].value == pytest.approx(slow.f1)


def test_labels_can_go_by_frames_and_views_can_be_every_kth_frame(
    films: Dataset, fitted: FittedPictureAttack
) -> None:
    asked: list[tuple[str, int]] = []

    def moments(item: Item, frame: int) -> dict[str, int] | None:
        asked.append((item.id, frame))
        return None if frame < 4 else {"above": int(frame >= 12)}

    task = FrameAttack(quick(frame_stride=4), moments=moments)
    every = FittedPictureAttack(task, fitted.names, fitted.attackers, 0)
    for one in every.attackers:
        one.lens = dataclasses.replace(one.lens, step=4)
    try:
        said = every.answers(Clips(films, "test"))["tiny"]
        by_video = said.by_video()
    finally:
        for one in every.attackers:
            one.lens = dataclasses.replace(one.lens, step=0)
    assert [frame for id_, frame in asked if id_ == "p12"] == [0, 4, 8, 12, 16]
    above = list(fitted.names).index("above")
    assert np.isnan(said.truth[0]).all()
    assert said.truth[:5, above].tolist()[1:] == [0, 0, 1, 1]
    assert by_video.truth[0, above] == 1  # in half of its labelled frames
    assert np.isnan(by_video.truth[:, 1 - above]).all()


def test_attributes_a_test_set_does_not_know_are_left_out_and_named(
    films: Dataset, fitted: FittedPictureAttack
) -> None:
    score = fitted.score(Clips(relabelled(films, "test", {"above": 1}), "test"))
    assert score.per_class["even"]["ap"] is None
    assert score.per_class["above"]["ap"] == pytest.approx(1.0)


def test_unknown_labels_are_ignored_and_videos_without_any_left_out(films: Dataset) -> None:
    """Knowing nothing of a video is the same as not having it; knowing half of it still teaches the other half."""
    extra = dataclasses.replace(films.items[0], id="z", attributes=None)
    assert equal(
        fit(films, quick(epochs=1)),
        fit(dataclasses.replace(films, items=(*films.items, extra)), quick(epochs=1)),
    )
    items = tuple(
        dataclasses.replace(
            item, attributes={k: v for k, v in (item.attributes or {}).items() if k == "above" or n % 2}
        )
        for n, item in enumerate(films)
    )
    half = fit(dataclasses.replace(films, items=items), quick(epochs=1))
    assert half.names == ("above", "even")
    assert all(torch.isfinite(tensor).all() for tensor in weights(half))


def test_pictures_are_attacked_as_frames_are(tmp_path: Path) -> None:
    items = []
    rng = np.random.default_rng(0)
    for n in range(24):
        image = rng.normal(60, 8, (40, 50, 3))
        image[:20] += 120 * (n % 2)
        path = tmp_path / f"{n:02d}.png"
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(path)
        split = "train" if n < 16 else "test"
        items.append(Item(path.stem, path, split, "image", attributes={"lit": n % 2}))
    pictures = Dataset("pictures", tmp_path, tuple(items), attributes=("lit",))
    fitted = fit(pictures, LONG)
    said = fitted.answers(Clips(pictures, "test"))["tiny"]
    assert len(said.logits) == 8
    assert fitted.score(Clips(pictures, "test"))["cmap"].value == pytest.approx(1.0)


# --- the anonymizer -----------------------------------------------------------------------------------------


def test_the_anonymizer_sees_augmented_views_at_the_networks_size_in_eval_mode_without_gradients(
    films: Dataset,
) -> None:
    anonymizer = Changed("dim", 0.7).train()
    fit(films, quick(epochs=1), anonymizer)
    assert {shape[1:] for shape in anonymizer.shapes} == {(3, 1, 16, 16)}
    assert set(anonymizer.modes) == {(False, False)}
    assert anonymizer.training  # as it was
    assert sum(shape[0] for shape in anonymizer.shapes) == 9 * 2 + 3 * 3  # learnt from, and held out


def test_people_covered_in_whole_frames_are_hidden_from_the_attack(films: Dataset) -> None:
    class Black:
        def __call__(self, item: Item, indices: Any, images: np.ndarray) -> np.ndarray:
            return np.zeros_like(images)

        def content_hash(self) -> str:
            return "black"

    black = Clips(films, "train", paint=Black())
    score = FrameAttack(quick(epochs=1)).fit(black, device="cpu").score(black.with_split("test"))
    assert score["cmap"].value == pytest.approx(score["cmap"].chance)


def test_eight_bits_are_another_attack(films: Dataset) -> None:
    config = quick(epochs=1)
    plain = FrameAttack(config).fit(Clips(films, "train", Changed("dim", 0.313)), device="cpu")
    rounded = FrameAttack(config).fit(
        Clips(films, "train", Changed("dim", 0.313), eight_bit=True), device="cpu"
    )
    assert not equal(plain, rounded)


# --- choosing an epoch, resuming, keeping -------------------------------------------------------------------


class Killed(Exception):
    pass


def test_a_killed_attack_goes_on_to_the_very_same_result(
    films: Dataset, fitted: FittedPictureAttack, tmp_path: Path
) -> None:
    def kill(step: int, total: int, loss: float) -> None:
        if step == 5:
            raise Killed

    with pytest.raises(Killed):
        fit(films, run=tmp_path, progress=kill)
    again = fit(films, run=tmp_path)
    assert equal(fitted, again)
    assert fitted.history == again.history
    assert [one.epoch for one in fitted.attackers] == [one.epoch for one in again.attackers]
    with pytest.raises(CheckpointError, match="with other anonymizer"):
        fit(films, QUICK, Changed("dim", 0.5), run=tmp_path)
    with pytest.raises(CheckpointError, match="with other learning_rate"):
        fit(films, quick(learning_rate=0.1), run=tmp_path)


def test_a_kept_attack_says_the_same(films: Dataset, tmp_path: Path) -> None:
    made = fit(films, quick(epochs=2, networks=("tiny", "mobilenet.v1-0.25")), run=tmp_path)
    back = FrameAttack().load(tmp_path / MODEL)
    assert equal(made, back)
    assert back.task.config == made.task.config
    assert back.score(Clips(films, "test")) == made.score(Clips(films, "test"))
    informed = quick(epochs=1, networks=("tiny", f"tiny@{tmp_path / 'tiny' / ENCODER}"))
    (_, start), chosen = informed.attackers()[1], made.attackers[0].chosen
    begun = informed.build("tiny", start, 2, 0).encoder
    assert begun.content_hash() == chosen.encoder.content_hash()  # what an attack on raw pictures has learnt
    assert len(fit(films, informed, Changed("dim", 0.5)).attackers) == 2
    with pytest.raises(CheckpointError, match="expected 'videoveil-clip-attack-2'"):
        ClipAttack().load(tmp_path / MODEL)


# --- what is refused ----------------------------------------------------------------------------------------


def test_what_cannot_be_attacked_is_said(films: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this attack learns from clips"):
        FrameAttack(QUICK).fit(seen(action_store(tmp_path / "s")))  # type: ignore[arg-type]
    with pytest.raises(BadItems, match="the split has none"):
        FrameAttack(QUICK).fit(Clips(films, "val"), device="cpu")
    with pytest.raises(AnnotationError, match="no item has attributes"):
        fit(relabelled(films, "train", None))
    with pytest.raises(UsageError, match="at least two"):
        fit(films.where(lambda item: item.id == "p00"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"networks": ()}, "at least one network"),
        ({"networks": ("resnet.18", "resnet.18")}, "name each of them once"),
        ({"networks": ("resnet.18@own",)}, "comes without weights"),
        ({"validation": 0.0}, "validation=0.0"),
        ({"per_video": 0}, "per_video=0"),
        ({"frames": 0}, "views=0"),
        ({"augment": "mirror"}, "mirror"),
        ({"test": "weak-image"}, "without chance"),
        ({"factor": 0.0}, "factor=0.0"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        quick(**changes)


def test_the_published_attackers_are_the_papers() -> None:
    config = ted_spad()
    assert (config.networks, config.size, config.batch, config.epochs) == (("resnet.50",), 224, 32, 100)
    assert (config.optimizer, config.learning_rate, config.factor) == ("adam", 1e-3, 0.2)
    # every image once in an epoch, and in tests the crop of that paper
    assert (config.per_video, config.test, config.patience) == (1, "ted-spad-test", 0)
    small = spact()
    assert (small.networks, small.size, small.batch, small.epochs) == (("resnet.50",), 112, 32, 150)
    assert (small.optimizer, small.learning_rate, small.factor, small.patience) == ("adam", 1e-3, 0.1, 0)
    assert (small.per_video, small.test) == (1, "spact-test-image")


def test_published_attackers_from_random_weights_see_pixels_as_they_are(tmp_path: Path) -> None:
    """Nothing is taken off and nothing divided by, as in the papers' code; given weights keep what they know."""
    small = dataclasses.replace(spact(), networks=("resnet.18",), size=32)
    plain = small.build("resnet.18", "scratch", 2, seed=0).encoder
    assert (plain.input.mean, plain.input.std) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    known = create("resnet.18", weights="random", classes=0, size=32)
    save(known, tmp_path / "given.safetensors", {})
    given = small.build("resnet.18", str(tmp_path / "given.safetensors"), 2, seed=0).encoder
    assert given.input.mean == known.input.mean != (0.0, 0.0, 0.0)
