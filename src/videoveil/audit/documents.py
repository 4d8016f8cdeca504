"""The files that an audit leaves for people and programs: figures, what was asked for, with what, and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import videoveil
from videoveil import devices, files
from videoveil.audit import kept, pictures, registry
from videoveil.audit.case import Case
from videoveil.audit.participant import Participant

METRICS, CONFIG, ENVIRONMENT = "metrics.json", "config.yaml", "environment.json"
TIMING, REPORT = "timing.json", "report.html"


def write(
    case: Case, chosen: Sequence[Participant], metrics: Mapping[str, Any], timing: Mapping[str, Any]
) -> None:
    """All of them, into the folder of the audit."""
    from videoveil.recipes.text import yaml
    from videoveil.report import audit_page

    files.write_json(case.out / METRICS, metrics)
    files.write_text(case.out / CONFIG, yaml(config(case, chosen)))
    files.write_json(case.out / ENVIRONMENT, environment(case.settings.device))
    files.write_json(case.out / TIMING, timing)
    words = {one.name: one.words for one in (*registry.PARTICIPANTS, *case.settings.participants)}
    audit_page.write(
        metrics,
        case.out / REPORT,
        words=words,
        strip=_strip(case),
        drawings=_drawings(case, chosen),
        command=case.settings.command,
    )


def config(case: Case, chosen: Sequence[Participant]) -> dict[str, Any]:
    """What was asked for, with the settings of everybody who took part."""
    subject, settings = case.subject, case.settings
    return {
        "data": {"name": subject.title, **subject.facts},
        "anonymizer": subject.anonymizer,
        "train": subject.train,
        "test": subject.test,
        "encoder": subject.encoder,
        "seed": settings.seed,
        "budget_minutes": settings.budget,
        "rules": asdict(settings.rules),
        "participants": {one.name: one.settings(settings.gpu) for one in chosen},
    }


def environment(device: str) -> dict[str, Any]:
    """Versions and the device that was used; no names of machines or people."""
    import platform
    from importlib import metadata

    from videoveil.doctor import PACKAGES

    there = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return {
        "videoveil": videoveil.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": str(devices.choose(device)),
        "threads": torch.get_num_threads(),  # another number may change the last bits of what is learnt
        "packages": {name: there.get(name) for name in PACKAGES},
    }


def _strip(case: Case) -> Path | None:
    """Frames of test videos as a picture; raw ones only where they were asked for."""
    wanted = case.settings.pictures
    if not wanted.videos or case.subject.anonymized.clips is None:
        return None
    path = case.out / "pictures.png"
    pictures.strip(case.subject, wanted.videos, raw=wanted.raw).write(path)
    return path


def _drawings(case: Case, chosen: Sequence[Participant]) -> list[Path]:
    """What the reconstruction attack makes of the same videos, where it took part."""
    wanted = case.settings.pictures
    models = [kept.model(case, one) for one in chosen if one.name == registry.RECONSTRUCTION]
    if not wanted.videos or not models or not models[0].is_file():
        return []
    return pictures.reconstructions(case.subject, models[0], wanted.videos, case.out, raw=wanted.raw)
