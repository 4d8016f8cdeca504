"""The container files, as far as they can be checked without an engine."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from videoveil.cli import app

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
KEYWORDS = [
    "FROM",
    "ARG",
    "ENV",
    "RUN",
    "WORKDIR",
    "COPY",
    "USER",
    "VOLUME",
    "EXPOSE",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "CMD",
]


def steps() -> list[tuple[str, str]]:
    """(keyword, the rest) of every step of the Dockerfile, continued lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(keyword, rest.strip()) for keyword, _, rest in found]


def test_every_step_is_one_that_docker_knows() -> None:
    assert {keyword for keyword, _ in steps()} <= set(KEYWORDS)
    assert steps()[0][0] == "FROM"


def test_images_are_pinned_and_slim() -> None:
    for keyword, rest in steps():
        if keyword == "FROM":
            image = rest.split()[0]
            assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", image), image
    for service in SERVICES.values():
        name, _, tag = service["image"].rpartition(":")
        assert name
        assert re.fullmatch(r"\d+\.\d+\.\d+", tag), service["image"]


def test_the_image_does_not_run_as_root() -> None:
    last = [rest for keyword, rest in steps() if keyword == "USER"][-1]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", last)
    after = [keyword for keyword, _ in steps()][[k for k, _ in steps()].index("USER") :]
    assert "RUN" not in after, "nothing is installed as the user that serves"
    for service in SERVICES.values():
        assert not service["user"].startswith("0")
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True


def test_everything_that_is_copied_exists() -> None:
    for keyword, rest in steps():
        if keyword == "COPY" and "--from" not in rest:
            *sources, _ = shlex.split(rest)
            for source in sources:
                assert (ROOT / source).exists(), source


def test_lists_of_words_are_json() -> None:
    for keyword, rest in steps():
        if keyword in ("ENTRYPOINT", "CMD"):
            assert json.loads(rest)
    kind, *words = SERVICES["serve"]["healthcheck"]["test"]
    assert (kind, words[:2]) == ("CMD", ["python", "-c"])
    compile(words[2], "health check", "exec")


def test_ports_are_bound_to_loopback() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_secret_is_written_down_and_the_service_has_tokens() -> None:
    assert "--tokens=/run/secrets/tokens" in SERVICES["serve"]["command"]
    assert SERVICES["serve"]["secrets"] == ["tokens"]
    assert COMPOSE["secrets"]["tokens"] == {"file": "./tokens.txt"}
    assert not any("environment" in service for service in SERVICES.values())


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


@pytest.mark.parametrize("name", [name for name in SERVICES if "build" in SERVICES[name]])
def test_the_commands_are_ones_that_veil_understands(name: str) -> None:
    verb, *words = SERVICES[name]["command"]
    words = [re.sub(r"\$\{\w+:-(.*)\}", r"\1", word) for word in words]
    command = commands().get(verb)
    assert command is not None, verb
    command.make_context(verb, words)  # parses, runs nothing


def test_only_the_anonymizer_hears_of_the_camera() -> None:
    knows = [name for name, service in SERVICES.items() if "CAMERA" in json.dumps(service)]
    assert knows == ["veil-camera"]


def test_the_engine_is_sent_nothing_but_what_is_copied() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    sources = {
        source
        for keyword, rest in steps()
        if keyword == "COPY" and "--from" not in rest
        for source in shlex.split(rest)[:-1]
    }
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == sources
