"""`veil serve`: what is wrong with its options is said before it listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.faults import Child
from videoveil.anonymizers.pixel import Grey, LowResolution, pixel
from videoveil.commands.serve import served
from videoveil.errors import UsageError


def refused(folder: Path, *arguments: str, token: str = "") -> str:
    """What `veil serve`, in a process of its own, says before it leaves with code 2."""
    log = folder / "said.txt"
    serve = ("serve", "--model", "blur", "--data", str(folder / "data"), *arguments)
    assert Child(serve, {"VEIL_TOKEN": token}, log).wait(120) == 2
    assert not (folder / "data").exists()
    return log.read_text()


def test_a_public_address_without_a_token_is_refused(tmp_path: Path) -> None:
    assert "no token" in refused(tmp_path, "--host", "0.0.0.0")


def test_a_short_token_is_refused_and_not_printed(tmp_path: Path) -> None:
    said = refused(tmp_path, token="hunter2")
    assert said.startswith("veil: ")
    assert "hunter2" not in said


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
    assert str(tmp_path) in refused(tmp_path, "--anomaly", str(tmp_path))
