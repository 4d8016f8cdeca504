from __future__ import annotations

from pathlib import Path

import pytest

from videoveil.errors import UsageError
from videoveil.serve.settings import Model, Settings, is_loopback

BLUR = (Model("blur", "blur"),)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.4", "10.0.0.1", "example.org", "", "127.0.0.1.example.org"]
)
def test_refuses_a_public_interface_without_a_token(host: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no token"):
        Settings(tmp_path, BLUR, host=host)
    assert Settings(tmp_path, BLUR, host=host, tokens=("aa",)).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_token(host: str, tmp_path: Path) -> None:
    assert is_loopback(host)
    assert Settings(tmp_path, BLUR, host=host).tokens == ()


def test_raw_video_is_no_model() -> None:
    with pytest.raises(UsageError, match="hides nothing"):
        Model("plain", "identity")


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 65, "a/b", "<b>"])
def test_model_names_are_plain(name: str) -> None:
    with pytest.raises(UsageError, match="model name"):
        Model(name, "blur")


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="twice"):
        Settings(tmp_path, BLUR * 2)


def test_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no model"):
        Settings(tmp_path, ())


@pytest.mark.parametrize("name", ["jobs", "queue", "keep", "upload_bytes", "least_rate", "header_seconds"])
def test_limits_must_be_above_zero(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=name):
        Settings(tmp_path, BLUR, **{name: 0})
