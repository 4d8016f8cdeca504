"""Honest scoring: what attackers find in anonymized videos beside what they find in raw ones, with intervals.

Every attacker is trained with several seeds on both sides and scored on the same test items. Then:

chance              beside every figure. Of average precision it is what a random order of the items gets, which is more
                    than the share of positives where items are few.
interval            95 %, by a nested bootstrap over seeds and test items (`draws`).
strength floor      an attacker proves itself by beating chance by a margin with the lower end of its interval, on raw
                    videos (or on the anonymized ones: whoever finds something there counts). Else it is void: from its
                    failure nothing follows. Of several one is always lucky: the best of those that measure the same
                    must beat chance by the margin with what the luckiest gains in a draw taken off; where no best does,
                    all are void. And before anything can pass, somebody must find a fifth of what could be known in
                    raw videos.
advantage           (value − chance) / (1 − chance): 0 knows nothing, 1 knows everything; comparable between attackers
                    whose rows, and so whose chance levels, differ.
leakage             the advantage of the best attacker on anonymized videos, as a share of that of the best one on raw.
                    The best is looked for in every draw again; 1 − leakage is the reduction above chance.
groups              only what measures the same is compared: one metric on the same test items (rank-1 is not held
                    against ROC-AUC, nor one way of walking against another). Every group in which somebody proves
                    something has its own leakage, and the largest of them counts, in every draw again. So nobody
                    who is asked in addition lowers the leakage, but by finding more in raw videos, by the same
                    metric, than was known to be there.
relative reduction  1 − value/raw of the best attackers, as the papers print it; chance is not taken off.
parts               every private attribute by itself. A mean over many can hide one that is told completely, so privacy
                    also fails where the estimate of a single attribute is more than is allowed. Of attributes that
                    nobody proves to find, on either side, nothing is known; they are named as `unproven`.
witnesses           those who find in raw videos at least half of what the best finds there, of everything or of one
                    attribute. From the failure of others nothing follows.

Shapes: A attackers, S seeds, B draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from videoveil.audit.draws import TINY, UNKNOWN, Drawn, Draws, Estimate, Found, advantage, draw, sober
from videoveil.audit.rules import Rules
from videoveil.errors import UsageError
from videoveil.tasks.base import Role
from videoveil.tasks.outcomes import Outcome, labelled

Word = Literal["PASS", "FAIL", "NOT MEASURABLE"]
CEILING = 9.0  # of leakage: more than that is not told apart
WITNESS = 0.5  # of what the best finds in raw videos, somebody must find whose failure is to prove something
NOTHING = Found(UNKNOWN, None, UNKNOWN)  # of so few items that no figure means anything
Pair = tuple[Drawn, Drawn]  # raw, anonymized


@dataclass(frozen=True)
class Attempt:
    """One attacker (or utility) on both sides."""

    name: str
    metric: str
    raw: Found
    anonymized: Found
    void: str = ""  # why nothing follows from it; empty where it counts
    seeds: int = 0
    items: int = 0  # of which the truth is known


@dataclass(frozen=True, slots=True)
class Part:
    """One private attribute, whoever finds it best."""

    name: str
    raw: Estimate
    anonymized: Estimate
    chance: float
    leakage: Estimate
    strongest: str
    witnesses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """All attackers that measure the same, one metric on the same test items: the best of either side."""

    metric: str
    items: int
    strongest_raw: str
    strongest: str
    raw: Estimate
    anonymized: Estimate
    chance: float
    leakage: Estimate


@dataclass(frozen=True)
class Question:
    """All attackers that want to know the same, or all utilities of one task, and what follows from them.

    Figures of an attack are those of the group that leaks most; the leakage is the largest of any group.
    """

    name: str
    role: Role
    metric: str
    attempts: tuple[Attempt, ...]
    judged: bool = True  # False: shown, but nothing is decided by it
    strongest_raw: str | None = None
    strongest: str | None = None  # on anonymized videos: the one that counts
    raw: Estimate = UNKNOWN
    anonymized: Estimate = UNKNOWN
    chance: float | None = None
    leakage: Estimate = UNKNOWN  # of a utility: the share of the raw advantage that is left
    reduction: Estimate = UNKNOWN  # 1 − leakage
    relative: Estimate = UNKNOWN  # 1 − value/raw
    kept: Estimate = UNKNOWN  # value/raw
    above: Estimate = UNKNOWN  # value − chance on anonymized videos
    parts: tuple[Part, ...] = ()  # attributes that somebody proves to find, on either side
    verdict: Word = "NOT MEASURABLE"
    reason: str = ""
    possible: bool = True  # False: the data do not allow anybody to ask it
    unproven: tuple[
        str, ...
    ] = ()  # attributes that nobody proves to find: whether they are hidden is not known
    groups: tuple[Group, ...] = ()  # of an attack: what was compared with what, the one that decides first


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
        count = labelled(first)
        found = (one.found(draws), other.found(draws)) if count >= rules.least_items else (NOTHING, NOTHING)
        why = _void(*found, count, role, rules, judged)
        attempts.append(Attempt(who, first.metric, *found, why, len(sides[who][0]), count))
    kinds = {who: _kind(raw[0], role) for who, (raw, _) in sides.items()}
    if judged:
        attempts = _without_the_lucky(attempts, pairs, kinds, role, draws)
    base = Question(name, role, attempts[0].metric, tuple(attempts), judged)
    if not judged:
        return replace(base, reason="shown, not judged")
    enough = {one.name for one in attempts if one.items >= rules.least_items}
    details = {who: (own[1], other[1]) for who, (own, other) in drawn.items() if who in enough}
    parts, unproven = _parts(details, kinds, draws)
    base = replace(base, parts=parts, unproven=unproven if role == "attack" else ())
    counting = {one.name: pairs[one.name] for one in attempts if not one.void}
    if not counting:
        return _nobody(base, rules)
    return _judged(base, _grouped(counting, kinds), draws)


def _kind(one: Outcome, role: Role) -> tuple[Any, ...]:
    """What is measured; attackers for whom it is equal are compared. Utilities are compared whatever they measure.

    Walks under another condition are other test items, so their names need not be read.
    """
    return (one.metric, frozenset(one.items)) if role == "attack" else ()


def _without_the_lucky(
    attempts: Sequence[Attempt],
    pairs: Mapping[str, Pair],
    kinds: Mapping[str, tuple[Any, ...]],
    role: Role,
    draws: Draws,
) -> list[Attempt]:
    """The attempts; all of them void where nobody finds more than the luckiest of so many would.

    Where somebody does, all who prove themselves count: one more who knows nothing must not take a leak away.
    """
    tried = {one.name: pairs[one.name] for one in attempts if one.raw.score.value is not None}
    if not tried or any(_shown(group, role, draws) for group in _grouped(tried, kinds)):
        return list(attempts)
    why = f"the best of {len(tried)} does not beat chance by {_points(draws.rules.margin)} once luck is taken off"
    return [one if one.void else replace(one, void=why) for one in attempts]


def _shown(group: Mapping[str, Pair], role: Role, draws: Draws) -> bool:
    """Whether the best on raw videos (or, as an attacker, on anonymized ones) does better than luck among so many."""
    if len(group) < 2:
        return True  # nobody was chosen among: its own interval says all
    for side in (0, 1) if role == "attack" else (0,):
        left = sober([pair[side] for pair in group.values()])
        known = left[~np.isnan(left)]
        tail = 50 * (1 - draws.rules.level)
        if len(known) >= len(left) / 2 and np.percentile(known, tail) > draws.rules.margin:
            return True
    return False


def _grouped(pairs: Mapping[str, Pair], kinds: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Pair]]:
    found: dict[tuple[Any, ...], dict[str, Pair]] = {}
    for who, pair in pairs.items():
        found.setdefault(kinds[who], {})[who] = pair
    return list(found.values())


def _parts(
    details: Mapping[str, tuple[Mapping[str, Drawn], Mapping[str, Drawn]]],
    kinds: Mapping[str, tuple[Any, ...]],
    draws: Draws,
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Every attribute that somebody proves to find, on raw videos or on anonymized ones; then the other names."""
    names = sorted({name for raw, _ in details.values() for name in raw})
    found, unproven = [], []
    for name in names:
        pairs = {who: (raw[name], veiled[name]) for who, (raw, veiled) in details.items() if name in raw}
        proven = {
            who: pair
            for who, pair in pairs.items()
            if any(_beats(one.found(draws), draws.rules) for one in pair)
        }
        if not proven or not any(_shown(group, "attack", draws) for group in _grouped(pairs, kinds)):
            unproven.append(name)
            continue
        ranked, leakage = _ranked(_grouped(proven, kinds), draws)
        first = ranked[0]
        found.append(
            Part(
                name,
                first.raw.estimate(draws),
                first.veiled.estimate(draws),
                first.veiled.one.chance,
                leakage,
                first.veiled.name,
                _who_sees(pairs, kinds),
            )
        )
    return tuple(found), tuple(unproven)


