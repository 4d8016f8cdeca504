"""What a model says about one's own video: exact times, the documented fields, and only with the right encoder."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import json_values, nasty_text, quick
from tests.media.make import encode
from tests.tasks.make_store import ACTIONS, action_items, damage, grey_dataset, seen, write_store
from tests.tasks.tridet.make import CLASSES, small, some_videos
from videoveil import files, shipped
from videoveil.anonymizers import Attention, LatentAnonymizer, Noise, NoiseKey, Quantise, latent
from videoveil.anonymizers.pixel import Grey, LowResolution, pixel
from videoveil.data.records import Dataset, Item
from videoveil.encoders import create
from videoveil.errors import BadItems, MediaError, StoreError, UsageError
from videoveil.features.anonymize import anonymize
from videoveil.features.extract import extract, features_of, recipe_for
from videoveil.features.pixels import PixelVeil
from videoveil.features.store import FeatureRecipe, FeatureStore
from videoveil.media.sampling import cached_equidistant
from videoveil.tasks import mgfn
from videoveil.tasks.action.network import ActionNetwork, NetworkConfig
from videoveil.tasks.action.probe import ActionProbe, FittedProbe, ProbeConfig
from videoveil.tasks.anomaly import AnomalyDetection
from videoveil.tasks.base import Clips, Features, Task
from videoveil.tasks.detection import ActionDetection, FittedDetection
from videoveil.tasks.predict import Clock, Prediction, Span, predict, predict_store, read_truth
from videoveil.tasks.runs import Run, train
from videoveil.tasks.tridet.sources import make_video

FRAMES = 75
# frames of 20, 40 and 100 milliseconds in turn, the first one half a second into the file
UNEVEN = [500 + int(t) for t in np.cumsum([0, *[20, 40, 100] * FRAMES])[:FRAMES]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("predict")
    encode(root / "even.mp4", count=FRAMES, rate=Fraction(30000, 1001), size=(64, 48))
    encode(root / "uneven.mkv", count=FRAMES, times=UNEVEN, time_base=Fraction(1, 1000), size=(64, 48))
    return root


def stored(
    root: Path, items: list[Item], rows: list[np.ndarray], classes: tuple[str, ...], clips: str
) -> FeatureStore:
    """Made-up features under the name of the real encoder."""
    tiny = create("tiny")
    store = FeatureStore.create(
        root,
        {"name": "tiny", "hash": tiny.content_hash(), "width": tiny.width},
        recipe_for(tiny, clips=clips),
    )
    plain = write_store(root.with_name(f"{root.name}-plain"), items, rows, classes=classes, clips=clips)
    for entry in plain.items():
        store.write(entry.key, plain.read(entry), {})
    store.write_index(plain.dataset(), {entry.item.id: entry.key for entry in plain.items()})
    return store


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Run]:
    """A short run of every task; only the probe of actions has to know anything."""
    rng = np.random.default_rng(0)
    items = action_items(9, 0)
    actions = stored(folder / "a", items, [rng.random((3, 256)) for _ in items], ACTIONS, "all")
    videos = some_videos(3, width=256)
    cut = [Item(v.id, Path("v.mp4"), "train", segments=v.segments, duration=v.duration) for v in videos]
    segments = stored(folder / "d", cut, [v.array() for v in videos], CLASSES, "dense:4")
    watched = [Item(f"w{n}", Path("v.mp4"), "train", anomaly=n % 2 == 0) for n in range(6)]
    crimes = stored(folder / "w", watched, [rng.random((8, 256)) for _ in watched], (), "all")
    network = NetworkConfig(encoder="tiny", weights="random", size=32, epochs=1, batch=4, cache_gib=0.0)
    made: dict[str, tuple[Task, object]] = {
        "action": (ActionProbe(ProbeConfig(epochs=2)), seen(actions)),
        "detection": (ActionDetection(small(warmup_epochs=0, cosine_epochs=1)), seen(segments)),
        "anomaly": (AnomalyDetection(mgfn.small(epochs=1, batch=2)), seen(crimes)),
        "action-network": (
            ActionNetwork(network),
            Clips(grey_dataset(folder / "films", train=4, test=0), "train"),
        ),
    }
    for name, (task, source) in made.items():
        train(task, source, folder / name, device="cpu")  # type: ignore[arg-type]
    return {name: Run.open(folder / name) for name in made}


# --- times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["action", "anomaly"])
def test_clips_begin_and_end_when_their_frames_do_at_a_constant_rate(
    folder: Path, runs: dict[str, Run], task: str
) -> None:
    found = predict(folder / "even.mp4", runs[task], task, device="cpu")
    frame = Fraction(1001, 30000)
    assert [(span.start, span.end) for span in found.spans] == [
        (float(16 * k * frame), float(16 * (k + 1) * frame)) for k in range(4)
    ]
    assert found.duration == float(FRAMES * frame)


@pytest.mark.parametrize("task", ["action", "anomaly"])
def test_clips_begin_and_end_when_their_frames_do_at_a_variable_rate(
    folder: Path, runs: dict[str, Run], task: str
) -> None:
    found = predict(folder / "uneven.mkv", runs[task], task, device="cpu")
    assert [(span.start, span.end) for span in found.spans] == [
        (UNEVEN[16 * k] / 1000, UNEVEN[16 * (k + 1)] / 1000) for k in range(4)
    ]
    assert found.duration >= max(UNEVEN) / 1000


@pytest.mark.parametrize("name", ["even.mp4", "uneven.mkv"])
def test_a_network_on_clips_speaks_of_ten_stretches(folder: Path, runs: dict[str, Run], name: str) -> None:
    found = predict(folder / name, runs["action-network"], "action", device="cpu")
    starts = [round(Fraction(k * (FRAMES - 16), 9)) for k in range(10)]
    edges = [Fraction(t, 1000) for t in UNEVEN]
    if name == "even.mp4":
        edges = [n * Fraction(1001, 30000) for n in range(FRAMES + 1)]
    for span, start in zip(found.spans, starts, strict=True):
        assert span.start == float(edges[start])
        if start + 16 < len(edges):
            assert span.end == float(edges[start + 16])
    assert found.spans[-1].end == found.duration


def test_detected_segments_follow_the_clock_of_the_file(folder: Path, runs: dict[str, Run]) -> None:
    """The detector counts frames; a frame that is shown late moves what is found there."""
    fitted = runs["detection"].fitted()
    assert isinstance(fitted, FittedDetection)
    tiny = create("tiny")
    recipe = recipe_for(tiny, clips="dense:4")
    for name in ("even.mp4", "uneven.mkv"):
        found = predict(folder / name, runs["detection"], "detection", least=0.0, device="cpu")
        features = features_of(Item("x", folder / name, "test"), tiny, recipe, device="cpu")
        assert features.rate is not None
        video = make_video(Item("x", folder / name, "test"), features.clip, features, features.rate, recipe)
        (plain,) = fitted.detect([video])
        clock = Clock.of(folder / name)
        assert len(found.spans) == len(list(plain)) > 0
        for span, raw in zip(found.spans, plain):
            assert (span.label, span.score) == (raw.label, raw.score)
            if name == "even.mp4":
                assert span.start == pytest.approx(raw.start, abs=1e-9)
                assert span.end == pytest.approx(raw.end, abs=1e-9)
            else:
                place = raw.start * float(features.rate)
                low, high = UNEVEN[int(place)] / 1000, clock.stop(int(place))
                assert low <= span.start <= high
            assert 0 <= span.start <= span.end <= found.duration
    certain = predict(folder / "even.mp4", runs["detection"], "detection", least=2.0, device="cpu")
    assert certain.spans == ()


def test_the_clock_goes_through_every_frame() -> None:
    clock = Clock(np.array([0, 10, 40]), Fraction(1, 10), Fraction(5))
    assert [clock.start(n) for n in range(3)] == [0.0, 1.0, 4.0]
    assert [clock.stop(n) for n in range(3)] == [1.0, 4.0, 4.2]
    assert clock.end == 4.2
    assert [clock.at(place) for place in (-1, 0, 0.5, 1, 1.5, 3, 99)] == pytest.approx(
        [0, 0, 0.5, 1, 2.5, 4.2, 4.2]
    )
    assert Clock(np.array([0, 10]), Fraction(1, 10), None).end == 1.0


# --- answers ------------------------------------------------------------------------------------------------


def test_the_answer_is_what_the_probe_says_of_five_clips(folder: Path, runs: dict[str, Run]) -> None:
    found = predict(folder / "even.mp4", runs["action"], "action", device="cpu")
    fitted = runs["action"].fitted()
    assert isinstance(fitted, FittedProbe)
    tiny = create("tiny")
    features = features_of(Item("x", folder / "even.mp4", "test"), tiny, recipe_for(tiny), device="cpu")
    rows = fitted.clip_probabilities(features.clip)
    whole = rows[[0, 1, 2, 2, 3]].mean(0)  # round(k·3/4)
    assert dict(found.answer) == pytest.approx({ACTIONS[n]: whole[n] for n in range(3)})
    assert [score for _, score in found.answer] == sorted((s for _, s in found.answer), reverse=True)
    assert [span.label for span in found.spans] == [ACTIONS[n] for n in rows.argmax(1)]
    assert [span.score for span in found.spans] == pytest.approx(rows.max(1).tolist())


def test_the_anomaly_answer_is_the_highest_score(folder: Path, runs: dict[str, Run]) -> None:
    found = predict(folder / "even.mp4", runs["anomaly"], "anomaly", device="cpu")
    assert found.answer == (("anomaly", max(span.score for span in found.spans)),)
    assert all(0 <= span.score <= 1 for span in found.spans)


@pytest.mark.parametrize("name", ["action", "action-network", "detection", "anomaly"])
def test_the_json_has_the_documented_fields(folder: Path, runs: dict[str, Run], name: str) -> None:
    task = name.removesuffix("-network")
    truth = read_truth("0.5-1.5:walk")
    found = predict(folder / "even.mp4", runs[name], task, truth=truth, least=0.0, device="cpu")
    value = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(value) == {"task", "video", "duration", "model", "answer", "spans", "truth"}
    assert (value["task"], value["video"]) == (task, str(folder / "even.mp4"))
    assert value["model"] == str(folder / name)
    assert value["spans"]
    assert all(set(span) == {"start", "end", "label", "score"} for span in value["spans"])
    assert all(set(entry) == {"label", "score"} for entry in value["answer"])
    assert value["truth"] == [{"start": 0.5, "end": 1.5, "label": "walk", "score": 1.0}]


# --- refusals -----------------------------------------------------------------------------------------------


def test_a_task_the_run_was_not_trained_for_is_refused(folder: Path, runs: dict[str, Run]) -> None:
    with pytest.raises(UsageError, match="trained for anomaly, not for action"):
        predict(folder / "even.mp4", runs["anomaly"], "action")
    with pytest.raises(UsageError, match="--task gait: choose one of action, detection, anomaly"):
        predict(folder / "even.mp4", runs["anomaly"], "gait")


def test_another_encoder_than_that_of_the_training_is_refused(folder: Path, runs: dict[str, Run]) -> None:
    with pytest.raises(UsageError, match=r"features of tiny with hash .*--weights"):
        predict(folder / "even.mp4", runs["action"], "action", weights="random")


@pytest.fixture(scope="module")
def veiled(folder: Path, runs: dict[str, Run]) -> tuple[Run, LatentAnonymizer]:
    """A model trained on features that went through an anonymizer, and the anonymizer."""
    source = FeatureStore.open(runs["action"].source["store"])
    rows = torch.from_numpy(np.concatenate([source.read(entry).clip for entry in source.items()]))
    hide = latent(256, Quantise(levels=4), Noise(floor=0.1, learned=False), key=NoiseKey(b"k" * 32))
    hide.fit_from(rows)
    anonymize(source.root, folder / "safe", hide, device="cpu")
    safe = Features(FeatureStore.open(folder / "safe"), split="train")
    train(ActionProbe(ProbeConfig(epochs=2)), safe, folder / "veiled", seed=0, device="cpu")
    return Run.open(folder / "veiled"), hide


def test_a_model_of_anonymized_features_hears_anonymized_ones(
    folder: Path, veiled: tuple[Run, LatentAnonymizer]
) -> None:
    run, hide = veiled
    path = folder / "even.mp4"
    said = predict(path, run, "action", anonymizer=hide, device="cpu")
    assert said == predict(path, run, "action", anonymizer=hide, device="cpu")
    encoder = create("tiny")
    raw = features_of(Item("even", path, "test"), encoder, FeatureRecipe(**run.source["recipe"]))
    names = [f"predict {files.file_hash(path)} clip {start}" for start in raw.starts.tolist()]
    safe = hide(torch.from_numpy(raw.clip), content=names).numpy()
    fitted = run.fitted()
    weight, bias = fitted.layer.weight.detach().numpy(), fitted.layer.bias.detach().numpy()
    logits = safe[list(cached_equidistant(len(safe), 5))] @ weight.T + bias
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = dict(zip(fitted.names, shares.mean(0)))
    for label, score in said.answer:
        assert score == pytest.approx(expected[label], abs=1e-4)


def test_a_model_of_anonymized_features_does_not_get_raw_ones(
    folder: Path, runs: dict[str, Run], veiled: tuple[Run, LatentAnonymizer]
) -> None:
    run, hide = veiled
    path = folder / "even.mp4"
    with pytest.raises(UsageError, match=r"that anonymizer \w+ made; give it with --anonymizer"):
        predict(path, run, "action")
    with pytest.raises(UsageError, match=r"and this one is \w+"):
        predict(path, run, "action", anonymizer=latent(256, Attention()))
    other = copy.deepcopy(hide)
    other.key = NoiseKey(b"x" * 32)
    with pytest.raises(UsageError, match="give it with --key"):
        predict(path, run, "action", anonymizer=other)
    with pytest.raises(UsageError, match="trained on raw features; leave the anonymizer out"):
        predict(path, runs["action"], "action", anonymizer=hide)


def test_a_model_of_anonymized_pictures_sees_anonymized_ones_and_no_others(
    folder: Path, tmp_path: Path
) -> None:
    """A network on clips, and a probe on features that `extract` made through the same anonymizer."""
    low, other = pixel(Grey(), LowResolution(8)), pixel(Grey())
    films = grey_dataset(tmp_path / "films", train=4, test=0)
    network = NetworkConfig(encoder="tiny", weights="random", size=32, epochs=1, batch=4, clips=2)
    train(ActionNetwork(network), Clips(films, "train", low), tmp_path / "network", device="cpu")
    tiny = create("tiny")
    extract(films, tmp_path / "store", tiny, device="cpu", anonymizer=low, eight_bit=True)
    features = Features(FeatureStore.open(tmp_path / "store"), split="train")
    train(ActionProbe(ProbeConfig(epochs=2)), features, tmp_path / "probe", device="cpu")
    video = films.items[0].path
    for name in ("network", "probe"):
        run = Run.open(tmp_path / name)
        found = predict(video, run, "action", pixels=low, device="cpu")
        if name == "probe":
            stored = features.store.read(features.items()[0]).clip
            rows = run.fitted().clip_probabilities(stored)
            assert [span.score for span in found.spans] == pytest.approx(rows.max(1).tolist(), abs=1e-6)
        else:
            fitted = run.fitted()
            rows = fitted.clip_probabilities(fitted.clips_of(Item(video.stem, video, "test")), PixelVeil(low))
            assert dict(found.answer) == pytest.approx(dict(zip(fitted.names, rows.mean(0))))
        with pytest.raises(UsageError, match="give it with --pixels"):
            predict(video, run, "action", device="cpu")
        with pytest.raises(UsageError, match="and this one is"):
            predict(video, run, "action", pixels=other, device="cpu")


def test_a_model_of_raw_pictures_wants_no_anonymizer(folder: Path, runs: dict[str, Run]) -> None:
    for task, name in (("action", "action"), ("action", "action-network")):
        with pytest.raises(UsageError, match="trained on raw pictures"):
            predict(folder / "even.mp4", runs[name], task, pixels=pixel(Grey()), device="cpu")


@pytest.mark.parametrize("name", ["action", "action-network", "detection", "anomaly"])
def test_a_file_that_is_no_video_is_a_clear_error(folder: Path, runs: dict[str, Run], name: str) -> None:
    task = name.removesuffix("-network")
    (folder / "text.mp4").write_text("not a video")
    for file in ("text.mp4", "gone.mp4"):
        with pytest.raises(MediaError, match=file):
            predict(folder / file, runs[name], task, device="cpu")


# --- stores -------------------------------------------------------------------------------------------------


def extracted(folder: Path, root: Path, clips: str, **options: Any) -> FeatureStore:
    """The even film as stored features of `tiny`."""
    tiny = create("tiny")
    films = Dataset("films", folder, (Item("even", folder / "even.mp4", "test"),))
    extract(films, root, tiny, recipe_for(tiny, clips=clips, **options), device="cpu")
    return FeatureStore.open(root)


@pytest.mark.parametrize(("task", "clips"), [("action", "all"), ("detection", "dense:4"), ("anomaly", "all")])
def test_of_stored_features_the_same_is_said_as_of_the_video(
    folder: Path, runs: dict[str, Run], tmp_path: Path, task: str, clips: str
) -> None:
    store = extracted(folder, tmp_path / "store", clips)
    (found,) = predict_store(store, runs[task], least=0.0)
    wanted = predict(folder / "even.mp4", runs[task], least=0.0, device="cpu")
    assert (found.video, found.task, found.model) == ("even", task, wanted.model)
    assert found.duration == pytest.approx(wanted.duration, abs=1e-9)
    assert [one[0] for one in found.answer] == [one[0] for one in wanted.answer]
    assert len(found.spans) == len(wanted.spans) > 0
    for mine, theirs in zip(found.spans, wanted.spans):
        assert mine.label == theirs.label
        for name in ("start", "end", "score"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), abs=1e-5)


def test_raw_stored_features_go_through_the_anonymizer_of_the_model(
    folder: Path, veiled: tuple[Run, LatentAnonymizer], tmp_path: Path
) -> None:
    run, hide = veiled
    raw = extracted(folder, tmp_path / "raw", "all")
    anonymize(raw.root, tmp_path / "safe", hide, device="cpu")
    safe = FeatureStore.open(tmp_path / "safe")
    (found,) = predict_store(raw, run, anonymizer=hide, device="cpu")
    assert [found] == list(predict_store(safe, run, device="cpu"))
    assert [found] == list(predict_store(safe, run, anonymizer=hide, device="cpu"))  # not a second time
    with pytest.raises(StoreError, match=r"are raw, and .*give it with --anonymizer"):
        next(predict_store(raw, run, device="cpu"))


def test_features_that_the_model_was_not_trained_on_are_refused(
    folder: Path, runs: dict[str, Run], veiled: tuple[Run, LatentAnonymizer], tmp_path: Path
) -> None:
    raw = extracted(folder, tmp_path / "raw", "all")
    anonymize(raw.root, tmp_path / "safe", veiled[1], device="cpu")
    safe = FeatureStore.open(tmp_path / "safe")
    coarse = extracted(folder, tmp_path / "bf16", "all", precision="bf16")
    items = action_items(1, 0)
    other = write_store(tmp_path / "other", items, [np.zeros((2, 256), np.float32)], classes=ACTIONS)
    for store, name, says in (
        (other, "action", "features of made-up .* trained on those of tiny"),
        (coarse, "anomaly", "extracted with precision=bf16"),
        (raw, "detection", "extracted with clips='all'"),
        (safe, "action", "use a model that was trained on such features"),
    ):
        with pytest.raises(StoreError, match=says):
            next(predict_store(store, runs[name], device="cpu"))
    for name, says in (("action-network", "looks at the videos themselves"), ("anomaly", "not for action")):
        with pytest.raises(UsageError, match=says):
            next(predict_store(raw, runs[name], "action", device="cpu"))
    with pytest.raises(UsageError, match="no items in split 'train'; there are test"):
        next(predict_store(raw, runs["action"], split="train"))


def test_an_anonymizer_of_motion_needs_the_still_clips_of_a_store(folder: Path, tmp_path: Path) -> None:
    motion = LatentAnonymizer.from_pretrained(shipped.place("veil-motion-tiny"))
    still = extracted(folder, tmp_path / "still", "all", static=2)
    anonymize(still.root, tmp_path / "safe", motion, device="cpu")
    safe = FeatureStore.open(tmp_path / "safe")
    items = [Item("even", Path("v.mp4"), "train", action="jump")]
    safe.write_index(
        Dataset("taught", folder, tuple(items), classes=ACTIONS), {"even": safe.items("films")[0].key}
    )
    train(
        ActionProbe(ProbeConfig(epochs=1)), Features(safe, "taught", "train"), tmp_path / "run", device="cpu"
    )
    run = Run.open(tmp_path / "run")
    assert len(list(predict_store(still, run, anonymizer=motion, device="cpu"))) == 1
    with pytest.raises(UsageError, match="has no static clips"):
        next(predict_store(extracted(folder, tmp_path / "raw", "all"), run, anonymizer=motion, device="cpu"))


def test_damaged_features_are_named(folder: Path, runs: dict[str, Run], tmp_path: Path) -> None:
    store = extracted(folder, tmp_path / "store", "all")
    for wrong, says in (
        (np.full((2, 256), np.nan, np.float32), "NaN"),
        (np.zeros((2, 7), np.float32), "7 wide"),
    ):
        damage(store, "even", wrong)
        with pytest.raises(BadItems, match=f"even: .*{says}"):
            next(predict_store(store, runs["action"], device="cpu"))


# --- truth --------------------------------------------------------------------------------------------------

plain_seconds = st.integers(0, 10**6).map(lambda n: n / 100)
labels = st.text("abcdXYZ _é", max_size=8)


@quick
@given(st.lists(st.tuples(plain_seconds, plain_seconds, labels), min_size=1, max_size=5))
def test_stretches_are_read_as_they_were_written(rows: list[tuple[float, float, str]]) -> None:
    rows = [(min(a, b), max(a, b) + 0.01, label.strip()) for a, b, label in rows]
    text = ", ".join(f"{a}-{b}" + (f":{label}" if label else "") for a, b, label in rows)
    assert read_truth(text) == tuple(Span(a, b, label or "truth", 1.0) for a, b, label in rows)


@quick
@given(nasty_text)
def test_any_text_is_stretches_of_time_or_a_usage_error(text: str) -> None:
    try:
        found = read_truth(text)
    except UsageError:
        return
    assert found
    assert all(0 <= span.start < span.end < float("inf") for span in found)


@pytest.mark.parametrize(
    "text", ["", "3", "3-", "-3", "5-3", "3-3", "a-b", "1-2,", "nan-2", "1-inf", "1-2;3-4", "-1-2"]
)
def test_what_is_no_stretch_of_time_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(UsageError, match="write START-END or START-END:LABEL in seconds"):
        read_truth(text)


def test_truth_may_come_from_a_file_or_from_an_earlier_prediction(tmp_path: Path) -> None:
    file = tmp_path / "truth.json"
    file.write_text('[{"start": 1, "end": 2.5, "label": "Fighting"}, {"start": 4, "end": 5}]')
    expected = (Span(1.0, 2.5, "Fighting", 1.0), Span(4.0, 5.0, "truth", 1.0))
    assert read_truth(str(file)) == expected
    found = Prediction("anomaly", "v.mp4", 9.0, "run", (Span(0, 9, "anomaly", 0.3),), (), expected)
    file.write_text(json.dumps(found.to_json()))
    assert read_truth(str(file)) == expected
    with pytest.raises(UsageError, match=r"gone\.json"):
        read_truth(str(tmp_path / "gone.json"))


@quick
@given(json_values)
def test_any_json_file_is_stretches_of_time_or_a_usage_error(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    file = tmp_path_factory.mktemp("truth") / "t.json"
    for content in (value, [value], [{"start": value, "end": 3}], {"truth": value}, {"spans": [value]}):
        file.write_text(json.dumps(content))
        try:
            found = read_truth(str(file))
        except UsageError:
            continue
        assert all(0 <= span.start < span.end < float("inf") for span in found)
