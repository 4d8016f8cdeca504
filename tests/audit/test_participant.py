from __future__ import annotations

import pytest

from videoveil.audit.participant import Trial
from videoveil.audit.stopwatch import Stopwatch
from videoveil.training.supervised import Enough


def test_a_trial_scores_unless_it_was_cut_short() -> None:
    for watch, cut in ((None, False), (Stopwatch(), False), (Stopwatch(), True)):
        trial = Trial(None, None, "raw", 0, progress=watch)  # type: ignore[arg-type]
        if cut and watch is not None:
            watch.cut_off = 3.0
            with pytest.raises(Enough):
                trial.learnt()
        else:
            trial.learnt()
