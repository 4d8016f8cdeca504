"""`veil serve`: what is wrong with its options is said before it listens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from videoveil.anonymizers.pixel import Grey, LowResolution, pixel
from videoveil.commands.serve import served
from videoveil.errors import UsageError


def veil(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "videoveil.cli", "serve", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}, check=False
    )


def test_a_public_address_without_a_token_is_refused(tmp_path: Path) -> None:
    done = veil("--model", "blur", "--host", "0.0.0.0", "--data", str(tmp_path / "data"), VEIL_TOKEN="")
    assert done.returncode == 2
    assert "no token" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_short_token_is_refused_and_not_printed(tmp_path: Path) -> None:
    done = veil("--model", "blur", "--data", str(tmp_path / "data"), VEIL_TOKEN="hunter2")
    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr


def test_models_have_names_sources_audits_and_keys(tmp_path: Path) -> None:
    folder = pixel(Grey(), LowResolution(4)).save_pretrained(tmp_path / "soft")
    found = served(["blur", "small=downsample:4", str(folder)], {"blur": str(tmp_path)}, {})
    assert [(model.name, model.source) for model in found] == [
        ("blur", "blur"),
        ("small", "downsample:4"),
        ("soft", str(folder)),
    ]
    assert found[0].audit == tmp_path


@pytest.mark.parametrize(
    ("words", "audits", "keys", "said"),
    [
        (["nothing"], {}, {}, "neither"),
        (["identity"], {}, {}, "hides nothing"),
        (["plain=identity"], {}, {}, "hides nothing"),
        (["blur"], {"other": "x"}, {}, "no model of that name"),
        (["blur"], {}, {"other": "x"}, "no model of that name"),
        (["a b=blur"], {}, {}, "model name"),
    ],
)
def test_models_that_cannot_be_served_are_refused(
    words: list[str], audits: dict[str, str], keys: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        served(words, audits, keys)


def test_a_run_that_is_no_anomaly_model_is_refused(tmp_path: Path) -> None:
    done = veil("--model", "blur", "--data", str(tmp_path / "data"), "--anomaly", str(tmp_path))
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr
