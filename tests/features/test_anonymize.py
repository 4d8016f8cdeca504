from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from tests.training.latent_world import ENCODER, WIDTH, store_of, world
from videoveil.anonymizers import (
    Attention,
    AttentionOnly,
    EncoderMismatch,
    EncoderReference,
    Erase,
    LatentAnonymizer,
    Noise,
    NoiseKey,
    NotExportable,
    Quantise,
    ShapeMismatch,
    StageConfig,
    StaticResidual,
    Unchanged,
    latent,
)
from videoveil.data.records import AttributeSpan, FrameSpan, Item, Segment
from videoveil.errors import BadItems, StoreError, UsageError
from videoveil.features import anonymize as module
from videoveil.features.anonymize import PIECES, anonymize, pieces
from videoveil.features.store import FeatureStore
from videoveil.features.tokens import NotMeanPooled
from videoveil.tasks.base import Features
from videoveil.training.latent_data import load_action

KEY = NoiseKey(b"a key that is only for the tests")
HOME = world(20, clips=40)
REFERENCE = EncoderReference(str(ENCODER["name"]), str(ENCODER["hash"]))
PIPELINES: dict[str, tuple[StageConfig, ...]] = {
    "erase": (Erase(6, "both"),),
    "attention": (Attention(1, 4, init="default"),),
    "everything": (
        StaticResidual(),
        Erase(4, "both"),
        Attention(1, 4, init="default"),
        Noise(0.3),
        Quantise(9),
    ),
}


def made(*stages: StageConfig, tokens: str = "clip", key: NoiseKey | None = KEY) -> LatentAnonymizer:
    anonymizer = latent(WIDTH, *stages, tokens=tokens, encoder=REFERENCE, key=key)
    pool = HOME.pool
    owners = pool.owners()
    return anonymizer.fit_from(
        pool.rows,
        static=pool.still()[owners],
        videos=pool.static,
        owners=owners,
        actions=HOME.actions[owners],
    )


def bytes_of(store: Path) -> dict[str, bytes]:
    """Everything in a store but its locks."""
    found = (path for path in sorted(store.rglob("*")) if path.is_file() and ".locks" not in path.parts)
    return {str(path.relative_to(store)): path.read_bytes() for path in found}


@pytest.fixture
def raw(tmp_path: Path) -> FeatureStore:
    return store_of(tmp_path / "raw", HOME.pool)


@pytest.mark.parametrize("name", PIPELINES)
def test_the_bytes_do_not_depend_on_the_batch(tmp_path: Path, raw: FeatureStore, name: str) -> None:
    anonymizer = made(*PIPELINES[name])
    for batch in (1, 7, 100_000):
        anonymize(raw.root, tmp_path / str(batch), anonymizer, batch=batch, device="cpu")
    first = bytes_of(tmp_path / "1")
    assert len(first) == 22  # 20 videos, the header, the index
    assert first == bytes_of(tmp_path / "7") == bytes_of(tmp_path / "100000")


@pytest.mark.parametrize("name", PIPELINES)
def test_every_feature_is_what_the_anonymizer_gives_and_everything_else_is_kept(
    tmp_path: Path, raw: FeatureStore, name: str
) -> None:
    anonymizer = made(*PIPELINES[name])
    report = anonymize(raw.root, tmp_path / "out", anonymizer, labels=True, device="cpu")
    out = FeatureStore.open(tmp_path / "out")
    assert report.items == report.written == 20
    assert report.present == 0
    assert report.rows == len(HOME.pool.rows) + 20 * 4
    assert out.recipe == raw.recipe
    assert out.dataset().items == raw.dataset().items
    for before, after in zip(raw.items(), out.items()):
        old, new = raw.read(before), out.read(after)
        still = torch.from_numpy(old.static).mean(0)
        for kind, places in (("clip", old.starts), ("static", old.static_frames)):
            rows = torch.from_numpy(getattr(old, kind))
            names = [f"{before.key} {kind} {place}" for place in places.tolist()]
            with torch.no_grad():
                expected = anonymizer(rows, static=still.expand_as(rows), content=names).numpy()
            assert np.allclose(getattr(new, kind), expected, atol=1e-5), kind
            assert not np.allclose(getattr(new, kind), getattr(old, kind), atol=0.05)
        for kept in ("starts", "pts", "static_frames"):
            assert np.array_equal(getattr(old, kept), getattr(new, kept))
        assert (old.time_base, old.frames, old.rate) == (new.time_base, new.frames, new.rate)


