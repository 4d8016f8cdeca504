"""Honest scoring: what attackers find in anonymized videos beside what they find in raw ones, with intervals.

Every attacker is trained with several seeds on both sides and scored on the same test items. Then:

chance              beside every figure. Of average precision it is what a random order of the items gets, which is more
                    than the share of positives where items are few.
interval            95 %, by a nested bootstrap: every draw takes seeds with repeats, and test items with repeats, the
                    same ones for both sides and for all attackers, so that differences are those of the anonymizer.
strength floor      an attacker proves itself by beating chance by a margin with the lower end of its interval, on raw
                    videos (or on the anonymized ones: whoever finds something there counts). Else it is void: from its
                    failure nothing follows.
advantage           (value − chance) / (1 − chance): 0 knows nothing, 1 knows everything; comparable between attackers
                    whose rows, and so whose chance levels, differ.
leakage             the advantage of the best attacker on anonymized videos, as a share of that of the best one on raw.
                    The best is looked for in every draw again; 1 − leakage is the reduction above chance.
relative reduction  1 − value/raw of the best attackers, as the papers print it; chance is not taken off.
parts               every private attribute by itself. A mean over many can hide one that is told completely, so privacy
                    also fails where a single attribute is shown to leak more than is allowed (lower end).

Shapes: A attackers, S seeds, B draws.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from videoveil.errors import UsageError
from videoveil.tasks.base import Role
from videoveil.tasks.outcomes import AttributeOutcome, Outcome, draws_of, mean_of

Word = Literal["PASS", "FAIL", "NOT MEASURABLE"]
CEILING = 9.0  # of leakage: more than that is not told apart
TINY = 1e-6


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts as proven. All of it is written into the report.

    Privacy is promised to people who are not asked, so doubt counts against it: the *upper* end of the leakage must be
    at most `max_leakage`. Half is a round figure above everything that hides well on our twins and below blur and
    downsampling; whoever has more to lose asks for less. Utility is a matter of whoever uses the videos and is judged
    by its estimate: at least `min_utility` of raw, and clearly better than chance.
    """

    seeds: int = 3
    resamples: int = 1000
    level: float = 0.95
    margin: float = 0.02  # by which the lower end must beat chance: the strength floor
    max_leakage: float = 0.5
    min_utility: float = 0.9
    least_items: int = 10  # test items below which nothing is measured

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.resamples < 100 or self.least_items < 2:
            raise UsageError(
                f"seeds={self.seeds}, resamples={self.resamples}, least_items={self.least_items}: at least 1, 100 and 2"
            )
        for name in ("level", "max_leakage", "min_utility"):
            if not 0 < getattr(self, name) <= 1 or self.level == 1:
                raise UsageError(f"{name}={getattr(self, name)}: must be a share in (0, 1]")
        if not 0 <= self.margin < 1:
            raise UsageError(f"margin={self.margin}: must be in [0, 1)")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; None where the items do not define it."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def map(self, change: Any) -> Estimate:
        """The estimate of a falling function of the figure: the ends change places."""
        both = [None if end is None else change(end) for end in (self.high, self.low)]
        return Estimate(None if self.value is None else change(self.value), both[0], both[1])


@dataclass(frozen=True, slots=True)
class Found:
    """What one attacker (or utility) got on one side."""

    score: Estimate
    chance: float | None
    above: Estimate  # value − chance


@dataclass(frozen=True)
class Attempt:
    """One attacker (or utility) on both sides."""

    name: str
    metric: str
    raw: Found
    anonymized: Found
    void: str = ""  # why nothing follows from it; empty where it counts
    seeds: int = 0
    items: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """One private attribute, whoever finds it best."""

    name: str
    raw: Estimate
    anonymized: Estimate
    chance: float
    leakage: Estimate
    strongest: str


