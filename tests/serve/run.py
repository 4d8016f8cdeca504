"""A real server in a process of its own, with any settings: `python -m tests.serve.run '{"data": …}'`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from videoveil.serve.auth import token_hash
from videoveil.serve.server import run
from videoveil.serve.settings import Model, Settings


def main() -> None:
    given = json.loads(sys.argv[1])
    given["data"] = Path(given["data"])
    audits = {name: Path(folder) for name, folder in given.pop("audits", {}).items()}
    given["models"] = tuple(Model(name, source, audits.get(name)) for name, source in given["models"])
    given["tokens"] = tuple(token_hash(token) for token in given["tokens"])
    if given.get("anomaly"):
        given["anomaly"] = Path(given["anomaly"])
    run(Settings(**given))


if __name__ == "__main__":
    main()
