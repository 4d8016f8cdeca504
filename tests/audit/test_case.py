from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit import world
from videoveil.audit.case import Case
from videoveil.audit.run import audit
from videoveil.audit.subject import BlackFrames, Subject, Untouched
from videoveil.data.records import Dataset
from videoveil.errors import UsageError


def test_a_folder_of_another_audit_is_refused(data: Dataset, tmp_path: Path) -> None:
    Case.of(Subject.of(data, Untouched()), tmp_path / "out", world.settings()).claim()
    Case.of(Subject.of(data, Untouched()), tmp_path / "out", world.settings()).claim()  # the same goes on
    for anonymizer, changes in ((BlackFrames(), {}), (Untouched(), {"seed": 1})):
        other = Case.of(Subject.of(data, anonymizer), tmp_path / "out", world.settings(**changes))
        with pytest.raises(UsageError, match="something else"):
            other.claim()
        with pytest.raises(UsageError, match="something else"):
            audit(other.subject, other.out, other.settings)
