"""Attackers see the files that would be published, not what an anonymizer makes of a network's small crops."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from tests.audit import world
from tests.media.make import encode
from videoveil.anonymizers import PixelAnonymizer
from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.obfuscate import Obfuscator
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.audit import registry
from videoveil.audit.published import publish
from videoveil.audit.rules import Rules
from videoveil.audit.run import audit
from videoveil.audit.settings import Settings
from videoveil.audit.subject import Stores, Subject, open_anonymizer
from videoveil.data.records import Dataset, Item
from videoveil.errors import UsageError
from videoveil.media.reader import open_video
from videoveil.pipeline.anonymize import anonymize_file
from videoveil.pipeline.options import Options

FINE = {"crf": "4", "preset": "ultrafast"}
CODED = 4.0  # grey levels that fine coding moves pixels by, on average, at most


def frames_of(path: Path) -> np.ndarray:
    with open_video(path) as video:
        return np.stack([frame.image for frame in video.frames()]).astype(int)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"), train=4, test=2)


def striped(root: Path, *, train: int, test: int, side: int = 256) -> Dataset:
    """Large pictures whose fine stripes stand or lie, which is the private attribute."""
    items = []
    for n in range(train + test):
        rng, across = np.random.default_rng(n), n // 2 % 2
        wave = np.sin(2 * np.pi * (np.arange(side) / 16 + rng.random()))
        one = np.broadcast_to(wave[:, None] if across else wave[None], (side, side))[..., None]
        image = np.clip(128 + 60 * one + rng.normal(0, 8, (side, side, 3)), 0, 255).astype(np.uint8)
        path = encode(root / f"{n:02}.mp4", images=[image] * 4, size=(side, side), options=FINE)
        split = "train" if n < train else "test"
        items.append(Item(path.stem, path, split, attributes={"across": across}, action=f"a{n % 2}"))
    return Dataset("striped", root, tuple(items), classes=("a0", "a1"), attributes=("across",))


def test_what_counts_pixels_is_attacked_in_whole_pictures_and_not_in_small_crops(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    subject = Subject.of(striped(tmp_path / "raw", train=20, test=20), open_anonymizer("downsample:8"))
    asked = Settings(
        rules=Rules(seeds=1, resamples=100), participants=registry.named(("features-static",)), device="cpu"
    )
    found = audit(subject, tmp_path / "out", asked)
    attributes = next(one for one in found.questions if one.name == registry.ATTRIBUTES)
    # at the encoder's own size the stripes are finer than eight pixels, and nothing would be left of them
    assert attributes.leakage.low is not None
    assert attributes.leakage.low > 0.5
    assert found.verdict.privacy == "FAIL"


@pytest.mark.parametrize("name", ["blur", "downsample:4", "veil-pixel"])
def test_attackers_see_the_pictures_that_veil_anonymize_makes(
    data: Dataset, tmp_path: Path, name: str
) -> None:
    anonymizer = open_anonymizer(name)
    made = publish(data, anonymizer, tmp_path / "published", device="cpu")
    assert [one.id for one in made.items] == [one.id for one in data.items]
    for before, after in zip(data.items, made.items):
        other = tmp_path / f"{before.id}.mp4"
        anonymize_file(before.path, other, anonymizer, Options(engine="torch", device="cpu", crf=8))
        assert np.array_equal(frames_of(after.path), frames_of(other))
        with open_video(before.path) as one, open_video(after.path) as two:
            assert [f.time for f in one.frames()] == [f.time for f in two.frames()]


def test_a_learned_network_looks_at_the_size_of_its_training(tmp_path: Path) -> None:
    network = open_anonymizer("penalty-unet")
    assert isinstance(network, PixelAnonymizer)
    (tmp_path / "raw").mkdir()
    path = encode(tmp_path / "raw" / "one.mp4", count=2, size=(400, 300))
    data = Dataset("one", tmp_path / "raw", (Item("one", path, "train"),))
    (made,) = publish(data, network, tmp_path / "published", device="cpu").items
    other = tmp_path / "other.mp4"
    anonymize_file(path, other, network, Options(engine="torch", device="cpu", crf=8))
    whole = tmp_path / "whole.mp4"
    anonymize_file(path, whole, network, Options(engine="torch", device="cpu", crf=8, inner=0))
    seen, same, larger = (frames_of(one) for one in (made.path, other, whole))
    # not to the bit: there the picture is made smaller and larger in the form in which it is coded
    assert abs(seen - same).mean() < abs(seen - larger).mean() / 2


def test_videos_that_nothing_is_done_to_are_not_copied(data: Dataset, tmp_path: Path) -> None:
    assert publish(data, open_anonymizer("identity"), tmp_path / "published") is data
    assert not (tmp_path / "published").exists()


class Half:
    """Finds something in the left half of bright frames only."""

    name = "half"
    covers = "people"

    def boxes(self, frame: np.ndarray) -> np.ndarray:
        if frame.mean() < 60:
            return np.zeros((0, 5), np.float32)
        return np.array([[0, 0, frame.shape[1] / 2, frame.shape[0], 1]], np.float32)

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}


def test_frames_in_which_a_detector_found_nothing_are_published_black(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    pictures = [np.full((48, 64, 3), 40 if n < 2 else 200, np.uint8) for n in range(4)]
    path = encode(tmp_path / "raw" / "one.mp4", images=pictures, size=(64, 48), options=FINE)
    data = Dataset("one", tmp_path / "raw", (Item("one", path, "train"),))
    detector: Any = Half()
    (made,) = publish(data, Obfuscator("blacken", detector), tmp_path / "published").items
    seen = frames_of(made.path)
    assert seen[:2].max() <= CODED
    assert seen[2:, :, :28].max() <= 20
    assert abs(seen[2:, :, 36:] - 200).max() <= 20
    kept = Subject.of(data, Obfuscator("blacken", detector), keep_empty=True)
    black = Subject.of(data, Obfuscator("blacken", detector))
    assert kept.anonymized.identity() != black.anonymized.identity()
    (made,) = kept.with_published(tmp_path / "kept").anonymized.published or ()
    seen = frames_of(made.path)
    assert abs(seen[:2] - 40).max() <= 20
    assert seen[2:, :, :28].max() <= 20


def test_only_what_may_leave_a_frame_as_it_was_can_keep_empty_ones(data: Dataset) -> None:
    with pytest.raises(UsageError, match="blacken-people"):
        Subject.of(data, open_anonymizer("black"), keep_empty=True)


def test_still_pictures_are_published_without_loss(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    path = tmp_path / "raw" / "one.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(path)
    data = Dataset("one", tmp_path / "raw", (Item("one", path, "train", kind="image"),))
    anonymizer = open_anonymizer("downsample:4")
    (made,) = publish(data, anonymizer, tmp_path / "published").items
    whole = torch.from_numpy(np.asarray(Image.open(path)).copy()).permute(2, 0, 1)[None]
    expected = anonymizer(whole)[0].permute(1, 2, 0).numpy()
    assert np.array_equal(np.asarray(Image.open(made.path)), expected)


def test_what_was_broken_off_goes_on_and_nothing_half_made_is_left(data: Dataset, tmp_path: Path) -> None:
    folder, black = tmp_path / "published", open_anonymizer("black")

    class Killed(Exception):
        pass

    def kill(done: int, total: int) -> None:
        if done == 2:
            raise Killed

    with pytest.raises(Killed):
        publish(data, black, folder, device="cpu", tell=kill)
    there = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(there) == 2
    made = publish(data, black, folder, device="cpu")
    assert {path: path.stat().st_mtime_ns for path in there} == there
    assert {item.path for item in made.items} == {*folder.iterdir()}
    assert len(made.items) == len({item.path for item in made.items}) == len(data)


class Breaks(Classical):
    """Fails at any picture."""

    kind = "breaks"

    def transform_frames(self, frames: Tensor) -> Tensor:
        raise Withheld("broken")

    def settings(self) -> Mapping[str, Any]:
        return {}


def test_an_anonymizer_that_fails_leaves_no_file(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Withheld):
        publish(data, Breaks(), tmp_path / "published", device="cpu")
    assert not [*(tmp_path / "published").iterdir()]


def test_what_is_no_picture_ends_the_audit_with_the_file_and_the_frame(data: Dataset, tmp_path: Path) -> None:
    class Floats(Classical):
        kind = "floats"

        def __call__(self, frames: Tensor, **_: Any) -> Tensor:
            return frames.float()

        def settings(self) -> Mapping[str, Any]:
            return {}

    with pytest.raises(Withheld, match=r"v00\.mp4: frame 0 came out as float32"):
        publish(data, Floats(), tmp_path / "published", device="cpu")


class Grey:
    """Paints everything grey."""

    def __call__(self, item: Item, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        return np.full_like(images, 90)

    def content_hash(self) -> str:
        return "grey"


def test_painted_videos_are_published_and_have_features(data: Dataset, tmp_path: Path) -> None:
    subject = Subject.of(data, None, paint=Grey(), name="grey")
    stores = Stores(subject, tmp_path / "raw", tmp_path / "own", "cpu")
    assert stores.why_not()
    subject = subject.with_published(tmp_path / "published", "cpu")
    stores = dataclasses.replace(stores, subject=subject)
    assert not stores.why_not()
    first = subject.anonymized.clips
    assert first is not None
    assert abs(frames_of(first.items()[0].path) - 90).max() <= CODED
    rows = [
        stores.features("anonymized").store.read(one).clip for one in stores.features("anonymized").items()
    ]
    assert all(np.array_equal(row, rows[0]) for row in rows)


def test_items_that_are_parts_of_one_file_share_what_is_published(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    path = encode(tmp_path / "raw" / "one.mp4", count=3, size=(32, 32), rate=Fraction(25))
    items = tuple(Item(name, path, "train") for name in ("a", "b"))
    made = publish(Dataset("one", tmp_path / "raw", items), open_anonymizer("black"), tmp_path / "published")
    assert len({item.path for item in made.items}) == 1
    assert len([*(tmp_path / "published").iterdir()]) == 1


def test_what_is_known_of_a_video_by_its_file_is_known_of_what_is_published_of_it(
    data: Dataset, tmp_path: Path
) -> None:
    by_path = {item.path: dict(item.attributes or {}) for item in data}
    subject = Subject.of(data, open_anonymizer("black"), labels=lambda item: by_path[item.path])
    made = subject.with_published(tmp_path / "published", "cpu")
    shown = made.anonymized.clips
    assert shown is not None
    for before, after in zip(data.items, shown.items()):
        assert after.path != before.path
        assert made.known(after) == by_path[before.path]
