"""Risk in the words of regulators (Article 29 Working Party, Opinion 05/2014): singling out, linkability, inference.

Each is an attack that was carried out, beside two others:

main        the attack on the anonymized videos
control     the same attack, with the same choice of the best attacker, when the videos have been exchanged between
            people: what it gets without anything about the person in question
baseline    a blind guess

risk = (main − control) / (1 − control): the part of what the control leaves open that the attack closes, with a 95 %
interval over the same draws as every other figure: people with all of their videos, where they are known. It is a
measured risk under the attackers that are named, never a proof that data are anonymous.

Singling out and linkability are asked of features of a frozen encoder alone. Networks that learn to find people again
answer "who it is": of them there are hits and blind guesses, but no likeness of every video to every other, so that
they have no control (who always names the person with most videos beats a blind guess, and knows nothing).

Shapes: n items of g people, B draws, P exchanges, width d.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from videoveil.attacks.retrieval import blind, cosine, discriminant, hits
from videoveil.audit.draws import Draws
from videoveil.audit.scoring import Sides
from videoveil.audit.subject import Stores, Subject, Which
from videoveil.tasks.outcomes import AttributeOutcome, RankOutcome

Kind = Literal["singling out", "linkability", "inference", "membership"]
EXCHANGES = 200
RIDGE = (1e-3, 1e-1, 10.0)
LEAST = 10  # items below which no rate is given


@dataclass(frozen=True, slots=True)
class Risk:
    """One of them. Figures are None where it could not be measured, and `reason` says why."""

    kind: Kind
    words: str
    attacker: str = ""
    main: float | None = None
    control: float | None = None
    baseline: float | None = None
    risk: float | None = None
    low: float | None = None
    high: float | None = None
    trials: int = 0
    reason: str = ""


NETWORKS = "whether networks that learn from the pictures find people again is asked under 'who it is'"
WORDS: dict[Kind, str] = {
    "singling out": "Somebody has the raw archive and picks the original of an anonymized video out of it, by features "
    "of a frozen encoder alone.",
    "linkability": "Somebody finds another anonymized video of the same person, by features of a frozen encoder alone; "
    f"{NETWORKS}.",
    "inference": "Somebody is shown two anonymized videos, one of a person with a private attribute and one of a "
    "person without it, and says which is which.",
    "membership": "Somebody is shown two videos, one that the anonymizer was trained on and one that it was not, and "
    "says which is which.",
}


def of(
    subject: Subject,
    stores: Stores,
    attacks: Mapping[str, Sides],
    draws: Draws,
    *,
    featured: bool = True,
) -> tuple[Risk, ...]:
    """The three of the regulators, as far as the data allow.

    featured: somebody who took part reads features. Whether there are any on the disk is no matter: those of another
    audit of the same videos must not change what this one finds.
    """
    reason = stores.why_not() or ("" if featured else "nobody who took part reads features")
    made: list[Risk] = []
    measures: tuple[tuple[Kind, Any], ...] = (("singling out", _singling_out), ("linkability", _linkability))
    for kind, measure in measures:
        if reason:
            why = f"{reason}; {NETWORKS}" if kind == "linkability" else reason
            made.append(Risk(kind, WORDS[kind], reason=why))
        else:
            made.append(measure(subject, stores, draws))
    veiled = {who: pair[1] for who, pair in attacks.items() if isinstance(pair[1][0], AttributeOutcome)}
    made.append(inference(veiled, draws))
    return tuple(made)


# --- rates --------------------------------------------------------------------------------------------------


def wilson(rate: float, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a rate; never empty, also where nothing or everything succeeded."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    reach = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials**2))
    return min(max(centre - reach, 0.0), rate), max(min(centre + reach, 1.0), rate)


def above(main: float, control: float) -> float:
    """(main − control) / (1 − control), at least 0."""
    return max((main - control) / (1 - control), 0.0) if control < 1 else 0.0


def between(rate: float, drawn: np.ndarray, people: int, draws: Draws) -> tuple[float | None, float | None]:
    """The interval of a rate by its draws (B,), never narrower than so many people allow.

    Where nobody was hit nobody is in any draw, and where everybody was, everybody: a bootstrap is sure then, of
    however few people. So its upper end is at least that of Wilson's interval where nobody is hit, and its lower end
    at most that where everybody is.
    """
    found = draws.interval(rate, drawn)
    if found.low is None or found.high is None:
        return None, None
    nobody, everybody = (wilson(share, people, draws.rules.level) for share in (0.0, 1.0))
    return min(found.low, everybody[0]), max(found.high, nobody[1])


def ends(hit: np.ndarray, items: Sequence[str], draws: Draws) -> tuple[float | None, float | None]:
    """The interval of the mean of hit (n,) in [0, 1]: Wilson's where every item is of somebody else.

    Where one person is in several, ten items of theirs are no ten trials, so people are drawn.
    """
    people = len(np.unique(draws.owners(items)))
    if people == len(items):
        return wilson(float(hit.mean()), len(items), draws.rules.level)
    counts = draws.counts(tuple(items))
    return between(float(hit.mean()), counts @ hit / counts.sum(1), people, draws)


def measured(
    kind: Kind,
    who: str,
    main: float,
    control: float,
    baseline: float,
    interval: tuple[float | None, float | None],
    trials: int,
) -> Risk:
    """The risk of an attack whose success, with its interval, is known."""
    low, high = (None if end is None else above(end, control) for end in interval)
    return Risk(kind, WORDS[kind], who, main, control, baseline, above(main, control), low, high, trials)


def exchanges(owners: np.ndarray, seed: int) -> np.ndarray:
    """owners (n,) → (P, n): the item that stands in for each when people are exchanged with all of their videos.

    Whoever is in fewer videos than the other gives them again. Were videos exchanged one by one, the control would have
    as many people as videos, and the luck of few people would seem to be knowledge.
    """
    _, who, sizes = np.unique(owners, return_inverse=True, return_counts=True)
    by_person = np.argsort(who, kind="stable")
    first = np.cumsum(sizes) - sizes
    place = np.empty_like(who)  # which of their videos each item is
    place[by_person] = np.arange(len(who)) - np.repeat(first, sizes)
    people = np.tile(np.arange(len(sizes)), (EXCHANGES, 1))
    given = np.random.default_rng([seed, len(who)]).permuted(people, axis=1)[:, who]  # (P, n)
    return np.asarray(by_person[first[given] + place % sizes[given]])


# --- retrieval ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vectors:
    """One mean feature vector per item."""

    ids: tuple[str, ...]
    x: np.ndarray  # (n, d)
    people: np.ndarray  # (n,) of str, "" where nobody is named


def vectors(stores: Stores, which: Which, splits: Sequence[str]) -> Vectors:
    source = stores.features(which)
    stored = sorted((e for e in source.items() if e.item.split in splits), key=lambda e: e.item.id)
    rows = [source.store.read(entry).clip.astype(np.float64).mean(0) for entry in stored]
    return Vectors(
        tuple(entry.item.id for entry in stored),
        np.stack(rows) if rows else np.zeros((0, 1)),
        np.array([entry.item.subject or "" for entry in stored]),
    )


def exchanged(likeness: np.ndarray, same: np.ndarray, allowed: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """(P,) success of the attack when what is known of each video is that of another one, by orders (P, n).

    What a row may not be compared with stays so when it stands in for another video: it would be found for certain,
    being like itself, and a control that finds it is no attack.
    """
    return np.array([hits(likeness[order], same, allowed & allowed[order]).mean() for order in orders])


def best_of(
    kind: Kind,
    likenesses: Mapping[str, np.ndarray],
    same: np.ndarray,
    allowed: np.ndarray,
    items: Sequence[str],
    draws: Draws,
) -> Risk:
    """That of the attacker that succeeds most often with these items; the control is the best of all, too."""
    hit = {who: hits(one, same, allowed) for who, one in likenesses.items()}
    # one by one: where few people are exchanged many stay in their place, and are found by themselves
    orders = exchanges(np.arange(len(items)), draws.seed)
    control = np.max([exchanged(one, same, allowed, orders) for one in likenesses.values()], 0)
    who = max(hit, key=lambda name: hit[name].mean())
    main, guess = float(hit[who].mean()), float(blind(same, allowed).mean())
    interval = ends(hit[who], items, draws)
    return measured(kind, who, main, float(control.mean()), guess, interval, len(items))


def _singling_out(subject: Subject, stores: Stores, draws: Draws) -> Risk:
    kind: Kind = "singling out"
    tests, trains = (subject.test, "probe"), (subject.train, "gallery")
    raw, veiled = vectors(stores, "raw", tests), vectors(stores, "anonymized", tests)
    if raw.ids != veiled.ids or len(raw.ids) < LEAST:
        return Risk(kind, WORDS[kind], reason=f"{len(raw.ids)} test videos; at least {LEAST} are needed")
    likenesses = {}
    if raw.x.shape[1] == veiled.x.shape[1]:
        likenesses["the nearest features"] = cosine(veiled.x, raw.x)
    learnt_raw, learnt_veiled = vectors(stores, "raw", trains), vectors(stores, "anonymized", trains)
    if len(learnt_raw.ids) >= LEAST and learnt_raw.ids == learnt_veiled.ids:
        likenesses["a learnt way back to raw features"] = way_back(
            learnt_veiled.x, learnt_raw.x, veiled.x, raw.x
        )
    same = np.eye(len(raw.ids), dtype=bool)
    return best_of(kind, likenesses, same, np.ones_like(same), raw.ids, draws)


def way_back(x: np.ndarray, y: np.ndarray, asked: np.ndarray, archive: np.ndarray) -> np.ndarray:
    """Ridge regression from anonymized features x (m, d) to raw ones y (m, e), learnt on pairs → likeness (n, n).

    The strength is chosen by finding the originals of every fourth pair with what the others teach.
    """
    held = np.arange(len(x)) % 4 == 3
    worth = []
    for strength in RIDGE:
        guess = _ridge(x[~held], y[~held], x[held], strength)
        same = np.eye(int(held.sum()), dtype=bool)
        worth.append(float(hits(cosine(guess, y[held] - y[~held].mean(0)), same).mean()))
    strength = RIDGE[int(np.argmax(worth))]
    return cosine(_ridge(x, y, asked, strength), archive - y.mean(0))


def _ridge(x: np.ndarray, y: np.ndarray, asked: np.ndarray, strength: float) -> np.ndarray:
    """Centred raw features, guessed."""
    mean, spread = x.mean(0), x.std(0)
    scale = np.where(spread > 1e-9, 1 / np.where(spread > 1e-9, spread, 1.0), 0.0)
    rows, goal = (x - mean) * scale, y - y.mean(0)
    gram = rows.T @ rows + strength * len(rows) * np.eye(rows.shape[1])
    return np.asarray(((asked - mean) * scale) @ np.linalg.solve(gram, rows.T @ goal))


def _linkability(subject: Subject, stores: Stores, draws: Draws) -> Risk:
    kind: Kind = "linkability"
    veiled = vectors(stores, "anonymized", (subject.test, "probe"))
    named = veiled.people != ""
    same = (
        (veiled.people[:, None] == veiled.people[None, :]) & named[:, None] & ~np.eye(len(named), dtype=bool)
    )
    asked = np.flatnonzero(same.any(1))
    if len(asked) < LEAST or len(set(veiled.people[asked])) < 2:
        return Risk(kind, WORDS[kind], reason="the test videos do not name people who are in several of them")
    allowed = ~np.eye(len(named), dtype=bool)[asked] & named[None, :]
    likenesses = {"the nearest features": cosine(veiled.x[asked], veiled.x)}
    learnt = vectors(stores, "anonymized", (subject.train, "gallery"))
    known = learnt.people != ""
    if (
        2 <= len(set(learnt.people[known])) < known.sum()
    ):  # somebody is there twice: there is something to learn
        project = discriminant(learnt.x[known], learnt.people[known], 0.1)
        likenesses["a learnt measure of likeness"] = cosine(project(veiled.x[asked]), project(veiled.x))
    return best_of(kind, likenesses, same[asked], allowed, [veiled.ids[i] for i in asked], draws)


# --- inference ----------------------------------------------------------------------------------------------


def by_item(seeds: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Truth (n, k) of 0, 1, NaN and ranks (n, k): the mean score of an item's rows, as a rank, mean over seeds."""
    first = seeds[0]
    count = len(first.items)
    often = np.maximum(np.bincount(first.rows, minlength=count), 1)[:, None]
    truth = _sums(first.rows, np.nan_to_num(first.truth), count) / np.maximum(
        _sums(first.rows, (~np.isnan(first.truth)).astype(float), count), 1e-9
    )
    unknown = _sums(first.rows, (~np.isnan(first.truth)).astype(float), count) == 0
    ranks = np.mean([_ranks(_sums(one.rows, one.scores, count) / often) for one in seeds], 0)
    return np.where(unknown, np.nan, (truth >= 0.5).astype(float)), ranks


