"""Our own pixel recipes: what is particular about them."""

from __future__ import annotations

from videoveil.recipes import veil_pixel_attackers, veil_pixel_plain


def test_attackers_that_win_stop_the_training_when_they_have_learnt_longest() -> None:
    own = veil_pixel_attackers().settings
    assert own.budget is not None
    assert 0 < own.headway.epochs < own.epochs
    assert own.epochs % own.headway.epochs == 0, "the last epoch is asked too"
    assert own.headway.epochs % own.budget.restart == 0, "not just after they began anew"
    assert (
        0.39 < own.headway.share < 0.87
    )  # of runs in which they won every round, and of the one that is shipped
    assert veil_pixel_plain().settings.headway.epochs == 0  # nobody attacks
