"""The frontier: every attack at its place, the strongest attacker filled, larger attackers larger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from videoveil.errors import UsageError
from videoveil.report.frontier import Attack, frontier
from videoveil.report.plots import SERIES

ATTACKERS = (("resnet.18", 11.7e6), ("resnet.50", 25.6e6), ("resnet.152", 60.2e6))
SCORES = {"raw": (0.9, (0.60, 0.62, 0.61)), "veiled": (0.85, (0.30, 0.33, 0.40))}
ATTACKS = [
    Attack(method, name, size, score, utility, (score - 0.02, score + 0.01), (utility - 0.05, utility + 0.03))
    for method, (utility, scores) in SCORES.items()
    for (name, size), score in zip(ATTACKERS, scores)
]


def markers(figure: Figure) -> list[tuple[float, float, float, str, bool]]:
    """x, y, diameter, colour and whether it is filled."""
    found = []
    for line in figure.axes[0].get_lines():
        x, y = (np.ravel(values) for values in (line.get_xdata(), line.get_ydata()))
        if len(x) == 1:
            filled = line.get_markerfacecolor() != "none"
            found.append(
                (float(x[0]), float(y[0]), line.get_markersize(), to_hex(line.get_markeredgecolor()), filled)
            )
    return found


def test_every_attack_is_at_its_place_and_larger_ones_are_larger() -> None:
    found = markers(frontier(ATTACKS, "cMAP", "top-1"))
    assert [one[:2] for one in found] == [(attack.privacy, attack.utility) for attack in ATTACKS]
    for first in (0, 3):
        sizes = [one[2] for one in found[first : first + 3]]
        assert sizes == sorted(set(sizes))


def test_only_the_strongest_attacker_of_a_method_is_filled() -> None:
    filled = [one[0] for one in markers(frontier(ATTACKS, "cMAP", "top-1")) if one[4]]
    assert filled == [0.62, 0.40]


def test_chance_is_a_line_and_less_leakage_is_left() -> None:
    figure = frontier(ATTACKS, "cMAP", "top-1", chance=0.248)
    axes = figure.axes[0]
    upright = [line for line in axes.get_lines() if np.array_equal(line.get_xdata(), [0.248, 0.248])]
    assert len(upright) == 1
    assert "blind guess" in [text.get_text() for text in axes.texts]
    low, high = axes.get_xlim()
    assert low < 0.248 < high
    assert axes.get_xlabel() == "cMAP  (← more private)"


def test_intervals_of_every_attack_and_of_each_utility_once() -> None:
    axes = frontier(ATTACKS, "cMAP", "top-1").axes[0]
    segments = [c.get_segments()[0] for c in axes.collections if isinstance(c, LineCollection)]
    across = [s for s in segments if s[0][1] == s[1][1]]
    upright = [s for s in segments if s[0][0] == s[1][0]]
    assert [pytest.approx((s[0][0], s[1][0])) for s in across] == [a.privacy_interval for a in ATTACKS]
    assert len(upright) == 2
    assert sorted(s[0][0] for s in upright) == [0.40, 0.62]  # at the attackers that count


def test_families_share_a_colour_and_their_methods_are_named_once() -> None:
    named = [replace(attack, family="all of them") for attack in ATTACKS]
    figure = frontier(named, "cMAP", "top-1")
    assert {one[3] for one in markers(figure)} == {SERIES[0]}
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["raw", "veiled"]
    alone = frontier(ATTACKS, "cMAP", "top-1")
    assert [text.get_text() for text in alone.axes[0].texts] == []
    assert {one[3] for one in markers(alone)} == set(SERIES[:2])


def legend(figure: Figure) -> list[str]:
    drawn = figure.axes[0].get_legend()
    assert drawn is not None
    return [text.get_text() for text in drawn.get_texts()]


def test_what_counts_of_a_family_is_joined_from_private_to_useful() -> None:
    family = [replace(attack, family="all of them") for attack in ATTACKS]
    lines = [
        line for line in frontier(family, "cMAP", "top-1").axes[0].get_lines() if len(line.get_xdata()) > 1
    ]  # type: ignore[arg-type]
    assert [list(zip(line.get_xdata(), line.get_ydata())) for line in lines] == [[(0.40, 0.85), (0.62, 0.9)]]  # type: ignore[arg-type]
    assert all(len(line.get_xdata()) == 1 for line in frontier(ATTACKS, "cMAP", "top-1").axes[0].get_lines())  # type: ignore[arg-type]


def test_a_void_attack_is_empty_and_says_so() -> None:
    alone = [replace(ATTACKS[0], parameters=None), replace(ATTACKS[3], parameters=None, void=True)]
    figure = frontier(alone, "cMAP", "top-1")
    assert [one[4] for one in markers(figure)] == [True, False]
    assert [text.get_text() for text in figure.axes[0].texts] == ["(void)"]
    assert legend(figure) == ["raw", "veiled", "void", "resnet.18"]
    assert legend(frontier(alone[:1], "cMAP", "top-1")) == ["raw", "resnet.18"]


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match="at least one attack"):
        frontier([], "cMAP", "top-1")
    with pytest.raises(UsageError, match=r"raw, resnet.18: 0.6 is not inside its interval \(0.7, 0.8\)"):
        replace(ATTACKS[0], privacy_interval=(0.7, 0.8))