def _who_sees(pairs: Mapping[str, Pair], kinds: Mapping[str, tuple[Any, ...]]) -> tuple[str, ...]:
    """Those who find in raw videos at least half of what the best finds that measures the same."""
    seeing: list[str] = []
    for group in _grouped(pairs, kinds):
        gains = {who: np.nan_to_num(pair[0].advantage) for who, pair in group.items()}
        seeing += [who for who, gain in gains.items() if gain > 0 and gain >= WITNESS * max(gains.values())]
    return tuple(sorted(seeing))


def _judged(base: Question, groups: Sequence[Mapping[str, Pair]], draws: Draws) -> Question:
    ranked, left = _ranked(groups, draws)
    raw, veiled = ranked[0].raw, ranked[0].veiled
    kept = draws.interval(_share(veiled.one.value, raw.one.value), _share(veiled.values, raw.values))
    made = replace(
        base,
        strongest_raw=raw.name,
        strongest=veiled.name,
        raw=raw.estimate(draws),
        anonymized=veiled.estimate(draws),
        chance=veiled.one.chance,
        leakage=left,
        reduction=left.map(lambda x: 1 - x),
        relative=kept.map(lambda x: 1 - x),
        kept=kept,
        above=draws.interval(veiled.one.value - veiled.one.chance, veiled.values - veiled.chances),
    )
    if base.role == "attack":
        known = {one.name: one for one in base.attempts}
        shown = tuple(one.shown(known[one.veiled.name], draws) for one in ranked)
        made = replace(made, metric=shown[0].metric, groups=shown)
    word, reason = (_privacy if base.role == "attack" else _utility)(made, draws.rules)
    return replace(made, verdict=word, reason=reason)


