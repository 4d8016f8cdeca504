"""The audit itself: train everybody on both sides, keep what they said, and say what follows.

    audit(Subject.of(dataset, open_anonymizer("blur")), "out")

OUT/audit.json          what is audited, so that a folder never holds two of them (`case`)
OUT/published/          what left the anonymizer: the files that attackers look at (`published`)
OUT/features/           what an encoder makes of them (`subject`)
OUT/plan.json           who took part, and who did not (`reckoning`)
OUT/reckoned.json       what everybody costs, as far as it was tried before there was a plan
OUT/results/            what each training on anonymized videos said, one file each (`kept`)
OUT/metrics.json        verdict, every figure with its interval and chance; the same for the same data and seed
OUT/report.html         the same for people (`documents`)
OUT/config.yaml         what was asked for, with the settings of everybody who took part
OUT/environment.json    versions and devices
OUT/timing.json         how long everything took
OUT/*.png               frames for the report, where they were asked for
CACHE/                  results and features of raw videos, and plans: for other audits of the same data

Every training is one file, whole or absent, so a killed audit goes on where it was, to the same metrics.
"""

from __future__ import annotations

import time
from pathlib import Path

from videoveil.audit import documents, registry
from videoveil.audit.case import Case
from videoveil.audit.conclusions import Result, conclude
from videoveil.audit.participant import Participant
from videoveil.audit.plan import LeftOut, Plan
from videoveil.audit.reckoning import planned
from videoveil.audit.settings import Settings
from videoveil.audit.subject import Subject
from videoveil.audit.trainings import Trainings, Watch, unwatched

NOT_ASKED = "was not asked for"
PUBLISHING = "taking the videos through the anonymizer"


def audit(
    subject: Subject,
    out: str | Path,
    settings: Settings | None = None,
    *,
    cache: str | Path | None = None,
    watch: Watch | None = None,
) -> Result:
    """Run, or go on with, an audit in the folder `out`."""
    case = Case.of(subject, Path(out), settings or Settings(), None if cache is None else Path(cache))
    tell = watch or unwatched
    began = time.perf_counter()
    case.claim()
    case = case.with_published(lambda done, total: tell(done, total, PUBLISHING))
    trainings = Trainings(case, tell, {PUBLISHING: time.perf_counter() - began})
    able, unable = _able(case)
    plan = planned(trainings, able, unable, began)
    said, given_up = trainings.answers([one for one in able if one.name in plan.chosen])
    chosen = [one for one in able if one.name in said]
    others = tuple(LeftOut(name, reason) for name, reason in sorted(given_up.items()))
    plan = Plan(tuple(one.name for one in chosen), (*plan.left_out, *others), plan.seconds)
    result = conclude(case, chosen, said, plan)
    timing = {"seconds": trainings.seconds, "reckoned": plan.seconds}
    documents.write(case, chosen, result.metrics, timing)
    return result


def _able(case: Case) -> tuple[list[Participant], list[LeftOut]]:
    """Those that the data allow, and why others do not take part."""
    asked = {one.name for one in case.settings.participants}
    able: list[Participant] = []
    unable = [LeftOut(one.name, NOT_ASKED) for one in registry.PARTICIPANTS if one.name not in asked]
    for one in case.settings.participants:
        excuse = one.excuse(case.subject, case.stores)
        if excuse:
            unable.append(LeftOut(one.name, excuse))
        else:
            able.append(one)
    return able, unable
