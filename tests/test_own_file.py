"""Python files of one's own: what is named is run, hashed and taken; what is wrong is said with its line."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.errors import UsageError
from videoveil.own_file import is_own, load


@pytest.mark.parametrize("source", ["a.py", "a/b c.py", "../a.py", "a.py:name", "/x/a.py:Größe_2"])
def test_files_of_python_are_recognised(source: str) -> None:
    assert is_own(source)


@pytest.mark.parametrize(
    "source", ["blur", "runs/spact", "ORG/NAME", ".py", "a.py:", "a.py:2x", "a.pyc", "a.py:b:c", "py", ""]
)
def test_nothing_else_is(source: str) -> None:
    assert not is_own(source)
    with pytest.raises(UsageError, match=r"FILE\.py"):
        load(source, "value")


@given(st.text())
def test_no_text_makes_the_question_fail(source: str) -> None:
    assert is_own(source) in (True, False)


def test_the_named_value_or_else_the_usual_one_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("usual, other = 1, 2\n")
    found = load(str(path), "usual")
    assert (found.file, found.name, found.value) == ("mine.py", "usual", 1)
    assert found.hash == hashlib.sha256(path.read_bytes()).hexdigest()
    assert load(f"{path}:other", "usual").value == 2


def test_the_file_knows_where_it_is_and_nothing_is_written_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Thing:\n"
        "    one: int = 1\n"
        "value = (__file__, Thing())\n"
    )
    assert load(str(path), "value").value[0] == str(path)
    assert [one.name for one in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ndef (\n", r"mine\.py:2: .*SyntaxError"),
        ("x = 1\n\nraise ValueError('of mine')\n", r"mine\.py:3: .*ValueError: of mine"),
        ("import no_such_module_at_all\n", r"mine\.py:1: .*no_such_module_at_all"),
        ("import json\njson.loads('{')\n", r"mine\.py:2: .*JSONDecodeError"),
        ("other = 1\n", r"has no 'value'.*mine\.py:NAME"),
    ],
)
def test_mistakes_name_file_line_and_reason(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    before = set(sys.modules)
    with pytest.raises(UsageError, match=words):
        load(str(path), "value")
    if "other" not in text:
        assert not {name for name in set(sys.modules) - before if name.startswith("videoveil_own_")}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.py: no such file"):
        load(str(tmp_path / "gone.py"), "value")


def test_what_ends_the_process_is_not_swallowed(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load(str(path), "value")
