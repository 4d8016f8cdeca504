"""Everybody who takes part in an audit, by name: attackers and utilities. A new one is a line here.

What each does is in `trials`, how it learns in `configurations`, what it needs of the data in `needs`.

`strength` is what an attacker is expected to find in raw videos, as a share of everything above chance, measured on
twins; with a budget those that find most per minute are taken first. It decides nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from videoveil.attacks.attributes import AttackConfig
from videoveil.attacks.gait import GaitConfig
from videoveil.attacks.identity import IdentityConfig
from videoveil.attacks.inversion import InversionConfig
from videoveil.attacks.membership import MembershipConfig
from videoveil.attacks.off_the_shelf import Named
from videoveil.audit import configurations, grid, members, needs, people, trials
from videoveil.audit.configurations import Configuration
from videoveil.audit.participant import Participant
from videoveil.audit.subject import DENSE
from videoveil.errors import UsageError
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.detection import small as small_detector
from videoveil.tasks.mgfn import small as small_mgfn

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
        trials.probe,
        configurations.same(ProbeConfig()),
        needs.actions,
    ),
    Participant(
        "action-network",
        "recognises actions with a video network that learns from what it is shown",
        ACTIONS,
        "utility",
        "clips",
        0.8,
        trials.network,
        configurations.action_network,
        needs.actions,
    ),
    Participant(
        "anomaly",
        "finds the frames in which something unusual happens, by features of a frozen encoder",
        ANOMALIES,
        "utility",
        "features",
        0.6,
        trials.anomalies,
        configurations.same(small_mgfn()),
        needs.anomalies,
    ),
    Participant(
        "detection",
        "finds from when to when actions happen, by features of a frozen encoder",
        DETECTION,
        "utility",
        "features",
        0.5,
        trials.detection,
        configurations.same(small_detector()),
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
        trials.on_features,
        configurations.same(AttackConfig(input="static")),
        needs.attributes,
    ),
    Participant(
        "features-moving",
        "guesses attributes from an encoder's features of moving clips",
        ATTRIBUTES,
        "attack",
        "features",
        0.6,
        trials.on_features,
        configurations.same(AttackConfig(input="clip")),
        needs.attributes,
    ),
    Participant(
        "features-static-raw",
        "has learnt to guess attributes from raw features of single frames, and looks at anonymized ones as they are",
        ATTRIBUTES,
        "attack",
        "features",
        0.3,
        trials.on_features,
        configurations.same(AttackConfig(input="static", knowledge="raw")),
        needs.attributes,
        adapts=False,
    ),
    Participant(
        "features-moving-raw",
        "has learnt to guess attributes from raw features of moving clips, and looks at anonymized ones as they are",
        ATTRIBUTES,
        "attack",
        "features",
        0.3,
        trials.on_features,
        configurations.same(AttackConfig(input="clip", knowledge="raw")),
        needs.attributes,
        adapts=False,
    ),
    Participant(
        "grid",
        "guesses attributes from the colours of a coarse grid over the whole picture",
        ATTRIBUTES,
        "attack",
        "clips",
        0.3,
        trials.on_grid,
        configurations.same(grid.GridConfig()),
        needs.attributes,
    ),
    Participant(
        "frames",
        "guesses attributes from single frames with a network that learns from what it is shown",
        ATTRIBUTES,
        "attack",
        "clips",
        0.7,
        trials.on_pictures,
        configurations.frames,
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
        trials.on_pictures,
        configurations.clips,
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
        trials.on_pictures,
        configurations.knowing("raw", configurations.frames),
        needs.attributes,
        adapts=False,
    ),
    Participant(
        "clips-raw",
        "has learnt to guess attributes from raw moving clips, and looks at anonymized ones as they are",
        ATTRIBUTES,
        "attack",
        "clips",
        0.4,
        trials.on_pictures,
        configurations.knowing("raw", configurations.clips),
        needs.attributes,
        adapts=False,
    ),
    Participant(
        "frames-tuned",
        "has learnt to guess attributes from raw frames, and goes on learning with anonymized ones",
        ATTRIBUTES,
        "attack",
        "clips",
        0.7,
        trials.on_pictures,
        configurations.knowing("fine-tuned", configurations.frames),
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
        trials.on_pictures,
        configurations.knowing("fine-tuned", configurations.clips),
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
        trials.by_reconstruction,
        configurations.reconstruction,
        needs.attributes,
        learns=True,
        also=(IDENTITY,),
    ),
    Participant(
        "inversion",
        "learns to draw frames from features, and looks for attributes in what it draws",
        ATTRIBUTES,
        "attack",
        "features",
        0.3,
        trials.by_inversion,
        configurations.same(InversionConfig()),
        needs.attributes,
    ),
    Participant(
        "identity-features",
        "finds a person again by features, among videos of people whose names are known",
        IDENTITY,
        "attack",
        "features",
        0.6,
        trials.by_identity_in_features,
        configurations.same(IdentityConfig()),
        needs.people,
    ),
    Participant(
        "identity-clips",
        "finds a person again by moving clips, among videos of people whose names are known",
        IDENTITY,
        "attack",
        "clips",
        0.7,
        trials.by_identity,
        configurations.identity,
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
        trials.by_gait,
        configurations.same(GaitConfig()),
        needs.gait,
    ),
    Participant(
        DETECTORS,
        "looks for people with a detector that was trained elsewhere, on other pictures",
        SEEN,
        "attack",
        "clips",
        0.2,
        trials.detectors,
        configurations.same(people.PeopleConfig()),
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
        trials.membership,
        configurations.same(MembershipConfig()),
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
    return one if config is None else replace(one, config=configurations.same(config))


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
        run=partial(trials.detectors, brought=brought),
        config=partial(_with_shelf, one.config, shelf),
    )


def _with_shelf(config: Configuration, shelf: tuple[people.Brought, ...], gpu: bool) -> Any:
    return replace(config(gpu), brought=shelf)
