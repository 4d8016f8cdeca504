from __future__ import annotations

import dataclasses

import pytest

from videoveil.anonymizers import AttentionOnly, LatentAnonymizer, LatentConfig
from videoveil.recipes import Ablation, ablations, splavu, splavu_released

# how many trained rows each table of the paper has
ROWS = {3: 4, 4: 7, 5: 4, 6: 2, 8: 6, 9: 5, 10: 3, 12: 4}


def test_every_table_has_all_its_rows() -> None:
    counts: dict[int, int] = {}
    for one in ablations().values():
        counts[one.table] = counts.get(one.table, 0) + 1
    assert counts == ROWS


@pytest.mark.parametrize("one", ablations().values(), ids=lambda one: one.name)
def test_an_ablation_differs_from_its_base_in_its_name_and_one_field_at_most(one: Ablation) -> None:
    names = [f.name for f in dataclasses.fields(one.base)]
    differ = [name for name in names if getattr(one.base, name) != getattr(one.recipe, name)]
    assert differ in (["name", one.field], ["name"])
    assert one.recipe.name == one.name == f"table{one.table}/{one.row}"


def test_one_row_of_each_table_is_its_base_and_no_two_rows_are_equal() -> None:
    for table in ROWS:
        rows = [one for one in ablations().values() if one.table == table]
        unnamed = [dataclasses.replace(one.recipe, name=one.base.name) for one in rows]
        assert sum(made == one.base for made, one in zip(unnamed, rows)) == (0 if table == 12 else 1), table
        assert len({made.to_text() for made in unnamed}) == len(rows)


def test_the_rows_of_table_5_leave_out_one_term_each() -> None:
    rows = ablations()
    assert rows["table5/B+LC"].recipe.w_utility == 0
    assert rows["table5/T+LC"].recipe.w_budget == 0
    assert rows["table5/T+B"].recipe.w_consistency == 0


@pytest.mark.parametrize(
    ("width", "size"), [(768, 14_181_120), (1024, 25_199_616), (1280, 39_363_840), (1408, 47_625_600)]
)
def test_the_adapter_has_the_published_size(width: int, size: int) -> None:
    import torch

    with torch.device("meta"):
        from videoveil.anonymizers.adapter import AttentionAdapter

        stage = splavu().stages[0]
        made = AttentionAdapter(width, stage)  # type: ignore[arg-type]
    assert sum(p.numel() for p in made.parameters()) == size


def test_the_released_variant_is_never_exported() -> None:
    (stage,) = splavu_released().stages
    assert isinstance(stage, AttentionOnly)
    assert stage.cross_sample
    anonymizer = LatentAnonymizer(LatentConfig(16, splavu_released().stages)).eval()
    assert not anonymizer.exportable
