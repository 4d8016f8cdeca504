"""Feature inversion: who has features, and has seen pairs of videos and features, draws a frame from a feature.

    fitted = InversionAttack().fit(Features(store, split="train"))
    fitted.score(Features(store, split="test"))

The picture is the middle frame of the clip that the feature was made from (of a static clip, its frame), small. A
linear map and a decoder network learn from training videos; PSNR and SSIM on test videos are set beside those of the
mean training frame, which needs no feature at all. Then attribute attackers look at the pictures that were drawn: those
that learnt on drawn training pictures, and those that know real ones only (`…-raw`).

The raw videos are where the store's records say; `videos` names another place for files of the same items.

Shapes: m rows of n videos, width d, pictures of side s.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil import devices, files
from videoveil.attacks.attributes import Input, Labels, own_attributes
from videoveil.attacks.features import attacker, split
from videoveil.attacks.fidelity import psnr, ssim
from videoveil.attacks.inverter import (
    Decoder,
    Inverter,
    LinearInverter,
    Nearest,
    NetworkInverter,
    RowBatches,
    linear_inverter,
    squared_error,
)
from videoveil.attacks.pictures import item_truth
from videoveil.attacks.threads import one_thread
from videoveil.data.owners import together
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, MediaError, StoreError, UsageError
from videoveil.features.clips import transform_of
from videoveil.media.image import read_image
from videoveil.tasks import settings
from videoveil.tasks.base import Features, Metric, Progress, Role, Score, as_features
from videoveil.tasks.feature_set import feature_problems
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome, Outcome
from videoveil.training.supervised import Loop, Optimizer, Plateau

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.attacks.base import FittedAttacker
    from videoveil.features.store import FeatureStore, StoredItem, VideoFeatures

FREE_TO_CHANGE = ("checkpoint_every", "kinds")
SEEN = 16  # side at which attribute attackers look at drawn pictures
MEAN = "the mean training frame; for attributes, the share of rows that have them"


@dataclass(frozen=True, kw_only=True)
class InversionConfig(Plateau):
    """What is inverted, how large the pictures are, and how the decoder learns."""

    input: Input = "clip"
    size: int = 32  # a power of two
    width: int = 16  # channels of the decoder's last map
    per_video: int = 4  # features of a video, evenly spaced
    validation: float = 0.2
    epochs: int = 60
    batch: int = 64
    learning_rate: float = 1e-3
    optimizer: Optimizer = "adam"
    weight_decay: float = 0.0
    patience: int = 5
    checkpoint_every: int = 10
    kinds: tuple[str, ...] = ("linear", "knn")  # attackers that look for attributes in what was drawn

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input not in get_args(Input):
            raise UsageError(f"input={self.input!r}: choose one of {', '.join(get_args(Input))}")
        if self.size < 16 or self.size & (self.size - 1):
            raise UsageError(f"size={self.size}: must be a power of two, at least 16")
        if min(self.width, self.per_video) < 1 or not 0 < self.validation < 1:
            raise UsageError(
                f"width={self.width}, per_video={self.per_video} must be at least 1, "
                f"validation={self.validation} a share in (0, 1)"
            )
        for kind in self.kinds:
            attacker(kind)


# --- pairs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Features with the frames they were made from."""

    items: tuple[Item, ...]
    x: np.ndarray  # (m, d)
    pictures: Tensor  # (m, 3, s, s) in [0, 1]
    videos: np.ndarray  # (m,) which item a row is of


def load_rows(source: Features, config: InversionConfig, videos: Dataset | None = None) -> Rows:
    """All items of a source; everything that is wrong is listed."""
    entries = sorted(source.items(), key=lambda entry: entry.item.id)
    if not entries:
        raise BadItems(f"{source.store.root}: no items in split {source.split!r}")
    elsewhere = None if videos is None else {item.id: item for item in videos}
    x, pictures, wrong = [], [], []
    for entry in entries:
        item = entry.item if elsewhere is None else elsewhere.get(entry.item.id)
        if item is None:
            wrong.append(f"{entry.item.id}: no video of that name in {videos.root if videos else ''}")
            continue
        try:
            rows, frames = _chosen(source.store, entry, config)
            pictures.append(_pictures(source.store, item, frames, config.size))
            x.append(rows)
        except (StoreError, MediaError, OSError) as error:
            wrong.append(f"{entry.item.id}: {getattr(error, 'reason', error)}")
    if wrong:
        raise BadItems(f"{source.store.root}: {len(wrong)} items cannot be inverted:", wrong)
    numbers = np.repeat(np.arange(len(x)), [len(rows) for rows in x])
    return Rows(tuple(entry.item for entry in entries), np.concatenate(x), torch.cat(pictures), numbers)


