"""What a pixel training looks like: check grids along the way; a strip, the progression and the curves at its end.

RUN/pictures/epoch-NNNN.png    single pictures above what f_A makes of them, after every kept epoch
RUN/pictures/strip.png         a clip, raw above anonymized
RUN/pictures/progression.png   the same clip through f_A as it was after its start and along the way
RUN/pictures/curves.png        L_A, L_B beside its chance, L_T, and how much f_A changes
RUN/pictures/attention.png     where f_B looks, beside a second run whose f_B was taught otherwise

All but the curves show raw frames: they are for those who may see the videos. Publishing an anonymizer uploads none.

Shapes: pictures and clips are uint8 (T, H, W, 3).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from videoveil.anonymizers.pixel import PixelAnonymizer
from videoveil.errors import UsageError
from videoveil.features.pixels import PixelVeil
from videoveil.media import sampling
from videoveil.media.transforms import preset
from videoveil.recipes.pixel import PixelRecipe
from videoveil.recipes.pixel_fitting import IDENTITY, IDENTITY_FORMAT
from videoveil.recipes.runs import RUN
from videoveil.report import plots
from videoveil.report.attention import attention_sheet, layer_maps
from videoveil.report.curves import minimax_records, read_history, training_curves
from videoveil.report.strips import check_grid, pixels, progression, strip
from videoveil.tasks.base import Clips
from videoveil.training import checkpoints
from videoveil.training.clip_batches import Frames
from videoveil.training.minimax import CHECKPOINT, EPOCHS, FORMAT, HISTORY, KEPT_FORMAT
from videoveil.training.minimax_nets import BudgetNet

PICTURES = "pictures"
GRID = 16  # pictures of a check grid, as TeD-SPAD shows
ROWS = 6  # kept epochs of a progression, as the papers show
SIZE = 112  # where an anonymizer does not say what it was trained at
CROP = "spact-test-image"  # the middle square of the whole frame
ALIKE = "attention is compared between a budget net that learns from labels and one that does not; these learn alike"


# --- along the way -------------------------------------------------------------------------------------------


@dataclass
class Looker:
    """A check grid after every kept epoch: pass it to `fit_pixel` as `look`.

    The pictures are images where a dataset of images is given, else the middle frame of videos, evenly chosen.
    """

    folder: str | Path  # of the run
    clips: Clips
    images: Clips | None = None
    count: int = GRID
    _raw: np.ndarray | None = field(default=None, init=False, repr=False)

    def __call__(self, epoch: int, anonymizer: PixelAnonymizer) -> None:
        if self._raw is None:
            self._raw = middles(self.images or self.clips, anonymizer.config.size or SIZE, self.count)
        made = check_grid(self._raw, through(anonymizer, self._raw))
        made.write(Path(self.folder) / PICTURES / f"epoch-{epoch:04d}.png")


def middles(clips: Clips, size: int, count: int = GRID) -> np.ndarray:
    """The middle frame of up to `count` items, as squares of `size`."""
    items = sorted(clips.items(), key=lambda item: item.id)
    if not items or count < 1:
        raise UsageError(
            f"nothing to look at: {len(items)} items in split {clips.split!r}, {count} asked for"
        )
    frames = Frames(paint=clips.paint)
    chosen = [items[place] for place in _spread(len(items), count)]
    shown = [frames.read(item, [frames.count(item) // 2]) for item in chosen]
    return np.concatenate([_square(picture, size) for picture in shown])


def middle_clip(clips: Clips, size: int, frames: int = 16, stride: int = 2) -> np.ndarray:
    """The middle clip of the middle video, as squares of `size`."""
    items = sorted(clips.items(), key=lambda item: item.id)
    if not items:
        raise UsageError(f"nothing to look at: no items in split {clips.split!r} of {clips.dataset.name}")
    item, source = items[len(items) // 2], Frames(paint=clips.paint)
    (chosen,) = sampling.equidistant(source.count(item), 1, frames, stride)
    return _square(source.read(item, chosen.indices), size)


def _square(frames: Tensor, size: int) -> np.ndarray:
    shown: np.ndarray = preset(CROP, size).evaluate(frames).permute(1, 2, 3, 0).numpy()
    return np.ascontiguousarray(shown)


def through(anonymizer: PixelAnonymizer, frames: np.ndarray) -> np.ndarray:
    """Frames as the anonymizer shows them, float; it stays where it is, in the mode in which it is.

    Noise is drawn from a seed of its own, because a training has no key; nothing of the training's chance is used up.
    """
    device = next((weight.device for weight in anonymizer.parameters()), torch.device("cpu"))
    given = torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float().div(255).to(device)  # (1, 3, T, H, W)
    made: np.ndarray = PixelVeil(anonymizer)(given, seed=0)[0].permute(1, 2, 3, 0).cpu().numpy()
    return made


# --- at the end ----------------------------------------------------------------------------------------------


def picture_run(
    run: str | Path, clip: np.ndarray | Tensor, *, beside: str | Path | None = None
) -> tuple[Path, ...]:
    """Everything that can be shown of a finished run, on a clip (T, H, W, 3) that f_A has not been asked about.

    `beside` is a run whose budget net was taught otherwise (labels here, none there): then there are attention maps.
    What a run has not kept is left out. Returns what was written.
    """
    run, raw = Path(run), pixels(clip)
    if not (run / "config.json").is_file():
        raise UsageError(
            f"{run}: not a finished pixel run; `veil train` writes one, and goes on with a killed one"
        )
    anonymizer, out = PixelAnonymizer.from_pretrained(run), run / PICTURES
    written = [out / "strip.png"]
    strip(raw, through(anonymizer, raw)).write(written[-1])
    if stages := _stages(run, anonymizer, raw):
        written.append(out / "progression.png")
        progression(raw, stages).write(written[-1])
    if records := _records(run):
        written.append(out / "curves.png")
        plots.write(training_curves({_recipe(run).name: records}), written[-1])
    if beside is not None:
        written.append(out / "attention.png")
        _attention(run, Path(beside), raw).write(written[-1])
    return tuple(written)


def _stages(run: Path, anonymizer: PixelAnonymizer, raw: np.ndarray) -> dict[str, np.ndarray]:
    """The clip through f_A after its identity start and after kept epochs, the first and the last among them."""
    kept = sorted((run / EPOCHS).glob("*.safetensors"))
    stages: dict[str, np.ndarray] = {}
    if not kept:
        return stages
    other = PixelAnonymizer(anonymizer.config).eval()
    start = run / IDENTITY
    if start.is_file():
        tensors, facts = checkpoints.read(start, IDENTITY_FORMAT)
        if facts["epochs"]:
            checkpoints.fill(other, tensors, str(start))
            stages["identity start"] = through(other, raw)
    for place in _spread(len(kept), ROWS):
        tensors, facts = checkpoints.read(kept[place], KEPT_FORMAT)
        checkpoints.fill(other, tensors, str(kept[place]))
        stages[f"epoch {facts['epoch']}"] = through(other, raw)
    return stages


def _records(run: Path) -> list[dict[str, Any]]:
    """The epochs of the minimax; a penalty that nobody asked for is not shown."""
    path = run / HISTORY
    if not path.is_file():
        return []
    records = minimax_records(read_history(path))
    unwanted = () if _recipe(run).settings.penalty is not None else ("penalty", "penalty_active")
    return [{key: value for key, value in record.items() if key not in unwanted} for record in records]


def _recipe(run: Path) -> PixelRecipe:
    try:
        return PixelRecipe.from_json(json.loads((run / RUN).read_text("utf-8"))["recipe"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{run}: not a pixel run ({error!r})") from error


# --- where f_B looks -----------------------------------------------------------------------------------------


def require_beside(recipe: PixelRecipe, beside: str | Path) -> None:
    """That a run of the recipe can be pictured beside that one: to be asked before the training, which takes long."""
    beside = Path(beside)
    if not (beside / "config.json").is_file():
        raise UsageError(f"{beside}: not a finished pixel run, so attention cannot be compared with it")
    other = _recipe(beside)
    if _taught(recipe) == _taught(other):
        raise UsageError(f"{recipe.name} and {beside}: {ALIKE}")
    own = recipe.settings
    assert own.budget is not None
    mine = BudgetNet(own.budget, own.budget.members[0], own.size, own.utility, labels=1)
    for net, size in ((mine, own.size), (budget_nets(beside)[0], other.settings.size)):
        layer_maps(net.encoder, torch.zeros(1, 3, size, size))


def _attention(run: Path, beside: Path, raw: np.ndarray) -> Any:
    """SPAct's comparison: frames, then the maps of f_B without labels and of f_B with labels, each on what it sees."""
    runs = {_taught(_recipe(one)): one for one in (run, beside)}
    if len(runs) != 2:
        raise UsageError(f"{run} and {beside}: {ALIKE}")
    every = range(0, len(raw), max(1, len(raw) // 8))[:8]
    frames = raw[every.start : every.stop : every.step]
    return attention_sheet(frames, *(_maps(runs[taught], frames) for taught in (False, True)))


def _taught(recipe: PixelRecipe) -> bool:
    budget = recipe.settings.budget
    if budget is None or budget.kind == "clips":
        raise UsageError(f"{recipe.name}: has no budget net that looks at frames")
    return budget.kind == "labels"


def _maps(run: Path, frames: np.ndarray) -> Tensor:
    """(T, h, w) of the first budget net of a run, which has only ever seen what the run's f_A shows."""
    shown = torch.from_numpy(through(PixelAnonymizer.from_pretrained(run), frames)).permute(0, 3, 1, 2)
    return layer_maps(budget_nets(run)[0].encoder, shown)


def budget_nets(run: str | Path) -> list[BudgetNet]:
    """The budget nets of a run as its checkpoint left them: for looking at, never for scores."""
    run = Path(run)
    recipe, path = _recipe(run), run / CHECKPOINT
    own = recipe.settings
    if own.budget is None:
        raise UsageError(f"{run}: {recipe.name} has no budget nets")
    if not path.is_file():
        raise UsageError(f"{path}: is not there any more, and with it the budget nets")
    tensors, _ = checkpoints.read(path, FORMAT)
    found = []
    for place, name in enumerate(own.budget.members):
        mine = checkpoints.part(tensors, f"budget.{place}")
        labels = len(mine["head.weight"]) if own.budget.kind == "labels" else 0
        net = BudgetNet(own.budget, name, own.size, own.utility, labels).eval()
        checkpoints.fill(net, mine, str(path))
        found.append(net)
    return found


def _spread(total: int, count: int) -> Sequence[int]:
    """Up to `count` of `total` places, evenly, the first and the last among them."""
    if total <= count:
        return range(total)
    return sorted({round(place) for place in np.linspace(0, total - 1, count)})
