"""What participants do in a trial: each learns from one split, as its side shows it, and answers about another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from videoveil.attacks.attributes import AttackConfig, AttributeAttack
from videoveil.attacks.frames import ClipAttack, FrameAttack, FrameConfig
from videoveil.attacks.gait import GALLERY, PROBE, GaitAttack, GaitConfig
from videoveil.attacks.identity import IdentityAttack, IdentityConfig
from videoveil.attacks.inversion import InversionAttack, InversionConfig
from videoveil.attacks.membership import MembershipConfig
from videoveil.attacks.off_the_shelf import Named
from videoveil.attacks.pooling import with_videos
from videoveil.attacks.reconstruction import ReconstructionAttack, ReconstructionConfig
from videoveil.audit import grid, members, needs, people, utilities
from videoveil.audit.participant import Answers, Trial
from videoveil.audit.subject import DENSE
from videoveil.tasks.action.network import NetworkConfig
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.mgfn import MGFNConfig
from videoveil.tasks.tridet import TriDetConfig


def on_features(trial: Trial, config: AttackConfig) -> Answers:
    raw = trial.features(trial.subject.train, "raw") if config.knowledge == "raw" else None
    task = AttributeAttack(config, trial.subject.labels, raw=raw)
    fitted = task.fit(
        trial.features(trial.subject.train), seed=trial.seed, device="cpu", progress=trial.progress
    )
    trial.learnt()
    return with_videos(fitted.outcomes(trial.features(trial.subject.test)))


def on_pictures(trial: Trial, config: Any) -> Answers:
    kind: Any = FrameAttack if isinstance(config, FrameConfig) else ClipAttack
    raw = trial.clips(trial.subject.train, "raw")
    fitted = kind(config, trial.subject.labels, raw=raw).fit(
        trial.clips(trial.subject.train), seed=trial.seed, device=trial.device, progress=trial.progress
    )
    trial.learnt()
    return with_videos(fitted.outcomes(trial.clips(trial.subject.test)))


def by_identity(trial: Trial, config: IdentityConfig) -> Answers:
    """People in published videos, by published videos of theirs and by raw ones."""
    task = IdentityAttack(config, raw=trial.clips("", "raw"))
    fitted = task.fit(
        trial.clips(trial.subject.train), seed=trial.seed, device=trial.device, progress=trial.progress
    )
    trial.learnt()
    return fitted.outcomes(trial.clips(trial.subject.test))


def by_identity_in_features(trial: Trial, config: IdentityConfig) -> Answers:
    task = IdentityAttack(config, raw=trial.features("", "raw"))
    fitted = task.fit(
        trial.features(trial.subject.train), seed=trial.seed, device="cpu", progress=trial.progress
    )
    trial.learnt()
    return fitted.outcomes(trial.features(trial.subject.test))


def by_reconstruction(trial: Trial, config: ReconstructionConfig) -> Answers:
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


def by_inversion(trial: Trial, config: InversionConfig) -> Answers:
    """A network learns to draw frames from features; others look at what it draws."""
    task = InversionAttack(config, trial.subject.labels, trial.subject.dataset)
    fitted = task.fit(
        trial.features(trial.subject.train), seed=trial.seed, device=trial.device, progress=trial.progress
    )
    trial.learnt()
    return with_videos(fitted.outcomes(trial.features(trial.subject.test)))


def on_grid(trial: Trial, config: grid.GridConfig) -> Answers:
    sides = trial.clips(trial.subject.train), trial.clips(trial.subject.test)
    return grid.attack(
        *sides, trial.subject.labels, config, seed=trial.seed, device=trial.device, progress=trial.progress
    )


def by_gait(trial: Trial, config: GaitConfig) -> Answers:
    fitted = GaitAttack(config).fit(
        trial.features(GALLERY), seed=trial.seed, device="cpu", progress=trial.progress
    )
    return fitted.outcomes(trial.features(PROBE))


def probe(trial: Trial, config: ProbeConfig) -> Answers:
    sides = trial.features(trial.subject.train), trial.features(trial.subject.test)
    return {"linear": utilities.probe(*sides, config, seed=trial.seed, progress=trial.progress)}


def network(trial: Trial, config: NetworkConfig) -> Answers:
    sides = trial.clips(trial.subject.train), trial.clips(trial.subject.test)
    found = utilities.network(*sides, config, seed=trial.seed, device=trial.device, progress=trial.progress)
    return {config.encoder: found}


def anomalies(trial: Trial, config: MGFNConfig) -> Answers:
    sides = trial.features(trial.subject.train), trial.features(trial.subject.test)
    found = utilities.anomalies(*sides, config, seed=trial.seed, device=trial.device, progress=trial.progress)
    return {"mgfn": found}


def detection(trial: Trial, config: TriDetConfig) -> Answers:
    train, test = (trial.features(split, grid=DENSE) for split in (trial.subject.train, trial.subject.test))
    found = utilities.detection(
        train, test, config, seed=trial.seed, device=trial.device, progress=trial.progress
    )
    return {"tridet": found}


def membership(trial: Trial, config: MembershipConfig) -> Answers:
    latent = trial.subject.anonymized.latent is not None
    published = trial.features("") if latent else trial.subject.side(trial.which).on_the_fly
    raw = trial.features("", "raw") if latent else None
    return members.answers(trial.subject, published, raw, config, seed=trial.seed, device=trial.device)


def detectors(trial: Trial, config: people.PeopleConfig, brought: tuple[Named, ...] = ()) -> Answers:
    test, raw = trial.clips(trial.subject.test), trial.clips("", "raw")
    return people.found(test, raw, config, brought, seed=trial.seed, device=trial.device)