def test_the_new_store_names_encoder_anonymizer_and_key(tmp_path: Path, raw: FeatureStore) -> None:
    anonymizer = made(Erase(4, "both"), Noise(0.3))
    anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    out = FeatureStore.open(tmp_path / "out")
    assert out.encoder["encoder"] == {"name": "made-up", "hash": ENCODER["hash"]}
    assert out.encoder["anonymizer"]["hash"] == anonymizer.content_hash()
    assert out.encoder["anonymizer"]["key"] == KEY.fingerprint()
    assert out.encoder["hash"] not in (ENCODER["hash"], anonymizer.content_hash())
    facts = out.read(out.items()[0]).provenance
    assert facts is not None
    assert facts["encoder_hash"] == out.encoder["hash"]
    assert json.loads(facts["raw_encoder"])["encoder_hash"] == ENCODER["hash"]
    assert facts["content"] == "video v000"
    assert facts["raw_features"] == raw.items()[0].key
    # another key, or other weights, is another store
    other = made(Erase(4, "both"), Noise(0.3), key=NoiseKey(b"another key, for another release"))
    with pytest.raises(StoreError, match="made with"):
        anonymize(raw.root, tmp_path / "out", other, device="cpu")
    with pytest.raises(StoreError, match="made with"):
        anonymize(raw.root, tmp_path / "out", made(Erase(5, "both")), device="cpu")


def test_tasks_read_the_new_store_as_they_read_the_old_one(tmp_path: Path, raw: FeatureStore) -> None:
    anonymize(raw.root, tmp_path / "out", made(Erase(6, "both")), device="cpu")
    pool = load_action(Features(FeatureStore.open(tmp_path / "out"), split="train"))
    assert pool.rows.shape == HOME.pool.rows.shape
    assert torch.equal(pool.labels, HOME.actions)


@pytest.mark.parametrize("mode", ["temporal", "clip"])
def test_tokens_are_anonymized_and_the_clip_vector_fits_them(tmp_path: Path, mode: str) -> None:
    raw = store_of(tmp_path / "raw", world(6).pool, tokens=3)
    anonymizer = made(Erase(6, "both"), tokens=mode)
    anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    out = FeatureStore.open(tmp_path / "out")
    for before, after in zip(raw.items(), out.items()):
        old, new = raw.read(before), out.read(after)
        assert old.tokens is not None
        assert new.tokens is not None
        assert new.tokens.shape == old.tokens.shape
        with torch.no_grad():
            assert np.allclose(new.tokens, anonymizer(torch.from_numpy(old.tokens)).numpy(), atol=1e-5)
        assert np.allclose(new.clip, new.tokens.mean(1), atol=1e-5)  # erasing is affine: true in both modes


def test_clip_and_tokens_share_the_noise_of_their_clip(tmp_path: Path) -> None:
    """Independent noise on both would average away."""
    raw = store_of(tmp_path / "raw", world(4).pool, tokens=3)
    anonymizer = made(Noise(1.0, clip=50.0, learned=False))
    anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    out = FeatureStore.open(tmp_path / "out")
    added, shared = [], []
    for before, after in zip(raw.items(), out.items()):
        old, new = raw.read(before), out.read(after)
        assert old.tokens is not None
        assert new.tokens is not None
        added.append(new.clip - old.clip)
        shared.append((new.tokens - old.tokens).mean(1))
    correlation = np.corrcoef(np.concatenate(added).ravel(), np.concatenate(shared).ravel())[0, 1]
    assert correlation > 0.8  # 1/√(1 + 1/3) = 0.87


# --- what records say -----------------------------------------------------------------------------------------


TELLING = (
    "wheelchair",
    "bedroom",
    "face",
    "gender",
    "female",
    "PERSON-17",
    "GROUP-4",
    "/home/",
    "alice-walks",
    "EYES",
)


