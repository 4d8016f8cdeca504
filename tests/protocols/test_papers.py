from __future__ import annotations

import copy
import json
from importlib.resources import files

import pytest

from videoveil.data import registry as data
from videoveil.encoders.registry import names as encoders
from videoveil.errors import UsageError
from videoveil.protocols import papers
from videoveil.protocols.papers import PaperColumn, PaperTable, parse, table, tables

COUNTS = {  # paper → tables, cells, cells with a number
    "spact": (6, 157, 157),
    "ted_spad": (9, 81, 81),
    "penalty": (6, 351, 339),
    "splavu": (16, 278, 269),
}
GOLDEN = [
    ("spact/T2", "Raw", "VISPR1 cMAP", 64.40),
    ("spact/T2", "Down-4x", "PA-HMDB51 cMAP", 0.59),
    ("spact/T2", "SPAct", "VISPR2 F1", 0.0460),
    ("spact/T3", "VITA", "R(2+1)D-18 K400 top-1", 85.33),
    ("spact/T4", "SPAct", "MobileNet-V1 F1", 0.3974),
    ("spact/T4", "Raw", "ResNet-101 cMAP", 60.70),
    ("spact/T5", "VITA", "ResNet-152 cMAP", 61.88),
    ("spact/T6", "StrongBlur", "ResNet-50 cMAP", 54.44),
    ("spact/T6", "SPAct", "R(2+1)D-18 K400 top-1", 85.01),
    ("spact/T7", "f_T R3D-50", "VISPR1 F1", 0.4707),
    ("penalty/T1", "Raw", "UCF101 top-1", 78.88),
    ("penalty/T1", "STPrivacy", "UCF101 top-1", None),
    ("penalty/T1", "SPAct", "VPHMDB cMAP", None),
    ("penalty/T1", "Penalty B=.7", "PA-HMDB51 F1", 0.124),
    ("penalty/T2", "Penalty B=.3", "VPHMDB→VPUCF top-1", 91.91),
    ("penalty/T2", "VITA", "UCF101→PA-HMDB51 top-1", 40.6),
    ("penalty/S2", "SPAct", "MViTv2 top-1", None),
    ("penalty/S2", "Penalty B=.9", "C3D top-1", 50.91),
    ("penalty/S3", "Penalty B=.5", "VISPR1 cMAP", 26.24),
    ("penalty/S4", "Penalty B=.9", "ResNet-101 F1", 0.389),
    ("penalty/S5", "Raw", "ResNet-50 cMAP", 70.76),
    ("ted_spad/T1", "TeD-SPAD", "VISPR cMAP", 52.30),
    ("ted_spad/S2", "TeD-SPAD", "ShanghaiTech AUC", 90.59),
    ("ted_spad/S2", "WeakBlur", "XD-Violence AP", 59.36),
    ("ted_spad/T4", "w_temp=10", "UCF-Crime AUC", 69.27),
    ("ted_spad/T6", "negative=32", "VISPR cMAP", 28.69),
    ("ted_spad/S4", "f_T MViTv2", "VISPR cMAP", 24.21),
    ("splavu/T1", "I3D / SPLAVU", "VISPR cMAP", 41.07),
    ("splavu/T1", "I3D / VITA", "Kinetics-400 top-1", None),
    ("splavu/T1", "V-JEPA-H / SPLAVU", "THUMOS14 mAP", 66.30),
    ("splavu/T2-F", "SPLAVU", "gap", 5.44),
    ("splavu/T2-M", "Raw", "overall top-1", 52.78),
    ("splavu/T2-TSH", "Raw", "male top-1", 70.90),
    ("splavu/T3", "trained on TSH", "THUMOS14 mAP", 41.30),
    ("splavu/T4", "TAD+AD", "UCF-Crime AUC", 84.77),
    ("splavu/T5", "T+B", "THUMOS14 mAP", 3.81),
    ("splavu/T6", "without consistency", "CASIA-B top-1", 26.67),
    ("splavu/T8", "attention-3", "UCF-Crime AUC", 84.33),
    ("splavu/T9", "w_LC=100", "UCF-Crime AUC", 84.52),
    ("splavu/T10", "16 heads", "VISPR cMAP", 56.74),
    ("splavu/F3", "SPLAVU", "NHV", 0.6833),
    ("splavu/T11", "SPLAVU", "PA-HMDB51 top-1", 84.47),
    ("splavu/T12", "VideoMAEv2-G / SPLAVU on UCF101", "UCF101 top-1", 97.91),
    ("splavu/T13", "InternVideo-H", "pixel methods", 675.0),
    ("splavu/T14", "stored features", "minutes", 5.4),
]


