"""The audit itself: train everybody on both sides, keep what they said, and say what follows.

    audit(Subject.of(dataset, open_anonymizer("blur")), "out")

OUT/metrics.json        verdict, every figure with its interval and chance; the same for the same data and seed
OUT/report.html         the same for people
OUT/config.yaml         what was asked for, with the settings of everybody who took part
OUT/environment.json    versions and devices
OUT/timing.json         how long everything took
OUT/plan.json           who took part, and who did not
OUT/reckoned.json       what everybody costs, as far as it was tried before there was a plan
OUT/published/          what left the anonymizer: the files that attackers look at
OUT/results/            what each training on anonymized videos said, one file each
OUT/*.png               frames for the report, where they were asked for
CACHE/                  the same of raw videos, and their features: for other audits of the same data

Every training is one file, whole or absent, so a killed audit goes on where it was, to the same metrics.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import videoveil
from videoveil import devices, files
from videoveil.audit import checks, detections, members, pictures, registry, risk, scoring
from videoveil.audit.detections import DetectionOutcome
from videoveil.audit.draws import Draws
from videoveil.audit.plan import LeftOut, Plan, choose, cost
from videoveil.audit.registry import Answers, Participant, Trial
from videoveil.audit.rules import Rules
from videoveil.audit.scoring import Question, Verdict
from videoveil.audit.subject import WHICH, Stores, Subject, Which
from videoveil.errors import AnnotationError, BadItems, Diverged, StoreError, UsageError
from videoveil.tasks import outcomes
from videoveil.tasks.base import Progress
from videoveil.tasks.outcomes import Outcome

Watch = Callable[
    [float, int, str], None
]  # trainings done (with the part of the one at hand), in all, its name

METRICS, CONFIG, ENVIRONMENT = "metrics.json", "config.yaml", "environment.json"
TIMING, PLAN, REPORT, IDENTITY = "timing.json", "plan.json", "report.html", "audit.json"
RECKONED = "reckoned.json"
NOT_ASKED = "was not asked for"
ANSWERS = 2  # which answers a training gives; others are not taken from a cache
CANNOT = (UsageError, AnnotationError, BadItems, Diverged)  # what the data do not allow somebody to learn
NEVER_TESTED = (
    "attackers that were not named here, stronger ones, or ones with more data about the same people",
    "what somebody knows from elsewhere: the place, the time, who was there",
    "voices and other sound, on-screen text, file names and metadata",
    "single frames between those that networks look at (the coarse grid sees them all), and how long a video is",
    "the sides of wide pictures, by features: they are of the middle square (networks and the grid see everything)",
)


@dataclass(frozen=True, slots=True)
class Pictures:
    """How many test videos the report shows, and whether their raw frames too."""

    videos: int = 0
    raw: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How an audit is run."""

    rules: Rules = field(default_factory=Rules)
    participants: tuple[Participant, ...] = registry.PARTICIPANTS
    seed: int = 0
    budget: float | None = None  # minutes
    device: str = "auto"
    workers: int = 1
    pictures: Pictures = Pictures()
    command: str = ""  # that asked for the audit, for its report

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.seed + number for number in range(self.rules.seeds))

    @property
    def gpu(self) -> bool:
        return devices.choose(self.device).type == "cuda"


@dataclass(frozen=True)
class Result:
    """What an audit found."""

    verdict: Verdict
    questions: tuple[Question, ...]
    risks: tuple[risk.Risk, ...]
    left_out: tuple[LeftOut, ...]
    not_measurable: tuple[str, ...]
    metrics: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        return {"PASS": 0, "NOT MEASURABLE": 1, "FAIL": 2}[self.verdict.overall]


def audit(
    subject: Subject,
    out: str | Path,
    settings: Settings | None = None,
    *,
    cache: str | Path | None = None,
    watch: Watch | None = None,
) -> Result:
    """Run, or go on with, an audit in the folder `out`."""
    return Audit(
        subject, Path(out), settings or Settings(), None if cache is None else Path(cache), watch
    ).run()


