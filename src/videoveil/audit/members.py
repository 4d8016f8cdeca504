"""Membership: whether the anonymizer gives away which videos it was trained on.

There is no raw side, for raw videos went through nothing. What stands beside the attack is its control: what the same
learners make of the raw videos alone, for two splits may differ without any training, and what the best of as many
attackers gets when members and others have been exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from videoveil.attacks.member_signals import trained
from videoveil.attacks.membership import LEARNT, UNTRAINED, MembershipAttack, MembershipConfig
from videoveil.audit.draws import Draws, draw
from videoveil.audit.risk import Risk, between, exchanges, measured, pairs_right
from videoveil.audit.subject import Subject
from videoveil.data.records import Item
from videoveil.tasks.base import Clips, Features
from videoveil.tasks.outcomes import Outcome, RankOutcome

LEAST = 10  # videos of either group
ATTACK, CONTROL = "auc_", "control_"
ENTRY = re.compile(r"[^:,]+: (?P<name>.+?) \((?P<split>[^()]*)\)(?:, |$)")


def why_not(subject: Subject) -> str:
    """Why nobody can be a member, or why it is not known who is; empty where it is."""
    side = subject.anonymized
    maker: Any = side.latent if side.latent is not None else side.pixels
    if maker is None:
        return "what anonymized the videos is not at hand"
    if not trained(maker):
        return UNTRAINED
    said = str(getattr(getattr(maker, "card", None), "training_data", ""))
    if learnt_from(said, subject.dataset.name) != {subject.train}:
        told = f"says {said!r}" if said else "says nothing of it"
        return (
            f"the anonymizer must have been trained on exactly the split {subject.train!r} of {subject.dataset.name}, "
            f"and its card {told}"
        )
    for split in (subject.train, subject.test):
        count = len(subject.items(split))
        if count < LEAST:
            return f"{count} videos in split {split!r}; at least {LEAST} are needed"
    return ""


def attackers_knew(subject: Subject) -> tuple[str, ...]:
    """A remark where the attackers learn from the very videos that the anonymizer was made from.

    What it fits to those videos in particular is missing from what they learn, and not from the videos of others.
    """
    side = subject.anonymized
    maker: Any = side.latent if side.latent is not None else side.pixels
    said = str(getattr(getattr(maker, "card", None), "training_data", ""))
    if subject.train not in learnt_from(said, subject.dataset.name):
        return ()
    return (
        f"the anonymizer was made from the videos that the attackers learnt from ({subject.dataset.name}, split "
        f"{subject.train!r}): somebody with other videos may find more. Audit it with videos it was not made from",
    )


def learnt_from(said: str, dataset: str) -> set[str]:
    """The splits of a dataset that a card names: `action: NAME (train), privacy: OTHER (train)`."""
    return {one["split"] for one in ENTRY.finditer(said) if one["name"] == dataset}


def membership(subject: Subject, most: int) -> Callable[[Item], bool | None]:
    """True for training videos, False for test videos, None for others; evenly spaced, the same for all seeds."""
    known: dict[str, bool] = {}
    for split, inside in ((subject.train, True), (subject.test, False)):
        ids = sorted(item.id for item in subject.items(split))
        for place in np.linspace(0, len(ids) - 1, min(most, len(ids))).round().astype(int):
            known[ids[place]] = inside
    return lambda item: known.get(item.id)


def answers(
    subject: Subject,
    published: Clips | Features,
    raw: Features | None,
    config: MembershipConfig,
    *,
    seed: int,
    device: str,
) -> dict[str, Outcome]:
    """ROC-AUC of every attacker (`auc_…`), and of those who see the raw videos only (`control_…`)."""
    latent = subject.anonymized.latent
    task = MembershipAttack(config, membership(subject, config.most), raw, latent)
    fitted = task.fit(published, seed=seed, device=device)
    seen = fitted.evidence(published)
    blind = replace(seen, names=(), signals=seen.control)
    rows = np.arange(len(seen.items))

    def ranked(scores: np.ndarray) -> RankOutcome:
        return RankOutcome(seen.truth, scores, rows, seen.ids)

    found: dict[str, Outcome] = {f"{ATTACK}{name}": ranked(s) for name, s in fitted.scores(seen).items()}
    learnt = {name: s for name, s in fitted.scores(blind).items() if name.startswith(LEARNT)}
    return found | {f"{CONTROL}{name}": ranked(s) for name, s in learnt.items()}


def of(seeds: Sequence[Mapping[str, Any]], who: str, draws: Draws) -> Risk:
    """The risk of the attacker that does best; the control knows of that choice."""
    own: dict[str, list[Any]] = {name: [one[name] for one in seeds] for name in seeds[0]}
    drawn = {name: draw(outcomes, draws)[0] for name, outcomes in own.items()}
    attacks = {name: one for name, one in drawn.items() if name.startswith(ATTACK)}
    best = max(attacks, key=lambda name: attacks[name].value)
    controls = [one.value for name, one in drawn.items() if name.startswith(CONTROL)]
    exchanged = _exchanged([own[name] for name in attacks], draws)
    control, main = max([exchanged, *controls]), attacks[best].value
    items = own[best][0].items
    interval = between(main, attacks[best].values, len(np.unique(draws.owners(items))), draws)
    name = f"{who}/{best.removeprefix(ATTACK)}"
    return measured("membership", name, main, control, 0.5, interval, len(items))


def _exchanged(attacks: Sequence[Sequence[RankOutcome]], draws: Draws) -> float:
    """What the best of all attackers gets when members and others have been exchanged, the mean of many exchanges."""
    first = attacks[0][0]
    truth = first.truth[exchanges(draws.owners(first.items), draws.seed)]  # (P, n)
    found = [np.mean([pairs_right(truth, one.scores) for one in seeds], 0) for seeds in attacks]
    return float(np.max(found, 0).mean())