@dataclass(frozen=True)
class Question:
    """All attackers that want to know the same, or all utilities of one task, and what follows from them."""

    name: str
    role: Role
    metric: str
    attempts: tuple[Attempt, ...]
    judged: bool = True  # False: shown, but nothing is decided by it
    strongest_raw: str | None = None
    strongest: str | None = None  # on anonymized videos: the one that counts
    raw: Estimate = Estimate(None)
    anonymized: Estimate = Estimate(None)
    chance: float | None = None
    leakage: Estimate = Estimate(None)  # of a utility: the share of the raw advantage that is left
    reduction: Estimate = Estimate(None)  # 1 − leakage
    relative: Estimate = Estimate(None)  # 1 − value/raw
    kept: Estimate = Estimate(None)  # value/raw
    above: Estimate = Estimate(None)  # value − chance on anonymized videos
    parts: tuple[Part, ...] = ()  # attributes that some attacker finds in raw videos
    verdict: Word = "NOT MEASURABLE"
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """The two answers, and the reasons for them."""

    privacy: Word
    utility: Word
    reasons: tuple[str, ...] = ()

    @property
    def overall(self) -> Word:
        both = {self.privacy, self.utility}
        return "FAIL" if "FAIL" in both else "NOT MEASURABLE" if "NOT MEASURABLE" in both else "PASS"


Sides = tuple[Sequence[Outcome], Sequence[Outcome]]  # one outcome per seed: raw, anonymized


# --- draws --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """The choices of a bootstrap: the same for everything that is measured on the same items."""

    rules: Rules
    seed: int = 0
    _items: dict[tuple[str, ...], np.ndarray] = field(default_factory=dict, repr=False)

    def items(self, items: tuple[str, ...]) -> np.ndarray:
        """(B, n) indices."""
        if items not in self._items:
            digest = hashlib.sha256(repr(items).encode()).digest()
            rng = np.random.default_rng([self.seed, int.from_bytes(digest[:8])])
            self._items[items] = rng.integers(0, len(items), (self.rules.resamples, len(items)))
        return self._items[items]

    def counts(self, items: tuple[str, ...]) -> np.ndarray:
        """(B, n) how often each item is taken."""
        return np.stack([np.bincount(row, minlength=len(items)) for row in self.items(items)]).astype(float)

    def seeds(self, count: int) -> np.ndarray:
        """(B, S) which seeds are taken in every draw."""
        return np.random.default_rng([self.seed, count]).integers(0, count, (self.rules.resamples, count))

    def interval(self, value: float | None, drawn: np.ndarray) -> Estimate:
        """The estimate with percentiles of its draws; where they leave it out they are widened to it."""
        known = drawn[~np.isnan(drawn)]
        if value is None or np.isnan(value):
            return Estimate(None)
        if len(known) < len(drawn) / 2:  # the items define it only now and then
            return Estimate(value)
        tail = 50 * (1 - self.rules.level)
        low, high = np.percentile(known, (tail, 100 - tail))
        return Estimate(float(value), min(float(low), float(value)), max(float(high), float(value)))


@dataclass(frozen=True)
class Drawn:
    """One attacker on one side: its figure and chance, and those of every draw."""

    value: float
    chance: float
    values: np.ndarray  # (B,)
    chances: np.ndarray  # (B,)

    @property
    def advantage(self) -> float:
        return float(advantage(np.array(self.value), np.array(self.chance)))

    def found(self, draws: Draws) -> Found:
        known = not np.isnan(self.value)
        chance = None if np.isnan(self.chance) else self.chance
        above = draws.interval(self.value - self.chance, self.values - self.chances)
        return Found(draws.interval(self.value if known else None, self.values), chance, above)


def advantage(value: np.ndarray, chance: np.ndarray) -> np.ndarray:
    return np.asarray((value - chance) / np.maximum(1 - chance, TINY))


