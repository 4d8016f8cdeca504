"""Private attributes by attackers who learnt from the other half of the videos that they are tested on (two-fold).

Attackers of VISPR's photographs know other people, other cameras and other words for what they see. These know videos
of the same kind: nobody in them, but how such videos look.

Shapes: m frames of n videos, k attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from videoveil import files
from videoveil.data.hmdb51 import film
from videoveil.data.pa_hmdb51 import RULES
from videoveil.data.records import Item
from videoveil.protocols.base import Reading, Readings
from videoveil.protocols.measures import OfOneDataset, best_of, chosen_from, frame_rows, frames_of_each

if TYPE_CHECKING:
    from videoveil.protocols.subjects import Subject
    from videoveil.protocols.workshop import Workshop
    from videoveil.tasks.outcomes import Outcome

HALVES = (0, 1)
VALIDATION = 0.2  # of the videos of a half, for epochs and strengths


@dataclass(frozen=True)
class TwoFoldAttributes(OfOneDataset):
    """`cmap_KIND` of each attacker and `cmap` of the strongest, over both halves of PA-HMDB51's videos.

    No film is in both halves. Scores of a half are its ranks: those of two attackers are on no common scale.
    """

    kind: str = "mlp2"
    rule: str = "splavu"
    dataset: str = "pa-hmdb51"
    on_features: ClassVar[bool] = True

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return f"{workshop.encoder_words(subject)}, {frames_of_each(0, workshop.scale.static)}"

    def complete(self, found: Readings) -> Readings:
        return chosen_from(found, "cmap", [name for name in found if name.startswith("cmap_")])

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.attacks import SUITE
        from videoveil.attacks.features import attacker, split
        from videoveil.tasks.outcomes import AttributeOutcome

        source, names = workshop.features(self.dataset, subject, "test"), RULES[self.rule]
        x, y, videos = frame_rows(source, names, self.rule)
        items = sorted((entry.item for entry in source.items()), key=lambda item: item.id)
        half = halves(items)[videos]  # (m,)
        kinds = tuple(dict.fromkeys((self.kind, *(workshop.scale.kinds or SUITE))))
        if set(half) != set(HALVES):
            return {name: Reading(None) for name in ("cmap", *(f"cmap_{kind}" for kind in kinds))}
        said: dict[str, Outcome] = {}
        for kind in kinds:
            scores = np.zeros(y.shape)
            for asked in HALVES:
                rows = np.flatnonzero(half != asked)
                learn, choose = split(len(rows), VALIDATION, workshop.seed, videos[rows])
                held_out = (x[rows[choose]], y[rows[choose]])
                fitted = attacker(kind).fit(x[rows[learn]], y[rows[learn]], held_out, workshop.seed)
                scores[half == asked] = ranks(fitted.scores(x[half == asked]))
            ids = tuple(item.id for item in items)
            said[f"cmap_{kind}"] = AttributeOutcome(names, y, scores, videos, ids)
        found = {}
        for name, one in {**said, "cmap": best_of(said)}.items():
            measured = one.measure()
            found[name] = Reading(measured.value, measured.chance, one)
        return self.complete(found)


def halves(items: Sequence[Item]) -> np.ndarray:
    """(n,) of 0 and 1, always the same: every film in one half, both as near to equal as films allow."""
    films = [film(item) for item in items]
    often, size, place = Counter(films), [0, 0], {}
    for name in sorted(often, key=lambda name: (-often[name], files.value_hash(name))):
        place[name] = int(size[1] < size[0])
        size[place[name]] += often[name]
    return np.array([place[name] for name in films], dtype=int)


def ranks(scores: np.ndarray) -> np.ndarray:
    """(m, k) → the same order by column, from 0 to 1; equal scores stay equal."""
    from scipy.stats import rankdata

    return np.asarray((rankdata(scores, axis=0) - 1) / max(len(scores) - 1, 1))