@dataclass(frozen=True)
class _Compared:
    """The best of either side among those that measure the same."""

    raw: _Best
    veiled: _Best

    @property
    def value(self) -> float:
        return float(_share(self.veiled.one.advantage, self.raw.one.advantage))

    @property
    def values(self) -> np.ndarray:
        return np.asarray(_share(self.veiled.advantages, self.raw.advantages))

    def leakage(self, draws: Draws) -> Estimate:
        return draws.interval(self.value, self.values)

    def shown(self, like: Attempt, draws: Draws) -> Group:
        both = self.raw.estimate(draws), self.veiled.estimate(draws)
        chance, leakage = self.veiled.one.chance, self.leakage(draws)
        return Group(like.metric, like.items, self.raw.name, self.veiled.name, *both, chance, leakage)


def _ranked(groups: Sequence[Mapping[str, Pair]], draws: Draws) -> tuple[list[_Compared], Estimate]:
    """The groups from the one that leaks most down, and the largest leakage, looked for in every draw again."""
    made = [
        _Compared(*(_best({who: pair[side] for who, pair in group.items()}) for side in (0, 1)))
        for group in groups
    ]
    made.sort(key=lambda one: np.inf if np.isnan(one.value) else -one.value)
    largest = draws.interval(made[0].value, np.fmax.reduce([one.values for one in made]))
    if largest.low is None or largest.high is None:
        return made, largest
    # a group that some draws do not define must not hide the doubt about it behind the others
    own = [one.leakage(draws) for one in made]
    low = max([largest.low, *(one.low for one in own if one.low is not None)])
    high = max([largest.high, *(one.high for one in own if one.high is not None)])
    return made, Estimate(largest.value, min(low, made[0].value), high)


