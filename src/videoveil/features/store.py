"""The feature store: one safetensors file per video, found by what it was made from.

    STORE/store.json                     encoder (name, hash), recipe: what every file in here was made with
    STORE/features/ab/ab….safetensors    tensors of one video and its provenance; the name is the content key
    STORE/index/DATASET.json             the dataset's records, each with the key of its file

The key is a hash of the video's bytes, the encoder's hash and the recipe, so a file that exists is a file that is
done, whoever wrote it and when. A file is written by the one process that holds its lock, under a temporary name, and
appears whole or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from videoveil import files
from videoveil.data.records import Dataset, Item
from videoveil.data.serial import dataset_from_json, dataset_to_json
from videoveil.errors import StoreError, UsageError

FORMAT = 1
Crop = Literal["short-edge", "ted-spad"]
CROPS: tuple[Crop, ...] = ("short-edge", "ted-spad")  # the default first; see `features.clips.transform_of`
Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")  # the default first; see `features.precision`


@dataclass(frozen=True, slots=True)
class FeatureRecipe:
    """How a video becomes clips and clips become tensors; two stores with equal recipes can be joined."""

    frames: int  # T, frames per clip
    stride: int  # source frames from one to the next inside a clip
    resize: int  # short side before the crop
    size: int  # centre crop
    # "all" non-overlapping, "ted-spad" the same with the last one padded, "dense:S" a window every S frames, or a
    # number of equidistant clips
    clips: str = "all"
    static: int = 0  # how many single frames per video are tiled to static clips
    tokens: bool = False  # keep temporal tokens beside the pooled vector
    precision: Precision = "fp32"  # the arithmetic of the encoder, see `features.precision`
    crop: Crop = "short-edge"  # "ted-spad": four fifths of each side, brought to size without `resize`

    def __post_init__(self) -> None:
        if not re.fullmatch(r"all|ted-spad|dense:[1-9]\d*|[1-9]\d*", self.clips):
            raise UsageError(
                f"clips={self.clips!r}: use 'all', 'ted-spad', 'dense:STRIDE' or a number of equidistant clips"
            )
        for name in ("frames", "stride", "resize", "size"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)}: must be at least 1")
        if self.static < 0:
            raise UsageError(f"static={self.static}: must be 0 or more")
        if self.resize < self.size:
            raise UsageError(f"resize={self.resize} is smaller than the crop size={self.size}")
        if self.precision not in PRECISIONS:
            raise UsageError(f"precision={self.precision!r}: use one of {', '.join(PRECISIONS)}")
        if self.crop not in CROPS:
            raise UsageError(f"crop={self.crop!r}: use one of {', '.join(CROPS)}")

    def to_json(self) -> dict[str, Any]:
        """Without the default arithmetic and crop: a store from before there was a choice is still the same store."""
        value = asdict(self)
        for name, default in (("precision", PRECISIONS[0]), ("crop", CROPS[0])):
            if value[name] == default:
                del value[name]
        return value


@dataclass(frozen=True)
class VideoFeatures:
    """What the encoder said about one video. n clips, K static clips, S temporal tokens, width d."""

    clip: np.ndarray  # (n, d) float32
    starts: np.ndarray  # (n,) int64, first frame of each clip
    pts: np.ndarray  # (n, 2) int64, presentation time of first and last frame in units of time_base
    time_base: Fraction
    frames: int  # frames of the whole video
    rate: Fraction | None
    tokens: np.ndarray | None = None  # (n, S, d) float32
    static: np.ndarray | None = None  # (K, d) float32
    static_frames: np.ndarray | None = None  # (K,) int64, where the static clips were taken
    provenance: Mapping[str, str] | None = None

    def times(self) -> list[tuple[Fraction, Fraction]]:
        """Exact seconds of the first and last frame of every clip."""
        return [(int(a) * self.time_base, int(b) * self.time_base) for a, b in self.pts]


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A dataset's record and the key of its features."""

    item: Item
    key: str


