"""All that can be set about the service, and which settings do not go together."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, fields
from pathlib import Path

from videoveil.errors import UsageError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}")
ENGINES = ("auto", "torch", "compile", "openvino")


@dataclass(frozen=True)
class Model:
    """An anonymizer that clients may choose: the name they see, where it is, and its audit if there was one."""

    name: str
    source: str
    audit: Path | None = None
    key: Path | None = None
    """Secret key of its noise."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UsageError(
                f"model name {self.name!r}: use up to 64 letters, digits and . _ : + -, or write NAME=SOURCE"
            )
        if self.source == "identity":
            raise UsageError(f"model {self.name!r}: 'identity' hides nothing and is never served")


@dataclass(frozen=True)
class Settings:
    """One service. Sizes are bytes, times are seconds."""

    data: Path
    models: tuple[Model, ...]
    host: str = "127.0.0.1"
    port: int = 8040
    tokens: tuple[str, ...] = ()
    """Hashes (`auth.token_hash`) of those who may use it; empty: whoever can reach it, on loopback only."""
    hosts: tuple[str, ...] = ()
    """Further names under which it is reached; others in the Host header are refused."""
    proxies: tuple[str, ...] = ()
    """Addresses whose word about the client's address is believed."""

    jobs: int = 1
    """Worked on at the same time."""
    queue: int = 200
    queue_per_token: int = 100
    tries: int = 3
    """How often a job is begun before it fails, when the server or the worker was stopped in the middle."""
    job_seconds: float = 6 * 3600
    stall_seconds: float = 600
    """Without any sign of a worker."""
    probe_seconds: float = 60
    memory: int = 0
    """Address space of a worker; 0: no limit."""
    keep: float = 24 * 3600
    """Results are deleted so long after the end of their job, and so are jobs that never got their turn."""
    sweep: float = 30
    """Between two looks for what is to be deleted."""

    upload_bytes: int = 4 * 2**30
    uploads: int = 16
    uploads_per_token: int = 8
    upload_seconds: float = 2 * 3600
    least_rate: int = 16 * 1024
    """Bytes per second an upload must make on average, once `grace` has passed."""
    grace: float = 10
    least_disk: int = 2**30
    """Free space that uploads never touch."""

    header_seconds: float = 10
    send_seconds: float = 30
    """In which a client must take the next piece of an answer."""
    connections: int = 512
    connections_per_address: int = 128
    streams_per_token: int = 32
    """Progress streams open at the same time."""
    requests_per_minute: int = 1200
    uploads_per_minute: int = 120
    failures_per_minute: int = 20
    """Wrong tokens from one address."""

    engine: str = "auto"
    device: str = "auto"
    threads: int = 0
    anomaly: Path | None = None
    """A run of `veil train-task anomaly` that looks at the anonymized videos."""

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        if not names:
            raise UsageError("no model to serve; give --model blur, --model NAME=RUN_FOLDER, …")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"--model {twice[0]}: given twice; name one of them otherwise, as NAME=SOURCE")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in MAY_BE_ZERO or not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if value <= 0:
                raise UsageError(f"{field.name}={value!r}: must be above zero")
        if self.engine not in ENGINES:
            raise UsageError(f"--engine {self.engine}: choose one of {', '.join(ENGINES)}")
        if not self.tokens and not is_loopback(self.host):
            raise UsageError(
                f"--host {self.host}: this address can be reached from outside, and there is no token; "
                "give --tokens FILE (one per line) or VEIL_TOKEN, or listen on 127.0.0.1"
            )

    def model(self, name: str) -> Model | None:
        return next((model for model in self.models if model.name == name), None)


MAY_BE_ZERO = ("memory", "threads", "port", "least_disk")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it; a name other than localhost could mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
