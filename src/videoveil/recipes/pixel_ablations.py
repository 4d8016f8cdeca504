"""Every row of the pixel papers' ablation tables as its recipe with one field replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from videoveil.recipes.penalty import BOUNDS, penalty
from videoveil.recipes.pixel import PixelRecipe
from videoveil.recipes.spact import spact
from videoveil.recipes.ted_spad import ted_spad
from videoveil.recipes.vita import POOL, vita_entropy
from videoveil.training.minimax_settings import Budget


@dataclass(frozen=True)
class PixelAblation:
    """A row: the recipe it varies, the field that differs (a path), and the value; the base's own row equals it."""

    name: str
    base: PixelRecipe
    field: str
    value: Any

    @property
    def recipe(self) -> PixelRecipe:
        return self.base.changed(self.field, self.value, self.name)


def pixel_ablations() -> dict[str, PixelAblation]:
    """By name: `PAPER/FIELD=VALUE`."""
    rows: list[PixelAblation] = []

    def vary(base: PixelRecipe, word: str, field: str, values: dict[str, Any]) -> None:
        own = base.name.partition("/")[0]
        rows.extend(PixelAblation(f"{own}/{word}={key}", base, field, value) for key, value in values.items())

    # SPAct Table 7 and its supplement: the utility net, and what the privacy branch is
    vary(
        spact(),
        "f_T",
        "settings.utility.encoder",
        {"r3d.18": "r3d.18-spact", **_same("r2plus1d.18", "r3d.50")},
    )
    vary(
        spact(),
        "privacy",
        "settings.budget",
        {
            "2d": spact().settings.budget,
            "rotnet": Budget(kind="rotation", members=("resnet.50",)),
            "video": Budget(kind="clips", members=("r3d.18",)),
        },
    )
    vary(spact(), "pair", "settings.budget.pair", _same("random", "gap:4", "ends"))
    # TeD-SPAD Tables 2 to 6, supplement Tables 3 and 4
    temporal = {"none": "none", "triplet": "triplet", "lltc": "local", "invariance": "invariance"}
    vary(ted_spad(), "temporal", "settings.utility.temporal", temporal)
    vary(ted_spad(), "w", "settings.utility.w_temporal", _numbers(0.0, 0.01, 0.1, 1.0, 10.0))
    vary(ted_spad(), "margin", "settings.utility.margin", _numbers(0.5, 1.0, 2.0))
    vary(ted_spad(), "negative", "settings.utility.negative", {"random": 0, "8": 8, "32": 32})
    invariant = ted_spad().changed("settings.utility.temporal", "invariance", "ted-spad")
    vary(invariant, "w_I", "settings.utility.w_temporal", _numbers(0.0, 0.1, 0.5, 1.0, 2.0))
    nets = {"i3d-r50": "i3d.resnet50", "i3d": "i3d.inception", "mvitv2": "mvit.v2-s", "r3d.18": "r3d.18"}
    vary(ted_spad(), "f_T", "settings.utility.encoder", nets)
    # the penalty paper: the bound, and the released form without a gradient
    vary(penalty(), "B", "settings.penalty.bound", _numbers(*BOUNDS))
    vary(penalty(), "gradient", "settings.penalty.differentiable", {"yes": True, "no": False})
    vary(penalty(), "of", "settings.penalty.of", _same("pixels", "features"))
    # VITA: the size of the ensemble, the aim
    vary(vita_entropy(), "M", "settings.budget.members", {str(m): POOL[:m] for m in range(1, len(POOL) + 1)})
    vary(vita_entropy(), "target", "settings.budget.target", _same("negative", "entropy", "uniform"))
    return {row.name: row for row in rows}


def _same(*words: str) -> dict[str, Any]:
    return {word: word for word in words}


def _numbers(*values: float) -> dict[str, Any]:
    return {f"{value:g}": value for value in values}
