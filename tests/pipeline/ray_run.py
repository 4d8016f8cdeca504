"""A corpus on a Ray of its own, one of whose workers is killed now and then; run by `test_ray_engine`.

    python ray_run.py ARCHIVE OUT KILLS

Prints what was settled and how many were killed, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil

from videoveil.pipeline.corpus import Corpus
from videoveil.pipeline.manifest import read_manifest
from videoveil.pipeline.ray_engine import run_ray


def actors() -> list[psutil.Process]:
    """Processes in which Ray runs a step of the corpus."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if words.startswith("ray::") and "MapWorker" in words:
            found.append(process)
    return found


def kill(times: int, over: threading.Event, killed: list[int]) -> None:
    while not over.is_set() and len(killed) < times:
        found = actors()
        if found:
            time.sleep(0.3)
            victim = found[len(killed) % len(found)]
            if victim.is_running():
                os.kill(victim.pid, signal.SIGKILL)
                killed.append(victim.pid)
        time.sleep(0.2)


def main() -> None:
    archive, out, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    import ray

    ray.init(
        num_cpus=3,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    over, killed = threading.Event(), list[int]()
    thread = threading.Thread(target=kill, args=(times, over, killed))
    thread.start()
    try:
        report = run_ray(Corpus(read_manifest(archive), out, "downsample:4", chunk=20, attempts=20), 2)
    finally:
        over.set()
        thread.join()
        ray.shutdown()
    print("SETTLED " + json.dumps({"killed": len(killed), **report.to_json()}))


if __name__ == "__main__":
    main()