def _sums(rows: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros((count, values.shape[1]))
    np.add.at(found, rows, values)
    return found


def _ranks(values: np.ndarray) -> np.ndarray:
    """(n, k) → ranks from 1, equal values share one."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=0))


def pairs_right(truth: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """truth (P, n) of 0 and 1, ranks (n,) → (P,): share of pairs, one of each kind, that are told apart.

    Where all are of one kind there is nothing to tell: half.
    """
    ranks = _ranks(ranks[:, None])[:, 0]
    positives = truth.sum(1)
    pairs = positives * (truth.shape[1] - positives)
    right = truth @ ranks - positives * (positives + 1) / 2
    return np.where(pairs > 0, right / np.maximum(pairs, 1), 0.5)


@dataclass(frozen=True)
class Candidate:
    """One attacker and attribute, on the items of which the attribute is known."""

    who: str
    truth: np.ndarray  # (n,) of 0 and 1
    ranks: np.ndarray  # (n,)
    outcome: RankOutcome  # the same among all items: the draws are those of all

    @property
    def rate(self) -> float:
        return float(pairs_right(self.truth[None], self.ranks)[0])

    def interval(self, draws: Draws) -> tuple[float | None, float | None]:
        """Over draws of people; in each the pairs count that it has."""
        items = self.outcome.items
        people = len(np.unique(draws.owners(items)[~np.isnan(self.outcome.truth)]))
        values, _ = self.outcome.draws(draws.counts(items))
        return between(self.rate, values, people, draws)

    def exchanged(self, draws: Draws) -> np.ndarray:
        """(P,): the rate when people have been exchanged."""
        owners = draws.owners(self.outcome.items)[~np.isnan(self.outcome.truth)]
        return pairs_right(self.truth[exchanges(owners, draws.seed)], self.ranks)


def candidates(attacks: Mapping[str, Sequence[Any]]) -> list[Candidate]:
    """Everybody and everything with enough test videos to be told apart."""
    found = []
    for who, seeds in attacks.items():
        truth, ranks = by_item(seeds)
        for place, name in enumerate(seeds[0].names):
            own, known = truth[:, place], ~np.isnan(truth[:, place])
            if known.sum() >= LEAST and 0 < own[known].sum() < known.sum():
                outcome = RankOutcome(own, ranks[:, place], np.arange(len(own)), seeds[0].items)
                found.append(Candidate(f"{who}, {name}", own[known], ranks[known, place], outcome))
    return found


def inference(attacks: Mapping[str, Sequence[Any]], draws: Draws) -> Risk:
    """The attacker and attribute that are told apart best.

    The control knows of that choice: it is the best of all, too. The interval does not, it is that of the one chosen:
    with another choice in every draw its lower end would rise to the figure itself, for some one is always lucky.
    """
    kind: Kind = "inference"
    tried = candidates(attacks)
    if not tried:
        return Risk(
            kind, WORDS[kind], reason="no attacker was asked for a private attribute of enough test videos"
        )
    best = max(tried, key=lambda one: one.rate)
    # the same exchanges for all attackers; the best of all in each
    control = float(np.max([one.exchanged(draws) for one in tried], 0).mean())
    return measured(kind, best.who, best.rate, control, 0.5, best.interval(draws), len(best.truth))
