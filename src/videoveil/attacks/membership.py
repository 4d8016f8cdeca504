"""Membership inference: was this video in the anonymizer's training set?

    fitted = MembershipAttack().fit(Clips(dataset, anonymizer=anonymizer))
    fitted.score(Clips(dataset, anonymizer=anonymizer))

Members are the videos that the anonymizer was trained on, the others held-out ones of the same kind: by default the
splits "train" against "val" and "test". Signals say how the anonymizer treats a video (`member_signals`). One attack is
a threshold on each of them, another learns from all of them together, and answers for every video by what was learnt
from others (cross-validation, nobody in two parts). ROC-AUC, and the share of members found when 1 % or 10 % of the
others are accused as well; that needs a hundred, or ten, others to mean anything.

Splits by person or camera differ without any training. `auc_control` is what the same learner makes of the raw videos
alone: an AUC that is no higher than it says nothing about the anonymizer. Where nothing was trained there are no
members, and nothing is measured.

For features: the published features as source, `raw` those they were made from, and where it is at hand the anonymizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from videoveil import devices, files
from videoveil.attacks.features import attacker
from videoveil.attacks.member_signals import (
    Signals,
    feature_control,
    feature_response,
    feature_signals,
    picture_control,
    picture_signals,
    table,
    trained,
    with_losses,
)
from videoveil.attacks.pictures import Lens, ahead
from videoveil.data.owners import together
from videoveil.data.records import Item
from videoveil.errors import BadItems, UsageError
from videoveil.media.transforms import preset
from videoveil.tasks.base import Clips, Features, Metric, Progress, Role, Score, Source
from videoveil.tasks.metrics import roc_auc
from videoveil.tasks.outcomes import Outcome, RankOutcome
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames, check

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Member = Callable[[Item], bool | None]  # None: it is not known, or the video is of another kind
Loss = Callable[[Item, Tensor], float]  # of an item and its published frames (m, 3, s, s)

COIN = "a coin; auc_control is what the raw videos alone give away of the group they are in"
UNTRAINED = "not measurable: nothing was trained, so that nothing is a member"
RATES = {"tpr01": 0.01, "tpr10": 0.1}
LEARNT = "learnt"


def in_training(item: Item) -> bool | None:
    """By the split: "train" against "val" and "test"."""
    return {"train": True, "val": False, "test": False}.get(item.split)


@dataclass(frozen=True, kw_only=True)
class MembershipConfig:
    """What is looked at and how it is learnt from."""

    size: int = 64
    test: str = "ted-spad-test"
    frames: int = 4  # of a video
    most: int = 300  # videos of either group, drawn from the seed where there are more
    folds: int = 5
    kinds: tuple[str, ...] = ("linear", "trees")
    workers: int = 2

    def __post_init__(self) -> None:
        if min(self.frames, self.workers) < 1 or self.size < 16 or self.folds < 2 or self.most < 4:
            raise UsageError(
                f"frames={self.frames}, workers={self.workers}, size={self.size}, folds={self.folds}, "
                f"most={self.most}: at least 1, 1, 16, 2 and 4"
            )
        if preset(self.test, 8).random:
            raise UsageError(f"test={self.test!r}: choose a preset without chance")
        for kind in self.kinds:
            attacker(kind)


@dataclass(frozen=True)
class MembershipAttack:
    """Whether a video was in the training set. `losses` are those of networks that were trained with the anonymizer."""

    config: MembershipConfig = field(default_factory=MembershipConfig)
    member: Member = in_training
    raw: Features | None = None  # for features: those that the published ones were made from
    anonymizer: Any = None  # for features: what made them, where it is at hand
    losses: Mapping[str, Loss] = field(default_factory=dict)
    name: ClassVar[str] = "membership"
    role: ClassVar[Role] = "attack"

    def fit(
        self,
        train: Source,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedMembership:
        """Nothing is learnt beforehand: members and others are of one source, and learning goes across its parts."""
        made = FittedMembership(self, seed, device)
        if run is not None:
            made.save(run / "attack.json")
        return made

    def load(self, source: str | Path) -> FittedMembership:
        raise UsageError(f"{source}: nothing is kept of this attack; run it again")


@dataclass(frozen=True)
class Evidence:
    """Signals of members and others."""

    items: tuple[Item, ...]
    truth: np.ndarray  # (n,) 1 for members
    names: tuple[str, ...]
    signals: np.ndarray  # (n, signals)
    control: np.ndarray  # (n, ·)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(item.id for item in self.items)


@dataclass
class FittedMembership:
    """The attack, ready to look."""

    task: MembershipAttack
    seed: int = 0
    device: str = "auto"

    def measurable(self, test: Source) -> bool:
        """Whether anything was trained that could have members."""
        if isinstance(test, Clips):
            return test.anonymizer is not None and trained(test.anonymizer)
        return self.task.anonymizer is None or trained(self.task.anonymizer)

    def evidence(self, test: Source) -> Evidence:
        """Signals of all videos whose membership is known, of whatever split."""
        whole = test.with_split(None)
        items = self._chosen(whole)
        if isinstance(whole, Clips):
            signals, control = self._pictures(whole, items)
        else:
            signals, control = self._rows(whole, items)
        names, matrix = table(signals)
        truth = np.array([float(bool(self.task.member(item))) for item in items])
        return Evidence(items, truth, names, matrix, table(control)[1])

    def _chosen(self, source: Source) -> tuple[Item, ...]:
        every = [e.item for e in source.items()] if isinstance(source, Features) else list(source.items())
        every = sorted(every, key=lambda item: item.id)
        found: list[Item] = []
        for wanted, name in ((True, "member"), (False, "other")):
            group = [item for item in every if self.task.member(item) is wanted]
            if len(group) < self.task.config.folds:
                raise UsageError(
                    f"membership: {len(group)} videos are known as {name}; at least {self.task.config.folds} of either "
                    "group are needed. By default members are of the split train, others of val and test"
                )
            order = seeds.rng(self.seed, "membership", name).permutation(len(group))
            found += [group[i] for i in sorted(order[: self.task.config.most])]
        return tuple(sorted(found, key=lambda item: item.id))

    def _pictures(self, source: Clips, items: tuple[Item, ...]) -> tuple[list[Signals], list[Signals]]:
        config, veil = self.task.config, source.veil()
        if veil is None:
            raise UsageError(f"membership: {UNTRAINED}; give clips with an anonymizer")
        lens = Lens(1, 1, config.size, config.test, config.frames)
        check(items, Frames(), config.workers)
        device = devices.choose(self.device)
        reader = Frames(side=2 * config.size, paint=source.paint)
        signals, control = [], []
        for item, pictures in zip(items, ahead(items, lambda i: lens.pictures(i, reader), config.workers)):
            frames = pictures[:, :, 0].float().div(255).to(device)
            own, published = picture_signals(frames, veil, seeds.number(self.seed, "membership", item.id))
            signals.append(with_losses(own, self.task.losses, item, published))
            control.append(picture_control(frames))
        return signals, control

    def _rows(self, source: Features, items: tuple[Item, ...]) -> tuple[list[Signals], list[Signals]]:
        if self.task.raw is None:
            raise UsageError("membership: give raw=, the features that the published ones were made from")
        stores = (source.store, self.task.raw.store)
        places = [{e.item.id: e for e in s.items()} for s in (source, self.task.raw.with_split(None))]
        if missing := [item.id for item in items if item.id not in places[1]]:
            raise BadItems(f"{stores[1].root}: {len(missing)} videos have no raw features:", missing)
        signals, control = [], []
        for item in items:
            published, raw = (store.read(place[item.id]).clip for store, place in zip(stores, places))
            if published.shape != raw.shape:
                raise BadItems(
                    "published and raw features do not fit:", [f"{item.id}: {published.shape}, {raw.shape}"]
                )
            own = feature_signals(raw, published)
            if self.task.anonymizer is not None:
                seed = seeds.number(self.seed, "membership", item.id)
                own |= feature_response(raw, self.task.anonymizer, seed)
            signals.append(own)
            control.append(feature_control(raw))
        return signals, control

    # --- attacks ---

    def scores(self, evidence: Evidence) -> dict[str, np.ndarray]:
        """By attacker how likely every video is a member, (n,)."""
        found = {f"threshold_{name}": -evidence.signals[:, i] for i, name in enumerate(evidence.names)}
        for kind in self.task.config.kinds:
            found[f"{LEARNT}_{kind}"] = self._crossed(kind, evidence.signals, evidence)
        return found

    def _crossed(self, kind: str, x: np.ndarray, evidence: Evidence) -> np.ndarray:
        """(n,) out-of-fold probabilities; videos of one person, or of one film, are in one fold."""
        groups = np.array(together(evidence.items))
        part = folds(evidence.truth, groups, self.task.config.folds, self.seed)
        found = np.zeros(len(x))
        for fold in np.unique(part):
            inside, outside = part == fold, part != fold
            truth = evidence.truth[outside]
            if truth.min() == truth.max():
                found[inside] = truth[0]  # nothing to tell apart: everybody is the same
                continue
            fitted = attacker(kind).fit(x[outside], truth[:, None], None, self.seed)
            found[inside] = fitted.scores(x[inside])[:, 0]
        return found

    def outcomes(self, test: Source) -> dict[str, Outcome]:
        """ROC-AUC by attacker; empty where nothing was trained."""
        if not self.measurable(test):
            return {}
        evidence = self.evidence(test)
        rows = np.arange(len(evidence.items))
        return {
            f"auc_{name}": RankOutcome(evidence.truth, scores, rows, evidence.ids)
            for name, scores in self.scores(evidence).items()
        }

    def score(self, test: Source) -> Score:
        """AUC and the shares found, of the attacker that does best; the control; then those of each attacker."""
        if not self.measurable(test):
            empty = tuple(Metric(name, None, chance) for name, chance in (("auc", 0.5), *RATES.items()))
            return Score(MembershipAttack.name, 0, empty, baseline=UNTRAINED)
        evidence = self.evidence(test)
        each: list[Metric] = []
        for name, scores in self.scores(evidence).items():
            each.append(Metric(f"auc_{name}", roc_auc(evidence.truth, scores), 0.5))
            each += [
                Metric(f"{rate}_{name}", found_at(evidence.truth, scores, share), share)
                for rate, share in RATES.items()
            ]
        best = []
        for kind in ("auc", *RATES):
            own = [m for m in each if m.name.startswith(f"{kind}_") and m.value is not None]
            blank = Metric(kind, None, RATES.get(kind, 0.5))
            best.append(replace(max(own, key=lambda m: m.value or 0.0), name=kind) if own else blank)
        control = max(
            (roc_auc(evidence.truth, self._crossed(k, evidence.control, evidence)) or 0.0)
            for k in self.task.config.kinds or ("linear",)
        )
        best.append(Metric("auc_control", control, 0.5))
        return Score(MembershipAttack.name, len(evidence.items), (*best, *each), baseline=COIN)

    def save(self, destination: str | Path) -> None:
        value: dict[str, Any] = {"kinds": list(self.task.config.kinds), "losses": list(self.task.losses)}
        files.write_json(destination, value)


def folds(truth: np.ndarray, groups: np.ndarray, count: int, seed: int) -> np.ndarray:
    """(n,) the fold of every row: groups stay together, and members and others are spread evenly over the folds."""
    found = np.zeros(len(truth), dtype=np.int64)
    rng = np.random.default_rng(seed)
    shares = {name: float(truth[groups == name].mean()) for name in np.unique(groups)}
    order = sorted(rng.permutation(np.unique(groups)).tolist(), key=lambda name: shares[name])
    for place, name in enumerate(order):
        found[groups == name] = place % count
    return found


def found_at(truth: np.ndarray, scores: np.ndarray, rate: float) -> float | None:
    """The share of members above the lowest threshold that accuses at most that share of the others.

    None where there are too few others to tell such a share from none.
    """
    others = np.sort(scores[truth == 0])[::-1]
    if len(others) < round(1 / rate) or not (truth > 0).any():
        return None
    allowed = int(np.floor(rate * len(others) + 1e-9))
    return float((scores[truth > 0] > others[allowed]).mean())
