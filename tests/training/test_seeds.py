"""Random numbers belong to what is written beside them and to nothing else."""

from __future__ import annotations

import torch

from videoveil import files
from videoveil.training import seeds


def test_a_draw_depends_on_every_part_and_on_nothing_else() -> None:
    cases = [
        (0, "order", 0, "a"),
        (1, "order", 0, "a"),
        (0, "mask", 0, "a"),
        (0, "order", 1, "a"),
        (0, "order", 0, "b"),
    ]
    assert len({seeds.number(*case) for case in cases}) == len(cases)
    torch.rand(3)  # the global generator takes no part
    for case in cases:
        assert torch.equal(
            torch.rand(4, generator=seeds.generator(*case)), torch.rand(4, generator=seeds.generator(*case))
        )
        assert seeds.rng(*case).random() == seeds.rng(*case).random()


def test_the_order_of_the_parts_matters() -> None:
    assert seeds.number(1, 2) != seeds.number(2, 1)
    assert seeds.number("12") != seeds.number(12)


def test_seeds_are_those_that_earlier_runs_were_drawn_with() -> None:
    """A run that was interrupted goes on with the same draws, also after an update."""
    assert seeds.number(3, "clip", 7, "v_1") == 392197604783248592
    for parts in ((), (0,), (3, "clip", 7, 'ü "quoted" \\ item'), ("a", 2**70, -1)):
        assert seeds.number(*parts) == int(files.value_hash(list(parts))[:15], 16)
    assert int(seeds.rng(3, "clip", 7, "v_1").integers(10**9)) == 554041873
