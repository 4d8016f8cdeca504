from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from videoveil.commands.evaluate import evaluate
from videoveil.errors import UsageError
from videoveil.protocols import registry

app = typer.Typer()
app.command()(evaluate)


def run(*words: str) -> str:
    found = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_all_protocols_are_listed_with_their_data_and_tables() -> None:
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert tuple(rows) == registry.names()
    assert rows["gait"]["data"] == ["vispr", "casia-b"]
    assert rows["gait"]["tables"] == ["splavu/T6"]
    assert "ntu-bias: Gender bias" in run("list")


def test_a_table_is_written_and_printed(tmp_path: Path) -> None:
    text = run("parameters", "--out", str(tmp_path / "out"), "--size", "tiny")
    assert "| VideoMAE-B | 129.4 | 129.4 | 14.6 | 14.5 |" in text
    assert (tmp_path / "out" / "splavu-T13.png").is_file()
    value = json.loads(run("parameters", "--out", str(tmp_path / "out"), "--size", "tiny", "--json"))
    assert value["protocol"] == "parameters"
    assert len(value["cells"]) == 10
    assert value["seeds"] == [0, 1, 2]  # with fewer there are no intervals; but a count has none
    assert all(len(cell["values"]) == 1 for cell in value["cells"])
    assert "95 % interval" not in text


def test_a_single_seed_can_be_asked_for(tmp_path: Path) -> None:
    value = json.loads(
        run("parameters", "--out", str(tmp_path / "out"), "--size", "tiny", "--seed", "4", "--json")
    )
    assert value["seeds"] == [4]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("gait",), "--out DIR"),
        (("gait", "--out", "x"), "veil data make casia-b"),
        (("gait", "--out", "x", "--data", "vispr"), "NAME:ROOT"),
        (("gait", "--out", "x", "--data", "vispr:a", "--data", "vispr:b"), "given before"),
        (("gait", "--out", "x", "--weights", "resnet.50"), "KEY=VALUE"),
        (("walk", "--out", "x"), "no protocol 'walk'"),
        (("gait", "--out", "x", "--size", "huge"), "tiny, small, paper"),
        (("gait", "--out", "x", "--encoder", "huge"), "no encoder 'huge'"),
    ],
)
def test_mistakes_are_named(
    words: tuple[str, ...], match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=match):
        CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []
