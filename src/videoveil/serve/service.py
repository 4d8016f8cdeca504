"""Everything one running service has, in one place."""

from __future__ import annotations

from typing import Any

from videoveil.serve.figures import describe
from videoveil.serve.jobs import Jobs
from videoveil.serve.limits import Places, Rate
from videoveil.serve.metrics import Counted
from videoveil.serve.settings import Settings
from videoveil.serve.store import Store


class Service:
    """Made when the server starts, in the thread that serves."""

    def __init__(self, settings: Settings, counted: Counted, models: list[dict[str, Any]]):
        self.settings, self.counted, self.models = settings, counted, models
        self.store = Store(settings.data)
        self.jobs = Jobs(settings, self.store)
        self.uploads = Places(settings.uploads, settings.uploads_per_token)
        self.streams = Places(settings.connections, settings.streams_per_token)
        self.by_token = Rate(settings.requests_per_minute)
        self.by_address = Rate(settings.requests_per_minute)
        self.uploads_by_token = Rate(settings.uploads_per_minute)
        self.uploads_by_address = Rate(settings.uploads_per_minute)
        self.failures = Rate(settings.failures_per_minute)

    async def start(self) -> None:
        await self.jobs.start()

    async def stop(self) -> None:
        await self.jobs.stop()
        self.store.close()


def known_models(settings: Settings) -> list[dict[str, Any]]:
    """What clients are told of each model; a model or audit that cannot be read is an error at the start."""
    return [describe(model) for model in settings.models]
