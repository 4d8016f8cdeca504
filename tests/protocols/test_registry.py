from __future__ import annotations

import subprocess
import sys

import pytest

from videoveil.data import twins
from videoveil.errors import UsageError
from videoveil.protocols import papers, registry
from videoveil.protocols.registry import EVALUATIONS, protocol
from videoveil.protocols.subjects import FACTORS
from videoveil.protocols.tables import comparisons


def test_every_cell_of_every_paper_belongs_to_a_protocol() -> None:
    covered = {
        (panel.table.id, column)
        for one in EVALUATIONS.values()
        for panel in one.panels
        for column in panel.columns
    }
    for table in papers.tables():
        for column in table.columns:
            assert (table.id, column.name) in covered


@pytest.mark.parametrize("name", registry.names())
def test_a_protocols_tables_show_every_row_of_the_paper_before_anything_is_run(name: str) -> None:
    one = protocol(name)
    for panel, made in zip(one.panels, comparisons(one, [])):
        assert made.all_rows() == tuple(panel.table.rows)
        printed = {(f.row, f.head): f.value for f in made.figures}
        for row in panel.table.rows:
            for column in panel.columns:
                assert printed[row, column] == panel.table.value(row, column)


@pytest.mark.parametrize("name", registry.names())
def test_a_table_with_rows_of_downsampling_has_them_measured_without_being_asked(name: str) -> None:
    one = protocol(name)
    printed = {row for row in FACTORS if any(p.table.rows and p.knows(row) for p in one.panels)}
    assert printed <= set(one.baselines)


@pytest.mark.parametrize("name", registry.names())
def test_every_dataset_a_protocol_needs_has_a_twin(name: str) -> None:
    assert set(protocol(name).needs) <= set(twins.names())


def test_an_unknown_protocol_is_named_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match="cross-dataset"):
        protocol("cross")


def test_naming_protocols_needs_no_torch() -> None:
    code = "import sys, videoveil.protocols.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