def telling(raw: FeatureStore) -> FeatureStore:
    """The same store, whose records say all that a record can say."""
    dataset = raw.dataset()

    def said(item: Item) -> Item:
        return replace(
            item,
            path=Path("/home/clinic/alice-walks.mp4"),
            actions=("walk",),
            objects=("wheelchair",),
            scenes=("bedroom",),
            attributes={"face": 1, "gender": 0},
            attribute_spans=(AttributeSpan(0, 4, {"face": (2,)}),),
            segments=(Segment("walk", Fraction(1, 3), Fraction(2)),),
            anomaly=True,
            anomaly_class="fall",
            anomaly_spans=(FrameSpan(3, 9, "fall"),),
            duration=Fraction(100, 3),
            rate=Fraction(30000, 1001),
            clip=(Fraction(0), Fraction(5)),
            subject="PERSON-17",
            gender="female",
            extra=MappingProxyType({"group": "GROUP-4"}),
        )

    full = replace(
        dataset,
        root=Path("/home/clinic"),
        items=tuple(map(said, dataset.items)),
        attributes=("face", "gender"),
        skipped=("x: /home/clinic/x.mp4 is broken",),
        notes=("unknown label 'EYES'",),
    )
    raw.write_index(full, {entry.item.id: entry.key for entry in raw.items()})
    return raw


def test_records_of_the_new_store_do_not_say_who_is_in_a_video_or_where_it_is(
    tmp_path: Path, raw: FeatureStore
) -> None:
    before = telling(raw).dataset()
    report = anonymize(raw.root, tmp_path / "out", made(Erase(6, "both")), device="cpu")
    out = FeatureStore.open(tmp_path / "out")
    for name, data in bytes_of(tmp_path / "out").items():
        assert not [word for word in TELLING if word.encode() in data], name
    after = out.dataset()
    assert (after.name, after.classes) == (before.name, before.classes)
    for old, new in zip(before, after, strict=True):  # what tasks learn from and are scored on is there
        assert new == Item(
            old.id,
            Path("withheld") / old.id,
            old.split,
            action=old.action,
            actions=old.actions,
            segments=old.segments,
            anomaly=True,
            anomaly_class="fall",
            anomaly_spans=old.anomaly_spans,
            duration=old.duration,
            rate=old.rate,
            clip=old.clip,
        )
    assert out.encoder["labels"] is report.labels is False


def test_labels_are_kept_where_they_are_asked_for_and_a_store_is_continued_as_it_was_begun(
    tmp_path: Path, raw: FeatureStore
) -> None:
    telling(raw)
    anonymizer = made(Erase(6, "both"))
    for labels in (True, False):
        anonymize(raw.root, tmp_path / str(labels), anonymizer, labels=labels, device="cpu")
    kept, bare = FeatureStore.open(tmp_path / "True"), FeatureStore.open(tmp_path / "False")
    assert kept.dataset() == raw.dataset()
    assert (kept.encoder["labels"], bare.encoder["labels"]) == (True, False)
    assert kept.encoder["hash"] == bare.encoder["hash"]  # the features are the same
    for store, labels, begun in ((kept, False, "begun with labels"), (bare, True, "begun without labels")):
        before = bytes_of(store.root)
        with pytest.raises(StoreError, match=rf"{store.root}: {begun}.*--labels"):
            anonymize(raw.root, store.root, anonymizer, labels=labels, device="cpu")
        assert bytes_of(store.root) == before


def test_a_store_from_before_there_was_a_choice_has_labels_and_is_continued_with_them(
    tmp_path: Path, raw: FeatureStore
) -> None:
    anonymizer = made(Erase(6, "both"))
    anonymize(raw.root, tmp_path / "out", anonymizer, labels=True, device="cpu")
    header = json.loads((tmp_path / "out" / "store.json").read_text("utf-8"))
    del header["encoder"]["labels"]
    (tmp_path / "out" / "store.json").write_text(json.dumps(header), "utf-8")
    assert anonymize(raw.root, tmp_path / "out", anonymizer, labels=True, device="cpu").present == 20
    with pytest.raises(StoreError, match="begun with labels"):
        anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")


