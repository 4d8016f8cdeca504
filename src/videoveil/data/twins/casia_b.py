"""CASIA-B: people walking, seen from several sides, normally, with a bag, in a coat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from videoveil.data.records import Item
from videoveil.data.theatre.cast import costume, identity
from videoveil.data.theatre.playwright import draw_scene, walk
from videoveil.data.twins.film import AVI
from videoveil.data.twins.plan import HEIGHT, RATE, WIDTH, Reel, Scale, Twin

SEQUENCES = (*((("nm", n)) for n in range(1, 7)), ("bg", 1), ("bg", 2), ("cl", 1), ("cl", 2))
VIEWS = {"tiny": (0, 90), "small": (0, 54, 90), "medium": tuple(range(0, 181, 18))}


def plan(seed: int, scale: Scale) -> Twin:
    scene = draw_scene(
        "casia-b", seed, steady=True, name="corridor"
    )  # one background for all, as in the original
    reels, truth = [], []
    for subject in range(1, scale.people + 1):
        person = identity(seed, subject)
        everyday = costume("casia-b", seed, subject, bare_torso=False, covered=False)
        for condition, number in SEQUENCES:
            changed = costume("casia-b", seed, subject, "coat", bare_torso=False, covered=False)
            wardrobe = {
                "nm": everyday,
                "bg": replace(everyday, bag=True),
                "cl": replace(changed, coat=True, long_sleeves=True),
            }[condition]
            for view in VIEWS[scale.name]:
                stem = f"{subject:03d}-{condition}-{number:02d}-{view:03d}"
                play = walk(
                    "casia-b",
                    seed,
                    subject,
                    condition,
                    number,
                    view,
                    person=person,
                    view=view,
                    wardrobe=wardrobe,
                    width=WIDTH,
                    height=HEIGHT,
                    rate=RATE,
                    frames=scale.frames,
                    scene=scene,
                )
                path = f"{stem}.avi"
                reels.append(Reel(path, play, AVI))
                gallery = condition == "nm" and number <= 4
                truth.append(
                    Item(
                        id=stem,
                        path=Path(path),
                        split="gallery" if gallery else "probe",
                        subject=f"{subject:03d}",
                    )
                )
    return Twin("casia-b", tuple(reels), truth=tuple(truth))
