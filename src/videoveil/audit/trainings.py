"""Everybody is trained on both sides with every seed, unless what they said is kept already."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from videoveil.attacks.gait import PROBE
from videoveil.audit import kept
from videoveil.audit.case import Case
from videoveil.audit.excuses import CANNOT, in_words
from videoveil.audit.participant import Answers, Participant, Trial
from videoveil.audit.subject import WHICH, Which
from videoveil.errors import StoreError
from videoveil.tasks.base import Progress

# trainings done (with the part of the one at hand), in all, its name
Watch = Callable[[float, int, str], None]
Said = Mapping[str, Mapping[Which, Sequence[Answers]]]  # participant → side → what it said with every seed


def unwatched(done: float, total: int, words: str) -> None:
    """Where nobody wants to know how far it is."""


@dataclass(frozen=True)
class Trainings:
    """The trainings of one audit. `seconds`: how long each of them took, and what had to be made for them."""

    case: Case
    watch: Watch = unwatched
    seconds: dict[str, float] = field(default_factory=dict)

    def extract(self, able: Sequence[Participant]) -> None:
        """The features that some of them read."""
        grids = sorted({one.grid for one in able if one.reads == "features"})
        for grid, which in [(grid, which) for grid in grids for which in WHICH]:
            began = time.perf_counter()
            said = f"features of {which} videos ({grid})"
            self.case.stores.make(
                which, lambda done, total, _, said=said: self.watch(done, total, said), grid
            )
            self.seconds[said] = time.perf_counter() - began

    def answers(self, chosen: Sequence[Participant]) -> tuple[Said, dict[str, str]]:
        """What they said; and the names of those that the data do not allow to learn, with the reasons."""
        self.extract(chosen)
        seeds = self.case.settings.seeds
        jobs = [(one, which, seed) for one in chosen for which in one.sides for seed in seeds]
        found: dict[str, dict[Which, list[Answers]]] = {
            one.name: {"raw": [], "anonymized": []} for one in chosen
        }
        given_up: dict[str, str] = {}
        for number, (one, which, seed) in enumerate(jobs):
            words = f"{one.name}, {which}, seed {seed}"
            self.watch(number, len(jobs), words)

            def inside(done: int, total: int, value: float, number: int = number, words: str = words) -> None:
                self.watch(number + done / max(total, 1), len(jobs), words)

            if one.name in given_up:
                continue
            try:
                found[one.name][which].append(self.answer(one, which, seed, inside))
            except CANNOT as error:
                given_up[one.name] = in_words(error, self.case)
        self.watch(len(jobs), len(jobs), "scoring")
        return {name: own for name, own in found.items() if name not in given_up}, given_up

    def answer(self, one: Participant, which: Which, seed: int, progress: Progress) -> Answers:
        """What one training said; it is trained where that is not kept."""
        path = kept.file(self.case, one, which, seed)
        if not path.is_file():
            began = time.perf_counter()
            found = self.train(one, which, seed, progress)
            kept.keep(path, found, time.perf_counter() - began)
        self.seconds[f"{one.name}, {which}, seed {seed}"] = kept.seconds(path, unknown=0.0)
        return kept.read(path)

    def train(self, one: Participant, which: Which, seed: int, progress: Progress) -> Answers:
        """Train somebody, whatever is kept, and see to it that only test videos were asked about."""
        subject, settings = self.case.subject, self.case.settings
        model = kept.model(self.case, one) if (which, seed) == ("anonymized", settings.seed) else None
        trial = Trial(subject, self.case.stores, which, seed, settings.device, progress, model)
        found = one.run(trial, one.config(settings.gpu))
        if one.sides != WHICH:  # asks about training videos as well
            return found
        wanted = {item.id for split in (subject.test, PROBE) for item in subject.items(split)}
        for name, outcome in found.items():
            if strange := set(outcome.items) - wanted:
                raise StoreError(
                    f"{one.name}/{name} was scored on items that are no test items: {sorted(strange)[:3]}"
                )
        return found