# --- refusals -----------------------------------------------------------------------------------------------


def lazy_eraser() -> LatentAnonymizer:
    """Static clips that tell nothing apart: an eraser that finds no direction."""
    anonymizer = latent(WIDTH, Erase(4), encoder=REFERENCE)
    rows = HOME.pool.rows
    return anonymizer.fit_from(rows, videos=torch.ones(20, 4, WIDTH), owners=HOME.pool.owners())


@pytest.mark.parametrize("kind", ["untrained adapter", "eraser without directions"])
def test_what_comes_out_as_it_went_in_is_withheld(tmp_path: Path, raw: FeatureStore, kind: str) -> None:
    if kind == "untrained adapter":
        anonymizer = latent(WIDTH, Attention(heads=4), encoder=REFERENCE)
    else:
        anonymizer = lazy_eraser()
    anonymizer.save_pretrained(tmp_path / "model")
    anonymizer = LatentAnonymizer.from_pretrained(tmp_path / "model")
    with pytest.raises(
        Unchanged, match=rf"{raw.root}: 1 of 1 features come out .*`veil train`.*nothing was written"
    ):
        anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    assert not (tmp_path / "out").exists()


def test_a_single_video_that_comes_out_as_it_went_in_is_withheld(tmp_path: Path, raw: FeatureStore) -> None:
    """Other videos are anonymized by the same eraser, this one has nothing in the directions it erases."""
    anonymizer = made(Erase(6, "both"))
    entry = raw.items()[5]
    old = raw.read(entry)
    with torch.no_grad():  # what was erased once is not erased again
        rows = [anonymizer(torch.from_numpy(x)).numpy() for x in (old.clip, old.static)]
    raw.write(entry.key, replace(old, clip=rows[0], static=rows[1]), old.provenance or {})
    with pytest.raises(BadItems, match="1 of 20 videos could not be anonymized") as caught:
        anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    assert caught.value.offenders[0].startswith("made-up/v005: Unchanged: 40 of 40 features")
    out = FeatureStore.open(tmp_path / "out")
    assert out.datasets() == ()
    assert len(list(out.root.rglob("*.safetensors"))) == 19
    for data in bytes_of(out.root).values():
        assert not any(row.tobytes() in data for row in rows[0])


def test_rows_of_zeros_say_nothing_and_may_stay(tmp_path: Path) -> None:
    module.require_changed(np.zeros((3, 4)), np.zeros((3, 4)))
    with pytest.raises(Unchanged, match="1 of 2 features"):
        module.require_changed(np.eye(2, 4), np.eye(2, 4) * [[1 + 1e-7], [1.001]])


def test_temporal_tokens_whose_mean_is_not_the_vector_are_refused_before_a_folder_appears(
    tmp_path: Path,
) -> None:
    raw = store_of(tmp_path / "raw", world(6).pool, tokens=3)
    anonymizer = made(Erase(6, "both"), tokens="temporal")
    anonymize(raw.root, tmp_path / "good", anonymizer, device="cpu")
    for entry in raw.items():  # as by an encoder that normalises the mean, or has a class token
        old = raw.read(entry)
        raw.write(entry.key, replace(old, clip=old.clip / np.linalg.norm(old.clip)), old.provenance or {})
    with pytest.raises(
        NotMeanPooled, match=rf"{raw.root} \(made-up\).*whose vector is the mean of its tokens"
    ):
        anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    with pytest.raises(NotMeanPooled, match="film: its vectors are not"):
        module.Passage(anonymizer, torch.device("cpu"))(raw.read(raw.items()[0]), "film")
    assert not (tmp_path / "out").exists()
    anonymize(
        raw.root, tmp_path / "clips", made(Erase(6, "both")), device="cpu"
    )  # vectors and tokens go their own ways


