"""One audit in its folder: what is audited and how, where it is kept, and the hashes that tell it from others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from videoveil import files
from videoveil.audit import checks
from videoveil.audit.published import Tell
from videoveil.audit.settings import Settings
from videoveil.audit.subject import WHICH, Stores, Subject, Which
from videoveil.errors import UsageError

IDENTITY = "audit.json"


@dataclass(frozen=True)
class Case:
    """An audit, as far as it is known before anybody is trained. Results are found again by its hashes."""

    subject: Subject
    stores: Stores
    settings: Settings
    out: Path
    cache: Path  # for other audits of the same data
    data: str  # hash of the videos, and of what is asked about them
    sides: Mapping[Which, str]  # of what either side shows of them
    features: str  # of the form of their features: anonymizers ask for more or fewer static clips, of raw videos too
    reasons: tuple[str, ...] = ()  # why the data do not allow some questions

    @classmethod
    def of(cls, subject: Subject, out: Path, settings: Settings, cache: Path | None = None) -> Case:
        subject, reasons = checks.prepared(subject, settings.rules.least_items)
        cache = cache or out / "cache"
        data = subject.identity()
        many = bool(getattr(subject.anonymized.latent, "wants_static", False))
        features = files.value_hash([data, many])[:16]
        stores = Stores(
            subject,
            cache / "features" / f"{_plain(subject.title)}-{features}",
            out / "features",
            settings.device,
            settings.workers,
        )
        sides = {which: subject.side(which).identity() for which in WHICH}
        return cls(subject, stores, settings, out, cache, data, sides, features, reasons)

    def claim(self) -> None:
        """Refuse a folder that holds another audit."""
        mine = {"data": self.data, "anonymizer": self.sides["anonymized"], "seed": self.settings.seed}
        path = self.out / IDENTITY
        files.create_json(path, mine)
        if json.loads(path.read_text("utf-8")) != mine:
            raise UsageError(f"{self.out}: holds the audit of something else; choose another --out")

    def with_published(self, tell: Tell) -> Case:
        """With every video taken through the anonymizer, once, as `veil anonymize` would."""
        subject = self.subject.with_published(self.out / "published", self.settings.device, tell)
        return replace(self, subject=subject, stores=replace(self.stores, subject=subject))


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text) or "data"
