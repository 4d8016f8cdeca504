"""The application: the service, its routes, the page, and the guard before them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.staticfiles import StaticFiles

import videoveil
from videoveil.serve.api import api
from videoveil.serve.guard import Guard
from videoveil.serve.metrics import Counted
from videoveil.serve.service import Service, known_models
from videoveil.serve.settings import Settings

HERE = Path(__file__).parent


def create_app(settings: Settings) -> FastAPI:
    """A service that starts with its server. Models and audits are read now: what is wrong with them is said early."""
    counted, models = Counted(), known_models(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = app.state.service = Service(settings, counted, models)
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    # the usual documentation pages fetch scripts from elsewhere; the description itself is at /openapi.json
    app = FastAPI(
        title="Videoveil",
        version=videoveil.__version__,
        description="Keeps what happens in a video and hides who it happens to.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(api)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    page = _page(settings)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page)

    app.add_middleware(Guard, settings=settings, counted=counted)
    return app


def _page(settings: Settings) -> str:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
    )
    template = environment.get_template("index.html")
    return template.render(version=videoveil.__version__, needs_token=bool(settings.tokens))
