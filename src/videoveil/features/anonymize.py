"""A feature store through a latent anonymizer: the same videos, the same layout, nothing raw in it.

The new store names both: the hash of its encoder is made of the raw encoder's, the anonymizer's and, where noise is
added, of the fingerprint of its key. Each file of the old store becomes one file of the new one, under a temporary name
first, and a file that exists is a file that is done. Whatever goes wrong with a video, its file is not written; the
index, without which nobody finds the features, is written when all of them are. It says what happens in the videos and
not who is in them (`features.people`), unless labels are asked for to evaluate with; the store says which.

An anonymizer may do nothing: an adapter that is the identity before it is trained, an eraser that found no direction.
What comes out of it is raw, whatever it went through, and is withheld.

What comes out must not depend on how much is computed at once. Matrix products differ in their last bits from one shape
to another, so a video goes through in pieces of fixed shapes (`PIECES`) that only its own clips are in, filled up with
zeros; `batch` says how many rows are moved to the device together and has no part in that.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import videoveil
from videoveil import devices, files
from videoveil.anonymizers.errors import EncoderMismatch, ShapeMismatch, Unchanged
from videoveil.anonymizers.latent import LatentAnonymizer, require_exportable
from videoveil.errors import BadItems, StoreError, UsageError, VeilError
from videoveil.features.people import without_people
from videoveil.features.store import FeatureStore, StoredItem, VideoFeatures
from videoveil.features.tokens import require_mean_of_tokens, require_mean_tokens

PIECES = (256, 16)  # rows computed at once: the first as often as it fits, the second for the rest
RETRY_SECONDS = 0.2  # how often a file that another process owns is looked at again
# of a row's length: some roundings of float32 and nothing else; what changes more than that is for an audit to judge
UNCHANGED = 1e-6
DERIVED = ("encoder", "encoder_hash", "recipe", "time_base", "frames", "rate")  # a store writes these itself
KEPT_FACTS = ("content", "id")  # of a raw file, where nothing is said about people

Progress = Callable[[int, int, int], None]  # videos done, videos in all, rows anonymized


@dataclass(frozen=True, slots=True)
class AnonymizeReport:
    """What was done."""

    store: str
    datasets: tuple[str, ...]
    items: int
    written: int  # by this process, this time
    present: int  # found done
    rows: int  # vectors and tokens anonymized
    seconds: float
    encoder_hash: str  # of the new store
    labels: bool  # whether its records say who is in the videos

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def anonymize(
    store_root: str | Path,
    out_root: str | Path,
    anonymizer: LatentAnonymizer,
    *,
    labels: bool = False,
    batch: int = 4096,
    device: str = "auto",
    progress: Progress | None = None,
) -> AnonymizeReport:
    """Write the anonymized features of every dataset of a store into another store; what is there is not done again.

    clip, static and token features are all anonymized; starts, times and frame numbers are kept. With an anonymizer
    made for temporal tokens `clip` becomes the mean of the anonymized tokens, as the pooled vector is the mean of the
    raw ones; static clips, of which no tokens are stored, go through as clips of one token. With one made for clip
    vectors `clip` goes through by itself and the tokens of a clip go through together.

    Records keep what happens and when. `labels=True` keeps also what they say about people (private attributes,
    subjects) and where the raw videos are: to evaluate with, not to give away. A store is continued as it was begun.

    Refused: an anonymizer whose output must not leave the process, one that does nothing, one made for another encoder,
    width or kind of token, one that needs static features the store does not have, and a store that is anonymized
    already. A video that fails is withheld; all such are raised as one `BadItems` when the others are done.
    """
    if batch < 1:
        raise UsageError(f"batch={batch}: must be at least 1")
    source = FeatureStore.open(store_root)
    datasets = source.datasets()
    if not datasets:
        raise StoreError(
            f"{source.root}: the extraction has not finished; run the same `veil extract` again first"
        )
    check(source, anonymizer)
    if Path(out_root).resolve() == source.root.resolve():
        raise UsageError(f"{out_root}: is the raw store itself; choose another folder")
    made_of = _identity_there(out_root, identity(source, anonymizer, labels=labels))
    passage = Passage(anonymizer, devices.choose(device), batch)
    first = _first(source, datasets, passage) if not (Path(out_root) / "store.json").exists() else {}
    target = FeatureStore.create(out_root, made_of, source.recipe)
    return _Job(source, target, passage, first, labels, progress).run(datasets)


def check(source: FeatureStore, anonymizer: LatentAnonymizer) -> None:
    """Refuse what must not or cannot be done, before anything is written."""
    require_exportable(anonymizer)
    config = anonymizer.config
    if "anonymizer" in source.encoder:
        raise StoreError(f"{source.root}: is anonymized already; anonymize the raw store it was made from")
    width = source.encoder.get("width", config.width)
    if width != config.width:
        raise ShapeMismatch(
            f"{source.root}: features of width {width}, the anonymizer takes {config.width}; "
            "use one made for this encoder"
        )
    if config.encoder is not None and config.encoder.hash != source.encoder["hash"]:
        raise EncoderMismatch(
            f"{source.root}: made by {source.encoder['name']} ({source.encoder['hash'][:12]}), the anonymizer for "
            f"{config.encoder.name} ({config.encoder.hash[:12]}): what was measured would not hold"
        )
    if config.tokens == "temporal" and not source.recipe.tokens:
        raise UsageError(
            f"{source.root}: has no temporal tokens, which this anonymizer was made for; extract with tokens=True"
        )
    if config.tokens == "temporal":
        require_mean_tokens(source)
    if anonymizer.wants_static and not source.recipe.static:
        raise UsageError(
            f"{source.root}: has no static clips, which this anonymizer subtracts; extract with static=10"
        )


def identity(source: FeatureStore, anonymizer: LatentAnonymizer, *, labels: bool = False) -> dict[str, Any]:
    """What stands for the encoder in the new store: raw encoder, anonymizer and key in one hash, and each by itself.

    `labels` is not in the hash: the features are the same.
    """
    key = anonymizer.key.fingerprint() if anonymizer.wants_noise and anonymizer.key is not None else None
    made = anonymizer.content_hash()
    raw = source.encoder
    combined = files.value_hash({"encoder": raw["hash"], "anonymizer": made, "key": key})
    return {
        "name": f"{raw['name']}+veil-{made[:12]}",
        "hash": combined,
        "width": anonymizer.config.width,
        # of features that were made from anonymized pictures: also what those went through
        "encoder": {n: raw[n] for n in ("name", "hash", "options", "encoder", "pixels") if n in raw},
        "anonymizer": {
            "hash": made,
            "stages": [stage.kind for stage in anonymizer.config.stages],
            "tokens": anonymizer.config.tokens,
            "key": key,
        },
        "labels": labels,
    }


def _identity_there(root: str | Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """`wanted` as a store at `root` would say it; one begun with the other choice of labels is refused."""
    if not (Path(root) / "store.json").is_file():
        return wanted
    there = FeatureStore.open(root).encoder
    if there["hash"] != wanted["hash"]:
        return wanted  # another store altogether, which `FeatureStore.create` refuses
    if there.get("labels", True) != wanted["labels"]:
        begun, asked = ("with", "without") if there.get("labels", True) else ("without", "with")
        raise StoreError(
            f"{root}: begun {begun} labels of people in its records, now asked for {asked} them (labels="
            f"{wanted['labels']}); use another folder, or the same choice (--labels)"
        )
    # a store from before there was a choice has labels and does not say so
    return wanted if "labels" in there else {name: wanted[name] for name in wanted if name != "labels"}


def _first(source: FeatureStore, datasets: Sequence[str], passage: Passage) -> dict[str, VideoFeatures]:
    """The first video anonymized, by its key: where that changes nothing, no store appears at all."""
    for entry in source.items(datasets[0])[:1]:
        try:
            return {entry.key: passage(source.read(entry), entry.key)}
        except Unchanged as error:
            raise Unchanged(f"{source.root}: {error}; nothing was written") from None
        except (VeilError, RuntimeError):  # one video: the others are done, and then it is named
            return {}
    return {}


class _Job:
    def __init__(
        self,
        source: FeatureStore,
        target: FeatureStore,
        passage: Passage,
        done: dict[str, VideoFeatures],  # by key, anonymized already
        labels: bool,
        progress: Progress | None,
    ):
        self.source, self.target, self.progress = source, target, progress
        self.passage, self.done, self.labels = passage, done, labels
        self.written = self.present = 0
        self.bad: dict[str, str] = {}

    def run(self, datasets: Sequence[str]) -> AnonymizeReport:
        began = time.perf_counter()
        self.target.tidy()
        entries = {name: self.source.items(name) for name in datasets}
        waiting = [(name, entry) for name in datasets for entry in entries[name]]
        total = len(waiting)
        while waiting:
            later = [pair for pair in waiting if not self._one(*pair, total)]
            if len(later) == len(waiting):  # all of them are somebody else's: finish with them, or after them
                time.sleep(RETRY_SECONDS)
            waiting = later
        if self.bad:
            raise BadItems(
                f"{self.source.root}: {len(self.bad)} of {total} videos could not be anonymized and are withheld; the "
                "others are stored, the index is not. Mend them and run again:",
                [f"{id_}: {reason}" for id_, reason in sorted(self.bad.items())],
            )
        for name in datasets:
            keys = {entry.item.id: self._key(entry) for entry in entries[name]}
            records = self.source.dataset(name)
            self.target.write_index(records if self.labels else without_people(records), keys)
        self.target.tidy()
        return AnonymizeReport(
            store=str(self.target.root),
            datasets=tuple(datasets),
            items=total,
            written=self.written,
            present=self.present,
            rows=self.passage.rows,
            seconds=time.perf_counter() - began,
            encoder_hash=self.target.encoder["hash"],
            labels=self.labels,
        )

    def _key(self, entry: StoredItem) -> str:
        """Named after the raw file, which is named after the video, the encoder and the recipe."""
        return self.target.key(f"features {entry.key}")

    def _one(self, dataset: str, entry: StoredItem, total: int) -> bool:
        """Whether this video is settled: done by us, done before, or failed; not so while another process has it."""
        key = self._key(entry)
        if self.target.has(key):
            self.present += 1
        else:
            with self.target.claim(key) as owned:
                if not owned:
                    return False
                if self.target.has(key):  # done by the other one in the meantime
                    self.present += 1
                else:
                    self._make(dataset, entry, key)
        if self.progress is not None:
            self.progress(self.written + self.present + len(self.bad), total, self.passage.rows)
        return True

    def _make(self, dataset: str, entry: StoredItem, key: str) -> None:
        try:
            raw = self.source.read(entry)
            safe = self.done.pop(entry.key, None) or self.passage(raw, entry.key)
            self.target.write(key, safe, _provenance(raw, entry, self.labels))
            self.written += 1
        except (
            VeilError,
            RuntimeError,
        ) as error:  # NaN, a damaged file, out of memory: no file, never the raw one
            self.bad[f"{dataset}/{entry.item.id}"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"


class Passage:
    """The way of one video after the other through an anonymizer."""

    def __init__(self, anonymizer: LatentAnonymizer, device: torch.device, batch: int = 4096):
        require_exportable(anonymizer)
        self.anonymizer = copy.deepcopy(anonymizer).to(device).eval()  # the caller's stays where it is
        self.device = device
        self.moved = max(PIECES[0], batch - batch % PIECES[0])
        self.rows = 0  # vectors and tokens so far

    def __call__(self, raw: VideoFeatures, name: str) -> VideoFeatures:
        """The same video with every feature anonymized, or an error; `name` names its rows for keyed noise."""
        if self.anonymizer.config.tokens == "temporal":
            require_mean_of_tokens(raw, name)
        still = self._still(raw)
        clips = [f"{name} clip {start}" for start in raw.starts.tolist()]
        tokens = None if raw.tokens is None else self._through(raw.tokens, still, clips)
        if self.anonymizer.config.tokens == "temporal" and tokens is not None:
            clip = tokens.astype(np.float64).mean(1).astype(np.float32)
        else:
            # under the same names as the tokens: the noise that all of a clip shares must not average away
            clip = self._through(raw.clip, still, clips)
        static = None
        if raw.static is not None and raw.static_frames is not None:
            frames = [f"{name} static {frame}" for frame in raw.static_frames.tolist()]
            static = self._through(raw.static, still, frames)
        return VideoFeatures(
            clip=clip,
            starts=raw.starts,
            pts=raw.pts,
            time_base=raw.time_base,
            frames=raw.frames,
            rate=raw.rate,
            tokens=tokens,
            static=static,
            static_frames=raw.static_frames,
        )

    def _still(self, raw: VideoFeatures) -> Tensor | None:
        """Mean static feature (d,) of the video, where a stage wants it; a still picture is its own."""
        if not self.anonymizer.wants_static:
            return None
        rows = raw.clip if raw.static is None else raw.static
        return torch.from_numpy(rows.astype(np.float64).mean(0).astype(np.float32)).to(self.device)

    @torch.inference_mode()
    def _through(self, rows: np.ndarray, still: Tensor | None, names: Sequence[str]) -> np.ndarray:
        """(n, d) or (n, S, d) → the same, in pieces of fixed shapes."""
        if rows.ndim < 2 or rows.shape[-1] != self.anonymizer.config.width:
            raise ShapeMismatch(
                f"features {rows.shape} are not {self.anonymizer.config.width} wide, as the store says"
            )
        out = np.empty_like(rows, dtype=np.float32)
        for begin in range(0, len(rows), self.moved):
            there = torch.from_numpy(np.ascontiguousarray(rows[begin : begin + self.moved], dtype=np.float32))
            there = there.to(self.device)
            done = torch.empty_like(there)
            for first, count, size in pieces(len(there)):
                piece = there.new_zeros(size, *there.shape[1:])
                piece[:count] = there[first : first + count]
                own = list(names[begin + first : begin + first + count])
                context = None if still is None else still.expand(size, -1)
                result = self.anonymizer(piece, static=context, content=own + [""] * (size - count))
                done[first : first + count] = result[:count]
            out[begin : begin + len(there)] = done.cpu().numpy()
        require_changed(rows, out)
        self.rows += int(np.prod(rows.shape[:-1]))
        return out


def require_changed(raw: np.ndarray, safe: np.ndarray) -> None:
    """Refuse rows (…, d) that came out as they went in, up to rounding. A row of zeros says nothing and may stay."""
    before = raw.reshape(-1, raw.shape[-1]).astype(np.float64)
    length = np.linalg.norm(before, axis=1)
    moved = np.linalg.norm(safe.reshape(before.shape) - before, axis=1)
    same = int(((length > 0) & (moved <= UNCHANGED * length)).sum())
    if same:
        raise Unchanged(
            f"{same} of {len(before)} features come out of the anonymizer as they went in, and would be raw; train it "
            "(`veil train`), or fit it (`fit_from`) on features like these"
        )


def pieces(count: int) -> Iterator[tuple[int, int, int]]:
    """(first row, rows, rows with padding) of every piece of `count` rows; the same for the same count."""
    first = 0
    for size in PIECES:
        while count - first >= size:
            yield first, size, size
            first += size
    if first < count:
        yield first, count - first, PIECES[-1]


def _provenance(raw: VideoFeatures, entry: StoredItem, labels: bool) -> dict[str, str]:
    """What the raw file says about its video, and which file it was; without labels only what names the video."""
    facts: Mapping[str, str] = raw.provenance or {}
    kept = {name: facts[name] for name in facts if (name not in DERIVED if labels else name in KEPT_FACTS)}
    return {
        **kept,
        "raw_features": entry.key,
        "raw_encoder": json.dumps({name: facts.get(name, "") for name in ("encoder", "encoder_hash")}),
        "software": f"videoveil {videoveil.__version__}, torch {torch.__version__}",
    }