def test_what_must_not_be_exported_is_refused_before_a_folder_appears(
    tmp_path: Path, raw: FeatureStore
) -> None:
    out = tmp_path / "out"
    cases: list[tuple[LatentAnonymizer, type[Exception], str]] = [
        (made(AttentionOnly(1, 4, cross_sample=True)), NotExportable, "attends across the batch"),
        (made(Attention(1, 4)).train(), NotExportable, "training mode"),
        (latent(WIDTH, Erase(3)), NotExportable, "not been fitted"),
        (made(Noise(0.3), key=None), NotExportable, "has no key"),
        (latent(16, Attention(1, 4)), ShapeMismatch, "features of width 32, the anonymizer takes 16"),
        (
            latent(WIDTH, Attention(1, 4), encoder=EncoderReference("other", "cd" * 32)),
            EncoderMismatch,
            "for other",
        ),
        (latent(WIDTH, Attention(1, 4), tokens="temporal"), UsageError, "no temporal tokens"),
    ]
    for anonymizer, kind, message in cases:
        with pytest.raises(kind, match=message):
            anonymize(raw.root, out, anonymizer, device="cpu")
    assert not out.exists()


def test_stores_that_do_not_fit_are_refused(tmp_path: Path, raw: FeatureStore) -> None:
    anonymizer = made(Erase(6, "both"))
    with pytest.raises(UsageError, match="the raw store itself"):
        anonymize(raw.root, raw.root, anonymizer, device="cpu")
    anonymize(raw.root, tmp_path / "once", anonymizer, device="cpu")
    with pytest.raises(StoreError, match="anonymized already"):
        anonymize(tmp_path / "once", tmp_path / "twice", anonymizer, device="cpu")
    bare = store_of(tmp_path / "bare", world(4).pool, static=False)
    with pytest.raises(UsageError, match="no static clips"):
        anonymize(bare.root, tmp_path / "x", made(StaticResidual()), device="cpu")
    with pytest.raises(StoreError, match="not a feature store"):
        anonymize(tmp_path / "nothing", tmp_path / "x", anonymizer, device="cpu")
    with pytest.raises(UsageError, match="batch=0"):
        anonymize(raw.root, tmp_path / "x", anonymizer, batch=0, device="cpu")


# --- failures and kills -------------------------------------------------------------------------------------


def poison(store: FeatureStore, number: int, name: str) -> str:
    """Put a NaN into one stored tensor; the id of its video."""
    entry = store.items()[number]
    path = store.path(entry.key)
    with safe_open(path, "np") as handle:
        facts = handle.metadata()
    tensors = load_file(path)
    tensors[name][0, 3] = np.nan
    save_file(tensors, path, metadata=facts)
    return entry.item.id


def test_a_video_that_fails_is_withheld_and_the_others_are_done(tmp_path: Path, raw: FeatureStore) -> None:
    bad = {poison(raw, 3, "clip"), poison(raw, 7, "static")}
    entry = raw.items()[9]
    raw.path(entry.key).write_bytes(b"broken")
    bad.add(entry.item.id)
    with pytest.raises(BadItems, match="3 of 20 videos could not be anonymized") as caught:
        anonymize(raw.root, tmp_path / "out", made(Erase(6, "both")), device="cpu")
    assert {line.split(":")[0] for line in caught.value.offenders} == {f"made-up/{id_}" for id_ in bad}
    out = FeatureStore.open(tmp_path / "out")
    assert out.datasets() == ()  # no index: nobody takes the rest for the whole
    assert len(list(out.root.rglob("*.safetensors"))) == 17
    assert not list(out.root.rglob(".veil-tmp-*"))


def test_no_raw_feature_is_in_any_file_whatever_fails(
    tmp_path: Path, raw: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = LatentAnonymizer.forward
    calls = iter(range(1000))

    def failing(self: LatentAnonymizer, x: torch.Tensor, **options: object) -> torch.Tensor:
        if next(calls) % 3 == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self, x, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LatentAnonymizer, "forward", failing)
    with pytest.raises(BadItems, match="OutOfMemoryError"):
        anonymize(raw.root, tmp_path / "out", made(Erase(6, "both")), device="cpu")
    raws = [row.tobytes() for entry in raw.items() for row in raw.read(entry).clip]
    for data in bytes_of(tmp_path / "out").values():
        assert not any(row in data for row in raws)


