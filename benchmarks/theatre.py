"""Frames per second of one core that the theatre renders, beside what a codec needs to store them.

python benchmarks/theatre.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from videoveil.data.theatre import stage
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.play import Play
from videoveil.data.theatre.playwright import surveillance, trimmed
from videoveil.data.twins.film import AVI, MP4, Film, shoot

GOAL = 300


def rendering(play: Play) -> float:
    began = time.process_time()
    for _ in stage.frames(play):
        pass
    return play.frames / (time.process_time() - began)


def filming(play: Play, film: Film) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        shoot(play, Path(folder) / f"x.{film.container}", film)
        return play.frames / (time.process_time() - began)


def main() -> None:
    person = identity(0, 1)
    plays = {
        "one actor, 112²": trimmed("bench", 0, action="dance", person=person, frames=500, bystanders=0),
        "four actors, 112²": surveillance("bench", 0, incident="fight", frames=500),
        "one actor, 160×120": trimmed(
            "bench", 0, action="dance", person=person, width=160, height=120, frames=500, bystanders=0
        ),
    }
    print("frames per second of one core")
    for name, play in plays.items():
        fps = rendering(play)
        print(f"{name:20} rendered {fps:7.0f}  ({fps / GOAL:.1f} × the goal of {GOAL})")
    play = plays["one actor, 160×120"]
    for name, film in (("mp4/H.264", MP4), ("avi/MPEG-4", AVI)):
        print(f"{name:20} rendered and stored {filming(play, film):7.0f}")


if __name__ == "__main__":
    main()