def draw(outcomes: Sequence[Outcome], draws: Draws) -> tuple[Drawn, dict[str, Drawn]]:
    """One side of one attacker over its seeds, and every attribute by itself where it was asked for attributes."""
    items = outcomes[0].items
    if any(one.items != items for one in outcomes):
        raise UsageError("audit: an attacker was scored on other test items with another seed")
    if not len(items):
        nothing = np.full(draws.rules.resamples, np.nan)
        return Drawn(np.nan, np.nan, nothing, nothing), {}
    # the first row takes every item once: the estimate itself
    counts = np.concatenate((np.ones((1, len(items))), draws.counts(items)))
    taken = draws.seeds(len(outcomes))
    if not all(isinstance(one, AttributeOutcome) for one in outcomes):
        each = [draws_of(one, counts) for one in outcomes]
        return _over_seeds(np.stack([e[0] for e in each]), np.stack([e[1] for e in each]), taken), {}
    made = [_attribute_draws(one, counts) for one in outcomes]
    values, chances = np.stack([m[0] for m in made]), np.stack([m[1] for m in made])  # (S, 1 + B, k)
    means = [mean_of(v, c) for v, c in zip(values, chances)]
    whole = _over_seeds(np.stack([m[0] for m in means]), np.stack([m[1] for m in means]), taken)
    names = outcomes[0].names  # type: ignore[attr-defined]
    parts = {name: _over_seeds(values[:, :, i], chances[:, :, i], taken) for i, name in enumerate(names)}
    return whole, parts


