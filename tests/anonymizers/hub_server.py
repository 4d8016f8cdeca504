"""A hub on the loopback: as much of the real one's protocol as the real client needs to publish and to fetch."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "1" * 40


@dataclass
class Hub:
    """What the server was sent."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # "ORG/NAME/path" → content
    created: list[dict[str, Any]] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    refuse: bool = False
    secret: str | None = None  # where it is set, nothing is given out to who does not send it
    revisions: set[str] = field(default_factory=lambda: {"main", COMMIT})  # that it has
    asked: list[str] = field(default_factory=list)  # revisions, in the order of asking


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.hub.tokens.add(self.headers.get("Authorization"))
        path = self.path.split("?")[0]
        if self.hub.refuse:
            self._json(401, {"error": "no such token"})
        elif path == "/api/repos/create":
            self.hub.created.append(json.loads(body))
            name = f"{json.loads(body).get('organization')}/{json.loads(body)['name']}"
            self._json(200, {"url": f"{self.hub.address}/{name}", "name": name})
        elif path == "/api/validate-yaml":
            self._json(200, {"warnings": [], "errors": []})
        elif "/preupload/" in path:
            asked = json.loads(body)["files"]
            plain = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]
            self._json(200, {"files": plain})
        elif "/commit/" in path:
            self._commit(path, body)
        else:
            self._json(404, {"error": f"no {path}"})

    def _commit(self, path: str, body: bytes) -> None:
        repository = path.removeprefix("/api/models/").partition("/commit/")[0]
        for line in map(json.loads, body.decode().splitlines()):
            if line["key"] == "header":
                self.hub.commits.append(line["value"])
            elif line["key"] == "file":
                content = base64.b64decode(line["value"]["content"])
                self.hub.files[f"{repository}/{line['value']['path']}"] = content
        url = f"{self.hub.address}/{repository}/commit/{COMMIT}"
        self._json(200, {"commitUrl": url, "commitOid": COMMIT})

    def do_HEAD(self) -> None:
        self._file(with_body=False)

    def do_GET(self) -> None:
        self._file(with_body=True)

    def _file(self, *, with_body: bool) -> None:
        if self.hub.secret is not None and self.headers.get("Authorization") != f"Bearer {self.hub.secret}":
            self._missing(401, "RepoNotFound")
            return
        found = re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", self.path)
        repository, revision, name = found.groups() if found else ("", "", "")
        self.hub.asked.append(revision)
        content = self.hub.files.get(f"{repository}/{name}")
        if content is None or revision not in self.hub.revisions:
            self._missing(404, "EntryNotFound" if revision in self.hub.revisions else "RevisionNotFound")
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def _missing(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve an empty hub on a free port of the loopback while the block runs."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
