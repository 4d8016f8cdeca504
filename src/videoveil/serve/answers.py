"""The shapes of what the service answers, for OpenAPI and for checks."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from videoveil.serve.jobs import Jobs, Live


class Problem(BaseModel):
    """Why not."""

    detail: str


class ProgressAnswer(BaseModel):
    """How far a job is."""

    frames: int
    total: int | None
    fps: float
    remaining: float | None


class JobAnswer(BaseModel):
    """Where a job stands."""

    id: str
    model: str
    state: Literal["queued", "running", "done", "failed"]
    created: float
    ended: float | None
    bytes: int
    audio: bool
    tries: int
    stage: str
    place: int | None
    """Jobs that came before and still wait."""
    progress: ProgressAnswer | None
    reason: str
    deleted_at: float | None
    """When it will be deleted, in seconds since 1970."""


class JobList(BaseModel):
    """Jobs of one owner."""

    jobs: list[JobAnswer]


class FigureAnswer(BaseModel):
    """One measured figure of a model, beside that on raw videos and that of a blind guess."""

    kind: Literal["privacy", "utility"]
    name: str
    metric: str
    value: float
    low: float | None
    high: float | None
    raw: float | None
    chance: float | None
    better: Literal["low", "high"]


class AuditAnswer(BaseModel):
    """The verdict of an audit."""

    privacy: str
    utility: str
    data: str
    synthetic: bool
    level: float


class ModelAnswer(BaseModel):
    """An anonymizer."""

    name: str
    training_data: str
    notes: str
    license: str
    figures: list[FigureAnswer]
    audit: AuditAnswer | None


class ModelList(BaseModel):
    """What can be chosen, and what holds for every upload."""

    models: list[ModelAnswer]
    anomaly: bool
    upload_bytes: int
    keep: float


class AnomalySpan(BaseModel):
    """A stretch of a video, in seconds."""

    start: float
    end: float
    score: float


class AnomalyAnswer(BaseModel):
    """The anomaly curve, or why there is none."""

    configured: bool
    reason: str = ""
    duration: float | None = None
    spans: list[AnomalySpan] = []


class HealthAnswer(BaseModel):
    """Whether the service can work."""

    ok: bool
    problems: list[str]


def job_answer(live: Live, jobs: Jobs) -> dict[str, Any]:
    """What the owner of a job is told; not the owner itself."""
    job = live.job
    return {
        "id": job.id,
        "model": job.model,
        "state": job.state,
        "created": job.created,
        "ended": job.ended,
        "bytes": job.bytes,
        "audio": job.audio,
        "tries": job.tries,
        "stage": live.stage if job.state == "running" else "",
        "place": jobs.place(live),
        "progress": live.progress if job.state == "running" else None,
        "reason": job.reason,
        "deleted_at": None if job.ended is None else job.ended + jobs.settings.keep,
    }
