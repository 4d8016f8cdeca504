from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from videoveil.training.latent_curves import EVENTS, HISTORY, Curves

RECORDS = [{"epoch": i, "total": -1.0 * i, "seconds": 0.1 * i} for i in range(3)]


def test_the_history_has_one_line_per_epoch_whatever_is_installed(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    for record in RECORDS:
        curves.add(record)
    curves.write(RECORDS)
    curves.close()
    assert [json.loads(line) for line in (tmp_path / HISTORY).read_text().splitlines()] == RECORDS
    assert (tmp_path / EVENTS).exists() == (importlib.util.find_spec("tensorboard") is not None)


def test_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    curves = Curves(None)
    curves.add(RECORDS[0])
    curves.write(RECORDS)
    curves.close()
    assert list(tmp_path.iterdir()) == []
