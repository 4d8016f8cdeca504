from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serve.running import ANNA, BERT
from videoveil.errors import UsageError
from videoveil.serve.auth import LOCAL, identify, read_tokens, token_hash

KNOWN = (token_hash(ANNA), token_hash(BERT))


def test_each_token_is_its_own_owner() -> None:
    assert identify(f"Bearer {ANNA}", KNOWN) == token_hash(ANNA)
    assert identify(f"bearer {BERT}", KNOWN) == token_hash(BERT)
    assert ANNA not in token_hash(ANNA)


@given(st.text(max_size=80))
def test_nothing_but_a_known_token_is_let_in(text: str) -> None:
    assert identify(text, KNOWN) is None
    assert identify(f"Bearer {text}", KNOWN) is None


@pytest.mark.parametrize("header", [None, "", "Bearer", f"Basic {ANNA}", ANNA, f"Bearer {ANNA[:-1]}"])
def test_other_headers_are_not_let_in(header: str | None) -> None:
    assert identify(header, KNOWN) is None


def test_without_tokens_everybody_is_the_local_owner() -> None:
    assert identify(None, ()) == LOCAL


def test_tokens_come_from_a_file_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# ours\n{ANNA}  # Anna\n\n{ANNA}\n")
    assert read_tokens(path, BERT) == KNOWN


@pytest.mark.parametrize("token", ["short", "x" * 600, "umlaut-ä-0123456789"])
def test_weak_tokens_are_refused_and_not_repeated(token: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(token)
    with pytest.raises(UsageError) as error:
        read_tokens(path)
    assert token not in str(error.value)


def test_a_file_without_tokens_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# nobody\n")
    with pytest.raises(UsageError, match="no token"):
        read_tokens(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_tokens(tmp_path / "absent")