class Audit:
    """One audit in its folder."""

    def __init__(
        self, subject: Subject, out: Path, settings: Settings, cache: Path | None, watch: Watch | None
    ):
        self.subject, self.reasons = checks.prepared(subject, settings.rules.least_items)
        self.out, self.settings, self.watch = out, settings, watch
        self.cache = cache or out / "cache"
        self.data = self.subject.identity()
        self.sides = {which: self.subject.side(which).identity() for which in WHICH}
        self.stores = Stores(
            self.subject,
            self.cache / "features" / f"{_plain(subject.title)}-{self._store_key()}",
            out / "features",
            settings.device,
            settings.workers,
        )
        self.seconds: dict[str, float] = {}
        self._spent_before = 0.0  # seconds of a budget, until a kill
        self.given_up: dict[str, str] = {}  # participants that the data do not allow, and why

    def _store_key(self) -> str:
        many = bool(getattr(self.subject.anonymized.latent, "wants_static", False))
        return files.value_hash([self.data, many])[:16]

    # --- the way through ------------------------------------------------------------------------------------

    def run(self) -> Result:
        self._began = time.perf_counter()
        self._claim()
        self._publish()
        able, unable = self._able()
        plan = self._plan(able, unable)
        chosen = [one for one in able if one.name in plan.chosen]
        answers = self._answers(chosen)
        chosen = [one for one in chosen if one.name in answers]
        given_up = tuple(LeftOut(name, reason) for name, reason in sorted(self.given_up.items()))
        plan = Plan(tuple(one.name for one in chosen), (*plan.left_out, *given_up), plan.seconds)
        result = self._result(chosen, answers, plan)
        self._write(result, chosen, plan)
        return result

    def _claim(self) -> None:
        """Refuse a folder that holds another audit."""
        mine = {"data": self.data, "anonymizer": self.sides["anonymized"], "seed": self.settings.seed}
        path = self.out / IDENTITY
        files.create_json(path, mine)
        if json.loads(path.read_text("utf-8")) != mine:
            raise UsageError(f"{self.out}: holds the audit of something else; choose another --out")

    def _publish(self) -> None:
        """Take every video through the anonymizer, once, as `veil anonymize` would."""
        said = "taking the videos through the anonymizer"
        self.subject = self.subject.with_published(
            self.out / "published", self.settings.device, lambda done, total: self._tell(done, total, said)
        )
        self.stores = replace(self.stores, subject=self.subject)
        self.seconds[said] = time.perf_counter() - self._began

    def _able(self) -> tuple[list[Participant], list[LeftOut]]:
        """Those that the data allow, and why others do not take part."""
        asked = {one.name for one in self.settings.participants}
        able: list[Participant] = []
        unable = [LeftOut(one.name, NOT_ASKED) for one in registry.PARTICIPANTS if one.name not in asked]
        for one in self.settings.participants:
            excuse = one.excuse(self.subject, self.stores)
            if excuse:
                unable.append(LeftOut(one.name, excuse))
            else:
                able.append(one)
        return able, unable

    # --- plan -----------------------------------------------------------------------------------------------

    def _plan(self, able: Sequence[Participant], unable: Sequence[LeftOut]) -> Plan:
        if self.settings.budget is None:
            return Plan(tuple(one.name for one in able), tuple(unable))
        key = files.value_hash(
            [
                self.data,
                self.sides["anonymized"],
                self.settings.budget,
                asdict(self.settings.rules),
                [[one.name, one.settings(self.settings.gpu)] for one in able],
                self.settings.seed,
            ]
        )
        kept = self.cache / "plans" / f"{key[:24]}.json"
        for path in (self.out / PLAN, kept):
            if path.is_file() and (value := json.loads(path.read_text("utf-8")))["key"] == key:
                return Plan.from_json(value["plan"])
        made = self._reckon(able, key)
        plan = Plan(made.chosen, (*unable, *made.left_out), made.seconds)
        for path in (kept, self.out / PLAN):
            files.write_json(path, {"key": key, "plan": plan.to_json()})
        return plan

    def _reckon(self, able: Sequence[Participant], key: str) -> Plan:
        """Try everybody for a moment on anonymized videos, which take longer than raw ones.

        What was found out before a kill is not tried again, and the time that it took is spent.
        """
        prices, cannot = self._reckoned(key)
        self._note_reckoned(key, prices, cannot)
        self._extract(able)
        self._note_reckoned(key, prices, cannot)
        seed = self.settings.seeds[0]
        for number, one in enumerate(able):
            self._tell(0.0, len(able), f"how long {one.name} takes")
            if one.name in prices or one.name in cannot:
                continue
            if self._file(one, "anonymized", seed).is_file():
                prices[one.name] = self._seconds_of(one, seed)
                continue
            try:
                prices[one.name], found = cost(partial(self._train, one, "anonymized", seed))
            except CANNOT as error:  # before anything is spent on the raw side
                cannot[one.name] = self._in_words(error)
                self._note_reckoned(key, prices, cannot)
                continue
            if found is not None:
                self._keep(one, "anonymized", seed, found, prices[one.name])
            self._note_reckoned(key, prices, cannot)
            self._tell(number + 1.0, len(able), f"how long {one.name} takes")
        missing = {
            one.name: sum(
                not self._file(one, which, seed).is_file()
                for which in one.sides
                for seed in self.settings.seeds
            )
            for one in able
        }
        able = [one for one in able if one.name not in cannot]
        left = 60 * float(self.settings.budget or 0) - self._spent()
        plan = choose(able, prices, missing, max(left, 0.0), f"{self.settings.budget:g} minutes")
        unable = (LeftOut(name, reason) for name, reason in sorted(cannot.items()))
        return replace(plan, left_out=(*plan.left_out, *unable))

    def _spent(self) -> float:
        """Seconds of the budget, those before a kill too."""
        return self._spent_before + time.perf_counter() - self._began

    def _reckoned(self, key: str) -> tuple[dict[str, float], dict[str, str]]:
        """What participants cost, and why others cannot learn, as far as a killed audit came."""
        path = self.out / RECKONED
        if not path.is_file() or (value := json.loads(path.read_text("utf-8")))["key"] != key:
            return {}, {}
        self._spent_before = float(value["spent"])
        return dict(value["prices"]), dict(value["cannot"])

    def _note_reckoned(self, key: str, prices: Mapping[str, float], cannot: Mapping[str, str]) -> None:
        value = {"key": key, "spent": self._spent(), "prices": dict(prices), "cannot": dict(cannot)}
        files.write_json(self.out / RECKONED, value)

    def _seconds_of(self, one: Participant, seed: int) -> float:
        note = self._file(one, "anonymized", seed).with_suffix(".json")
        return float(json.loads(note.read_text("utf-8"))["seconds"]) if note.is_file() else 1.0

    # --- training -------------------------------------------------------------------------------------------

    def _extract(self, able: Sequence[Participant]) -> None:
        grids = sorted({one.grid for one in able if one.reads == "features"})
        for grid, which in [(grid, which) for grid in grids for which in WHICH]:
            began = time.perf_counter()
            said = f"features of {which} videos ({grid})"
            self.stores.make(which, lambda done, total, _, said=said: self._tell(done, total, said), grid)
            self.seconds[said] = time.perf_counter() - began

    def _answers(self, chosen: Sequence[Participant]) -> dict[str, dict[Which, list[Answers]]]:
        """Participant → side → what it said with every seed."""
        self._extract(chosen)
        jobs = [(one, which, seed) for one in chosen for which in one.sides for seed in self.settings.seeds]
        found: dict[str, dict[Which, list[Answers]]] = {
            one.name: {"raw": [], "anonymized": []} for one in chosen
        }
        for number, (one, which, seed) in enumerate(jobs):
            words = f"{one.name}, {which}, seed {seed}"
            self._tell(number, len(jobs), words)

            def inside(done: int, total: int, value: float, number: int = number, words: str = words) -> None:
                self._tell(number + done / max(total, 1), len(jobs), words)

            if one.name in self.given_up:
                continue
            try:
                found[one.name][which].append(self._answer(one, which, seed, inside))
            except CANNOT as error:
                self.given_up[one.name] = self._in_words(error)
        self._tell(len(jobs), len(jobs), "scoring")
        return {name: own for name, own in found.items() if name not in self.given_up}

    def _in_words(self, error: Exception) -> str:
        """What an error says, without the folders of this machine: the same data give the same words anywhere."""
        named = {self.out: "OUT", self.cache: "CACHE"}
        for side in (self.subject.raw, self.subject.anonymized):
            named.setdefault(side.dataset.root, side.which.upper())
        return without_folders(str(error), named)

    def _answer(self, one: Participant, which: Which, seed: int, progress: Progress) -> Answers:
        path = self._file(one, which, seed)
        if not path.is_file():
            began = time.perf_counter()
            found = self._train(one, which, seed, progress)
            self._keep(one, which, seed, found, time.perf_counter() - began)
        self.seconds[f"{one.name}, {which}, seed {seed}"] = self._noted(path)
        found = outcomes.load(path)
        beside = _detections_of(path)
        return {**found, **detections.load(beside)} if beside.is_file() else found

    def _train(self, one: Participant, which: Which, seed: int, progress: Progress) -> Answers:
        kept = self._model(one) if (which, seed) == ("anonymized", self.settings.seed) else None
        trial = Trial(self.subject, self.stores, which, seed, self.settings.device, progress, kept)
        found = one.run(trial, one.config(self.settings.gpu))
        if one.sides != WHICH:  # asks about training videos as well
            return found
        wanted = {item.id for split in self._tested() for item in self.subject.items(split)}
        for name, outcome in found.items():
            if strange := set(outcome.items) - wanted:
                raise StoreError(
                    f"{one.name}/{name} was scored on items that are no test items: {sorted(strange)[:3]}"
                )
        return found

    def _tested(self) -> tuple[str, ...]:
        return (self.subject.test, "probe")

    def _keep(self, one: Participant, which: Which, seed: int, found: Answers, seconds: float) -> None:
        path = self._file(one, which, seed)
        files.write_json(path.with_suffix(".json"), {"seconds": round(seconds, 3)})
        detected = {name: o for name, o in found.items() if isinstance(o, DetectionOutcome)}
        if detected:
            detections.save(_detections_of(path), detected)
        # last: where this file is, everything is
        outcomes.save(path, {name: o for name, o in found.items() if name not in detected})

    def _noted(self, path: Path) -> float:
        note = path.with_suffix(".json")
        return float(json.loads(note.read_text("utf-8"))["seconds"]) if note.is_file() else 0.0

    def _file(self, one: Participant, which: Which, seed: int) -> Path:
        """Where the result of one training is, by everything that decides it."""
        sides = list(self.sides.values()) if which == "anonymized" else [self.sides["raw"]]
        key = files.value_hash(
            [
                self.data,
                sides,
                one.name,
                one.settings(self.settings.gpu),
                seed,
                videoveil.__version__,
                ANSWERS,
                # anonymizers ask for more or fewer static clips, of raw videos too
                "" if one.reads == "clips" else self._store_key(),
            ]
        )
        folder = self.cache / "results" if which == "raw" else self.out / "results"
        return folder / f"{one.name}-{which}-{seed}-{key[:16]}.npz"

    def _model(self, one: Participant) -> Path:
        """What it learnt from anonymized videos with the first seed, for pictures."""
        return self._file(one, "anonymized", self.settings.seed).with_suffix(".safetensors")

    def _tell(self, done: float, total: int, words: str) -> None:
        if self.watch is not None:
            self.watch(done, total, words)

    # --- what follows ---------------------------------------------------------------------------------------

    def _result(
        self, chosen: Sequence[Participant], answers: Mapping[str, Mapping[Which, list[Answers]]], plan: Plan
    ) -> Result:
        rules = self.settings.rules
        draws = Draws(rules, self.settings.seed, checks.people(self.subject))
        asked: dict[tuple[str, str, bool], dict[str, scoring.Sides]] = {}
        single: list[str] = []
        for one in [one for one in chosen if one.sides == WHICH]:
            both = [set(answers[one.name][which][0]) for which in WHICH]
            single += [
                f"{one.name}/{inner} was tried on one side only" for inner in sorted(both[0] ^ both[1])
            ]
            for inner in answers[one.name]["raw"][0]:
                if inner not in both[1]:
                    continue
                raw, veiled = (_by_seed(answers[one.name][which], inner, one.name) for which in WHICH)
                name, judged = registry.question_of(one, inner, raw[0].metric)
                asked.setdefault((name, one.role, judged), {})[f"{one.name}/{inner}"] = (raw, veiled)
        questions = tuple(
            scoring.question(name, role, sides, rules, judged=judged, draws=draws)  # type: ignore[arg-type]
            for (name, role, judged), sides in asked.items()
        )
        questions = tuple(self._doubted(one) for one in questions)
        questions = (*questions, *self._unanswered(questions, plan))
        verdict = scoring.verdict(questions)
        featured = any(one.reads == "features" for one in chosen)
        risks = risk.of(
            self.subject, self.stores, _attack_sides(asked), rules, self.settings.seed, featured=featured
        )
        for one in [one for one in chosen if one.question == registry.MEMBERS]:
            risks = (*risks, members.of(answers[one.name]["anonymized"], one.name, draws))
        missing = (*self.reasons, *self.subject.notes, *members.attackers_knew(self.subject), *single)
        metrics = self._metrics(verdict, questions, risks, plan, missing)
        return Result(verdict, questions, risks, plan.left_out, missing, metrics)

    def _doubted(self, made: Question) -> Question:
        """A question about pictures that passes, but not on the word of frozen features alone.

        Nor because nobody else was asked: `--only` chooses who takes part, not what would have to be known. A network
        that hardly finds anything in raw pictures is no witness either, where others find much in them.
        """
        if made.role != "attack" or made.verdict != "PASS" or self.subject.anonymized.clips is None:
            return made
        known = {one.name: one for one in (*registry.PARTICIPANTS, *self.settings.participants)}
        networks = {name: one for name, one in known.items() if one.learns}
        if not any(one.reads == "features" for one in known.values() if one.question == made.name):
            return made
        if scoring.witnesses(made, set(networks)):
            return made
        learners = sorted(
            name
            for name, one in networks.items()
            if one.question == made.name and not one.excuse(self.subject, self.stores)
        )
        if learners:
            why = (
                "no network that learns from the pictures themselves found at least half of what others found in raw "
                f"ones, and what it would find is not known ({', '.join(learners)}: see who was left out; a larger "
                "budget asks them)"
            )
        else:
            why = (
                "nobody here learns from the pictures themselves to answer it, and features are of the middle of a "
                "picture: what else is there is not known"
            )
        return replace(made, verdict="NOT MEASURABLE", reason=f"{made.reason}; but {why}")

    def _unanswered(self, questions: Sequence[Question], plan: Plan) -> list[Question]:
        """Questions of participants that nobody who took part could answer."""
        answered = {one.name for one in questions}
        reasons = {one.name: f"{one.name}: {one.reason}" for one in plan.left_out}
        found: dict[str, Question] = {}
        for one in self.settings.participants:
            if not one.judged or one.question in answered:
                continue
            cannot = one.excuse(self.subject, self.stores)
            why = cannot or reasons.get(one.name, "nobody answered it")
            known = found.get(one.question)
            # that it could have been asked counts for more than that one participant could not
            if known is None or (not known.possible and not cannot):
                found[one.question] = Question(
                    one.question, one.role, "", (), reason=why, possible=not cannot
                )
        return list(found.values())

    def _metrics(
        self,
        verdict: Verdict,
        questions: Sequence[Question],
        risks: Sequence[risk.Risk],
        plan: Plan,
        missing: Sequence[str],
    ) -> dict[str, Any]:
        own = self.subject
        return {
            "verdict": {**asdict(verdict), "overall": verdict.overall},
            "rules": asdict(self.settings.rules),
            "seeds": list(self.settings.seeds),
            "data": {
                "name": own.title,
                "synthetic": own.twin,
                "items": own.dataset.counts(),
                "attributes": sorted({name for item in own.dataset.items for name in own.known(item)}),
                "encoder": own.encoder,
                "seen": own.seen(),
            },
            "anonymizer": own.anonymizer,
            "questions": [scoring.to_json(one) for one in questions],
            "risks": [asdict(one) for one in risks],
            "took_part": list(plan.chosen),
            "left_out": [asdict(one) for one in plan.left_out],
            "not_measurable": list(missing),
            "never_tested": list(NEVER_TESTED),
        }

    # --- files ----------------------------------------------------------------------------------------------

    def _write(self, result: Result, chosen: Sequence[Participant], plan: Plan) -> None:
        from videoveil.recipes.text import yaml
        from videoveil.report import audit_page

        files.write_json(self.out / METRICS, result.metrics)
        config = {
            "data": {"name": self.subject.title, **self.subject.facts},
            "anonymizer": self.subject.anonymizer,
            "train": self.subject.train,
            "test": self.subject.test,
            "encoder": self.subject.encoder,
            "seed": self.settings.seed,
            "budget_minutes": self.settings.budget,
            "rules": asdict(self.settings.rules),
            "participants": {one.name: one.settings(self.settings.gpu) for one in chosen},
        }
        files.write_text(self.out / CONFIG, yaml(config))
        files.write_json(self.out / ENVIRONMENT, environment(self.settings.device))
        files.write_json(self.out / TIMING, {"seconds": self.seconds, "reckoned": plan.seconds})
        words = {one.name: one.words for one in (*registry.PARTICIPANTS, *self.settings.participants)}
        audit_page.write(
            result.metrics,
            self.out / REPORT,
            words=words,
            strip=self._strip(),
            drawings=self._drawings(chosen),
            command=self.settings.command,
        )

    def _strip(self) -> Path | None:
        """Frames of test videos as a picture; raw ones only where they were asked for."""
        wanted = self.settings.pictures
        if not wanted.videos or self.subject.anonymized.clips is None:
            return None
        path = self.out / "pictures.png"
        pictures.strip(self.subject, wanted.videos, raw=wanted.raw).write(path)
        return path

    def _drawings(self, chosen: Sequence[Participant]) -> list[Path]:
        """What the reconstruction attack makes of the same videos, where it took part."""
        wanted = self.settings.pictures
        models = [self._model(one) for one in chosen if one.name == registry.RECONSTRUCTION]
        if not wanted.videos or not models or not models[0].is_file():
            return []
        return pictures.reconstructions(self.subject, models[0], wanted.videos, self.out, raw=wanted.raw)


