"""The routes of the service. A job that is not the asker's does not exist for the asker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, StreamingResponse
from starlette.requests import ClientDisconnect

from videoveil.serve import auth, report
from videoveil.serve.answers import (
    AnomalyAnswer,
    HealthAnswer,
    JobAnswer,
    JobList,
    ModelList,
    Problem,
    job_answer,
)
from videoveil.serve.crew import Lost
from videoveil.serve.disk import on_disk
from videoveil.serve.jobs import Live, QueueFull
from videoveil.serve.limits import Full, Pace, Rate
from videoveil.serve.metrics import TYPE, by, metric
from videoveil.serve.service import Service
from videoveil.serve.store import ANOMALY, ID, REPORT, UPLOAD, VIDEO
from videoveil.serve.upload import Received, Refused, drain, receive

HEARTBEAT = 10.0  # seconds after which a progress stream says that it is still there
CLOSE = {"connection": "close"}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "No token, or a wrong one."},
    429: {"model": Problem, "description": "Too often; Retry-After says when again."},
}
NOT_THERE: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "No such job of yours, or not that far yet."}
}
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["video"],
                    "properties": {
                        "video": {"type": "string", "format": "binary"},
                        "model": {"type": "string"},
                        "audio": {"type": "boolean", "default": False},
                    },
                }
            },
        },
    }
}

api = APIRouter()


def service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def address(request: Request) -> str:
    return request.client.host if request.client else ""


def owner(request: Request) -> str:
    """Who asks. First how often the address asks, so that guessing tokens is slow, then who it is."""
    this = service(request)
    _within(this.by_address, address(request))
    if wait := this.failures.wait(address(request), spend=False):
        raise _too_often(wait)
    found = auth.identify(request.headers.get("authorization"), this.settings.tokens)
    if found is None:
        this.failures.wait(address(request))
        raise HTTPException(
            401, "give your token: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer", **CLOSE}
        )
    _within(this.by_token, found)
    return found


Owner = Annotated[str, Depends(owner)]
This = Annotated[Service, Depends(service)]


def mine(job: str, asker: Owner, this: This) -> Live:
    live = this.jobs.get(job) if ID.fullmatch(job) else None
    if live is None or live.job.owner != asker:
        raise HTTPException(404, "no such job")
    return live


Mine = Annotated[Live, Depends(mine)]


def _within(rate: Rate, key: str) -> None:
    if wait := rate.wait(key):
        raise _too_often(wait)


def _too_often(wait: float) -> HTTPException:
    return HTTPException(429, "too many requests", {"Retry-After": str(math.ceil(wait)), **CLOSE})


# --- jobs ---------------------------------------------------------------------------------------------------


@api.get("/api/models", response_model=ModelList, responses=PROBLEMS, tags=["models"])
async def models(asker: Owner, this: This) -> Any:
    """The anonymizers to choose from, with what was measured of each."""
    return {
        "models": this.models,
        "anomaly": this.settings.anomaly is not None,
        "upload_bytes": this.settings.upload_bytes,
        "keep": this.settings.keep,
    }


@api.post(
    "/api/jobs",
    status_code=201,
    response_model=JobAnswer,
    openapi_extra=BODY,
    tags=["jobs"],
    responses={
        **PROBLEMS,
        400: {"model": Problem, "description": "An empty or damaged body."},
        408: {"model": Problem, "description": "Too slow."},
        413: {"model": Problem, "description": "Too large."},
        415: {"model": Problem, "description": "Not a kind of file that is read, told by its content."},
        422: {"model": Problem, "description": "No such model, or a video that cannot be read."},
        503: {"model": Problem, "description": "Too many jobs wait; come back later."},
        500: {"model": Problem, "description": "The service is broken; the video may be fine."},
        507: {"model": Problem, "description": "No room to store it."},
    },
)
async def create(
    request: Request, asker: Owner, this: This, model: str | None = None, audio: bool = False
) -> Any:
    """Upload a video, as the body or as part `video` of a form, and have it anonymized.

    What the file is called does not matter and is not read. Sound is dropped unless `audio` is asked for: voices are
    not anonymized.
    """
    try:
        _within(this.uploads_by_token, asker)
        _within(this.uploads_by_address, address(request))
        fields = {"audio": "true" if audio else ""} | ({} if model is None else {"model": model})
        live = await _create(request, asker, this, fields)
    except Refused as refused:
        this.counted.refused[str(refused.status)] += 1
        await drain(request)
        raise HTTPException(refused.status, refused.words, dict(CLOSE)) from None
    except ClientDisconnect:
        this.counted.refused["gone"] += 1
        return Response(status_code=499)
    answer = job_answer(live, this.jobs)
    return JSONResponse(answer, 201, {"Location": f"/api/jobs/{live.job.id}"})


async def _create(request: Request, asker: str, this: Service, fields: dict[str, str]) -> Live:
    settings = this.settings
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > settings.upload_bytes + FORM_ROOM:
        raise Refused(413, f"the body has {int(declared)} bytes, {settings.upload_bytes} are taken")
    if "model" in fields:
        _known(this, fields["model"])
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(this.uploads.take(asker))
            stack.enter_context(this.jobs.admit(asker))
        except (Full, QueueFull):
            raise Refused(503, "too many videos are being uploaded or wait already") from None
        return await _take(request, asker, this, fields, int(declared) if declared.isdecimal() else 0)


FORM_ROOM = 64 * 1024  # what a form may have around its video


async def _take(request: Request, asker: str, this: Service, fields: dict[str, str], declared: int) -> Live:
    """Store the upload and look at it; without a job in the end, nothing of it is left."""
    settings, store = this.settings, this.store
    room = await on_disk(store.free_bytes) - settings.least_disk
    if room < max(declared, 1):
        raise Refused(507, "there is no room to store the video")
    job = await on_disk(store.create, asker)
    try:
        pace = Pace(settings.least_rate, settings.grace, settings.upload_seconds)
        limit = min(settings.upload_bytes, room)
        got: Received = await receive(request, store.path(job.id, UPLOAD), limit, pace)
        this.counted.bytes += got.size
        chosen = fields | got.fields
        if "model" not in chosen and len(settings.models) > 1:
            raise Refused(422, f"which model? choose one of {_names(this)}")
        name = _known(this, chosen.get("model", settings.models[0].name))
        job = replace(job, model=name, bytes=got.size, audio=_yes(chosen.get("audio", "")))
        await _probe(this, job)
        return await this.jobs.accept(job)
    except BaseException:
        await on_disk(store.remove, job.id)
        raise


async def _probe(this: Service, job: Any) -> None:
    try:
        said = await this.jobs.probe(job)
    except Lost:
        raise Refused(503, "the video could not be looked at just now; send it again") from None
    if "error" in said:
        raise Refused(422 if said["error"]["theirs"] else 500, said["error"]["reason"])


def _known(this: Service, name: str) -> str:
    if this.settings.model(name) is None:
        raise Refused(422, f"no such model; choose one of {_names(this)}")
    return name


def _names(this: Service) -> str:
    return ", ".join(model.name for model in this.settings.models)


def _yes(text: str) -> bool:
    if text.lower() not in ("", "0", "1", "true", "false"):
        raise Refused(422, "audio must be true or false")
    return text.lower() in ("1", "true")


@api.get("/api/jobs", response_model=JobList, responses=PROBLEMS, tags=["jobs"])
async def listing(asker: Owner, this: This) -> Any:
    """Your jobs, the newest first."""
    found = sorted(this.jobs.of(asker), key=lambda live: -live.job.created)
    return {"jobs": [job_answer(live, this.jobs) for live in found]}


@api.get("/api/jobs/{job}", response_model=JobAnswer, responses={**PROBLEMS, **NOT_THERE}, tags=["jobs"])
async def status(live: Mine, this: This) -> Any:
    """Where a job stands."""
    return job_answer(live, this.jobs)


@api.delete("/api/jobs/{job}", status_code=204, responses={**PROBLEMS, **NOT_THERE}, tags=["jobs"])
async def delete(live: Mine, this: This) -> Response:
    """Stop a job if it is at work, and delete all that there is of it."""
    await this.jobs.delete(live)
    return Response(status_code=204)


@api.get(
    "/api/jobs/{job}/events",
    response_class=StreamingResponse,
    responses={
        **PROBLEMS,
        **NOT_THERE,
        200: {"content": {"text/event-stream": {}}, "description": "`job` at each change; ends with the job"},
    },
    tags=["jobs"],
)
async def events(live: Mine, asker: Owner, this: This) -> StreamingResponse:
    """Progress as server-sent events."""
    if this.streams.full(asker):
        raise HTTPException(429, "too many progress streams", {"Retry-After": "5"})

    async def lines() -> AsyncIterator[bytes]:
        # taken here, not before: a client that is gone by now never starts this, and nobody would give the place back
        with contextlib.suppress(Full), this.streams.take(asker):
            async for fresh in this.jobs.changes(live, HEARTBEAT):
                if live.gone:
                    yield b"event: deleted\ndata: {}\n\n"
                    return
                said = json.dumps(job_answer(live, this.jobs))
                yield f"event: job\ndata: {said}\n\n".encode() if fresh else b": still there\n\n"
                await asyncio.sleep(0.1)  # at most ten a second, however fast a job is

    return StreamingResponse(lines(), media_type="text/event-stream")


# --- what a job gives ---------------------------------------------------------------------------------------


def _file(live: Live, this: Service, name: str) -> Any:
    path = this.store.path(live.job.id, name)
    if live.job.state != "done" or not path.is_file():
        raise HTTPException(404, f"the job is {live.job.state} and has no {name}")
    return path


@api.get(
    "/api/jobs/{job}/video",
    response_class=FileResponse,
    responses={**PROBLEMS, **NOT_THERE, 200: {"content": {"video/mp4": {}}}},
    tags=["results"],
)
async def video(live: Mine, this: This) -> FileResponse:
    """The anonymized video (mp4, H.264); parts of it by Range."""
    name = f"anonymized-{live.job.id[:8]}.mp4"
    return FileResponse(_file(live, this, VIDEO), media_type="video/mp4", filename=name)


@api.get("/api/jobs/{job}/report", responses={**PROBLEMS, **NOT_THERE}, tags=["results"])
async def report_json(live: Mine, this: This) -> JSONResponse:
    """What was done to the video, and what is known of the model that did it."""
    return JSONResponse(await on_disk(_report, live, this))


@api.get(
    "/api/jobs/{job}/report.html",
    response_class=HTMLResponse,
    responses={**PROBLEMS, **NOT_THERE},
    tags=["results"],
)
async def report_html(live: Mine, this: This) -> HTMLResponse:
    """The report as one page that needs nothing else."""
    text = report.page(await on_disk(_report, live, this))
    return HTMLResponse(text, headers={"content-security-policy": report.POLICY})


def _report(live: Live, this: Service) -> dict[str, Any]:
    path = _file(live, this, REPORT)
    done = json.loads(path.read_text("utf-8"))
    model = next((one for one in this.models if one["name"] == live.job.model), {"name": live.job.model})
    return report.gather(live.job, done, model, _anomaly(live, this))


def _anomaly(live: Live, this: Service) -> dict[str, Any]:
    path = this.store.path(live.job.id, ANOMALY)
    if not path.is_file():
        return {"configured": False, "reason": "no anomaly model is configured"}
    return {"configured": True, **json.loads(path.read_text("utf-8"))}


@api.get(
    "/api/jobs/{job}/anomaly",
    response_model=AnomalyAnswer,
    responses={**PROBLEMS, **NOT_THERE},
    tags=["results"],
)
async def anomaly(live: Mine, this: This) -> Any:
    """How unusual each stretch of the anonymized video is, if the service has a model for that."""
    _file(live, this, VIDEO)
    return await on_disk(_anomaly, live, this)


# --- the service --------------------------------------------------------------------------------------------


@api.get("/health", response_model=HealthAnswer, tags=["service"])
async def health(this: This) -> Any:
    """Whether it can work: 200, or 503 and why not."""
    problems = [] if this.jobs.crew.ready else ["workers are starting"]
    if await on_disk(this.store.free_bytes) < this.settings.least_disk:
        problems.append("the disk is full")
    return JSONResponse({"ok": not problems, "problems": problems}, 503 if problems else 200)


@api.get("/metrics", response_class=Response, responses=PROBLEMS, tags=["service"])
async def metrics(asker: Owner, this: This) -> Response:
    """For Prometheus."""
    jobs, counted = this.jobs, this.counted
    lines = [
        *metric("veil_jobs", "gauge", "Jobs that are kept, by state.", by("state", jobs.states(), STATES)),
        *metric("veil_jobs_ended_total", "counter", "Jobs that ended.", by("state", jobs.ended, STATES[2:])),
        *metric("veil_job_seconds_total", "counter", "Time spent on jobs.", [({}, jobs.seconds)]),
        *metric("veil_frames_total", "counter", "Frames that were anonymized.", [({}, jobs.frames)]),
        *metric("veil_uploads", "gauge", "Uploads under way.", [({}, this.uploads.taken)]),
        *metric("veil_upload_bytes_total", "counter", "Bytes that were taken.", [({}, counted.bytes)]),
        *metric("veil_uploads_refused_total", "counter", "By status.", by("status", counted.refused)),
        *metric("veil_answers_total", "counter", "By status.", by("status", counted.answers)),
        *metric("veil_workers_ready", "gauge", "1: work can be done.", [({}, float(jobs.crew.ready))]),
        *metric("veil_disk_free_bytes", "gauge", "Room.", [({}, await on_disk(this.store.free_bytes))]),
    ]
    return Response("\n".join(lines) + "\n", media_type=TYPE)


STATES = ("queued", "running", "done", "failed")
