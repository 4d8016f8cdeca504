"""Everybody who takes part in an audit, by name: attackers and utilities. A new one is a line here.

`strength` is what an attacker is expected to find in raw videos, as a share of everything above chance, measured on
twins; with a budget those that find most per minute are taken first. It decides nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from videoveil.attacks.attributes import AttackConfig, AttributeAttack
from videoveil.attacks.frames import ClipAttack, ClipConfig, FrameAttack, FrameConfig
from videoveil.attacks.gait import GALLERY, PROBE, GaitAttack, GaitConfig
from videoveil.attacks.identity import IdentityAttack, IdentityConfig
from videoveil.attacks.inversion import InversionAttack, InversionConfig
from videoveil.attacks.membership import MembershipConfig
from videoveil.attacks.off_the_shelf import Named
from videoveil.attacks.pooling import with_videos
from videoveil.attacks.reconstruction import ReconstructionAttack, ReconstructionConfig
from videoveil.audit import grid, members, needs, people, utilities
from videoveil.audit.stopwatch import Stopwatch
from videoveil.audit.subject import ALL, DENSE, WHICH, Stores, Subject, Which
from videoveil.errors import UsageError
from videoveil.media.transforms import AROUND
from videoveil.tasks.action.network import NetworkConfig
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.base import Clips, Features, Progress, Role
from videoveil.tasks.detection import small as small_detector
from videoveil.tasks.mgfn import MGFNConfig
from videoveil.tasks.mgfn import small as small_mgfn
from videoveil.tasks.outcomes import Outcome
from videoveil.tasks.tridet import TriDetConfig

Answers = dict[str, Outcome]


@dataclass(frozen=True)
class Trial:
    """One training of one participant: on which side, with which seed."""

    subject: Subject
    stores: Stores
    which: Which
    seed: int
    device: str = "auto"
    progress: Progress | None = None
    model: Path | None = None  # where what was learnt is kept, if somebody wants to see it; None: nowhere

    def clips(self, split: str, which: Which | None = None) -> Clips:
        shown = self.subject.side(which or self.which).clips
        if shown is None:
            raise UsageError("audit: this side has features, no pictures")
        return shown.with_split(split or None)

    def learnt(self) -> None:
        """To be said between learning and scoring: who only asks how long it takes has seen enough."""
        if isinstance(self.progress, Stopwatch):
            self.progress.learnt()

    def features(self, split: str, which: Which | None = None, grid: str = ALL) -> Features:
        return self.stores.features(which or self.which, split or None, grid)


@dataclass(frozen=True)
class Participant:
    """An attacker or a utility. `why_not` says why it cannot take part; empty where it can."""

    name: str
    words: str  # for people who do not train networks
    question: str  # what it wants to know; participants with the same question are compared
    role: Role
    reads: Literal["clips", "features", "either"]  # "either": whatever the anonymizer gives out
    strength: float
    run: Callable[[Trial, Any], Answers]
    config: Callable[[bool], Any]  # whether there is a GPU → its settings
    why_not: Callable[[Subject], str]
    judged: bool = True
    sides: tuple[Which, ...] = WHICH  # without a raw side it is a risk by itself, compared with nothing
    grid: str = ALL  # the clips whose features it reads
    learns: bool = (
        False  # a network that learns from the pictures themselves: a frozen encoder misses what it finds
    )

    def excuse(self, subject: Subject, stores: Stores) -> str:
        if self.reads == "clips" and subject.anonymized.clips is None:
            return "only features leave this anonymizer; there are no pictures to look at"
        if self.reads == "features" and (reason := stores.why_not()):
            return reason
        return self.why_not(subject)

    def settings(self, gpu: bool) -> dict[str, Any]:
        """For config.yaml and for the names of results."""
        config = self.config(gpu)
        return asdict(config) if is_dataclass(config) and not isinstance(config, type) else {}


# --- what they do -------------------------------------------------------------------------------------------


def _on_features(trial: Trial, config: AttackConfig) -> Answers:
    raw = trial.features(trial.subject.train, "raw") if config.knowledge == "raw" else None
    task = AttributeAttack(config, trial.subject.labels, raw=raw)
    fitted = task.fit(
        trial.features(trial.subject.train), seed=trial.seed, device="cpu", progress=trial.progress
    )
    trial.learnt()
    return with_videos(fitted.outcomes(trial.features(trial.subject.test)))


def _on_pictures(trial: Trial, config: Any) -> Answers:
    kind: Any = FrameAttack if isinstance(config, FrameConfig) else ClipAttack
    raw = trial.clips(trial.subject.train, "raw")
    fitted = kind(config, trial.subject.labels, raw=raw).fit(
        trial.clips(trial.subject.train), seed=trial.seed, device=trial.device, progress=trial.progress
    )
    trial.learnt()
    return with_videos(fitted.outcomes(trial.clips(trial.subject.test)))


def _by_identity(trial: Trial, config: IdentityConfig) -> Answers:
    """People in published videos, by published videos of theirs and by raw ones."""
    task = IdentityAttack(config, raw=trial.clips("", "raw"))
    fitted = task.fit(
        trial.clips(trial.subject.train), seed=trial.seed, device=trial.device, progress=trial.progress
    )
    trial.learnt()
    return fitted.outcomes(trial.clips(trial.subject.test))


def _by_identity_in_features(trial: Trial, config: IdentityConfig) -> Answers:
    task = IdentityAttack(config, raw=trial.features("", "raw"))
    fitted = task.fit(
        trial.features(trial.subject.train), seed=trial.seed, device="cpu", progress=trial.progress
    )
    trial.learnt()
    return fitted.outcomes(trial.features(trial.subject.test))


def _by_reconstruction(trial: Trial, config: ReconstructionConfig) -> Answers:
    """A network learns to draw raw frames from published ones; others look at what it draws.

    Of raw videos there is nothing to reconstruct: the published frame is the raw one, at any number of decibels.
    People are looked for only where enough of them are named.
    """
    config = replace(config, identity=config.identity and not needs.people(trial.subject))
    task = ReconstructionAttack(config, trial.subject.labels, raw=trial.clips("", "raw"))
    fitted = task.fit(
        trial.clips(trial.subject.train), seed=trial.seed, device=trial.device, progress=trial.progress
    )
    trial.learnt()
    if trial.model is not None:
        fitted.save(trial.model)
    return with_videos(fitted.outcomes(trial.clips(trial.subject.test)))


def _by_inversion(trial: Trial, config: InversionConfig) -> Answers:
    """A network learns to draw frames from features; others look at what it draws."""
    task = InversionAttack(config, trial.subject.labels, trial.subject.dataset)
    fitted = task.fit(
        trial.features(trial.subject.train), seed=trial.seed, device=trial.device, progress=trial.progress
    )
    trial.learnt()
    return with_videos(fitted.outcomes(trial.features(trial.subject.test)))


def _on_grid(trial: Trial, config: grid.GridConfig) -> Answers:
    sides = trial.clips(trial.subject.train), trial.clips(trial.subject.test)
    return grid.attack(
        *sides, trial.subject.labels, config, seed=trial.seed, device=trial.device, progress=trial.progress
    )


def _by_gait(trial: Trial, config: GaitConfig) -> Answers:
    fitted = GaitAttack(config).fit(
        trial.features(GALLERY), seed=trial.seed, device="cpu", progress=trial.progress
    )
    return fitted.outcomes(trial.features(PROBE))


def _probe(trial: Trial, config: ProbeConfig) -> Answers:
    sides = trial.features(trial.subject.train), trial.features(trial.subject.test)
    return {"linear": utilities.probe(*sides, config, seed=trial.seed, progress=trial.progress)}


def _network(trial: Trial, config: NetworkConfig) -> Answers:
    sides = trial.clips(trial.subject.train), trial.clips(trial.subject.test)
    found = utilities.network(*sides, config, seed=trial.seed, device=trial.device, progress=trial.progress)
    return {config.encoder: found}


def _anomalies(trial: Trial, config: MGFNConfig) -> Answers:
    sides = trial.features(trial.subject.train), trial.features(trial.subject.test)
    found = utilities.anomalies(*sides, config, seed=trial.seed, device=trial.device, progress=trial.progress)
    return {"mgfn": found}


def _detection(trial: Trial, config: TriDetConfig) -> Answers:
    train, test = (trial.features(split, grid=DENSE) for split in (trial.subject.train, trial.subject.test))
    found = utilities.detection(
        train, test, config, seed=trial.seed, device=trial.device, progress=trial.progress
    )
    return {"tridet": found}


def _members(trial: Trial, config: MembershipConfig) -> Answers:
    latent = trial.subject.anonymized.latent is not None
    published = trial.features("") if latent else trial.subject.side(trial.which).on_the_fly
    raw = trial.features("", "raw") if latent else None
    return members.answers(trial.subject, published, raw, config, seed=trial.seed, device=trial.device)


def _detectors(trial: Trial, config: people.PeopleConfig, brought: tuple[Named, ...] = ()) -> Answers:
    test, raw = trial.clips(trial.subject.test), trial.clips("", "raw")
    return people.found(test, raw, config, brought, seed=trial.seed, device=trial.device)


# --- how they learn -----------------------------------------------------------------------------------------


def _learning(gpu: bool) -> dict[str, Any]:
    """Sizes that suit two cores, or a GPU."""
    if gpu:
        return {"size": 112, "batch": 32, "precision": "bf16-mixed", "checkpoint_every": 1000}
    return {"size": 64, "batch": 16, "checkpoint_every": 1000}


# how attackers on pictures see them: up to the edges, where something raw may have been left
LEARN, LOOK = "ted-spad-weak", AROUND


def _frames(gpu: bool) -> FrameConfig:
    return FrameConfig(
        networks=("resnet.18", "tiny@own") if gpu else ("tiny@own",),
        augment=LEARN,
        test=LOOK,
        per_video=4 if gpu else 2,
        epochs=20 if gpu else 10,
        **_learning(gpu),
    )


def _clips(gpu: bool) -> ClipConfig:
    return ClipConfig(
        networks=("r3d.18", "tiny@own") if gpu else ("tiny@own",),
        augment=LEARN,
        test=LOOK,
        per_video=2 if gpu else 1,
        epochs=20 if gpu else 16,
        **_learning(gpu),
    )


def _reconstruction(gpu: bool) -> ReconstructionConfig:
    own = {name: value for name, value in _learning(gpu).items() if name != "batch"}
    return ReconstructionConfig(
        augment=LEARN,
        test=LOOK,
        width=32 if gpu else 8,
        epochs=30 if gpu else 8,
        network_epochs=15 if gpu else 8,
        identity=True,
        **own,
    )


def _identity(gpu: bool) -> IdentityConfig:
    return IdentityConfig(augment=LEARN, test=LOOK, epochs=20 if gpu else 10, **_learning(gpu))


def _action_network(gpu: bool) -> NetworkConfig:
    return NetworkConfig(
        encoder="tiny",
        augment="ted-spad-weak",
        clips=5,
        epochs=30 if gpu else 12,
        learning_rate=2e-3,
        warmup_epochs=1,
        **_learning(gpu),
    )


def _same(config: Any) -> Callable[[bool], Any]:
    return lambda gpu: config


ATTRIBUTES, IDENTITY, GAIT = "private attributes", "who it is", "who is walking"
ACTIONS, ANOMALIES, DETECTION = "actions", "unusual events", "when actions happen"
LIKENESS = "how near reconstructed pictures come to raw ones"
SEEN = "people found by a detector nobody here trained"
MEMBERS = "was this video among those it was trained on"
RECONSTRUCTION = "reconstruction"  # whose pictures a report may show
DETECTORS = "detectors"  # to which a user may bring more
UNJUDGED = ("psnr", "ssim")  # metrics of likeness: near in decibels is not the same as recognised


def question_of(one: Participant, name: str, metric: str) -> tuple[str, bool]:
    """Which question an answer belongs to, and whether anything is decided by it."""
    if metric in UNJUDGED:
        return f"{LIKENESS} ({metric})", False
    return (IDENTITY if name.startswith("identity_") else one.question), one.judged


PARTICIPANTS = (
    Participant(
        "action-probe",
        "recognises actions with a linear layer on features of a frozen encoder",
        ACTIONS,
        "utility",
        "features",
        0.8,
        _probe,
        _same(ProbeConfig()),
        needs.actions,
    ),
    Participant(
        "action-network",
        "recognises actions with a video network that learns from what it is shown",
        ACTIONS,
        "utility",
        "clips",
        0.8,
        _network,
        _action_network,
        needs.actions,
    ),
    Participant(
        "anomaly",
        "finds the frames in which something unusual happens, by features of a frozen encoder",
        ANOMALIES,
        "utility",
        "features",
        0.6,
        _anomalies,
        _same(small_mgfn()),
        needs.anomalies,
    ),
    Participant(
        "detection",
        "finds from when to when actions happen, by features of a frozen encoder",
        DETECTION,
        "utility",
        "features",
        0.5,
        _detection,
        _same(small_detector()),
        needs.segments,
        grid=DENSE,
    ),
    Participant(
        "features-static",
        "guesses attributes from an encoder's features of single frames",
        ATTRIBUTES,
        "attack",
        "features",
        0.6,
        _on_features,
        _same(AttackConfig(input="static")),
        needs.attributes,
    ),
    Participant(
        "features-moving",
        "guesses attributes from an encoder's features of moving clips",
        ATTRIBUTES,
        "attack",
        "features",
        0.6,
        _on_features,
        _same(AttackConfig(input="clip")),
        needs.attributes,
    ),
    Participant(
        "features-static-raw",
        "has learnt to guess attributes from raw features of single frames, and looks at anonymized ones as they are",
        ATTRIBUTES,
        "attack",
        "features",
        0.3,
        _on_features,
        _same(AttackConfig(input="static", knowledge="raw")),
        needs.attributes,
    ),
    Participant(
        "features-moving-raw",
        "has learnt to guess attributes from raw features of moving clips, and looks at anonymized ones as they are",
        ATTRIBUTES,
        "attack",
        "features",
        0.3,
        _on_features,
        _same(AttackConfig(input="clip", knowledge="raw")),
        needs.attributes,
    ),
    Participant(
        "grid",
        "guesses attributes from the colours of a coarse grid over the whole picture",
        ATTRIBUTES,
        "attack",
        "clips",
        0.3,
        _on_grid,
        _same(grid.GridConfig()),
        needs.attributes,
    ),
    Participant(
        "frames",
        "guesses attributes from single frames with a network that learns from what it is shown",
        ATTRIBUTES,
        "attack",
        "clips",
        0.7,
        _on_pictures,
        _frames,
        needs.attributes,
        learns=True,
    ),
    Participant(
        "clips",
        "guesses attributes from moving clips with a network that learns from what it is shown",
        ATTRIBUTES,
        "attack",
        "clips",
        0.7,
        _on_pictures,
        _clips,
        needs.attributes,
        learns=True,
    ),
    Participant(
        "frames-raw",
        "has learnt to guess attributes from raw frames, and looks at anonymized ones as they are",
        ATTRIBUTES,
        "attack",
        "clips",
        0.4,
        _on_pictures,
        lambda gpu: replace(_frames(gpu), knowledge="raw"),
        needs.attributes,
    ),
    Participant(
        "clips-raw",
        "has learnt to guess attributes from raw moving clips, and looks at anonymized ones as they are",
        ATTRIBUTES,
        "attack",
        "clips",
        0.4,
        _on_pictures,
        lambda gpu: replace(_clips(gpu), knowledge="raw"),
        needs.attributes,
    ),
    Participant(
        "frames-tuned",
        "has learnt to guess attributes from raw frames, and goes on learning with anonymized ones",
        ATTRIBUTES,
        "attack",
        "clips",
        0.7,
        _on_pictures,
        lambda gpu: replace(_frames(gpu), knowledge="fine-tuned"),
        needs.attributes,
        learns=True,
    ),
    Participant(
        "clips-tuned",
        "has learnt to guess attributes from raw moving clips, and goes on learning with anonymized ones",
        ATTRIBUTES,
        "attack",
        "clips",
        0.7,
        _on_pictures,
        lambda gpu: replace(_clips(gpu), knowledge="fine-tuned"),
        needs.attributes,
        learns=True,
    ),
    Participant(
        RECONSTRUCTION,
        "learns to draw the raw frames again, and looks for attributes (and people, where named) in what it draws",
        ATTRIBUTES,
        "attack",
        "clips",
        0.5,
        _by_reconstruction,
        _reconstruction,
        needs.attributes,
        learns=True,
    ),
    Participant(
        "inversion",
        "learns to draw frames from features, and looks for attributes in what it draws",
        ATTRIBUTES,
        "attack",
        "features",
        0.3,
        _by_inversion,
        _same(InversionConfig()),
        needs.attributes,
    ),
    Participant(
        "identity-features",
        "finds a person again by features, among videos of people whose names are known",
        IDENTITY,
        "attack",
        "features",
        0.6,
        _by_identity_in_features,
        _same(IdentityConfig()),
        needs.people,
    ),
    Participant(
        "identity-clips",
        "finds a person again by moving clips, among videos of people whose names are known",
        IDENTITY,
        "attack",
        "clips",
        0.7,
        _by_identity,
        _identity,
        needs.people,
        learns=True,
    ),
    Participant(
        "gait",
        "finds a walking person among people whose walks are known",
        GAIT,
        "attack",
        "features",
        0.7,
        _by_gait,
        _same(GaitConfig()),
        needs.gait,
    ),
    Participant(
        DETECTORS,
        "looks for people with a detector that was trained elsewhere, on other pictures",
        SEEN,
        "attack",
        "clips",
        0.2,
        _detectors,
        _same(people.PeopleConfig()),
        needs.nothing,
        judged=False,
    ),
    Participant(
        "membership",
        "tells videos that the anonymizer was trained on from others, by how it treats them",
        MEMBERS,
        "attack",
        "either",
        0.2,
        _members,
        _same(MembershipConfig()),
        members.why_not,
        judged=False,
        sides=("anonymized",),
    ),
)


def named(names: tuple[str, ...] = (), changes: Mapping[str, Any] | None = None) -> tuple[Participant, ...]:
    """All of them or those asked for; `changes` replaces the settings of some by name."""
    known = {one.name: one for one in PARTICIPANTS}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no participant {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[name] for name in names] if names else list(PARTICIPANTS)
    return tuple(_changed(one, (changes or {}).get(one.name)) for one in chosen)


def _changed(one: Participant, config: Any) -> Participant:
    if config is None:
        return one
    fields = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return Participant(**{**fields, "config": partial(_given, config)})


def _given(config: Any, gpu: bool) -> Any:
    return config


def with_detectors(participants: tuple[Participant, ...], asked: Sequence[str]) -> tuple[Participant, ...]:
    """Detectors that a user brings (`yolo:FILE`, as for `veil anonymize`) beside the one that needs no file.

    Their hashes are among the settings, so that results of one file are never taken for those of another.
    """
    if not asked:
        return participants
    if not any(one.name == DETECTORS for one in participants):
        raise UsageError(
            f"--detector {asked[0]}: {DETECTORS} was not asked to take part; add --only {DETECTORS}"
        )
    brought = people.bring(asked)
    return tuple(_equipped(one, brought) if one.name == DETECTORS else one for one in participants)


def _equipped(one: Participant, brought: tuple[Named, ...]) -> Participant:
    shelf = tuple(people.Brought(own.name, own.covers, own.identity()) for own in brought)
    names = ", ".join(own.name for own in brought)
    return replace(
        one,
        words=f"looks for people with detectors that were trained elsewhere, on other pictures: {people.OWN}, {names}",
        run=partial(_detectors, brought=brought),
        config=partial(_with_shelf, one.config, shelf),
    )


def _with_shelf(config: Callable[[bool], Any], shelf: tuple[people.Brought, ...], gpu: bool) -> Any:
    return replace(config(gpu), brought=shelf)