def _detections_of(path: Path) -> Path:
    """Beside the result of a training: what a detector found, which is of another form."""
    return path.with_suffix(".detections.npz")


def environment(device: str) -> dict[str, Any]:
    """Versions and the device that was used; no names of machines or people."""
    import platform
    from importlib import metadata

    from videoveil.doctor import PACKAGES

    there = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return {
        "videoveil": videoveil.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": str(devices.choose(device)),
        "threads": torch.get_num_threads(),  # another number may change the last bits of what is learnt
        "packages": {name: there.get(name) for name in PACKAGES},
    }


def _by_seed(answers: Sequence[Answers], inner: str, who: str) -> list[Outcome]:
    lacking = [number for number, one in enumerate(answers) if inner not in one]
    if lacking:
        raise StoreError(
            f"{who}/{inner}: trainings {lacking} did not give it; delete the results and run again"
        )
    return [one[inner] for one in answers]


def _attack_sides(
    asked: Mapping[tuple[str, str, bool], Mapping[str, scoring.Sides]],
) -> dict[str, scoring.Sides]:
    return {
        who: pair
        for (_, role, judged), sides in asked.items()
        if role == "attack" and judged
        for who, pair in sides.items()
    }


def without_folders(text: str, named: Mapping[Path, str]) -> str:
    """With words for the folders that have one; of any other whole path its last part is left."""
    forms = {str(form): word for path, word in named.items() for form in (path, path.absolute())}
    for folder in sorted(forms, key=len, reverse=True):  # one may lie within another
        end = r"(?![\w.-])" if Path(folder).is_absolute() else "(?=/)"  # `out` is a word as well
        text = re.sub(rf"(?<![\w./-]){re.escape(folder)}{end}", forms[folder], text)
    return re.sub(r"(?<![\w./:-])/(?:[^\s/:]+/)+", "", text)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text) or "data"