@dataclass(frozen=True)
class _Best:
    """The one with the largest advantage: over all items, and in every draw."""

    name: str
    one: Drawn
    values: np.ndarray  # (B,)
    chances: np.ndarray
    advantages: np.ndarray

    def estimate(self, draws: Draws) -> Estimate:
        return draws.interval(self.one.value, self.values)


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


def _void(raw: Found, veiled: Found, items: int, role: Role, rules: Rules, judged: bool) -> str:
    """Why nothing follows from an attacker; empty where something does."""
    if items < rules.least_items:
        return f"{items} test items; at least {rules.least_items} are needed"
    if not judged:
        return ""
    if raw.score.value is None:
        return "the test items do not define its score"
    if _beats(raw, rules) or (role == "attack" and _beats(veiled, rules)):
        return ""
    return f"does not beat chance by {_points(rules.margin)} on raw videos"


def _beats(found: Found, rules: Rules) -> bool:
    return found.above.low is not None and found.above.low > rules.margin


DOUBT = "has not been shown (doubt counts against; use more test items)"


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
    told += f" (there the best finds {_percent(_known(made))} of what could be known)"
    if left.low > rules.max_leakage:
        return "FAIL", f"{told}; at most {limit} are allowed"
    several = len(made.parts) + len(made.unproven) > 1  # a single one is its own average
    alone = _alone(made.parts, rules) if several else None
    if alone is not None:
        finds, shown = alone
        asked = f"at most {limit} are allowed of any" if shown else f"that it is at most {limit} {DOUBT}"
        return "FAIL", f"on average {told}, but {finds}; {asked}"
    if left.high <= rules.max_leakage and _known(made) < rules.least_found:
        return "NOT MEASURABLE", (
            f"{told}; but from what attackers do not find nothing follows where they find less than "
            f"{_percent(rules.least_found)} of what could be known in raw videos"
        )
    if left.high <= rules.max_leakage:
        return "PASS", f"{told}; at most {limit} are allowed{_reserve(made, rules)}"
    widest = max(made.groups, key=lambda one: one.leakage.high or 0.0)
    other = ""
    if widest.strongest != made.strongest and (widest.leakage.high or 0.0) > rules.max_leakage:
        between = f"{_percent(widest.leakage.low)} to {_percent(widest.leakage.high)}"
        other = f"; most doubt is left by {widest.strongest}: {_percent(widest.leakage.value)} ({between})"
    return "FAIL", f"{told}; that it is at most {limit} {DOUBT}{other}"


def _known(made: Question) -> float:
    """The largest advantage on raw videos, by any way of measuring."""
    return max((_advantage_of(one.raw.value, one.chance) for one in made.groups), default=0.0)


def _reserve(made: Question, rules: Rules) -> str:
    """Of which attributes a PASS does not say that they are surely hidden."""
    vague = [
        one.name for one in made.parts if one.leakage.high is None or one.leakage.high > rules.max_leakage
    ]
    words = f"; of {', '.join(vague)} that holds by the estimate only" if vague else ""
    return words + (f"; of {', '.join(made.unproven)} nothing is known" if made.unproven else "")


def _alone(parts: Sequence[Part], rules: Rules) -> tuple[str, bool] | None:
    """The attribute that leaks most of those over the limit, in words, and whether that is shown or an estimate.

    Attributes for which it is shown come first.
    """
    over = [one for one in parts if (one.leakage.value or 0.0) > rules.max_leakage]
    shown = [one for one in over if one.leakage.low is not None and one.leakage.low > rules.max_leakage]
    worst = max(shown or over, key=lambda one: one.leakage.value or 0.0, default=None)
    if worst is None:
        return None
    ends = f"{_percent(worst.leakage.low)} to {_percent(worst.leakage.high)}"
    finds = f"of {worst.name} alone {worst.strongest} finds {_percent(worst.leakage.value)} ({ends})"
    return finds, bool(shown)