class FeatureStore:
    """A folder of features made by one encoder with one recipe."""

    def __init__(self, root: Path, encoder: Mapping[str, Any], recipe: FeatureRecipe):
        self.root, self.encoder, self.recipe = root, dict(encoder), recipe
        self._identity = files.value_hash({"encoder": self.encoder["hash"], "recipe": recipe.to_json()})

    # --- opening -------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, root: str | Path) -> FeatureStore:
        """Open an existing store."""
        root = Path(root)
        header = root / "store.json"
        if not header.is_file():
            raise StoreError(
                f"{root}: not a feature store (no store.json); make one with `veil extract SOURCE {root}`"
            )
        try:
            value = json.loads(header.read_text("utf-8"))
            if value["format"] != FORMAT:
                raise StoreError(f"{header}: format {value['format']}, this version reads {FORMAT}")
            return cls(root, value["encoder"], FeatureRecipe(**value["recipe"]))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise StoreError(f"{header}: damaged ({error}); delete the store and extract again") from error

    @classmethod
    def create(cls, root: str | Path, encoder: Mapping[str, Any], recipe: FeatureRecipe) -> FeatureStore:
        """Open or start a store; one made with another encoder or recipe is refused, not mixed."""
        root = Path(root)
        store = cls(root, encoder, recipe)
        header = {"format": FORMAT, "encoder": dict(encoder), "recipe": recipe.to_json()}
        strange = root.exists() and any(not p.name.startswith(".") for p in root.iterdir())
        if not (root / "store.json").is_file():  # looked for last: another process may just have made it
            if strange:
                raise StoreError(f"{root}: exists and is not a feature store; choose an empty or new folder")
            files.create_json(root / "store.json", header)
        found = cls.open(root)
        wanted = {"encoder": dict(encoder), "recipe": recipe.to_json()}
        there = {"encoder": found.encoder, "recipe": found.recipe.to_json()}
        if wanted != there:
            raise StoreError(
                f"{root}: made with {_short(there)}, now asked for {_short(wanted)}; "
                "use another folder, or the same settings"
            )
        return store

    # --- files ---------------------------------------------------------------------------------------------

    def key(self, content: str) -> str:
        """The name of the features of content (the hash of a video's bytes, or of bytes and a time range)."""
        return files.value_hash({"content": content, "made": self._identity})[:40]

    def path(self, key: str) -> Path:
        return self.root / "features" / key[:2] / f"{key}.safetensors"

    def has(self, key: str) -> bool:
        return self.path(key).is_file()

    def write(self, key: str, features: VideoFeatures, provenance: Mapping[str, str]) -> None:
        """Write the features of one video, whole or not at all; equal features give equal bytes."""
        tensors: dict[str, np.ndarray] = {
            "clip": features.clip.astype(np.float32),
            "starts": features.starts.astype(np.int64),
            "pts": features.pts.astype(np.int64),
        }
        if features.tokens is not None:
            tensors["tokens"] = features.tokens.astype(np.float32)
        if features.static is not None and features.static_frames is not None:
            tensors["static"] = features.static.astype(np.float32)
            tensors["static_frames"] = features.static_frames.astype(np.int64)
        for name, tensor in tensors.items():
            if tensor.dtype == np.float32 and not np.isfinite(tensor).all():
                raise StoreError(
                    f"{provenance.get('id', key)}: the encoder gave NaN or infinite values in '{name}'"
                )
        facts = {
            **provenance,
            "encoder": self.encoder["name"],
            "encoder_hash": self.encoder["hash"],
            "recipe": json.dumps(self.recipe.to_json(), sort_keys=True),
            "time_base": str(features.time_base),
            "frames": str(features.frames),
            "rate": "" if features.rate is None else str(features.rate),
        }
        with files.atomic_path(self.path(key)) as temporary:
            contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
            # one metadata entry: the writer keeps several in no fixed order, and equal features must give equal bytes
            save_file(contiguous, temporary, metadata={"provenance": json.dumps(facts, sort_keys=True)})

    def read(self, key: str | StoredItem) -> VideoFeatures:
        """Read the features of one video."""
        key = key.key if isinstance(key, StoredItem) else key
        path = self.path(key)
        if not path.is_file():
            raise StoreError(f"{path}: missing; run `veil extract` again, it does only what is missing")
        try:
            with safe_open(path, "np") as handle:
                facts = json.loads(handle.metadata()["provenance"])
                tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118 (not a dict)
            return VideoFeatures(
                clip=tensors["clip"],
                starts=tensors["starts"],
                pts=tensors["pts"],
                time_base=Fraction(facts["time_base"]),
                frames=int(facts["frames"]),
                rate=Fraction(facts["rate"]) if facts["rate"] else None,
                tokens=tensors.get("tokens"),
                static=tensors.get("static"),
                static_frames=tensors.get("static_frames"),
                provenance=facts,
            )
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path}: damaged ({error}); delete it and run `veil extract` again") from error

    # --- index ---------------------------------------------------------------------------------------------

    def write_index(self, dataset: Dataset, keys: Mapping[str, str]) -> None:
        """Record a dataset whose items all have their features; `keys` maps item ids to content keys."""
        value = dataset_to_json(dataset)
        value["keys"] = {item.id: keys[item.id] for item in dataset.items}
        files.write_json(self.root / "index" / f"{dataset.name}.json", value)

    def check_index(self, dataset: Dataset) -> None:
        """Refuse a dataset that has the name of another one in here."""
        if dataset.name not in self.datasets():
            return
        there = self.dataset(dataset.name)
        if there.root.resolve() != dataset.root.resolve() and not {i.id for i in there} <= {
            i.id for i in dataset
        }:
            raise StoreError(
                f"{self.root}: already holds another '{dataset.name}', from {there.root}; use one store for each"
            )

    def datasets(self) -> tuple[str, ...]:
        return tuple(sorted(p.stem for p in (self.root / "index").glob("*.json")))

    def dataset(self, name: str | None = None) -> Dataset:
        """The records of a dataset in the store; the name may be left out when there is only one."""
        return self._index(name)[0]

    def items(self, name: str | None = None, split: str | None = None) -> tuple[StoredItem, ...]:
        """A dataset's records with their keys."""
        dataset, keys = self._index(name)
        return tuple(StoredItem(i, keys[i.id]) for i in dataset if split is None or i.split == split)

    def _index(self, name: str | None) -> tuple[Dataset, dict[str, str]]:
        there = self.datasets()
        if not there:
            raise StoreError(
                f"{self.root}: the extraction has not finished; run the same `veil extract` again"
            )
        if name is None and len(there) > 1:
            raise StoreError(f"{self.root}: holds {', '.join(there)}; say which")
        chosen = name or there[0]
        if chosen not in there:
            raise StoreError(f"{self.root}: has no dataset {chosen!r}; it holds {', '.join(there)}")
        path = self.root / "index" / f"{chosen}.json"
        try:
            value = json.loads(path.read_text("utf-8"))
            return dataset_from_json(value), value["keys"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}: damaged ({error}); run `veil extract` again") from error

    # --- ownership -----------------------------------------------------------------------------------------

    def claim(self, key: str) -> AbstractContextManager[bool]:
        """True while this process owns `key`, False if another living process does; see `files.claim`."""
        return files.claim(self.root / ".locks" / key)

    def tidy(self) -> None:
        """Remove what processes that were killed left: temporary files, and locks that nobody holds."""
        for path in self.root.rglob(f"{files.TEMPORARY}*"):
            if not files.owner_alive(path):
                path.unlink(missing_ok=True)
        for path in (self.root / ".locks").glob("*"):
            with self.claim(path.name):  # taken for a moment where it is free; releasing removes it
                pass


def _short(value: Mapping[str, Any]) -> str:
    encoder = value["encoder"]
    return f"{encoder['name']} ({encoder['hash'][:8]}) {json.dumps(value['recipe'], sort_keys=True)}"