def test_a_second_run_does_only_what_is_missing_and_ends_in_the_same_bytes(
    tmp_path: Path, raw: FeatureStore
) -> None:
    anonymizer = made(Erase(6, "both"))
    anonymize(raw.root, tmp_path / "whole", anonymizer, device="cpu")
    anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    out = FeatureStore.open(tmp_path / "out")
    for entry in out.items()[:5]:
        out.path(entry.key).unlink()
    report = anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    assert (report.written, report.present) == (5, 15)
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")


KILLED = """
import sys, time
from videoveil.anonymizers import LatentAnonymizer
from videoveil.features.anonymize import anonymize
anonymizer = LatentAnonymizer.from_pretrained(sys.argv[3])
def halt(done, *_):
    print("x", flush=True)
    if done == 4:  # however late the kill comes, it falls into the work
        time.sleep(600)
anonymize(sys.argv[1], sys.argv[2], anonymizer, device="cpu", progress=halt)
"""


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path, raw: FeatureStore) -> None:
    anonymizer = made(Erase(6, "both"))
    anonymizer.save_pretrained(tmp_path / "model")
    arguments = [str(raw.root), str(tmp_path / "out"), str(tmp_path / "model")]
    with subprocess.Popen([sys.executable, "-c", KILLED, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline() == b"x\n"
        os.kill(process.pid, signal.SIGKILL)
    files = list((tmp_path / "out").rglob("*.safetensors"))
    assert 4 <= len(files) < 20
    assert not (tmp_path / "out" / "index").exists()
    report = anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu")
    assert report.present >= 4
    assert report.present + report.written == 20
    anonymize(raw.root, tmp_path / "whole", anonymizer, device="cpu")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")


def test_a_video_that_another_process_has_is_waited_for(
    tmp_path: Path, raw: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    anonymizer = made(Erase(6, "both"))
    out = FeatureStore.create(tmp_path / "out", module.identity(raw, anonymizer), raw.recipe)
    key = out.key(f"features {raw.items()[0].key}")
    with contextlib.ExitStack() as held:
        assert held.enter_context(out.claim(key))
        seen: list[int] = []

        def progress(done: int, total: int, rows: int) -> None:
            seen.append(done)
            if done == 19:  # all the others are done: let go
                held.close()

        report = anonymize(raw.root, tmp_path / "out", anonymizer, device="cpu", progress=progress)
    assert report.written == 20
    assert seen == list(range(1, 21))


# --- pieces -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 15, 16, 17, 255, 256, 257, 700])
def test_pieces_cover_all_rows_once_in_two_shapes(count: int) -> None:
    found = list(pieces(count))
    assert [row for first, rows, _ in found for row in range(first, first + rows)] == list(range(count))
    assert {size for _, _, size in found} <= set(PIECES)
    assert all(rows <= size for _, rows, size in found)


def test_long_videos_are_moved_in_parts_and_computed_in_the_same_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = torch.randn(600, WIDTH, generator=torch.Generator().manual_seed(0))
    pool = replace(
        world(2).pool,
        rows=rows,
        offsets=torch.tensor([0, 590, 600]),
        ids=("long", "short"),
        labels=torch.tensor([0, 1]),
    )
    raw = store_of(tmp_path / "raw", pool)
    anonymizer = made(Erase(6, "both"))
    plain, sizes = LatentAnonymizer.forward, []

    def watch(self: LatentAnonymizer, x: torch.Tensor, **options: object) -> torch.Tensor:
        sizes.append(len(x))
        return plain(self, x, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LatentAnonymizer, "forward", watch)
    seen = []
    for batch in (1, 512, 4096):
        anonymize(raw.root, tmp_path / str(batch), anonymizer, batch=batch, device="cpu")
        seen.append(tuple(sizes))
        sizes.clear()
    assert (
        seen[0] == seen[1] == seen[2] == (256, 256, *[16] * 5, 16, 16, 16)
    )  # long, its static, short, its static
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "512") == bytes_of(tmp_path / "4096")
    out = FeatureStore.open(tmp_path / "1")
    with torch.no_grad():
        assert np.allclose(out.read(out.items()[0]).clip, anonymizer(rows[:590]).numpy(), atol=1e-5)
