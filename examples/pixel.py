"""A pixel anonymizer from videos: train it by a published recipe, look at it, load it, and send a video through it.

python examples/pixel.py FOLDER [RECIPE]

Videos are a synthetic twin of VPHMDB; real ones are a change of one path. The recipe is `spact` unless another is named
(`ted-spad`, `penalty/B=0.3`, `veil-pixel-attackers`), made small enough for two cores and a minute: enough to see all
parts work, far too little to hide anybody.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from videoveil.anonymizers.pixel import PixelAnonymizer, UNet
from videoveil.data import registry, twins
from videoveil.media.reader import open_video
from videoveil.media.writer import VideoWriter
from videoveil.recipes import Looker, fit_pixel, middle_clip, picture_run, pixel_recipe
from videoveil.report.curves import minimax_records, read_history
from videoveil.tasks.base import Clips

SMALL: dict[str, Any] = {
    "stages": (UNet(width=8),),
    "settings.size": 48,
    "settings.utility.encoder": "tiny",
    "settings.utility.frames": 8,
    "settings.budget.members": ("resnet.18",),
    "settings.batch": 8,
    "settings.privacy_batch": 8,
    "settings.rates.anonymizer": 1e-3,
    "settings.epochs": 3,
    "settings.keep_every": 1,
    "settings.start.identity_epochs": 12,
    "settings.start.identity_batch": 4,
    "settings.start.identity_rate": 3e-3,
    "settings.start.utility_epochs": 1,
    "settings.start.budget_epochs": 3,
}


def anonymize(source: Path, destination: Path, anonymizer: PixelAnonymizer) -> None:
    """A video, frame by frame and time by time; the file appears only when all of it went through."""
    with open_video(source) as video:
        facts = video.info
        size = {"width": facts.width, "height": facts.height}
        with VideoWriter(destination, **size, time_base=facts.time_base, rate=facts.rate) as writer:
            for frame in video.frames():
                picture = torch.from_numpy(frame.image).permute(2, 0, 1)
                shown = anonymizer(picture[None])  # bytes in, bytes out
                writer.write(shown[0].permute(1, 2, 0).contiguous().numpy(), frame.time)


def main(folder: Path, name: str = "spact", changes: dict[str, Any] = SMALL) -> None:
    twins.make("vphmdb", folder / "twin", size="tiny", processes=2)
    data = registry.load("vphmdb", folder / "twin")
    train, test, run = Clips(data, "train"), Clips(data, "test"), folder / "run"
    recipe = pixel_recipe(name)
    for path, value in changes.items():
        recipe = recipe.changed(path, value)
    made = fit_pixel(recipe, train, run, look=Looker(run, test))  # run again: it goes on, or finds it done
    last = minimax_records(read_history(run / "history.jsonl"))[-1]
    print(f"L_B {last['budget']:.2f} ({last['chance']:.2f} if f_B cannot tell), L_T {last['utility']:.2f}")

    for path in picture_run(run, middle_clip(test, recipe.settings.size)):
        print(f"picture: {path}")
    loaded = PixelAnonymizer.from_pretrained(run)
    assert loaded.content_hash() == made.anonymizer.content_hash()
    anonymize(test.items()[0].path, folder / "anonymized.mp4", loaded)
    print(f"video: {folder / 'anonymized.mp4'}, through anonymizer {loaded.content_hash()[:12]}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # small networks gain nothing from more
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "pixel"), *sys.argv[2:3])