def _chosen(store: FeatureStore, entry: StoredItem, config: InversionConfig) -> tuple[np.ndarray, list[int]]:
    """Evenly spaced features (k, d) of a video and the frame that each is to be drawn as."""
    stored: VideoFeatures = store.read(entry)
    features, frames = stored.clip, stored.starts + store.recipe.stride * (store.recipe.frames // 2)
    if config.input == "static":
        if stored.static is None or stored.static_frames is None:
            raise StoreError("no static features; extract with --static K")
        features, frames = stored.static, stored.static_frames
    if problems := feature_problems(features, int(store.encoder["width"])):
        raise StoreError("; ".join(problems))
    count = min(config.per_video, len(features))
    places = np.linspace(0, len(features) - 1, count).round().astype(int)
    return features[places], [min(int(frames[i]), stored.frames - 1) for i in places]


def _pictures(store: FeatureStore, item: Item, frames: list[int], size: int) -> Tensor:
    """(k, 3, s, s) in [0, 1]: what the encoder saw of these frames, made small."""
    if item.kind == "image":
        images = np.repeat(read_image(item.path)[None], len(frames), 0)
    else:
        from videoveil.media.reader import open_video

        with open_video(item.path) as video:
            images = video.read(frames)
    shown = transform_of(store.recipe)(images)  # (3, k, size, size)
    whole = shown.transpose(0, 1).float().div(255)
    method = "area" if whole.shape[-1] >= size else "bilinear"
    return F.interpolate(whole, (size, size), mode=method).clamp(0, 1)


# --- the task -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InversionAttack:
    """What can be drawn of a video from its features."""

    config: InversionConfig = field(default_factory=InversionConfig)
    labels: Labels = own_attributes
    videos: Dataset | None = None
    name: ClassVar[str] = "inversion"
    role: ClassVar[Role] = "attack"

    def fit(
        self,
        train: Features,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedInversion:
        train = as_features(train, "inversion", "reconstruct videos instead (ReconstructionAttack)")
        fabric = fabric or devices.make_fabric(device, self.config.precision)
        data = load_rows(train, self.config, self.videos)
        if len(data.items) < 2:
            raise BadItems("inversion: one video; to choose an epoch, at least two are needed")
        groups = np.array(together(data.items))[data.videos]
        learn, choose = split(len(data.x), self.config.validation, seed, groups)
        held_out = data.x[choose], data.pictures[choose]
        with one_thread(data.x.size):
            linear = linear_inverter(data.x[learn], data.pictures[learn], held_out)
        decoder = self._decoder(linear, data, learn, choose, seed, fabric, run, progress)
        inverters: dict[str, Inverter] = {"linear": linear, "decoder": decoder}
        worth = {name: float(psnr(one(held_out[0]), held_out[1]).mean()) for name, one in inverters.items()}
        made = FittedInversion(self, inverters, data.pictures[learn].mean(0), worth)
        self._look(made, data, learn, choose, seed)
        if run is not None and fabric.is_global_zero:
            made.save(run / "attack.json")
        return made

    def load(self, source: str | Path) -> FittedInversion:
        raise UsageError(f"{source}: inverters are not kept; run the attack again in the same folder")

    def _decoder(
        self,
        linear: LinearInverter,
        data: Rows,
        learn: np.ndarray,
        choose: np.ndarray,
        seed: int,
        fabric: Fabric,
        run: Path | None,
        progress: Progress | None,
    ) -> NetworkInverter:
        config = self.config
        rows = torch.from_numpy(linear.scaling(data.x.astype(np.float64)).astype(np.float32))
        network = Decoder(linear, config.width, seed).eval().to(fabric.device)
        judge = Nearest(rows[choose], data.pictures[choose])
        judge.look(network, -1)
        own = {k: v for k, v in settings.to_json(config).items() if k not in FREE_TO_CHANGE}
        digest = hashlib.sha256(np.ascontiguousarray(data.x).tobytes() + data.pictures.numpy().tobytes())
        facts = [[item.id for item in data.items], digest.hexdigest()]
        loop = Loop(
            network,
            RowBatches(rows[learn], data.pictures[learn], config.batch, seed),
            squared_error,
            config,
            seed,
            fabric,
            run,
            identity={**own, "data": files.value_hash(facts)},
            progress=progress,
            what="inversion decoder",
            judge=judge,
            free=FREE_TO_CHANGE,
        )
        loop.run()
        network.load_state_dict(judge.state)
        return NetworkInverter(linear.scaling, network.eval())

    def _look(
        self, made: FittedInversion, data: Rows, learn: np.ndarray, choose: np.ndarray, seed: int
    ) -> None:
        """Train the attackers that look at what was drawn."""
        names = tuple(sorted({name for item in data.items for name in self.labels(item) or {}}))
        if not names or not self.config.kinds:
            return
        truth = item_truth(data.items, names, self.labels)[data.videos]
        known = ~np.isnan(truth[learn]).all(0)
        made.names = tuple(name for name, there in zip(names, known) if there)
        truth = truth[:, known]
        drawn = made.inverters[made.best](data.x)
        for suffix, pictures in (("", drawn), ("-raw", data.pictures)):
            x = seen(pictures)
            for kind in self.config.kinds:
                held_out = (x[choose], truth[choose])
                made.attackers[f"{kind}{suffix}"] = attacker(kind).fit(x[learn], truth[learn], held_out, seed)


def seen(pictures: Tensor) -> np.ndarray:
    """(m, 3, s, s) → (m, 3·16·16): what an attribute attacker looks at."""
    return F.interpolate(pictures, (SEEN, SEEN), mode="area").flatten(1).double().numpy()


@dataclass
class FittedInversion:
    """Inverters, the mean training frame, and attackers that look at what is drawn."""

    task: InversionAttack
    inverters: dict[str, Inverter]
    mean: Tensor  # (3, s, s)
    worth: dict[str, float]  # PSNR on held-out training rows
    names: tuple[str, ...] = ()
    attackers: dict[str, FittedAttacker] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The inverter that did best on held-out training videos: attribute attackers look at its pictures."""
        return max(self.worth, key=lambda name: self.worth[name])

    def draw(self, test: Features, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(m, 3, s, s) twice: what is drawn of the test features, and the frames as they were."""
        data = load_rows(test, self.task.config, self.task.videos)
        return self.inverters[name or self.best](data.x), data.pictures

    def outcomes(self, test: Features) -> dict[str, Outcome]:
        """PSNR and SSIM by video of each inverter, then what attackers see in the pictures of the best one."""
        test = as_features(test, "inversion")
        data = load_rows(test, self.task.config, self.task.videos)
        ids = tuple(item.id for item in data.items)
        found: dict[str, Outcome] = {}
        blank = self.mean.expand_as(data.pictures)
        for metric, measure in (("psnr", psnr), ("ssim", ssim)):
            chance = _by_video(measure(blank, data.pictures), data.videos)
            for name, inverter in self.inverters.items():
                values = _by_video(measure(inverter(data.x), data.pictures), data.videos)
                found[f"{metric}_{name}"] = MeanOutcome(metric, ids, values, chance)
        if self.attackers:
            truth = item_truth(data.items, self.names, self.task.labels)[data.videos]
            x = seen(self.inverters[self.best](data.x))
            for name, one in self.attackers.items():
                found[f"attributes_{name}"] = AttributeOutcome(
                    self.names, truth, one.scores(x), data.videos, ids
                )
        return found

    def score(self, test: Features) -> Score:
        """PSNR and SSIM of the inverter that does best and the best cMAP on its pictures, then every outcome."""
        each = [
            Metric(n, m.value, m.chance)
            for n, m in ((n, o.measure()) for n, o in self.outcomes(test).items())
        ]
        best = []
        for kind in ("psnr", "ssim", "attributes"):
            own = [m for m in each if m.name.startswith(f"{kind}_") and m.value is not None]
            if own:
                most = max(own, key=lambda m: m.value or 0.0)
                best.append(replace(most, name="cmap" if kind == "attributes" else kind))
        return Score(InversionAttack.name, len(test.items()), (*best, *each), baseline=MEAN)

    def save(self, destination: str | Path) -> None:
        """How the inverters came to be; their weights are not kept."""
        value: dict[str, Any] = {
            "input": self.task.config.input,
            "size": self.task.config.size,
            "validation_psnr": self.worth,
            "attributes": list(self.names),
            "attackers": list(self.attackers),
        }
        files.write_json(destination, value)


def _by_video(values: Tensor, videos: np.ndarray) -> np.ndarray:
    """(m,) → (n,): the mean over the rows of each video."""
    return np.bincount(videos, weights=values.numpy()) / np.bincount(videos)