def _attribute_draws(one: Any, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average precisions and what blind answers get (1 + B, k): more than the share of positives, if items are few."""
    values, shares = one.attribute_draws(counts)
    excess = one.blind_attributes() - shares[:1]
    return values, shares + np.nan_to_num(np.maximum(excess, 0.0))


def _over_seeds(values: np.ndarray, chances: np.ndarray, taken: np.ndarray) -> Drawn:
    """values, chances (S, 1 + B), taken (B, S): means over all seeds, and in every draw over those that it takes."""
    places = np.arange(1, values.shape[1])[:, None]
    drawn = (part[taken, places].mean(1) for part in (values, chances))
    return Drawn(float(values[:, 0].mean()), float(chances[:, 0].mean()), next(drawn), next(drawn))


# --- questions ----------------------------------------------------------------------------------------------


def question(
    name: str,
    role: Role,
    sides: Mapping[str, Sides],
    rules: Rules,
    *,
    judged: bool = True,
    draws: Draws | None = None,
) -> Question:
    """Everything that follows from the answers of all attackers (or utilities) to one question."""
    draws = draws or Draws(rules)
    if not sides:
        return Question(name, role, "", (), judged, reason="nobody tried")
    for who, (raw, veiled) in sides.items():
        if len(raw) != len(veiled) or raw[0].items != veiled[0].items:
            raise UsageError(
                f"audit: {who} was not scored with the same seeds on the same test items on both sides"
            )
    drawn = {who: (draw(raw, draws), draw(veiled, draws)) for who, (raw, veiled) in sides.items()}
    pairs = {who: (one[0], other[0]) for who, (one, other) in drawn.items()}
    attempts = []
    for who, (one, other) in pairs.items():
        first = sides[who][0][0]
        found = one.found(draws), other.found(draws)
        why = _void(found[0], found[1], len(first.items), role, rules) if judged else ""
        attempts.append(
            Attempt(who, first.metric, found[0], found[1], why, len(sides[who][0]), len(first.items))
        )
    metric = attempts[0].metric
    base = Question(name, role, metric, tuple(attempts), judged)
    counting = [one.name for one in attempts if not one.void]
    if not judged:
        return Question(**{**_fields(base), "reason": "shown, not judged"})
    if not counting:
        return Question(**{**_fields(base), "reason": _all_void(attempts, role)})
    details = {who: (own[1], other[1]) for who, (own, other) in drawn.items()}
    return _judged(base, {who: pairs[who] for who in counting}, _parts(details, draws), draws)


def _fields(one: Question) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def _parts(
    details: Mapping[str, tuple[Mapping[str, Drawn], Mapping[str, Drawn]]], draws: Draws
) -> tuple[Part, ...]:
    """Every attribute that somebody proves to find, on raw videos or on anonymized ones."""
    names = list(dict.fromkeys(name for raw, _ in details.values() for name in raw))
    found = []
    for name in names:
        pairs = {who: (raw[name], veiled[name]) for who, (raw, veiled) in details.items() if name in raw}
        proven = {
            who: pair
            for who, pair in pairs.items()
            if any(_beats(one.found(draws), draws.rules) for one in pair)
        }
        if not proven:
            continue
        raw, veiled = (_best({who: pair[side] for who, pair in proven.items()}) for side in (0, 1))
        found.append(
            Part(
                name,
                draws.interval(raw.one.value, raw.values),
                draws.interval(veiled.one.value, veiled.values),
                veiled.one.chance,
                _leakage(raw, veiled, draws),
                veiled.name,
            )
        )
    return tuple(sorted(found, key=lambda part: part.name))


def _leakage(raw: _Best, veiled: _Best, draws: Draws) -> Estimate:
    return draws.interval(
        _share(veiled.one.advantage, raw.one.advantage), _share(veiled.advantages, raw.advantages)
    )


def _judged(
    base: Question, pairs: Mapping[str, tuple[Drawn, Drawn]], parts: tuple[Part, ...], draws: Draws
) -> Question:
    raw = _best({who: pair[0] for who, pair in pairs.items()})
    veiled = _best({who: pair[1] for who, pair in pairs.items()})
    left = _leakage(raw, veiled, draws)
    kept = draws.interval(_share(veiled.one.value, raw.one.value), _share(veiled.values, raw.values))
    made = Question(
        **{
            **_fields(base),
            "strongest_raw": raw.name,
            "strongest": veiled.name,
            "raw": draws.interval(raw.one.value, raw.values),
            "anonymized": draws.interval(veiled.one.value, veiled.values),
            "chance": veiled.one.chance,
            "leakage": left,
            "reduction": left.map(lambda x: 1 - x),
            "relative": kept.map(lambda x: 1 - x),
            "kept": kept,
            "above": draws.interval(veiled.one.value - veiled.one.chance, veiled.values - veiled.chances),
            "parts": parts,
        }
    )
    word, reason = (_privacy if base.role == "attack" else _utility)(made, draws.rules)
    return Question(**{**_fields(made), "verdict": word, "reason": reason})


@dataclass(frozen=True)
class _Best:
    """The one with the largest advantage: over all items, and in every draw."""

    name: str
    one: Drawn
    values: np.ndarray  # (B,)
    chances: np.ndarray
    advantages: np.ndarray


def _best(drawn: Mapping[str, Drawn]) -> _Best:
    names = list(drawn)
    values, chances = (np.stack([getattr(drawn[n], part) for n in names]) for part in ("values", "chances"))
    gains = advantage(values, chances)  # (A, B)
    place = np.where(np.isnan(gains), -np.inf, gains).argmax(0)
    columns = np.arange(values.shape[1])
    best = max(names, key=lambda n: -np.inf if np.isnan(drawn[n].advantage) else drawn[n].advantage)
    return _Best(best, drawn[best], values[place, columns], chances[place, columns], gains[place, columns])


def _share(part: Any, whole: Any) -> Any:
    """part/whole from 0, for less than nothing cannot be found, to CEILING; a whole of nothing is next to nothing."""
    return np.clip(part / np.maximum(whole, TINY), 0.0, CEILING)


# --- words --------------------------------------------------------------------------------------------------


def _void(raw: Found, veiled: Found, items: int, role: Role, rules: Rules) -> str:
    """Why nothing follows from an attacker; empty where something does."""
    if items < rules.least_items:
        return f"{items} test items; at least {rules.least_items} are needed"
    if raw.score.value is None:
        return "the test items do not define its score"
    if _beats(raw, rules) or (role == "attack" and _beats(veiled, rules)):
        return ""
    return f"does not beat chance by {_points(rules.margin)} on raw videos"


def _beats(found: Found, rules: Rules) -> bool:
    return found.above.low is not None and found.above.low > rules.margin


def _all_void(attempts: Sequence[Attempt], role: Role) -> str:
    who = "attacker" if role == "attack" else "model"
    reasons = sorted({one.void for one in attempts})
    return f"no {who} could show anything on raw videos ({'; '.join(reasons)})"


def _points(share: float) -> str:
    return f"{100 * share:g} points"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _privacy(made: Question, rules: Rules) -> tuple[Word, str]:
    left, limit = made.leakage, _percent(rules.max_leakage)
    if left.value is None or left.high is None or left.low is None:
        return "NOT MEASURABLE", "the test items define the leakage only now and then"
    between = f"{_percent(left.low)} to {_percent(left.high)}"
    told = f"{made.strongest} still finds {_percent(left.value)} ({between}) of what raw videos tell above chance"
    if left.low > rules.max_leakage:
        return "FAIL", f"{told}; at most {limit} are allowed"
    told_all = [
        one for one in made.parts if one.leakage.low is not None and one.leakage.low > rules.max_leakage
    ]
    if told_all:
        worst = max(told_all, key=lambda one: one.leakage.value or 0.0)
        ends = f"{_percent(worst.leakage.low)} to {_percent(worst.leakage.high)}"
        return "FAIL", (
            f"on average {told}, but of {worst.name} alone {worst.strongest} finds "
            f"{_percent(worst.leakage.value)} ({ends}); at most {limit} are allowed of any"
        )
    if left.high <= rules.max_leakage:
        return "PASS", f"{told}; at most {limit} are allowed"
    doubt = f"that it is at most {limit} has not been shown (doubt counts against; use more test items)"
    return "FAIL", f"{told}; {doubt}"


def _utility(made: Question, rules: Rules) -> tuple[Word, str]:
    kept = made.kept
    if kept.value is None or kept.low is None:
        return "NOT MEASURABLE", "the test items define the score only now and then"
    told = (
        f"{made.strongest} keeps {_percent(kept.value)} "
        f"({_percent(kept.low)} to {_percent(kept.high)}) of its raw score"
    )
    if made.above.low is None or made.above.low <= rules.margin:
        return "FAIL", f"{told}, and does not clearly beat chance any more"
    if kept.value < rules.min_utility:
        return "FAIL", f"{told}; {_percent(rules.min_utility)} are asked for"
    return "PASS", f"{told}; {_percent(rules.min_utility)} are asked for"


def verdict(questions: Sequence[Question]) -> Verdict:
    """PASS where every question that could be measured passes, FAIL where one fails; the worst one counts."""
    words: dict[str, Word] = {}
    reasons: list[str] = []
    for role, title in (("attack", "privacy"), ("utility", "utility")):
        own = [one for one in questions if one.role == role and one.judged]
        measured = [one for one in own if one.verdict != "NOT MEASURABLE"]
        failed = any(one.verdict == "FAIL" for one in measured)
        words[title] = "FAIL" if failed else "PASS" if measured else "NOT MEASURABLE"
        reasons += [f"{title}, {one.name}: {one.verdict}: {one.reason}" for one in own]
        if not own:
            reasons.append(f"{title}: NOT MEASURABLE: nothing was asked")
    return Verdict(words["privacy"], words["utility"], tuple(reasons))


def worst(questions: Sequence[Question]) -> Question | None:
    """The question whose answer leaks most."""
    known = [q for q in questions if q.role == "attack" and q.judged and q.leakage.value is not None]
    return max(known, key=lambda q: q.leakage.value or 0.0, default=None)


def to_json(one: Question) -> dict[str, Any]:
    return asdict(one)