def _nobody(base: Question, rules: Rules) -> Question:
    """Where no attacker counts nothing is known, unless a single attribute is shown to leak all the same."""
    reason = _all_void(base.attempts, base.role)
    alone = _alone(base.parts, rules) if base.role == "attack" else None
    if alone is None or not alone[1]:
        return replace(base, reason=reason)
    limit = _percent(rules.max_leakage)
    return replace(
        base, verdict="FAIL", reason=f"{alone[0]}; at most {limit} are allowed of any; on average {reason}"
    )


def _utility(made: Question, rules: Rules) -> tuple[Word, str]:
    kept = made.kept
    if kept.value is None or kept.low is None:
        return "NOT MEASURABLE", "the test items define the score only now and then"
    told = (
        f"{made.strongest} keeps {_percent(kept.value)} "
        f"({_percent(kept.low)} to {_percent(kept.high)}) of its raw score, "
        f"{_percent(made.leakage.value)} of what that was above chance"
    )
    if made.above.low is None or made.above.low <= rules.margin:
        return "FAIL", f"{told}, and does not clearly beat chance any more"
    if kept.value < rules.min_utility:
        return "FAIL", f"{told}; {_percent(rules.min_utility)} are asked for"
    return "PASS", f"{told}; {_percent(rules.min_utility)} are asked for"


def verdict(questions: Sequence[Question]) -> Verdict:
    """FAIL where one question fails.

    Privacy passes if all questions pass that the data allow to ask: what could be asked and was not answered holds it
    back. Utility passes if those pass that were measured; what is not measured is the user's own matter.
    """
    words: dict[str, Word] = {}
    reasons: list[str] = []
    for role, title in (("attack", "privacy"), ("utility", "utility")):
        own = [one for one in questions if one.role == role and one.judged]
        measured = [one for one in own if one.verdict != "NOT MEASURABLE"]
        open_ = [one for one in own if one.verdict == "NOT MEASURABLE" and one.possible and role == "attack"]
        failed = any(one.verdict == "FAIL" for one in measured)
        words[title] = "FAIL" if failed else "PASS" if measured and not open_ else "NOT MEASURABLE"
        for one in own:
            note = ""
            if one in open_ and measured and not failed:
                note = "; this holds PASS back"
            elif role == "attack" and not one.possible and words[title] == "PASS":
                note = "; these data do not allow to ask it, and PASS says nothing about it"
            reasons.append(f"{title}, {one.name}: {one.verdict}: {one.reason}{note}")
        if not own:
            reasons.append(f"{title}: NOT MEASURABLE: nothing was asked")
    return Verdict(words["privacy"], words["utility"], tuple(reasons))


def among(attackers: Sequence[str], names: set[str]) -> tuple[str, ...]:
    """Of these attackers, those that belong to such participants."""
    return tuple(one for one in attackers if one.partition("/")[0] in names)


def witnesses(made: Question, names: set[str]) -> tuple[str, ...]:
    """Of these participants, those who found in raw videos at least half of what the best found, by the same metric."""
    proven = [one for one in made.attempts if not one.void]
    best: dict[str, float] = {}
    for one in proven:
        best[one.metric] = max(best.get(one.metric, 0.0), _advantage(one.raw))
    seeing = [one.name for one in proven if _advantage(one.raw) >= WITNESS * best[one.metric]]
    return among(seeing, names)


def _advantage(found: Found) -> float:
    return _advantage_of(found.score.value, found.chance)


def _advantage_of(value: float | None, chance: float | None) -> float:
    return 0.0 if value is None else float(advantage(np.array(value), np.array(chance or 0.0)))


def to_json(one: Question) -> dict[str, Any]:
    return asdict(one)
