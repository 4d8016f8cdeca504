"""SPLAVU as published, and every row of its ablation tables as one changed field."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from videoveil.anonymizers.config import MLP, Attention, AttentionOnly, StageConfig
from videoveil.recipes.latent import LatentRecipe, Origin

KINETICS, HMDB51 = "kinetics400", "hmdb51"
VIDEOMAE = "VideoMAE-B"


def splavu() -> LatentRecipe:
    """The paper's main setting: three tasks, Kinetics-400 for actions, adapter of 3 layers and 8 heads (Table 1).

    The adapter starts as the exact identity (zero-init), which the paper approaches by training on L1;
    `Attention(init="default")` does that instead.
    """
    return LatentRecipe(
        name="splavu",
        stages=(Attention(depth=3, heads=8),),
        origin=Origin(VIDEOMAE, KINETICS),
        tasks=("action", "detection", "anomaly"),
    )


def splavu_actions() -> LatentRecipe:
    """Trained for action recognition only (Table 3)."""
    return replace(splavu(), name="splavu-actions", tasks=("action",))


def splavu_hmdb51() -> LatentRecipe:
    """Trained for action recognition on HMDB51: what Tables 5, 6, 9, 10, 12 and 14 vary."""
    return replace(splavu_actions(), name="splavu-hmdb51", origin=Origin(VIDEOMAE, HMDB51))


def splavu_released() -> LatentRecipe:
    """The published code's block, which attends across the batch: for comparison, never for export."""
    block = AttentionOnly(depth=3, heads=8, cross_sample=True)
    return replace(splavu(), name="splavu-released", stages=(block,))


@dataclass(frozen=True)
class Ablation:
    """A row of a table: its recipe, the one it varies and in which field.

    The recipe has the row's name, so that a run of it is not taken for one of the base; otherwise the row that is the
    base equals it.
    """

    table: int
    row: str
    base: LatentRecipe
    field: str
    recipe: LatentRecipe

    @property
    def name(self) -> str:
        return self.recipe.name


def _rows(table: int, base: LatentRecipe, field: str, values: dict[str, Any]) -> list[Ablation]:
    return [
        Ablation(table, row, base, field, replace(base, **{"name": f"table{table}/{row}", field: value}))
        for row, value in values.items()
    ]


def _adapter(stage: StageConfig) -> tuple[StageConfig, ...]:
    return (stage,)


def ablations() -> dict[str, Ablation]:
    """Every trained row of Tables 3 to 6, 8 to 10 and 12 by name, such as `table5/T+LC`."""
    main, actions, hmdb = splavu(), splavu_actions(), splavu_hmdb51()
    subsets = {
        "AR": ("action",),
        "TAD": ("detection",),
        "AD": ("anomaly",),
        "AR+TAD": ("action", "detection"),
        "AR+AD": ("action", "anomaly"),
        "TAD+AD": ("detection", "anomaly"),
        "AR+TAD+AD": ("action", "detection", "anomaly"),
    }
    origins = {
        "K400": KINETICS,
        "UCF101": "ucf101",
        "HMDB51": HMDB51,
        "TSH": "toyota-smarthome",
    }
    adapters: dict[str, StageConfig] = {f"mlp{depth}": MLP(depth=depth) for depth in (1, 3, 5)}
    adapters |= {f"attn{depth}": Attention(depth=depth, heads=8) for depth in (1, 3, 5)}
    large = {
        f"{encoder}/{data}": Origin(encoder, data)
        for encoder in ("InternVideo-H", "VideoMAEv2-G")
        for data in (HMDB51, "ucf101")
    }
    found = [
        *_rows(3, actions, "origin", {row: Origin(VIDEOMAE, data) for row, data in origins.items()}),
        *_rows(4, main, "tasks", subsets),
        *_rows(5, hmdb, "w_utility", {"B+LC": 0.0}),
        *_rows(5, hmdb, "w_budget", {"T+LC": 0.0}),
        *_rows(5, hmdb, "w_consistency", {"T+B": 0.0, "T+B+LC": 100.0}),
        *_rows(6, hmdb, "w_consistency", {"with_lc": 100.0, "without_lc": 0.0}),
        *_rows(8, main, "stages", {row: _adapter(stage) for row, stage in adapters.items()}),
        *_rows(9, hmdb, "w_consistency", {str(w): float(w) for w in (0, 1, 10, 100, 1000)}),
        *_rows(10, hmdb, "stages", {str(h): _adapter(Attention(depth=3, heads=h)) for h in (4, 8, 16)}),
        *_rows(12, hmdb, "origin", large),
    ]
    return {one.name: one for one in found}