@pytest.mark.parametrize("paper", COUNTS)
def test_every_table_and_cell_of_a_paper_is_there(paper: str) -> None:
    own = [one for one in tables() if one.id.startswith(f"{paper}/")]
    cells = [cell for one in own for cell in one.cells()]
    printed = [cell for cell in cells if cell.value is not None]
    assert (len(own), len(cells), len(printed)) == COUNTS[paper]


@pytest.mark.parametrize(("name", "row", "column", "value"), GOLDEN)
def test_cells_have_the_printed_value(name: str, row: str, column: str, value: float | None) -> None:
    assert table(name).value(row, column) == value


def test_columns_name_datasets_and_networks_that_exist() -> None:
    known = {*encoders(), "mlp2", "mlp5"}
    for one in tables():
        for column in one.columns:
            assert set(column.datasets) <= set(data.names()), (one.id, column.name)
            assert not column.model or column.model.partition("@")[0] in known, (one.id, column.name)


def test_attacks_are_better_lower_and_utilities_higher() -> None:
    for one in tables():
        for column in one.columns:
            attack = column.metric in ("cmap", "f1", "gap", "minutes", "parameters") or "CASIA" in column.name
            assert column.better == ("lower" if attack else "higher"), (one.id, column.name)


def test_values_are_in_the_unit_of_their_column() -> None:
    for one in tables():
        for cell in one.cells():
            if cell.value is None:
                continue
            top = {"%": 100, "1": 1, "M": 2000, "min": 1000}[cell.column.unit]
            assert 0 < cell.value <= top, cell
            assert cell.column.unit != "1" or cell.column.metric in ("f1", "nhv"), cell


@pytest.mark.parametrize(
    ("name", "row", "column", "word"),
    [
        ("splavu/T3", "Raw", "HMDB51 top-1", "74.20 in T5"),
        ("splavu/T4", "AR", "Kinetics-400 top-1", "74.74 in T3"),
        ("splavu/T8", "attention-3", "UCF-Crime AUC", "85.08"),
        ("splavu/T1", "V-JEPA-H / Raw", "UCF-Crime AUC", "VideoMAE-B"),
        ("splavu/T2-M", "Raw", "overall top-1", "52.73"),
        ("spact/T2", "Down-4x", "PA-HMDB51 cMAP", "probably 59"),
        ("spact/T6", "SPAct", "ResNet-50 cMAP", "27.44 in T2"),
        ("penalty/T1", "Down-2x", "VPHMDB top-1", "other way round"),
        ("penalty/T1", "WeakBlur", "UCF101 top-1", "quoted"),
        ("ted_spad/S2", "Blackening", "XD-Violence AP", "54.01"),
    ],
)
def test_inconsistencies_are_marked(name: str, row: str, column: str, word: str) -> None:
    assert word in table(name).cell(row, column).note


def test_contradictions_that_are_noted_are_in_the_data() -> None:
    assert table("splavu/T3").value("Raw", "HMDB51 top-1") != table("splavu/T5").value("Raw", "HMDB51 top-1")
    women, men = (table("splavu/T2-M").value("Raw", f"{who} top-1") for who in ("female", "male"))
    assert women is not None
    assert men is not None
    assert round((women + men) / 2, 2) == 52.73


def test_what_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(UsageError, match="there are spact/T2"):
        table("spact/T99")
    with pytest.raises(UsageError, match="no column 'x'"):
        table("spact/T3").value("Raw", "x")
    with pytest.raises(UsageError, match="no row 'x'"):
        table("spact/T3").value("x", "C3D top-1")


def test_a_damaged_table_is_refused() -> None:
    value = json.loads(files(papers.__name__).joinpath("spact.json").read_text("utf-8"))
    short = copy.deepcopy(value)
    short["tables"]["T3"]["rows"]["Raw"].pop()
    with pytest.raises(UsageError, match="Raw: not as many values"):
        parse("spact", short)
    lost = copy.deepcopy(value)
    lost["tables"]["T3"]["notes"] = {"Raw": {"no such column": "?"}}
    with pytest.raises(UsageError, match="no such column"):
        parse("spact", lost)
    strange = copy.deepcopy(value)
    strange["tables"]["T3"]["colour"] = "red"
    with pytest.raises(UsageError, match="unknown colour"):
        parse("spact", strange)


def test_a_column_twice_or_a_direction_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="better='sideways'"):
        PaperColumn("a", "top1", "%", "sideways", ())  # type: ignore[arg-type]
    column = PaperColumn("a", "top1", "%", "higher", ())
    with pytest.raises(UsageError, match="there twice"):
        PaperTable("x/T1", "", "", (column, column), {"Raw": (1.0, 2.0)})
