"""A corpus on a Ray of its own, one of whose workers is killed now and then; run by `test_ray_engine`.

    python ray_run.py ARCHIVE OUT KILLS
    python ray_run.py ARCHIVE OUT stop          # asked to end once the first video is planned

Prints what was settled, how many were killed and what was said of being stopped, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil

from videoveil.pipeline.corpus import STATE, Corpus
from videoveil.pipeline.errors import Stopped
from videoveil.pipeline.manifest import read_manifest
from videoveil.pipeline.ray_engine import run_ray


def actors() -> list[psutil.Process]:
    """Processes in which this Ray runs a step of the corpus; they may end while they are looked at."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
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


def ask(plans: Path, stop: threading.Event, over: threading.Event) -> None:
    while not over.is_set() and not list(plans.glob("*.json")):
        time.sleep(0.02)
    stop.set()


def main() -> None:
    archive, out, stopped = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "stop"
    import ray

    ray.init(
        num_cpus=3,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    over, stop, killed, said = threading.Event(), threading.Event(), list[int](), ""
    thread = threading.Thread(target=kill, args=(0 if stopped else int(sys.argv[3]), over, killed))
    if stopped:
        thread = threading.Thread(target=ask, args=(out / STATE / "plans", stop, over))
    thread.start()
    corpus = Corpus(read_manifest(archive), out, "downsample:4", chunk=20, attempts=20)
    try:
        report = run_ray(corpus, 2, stop=stop)
    except Stopped as error:
        report, said = corpus.report(0.0), str(error)
    finally:
        over.set()
        thread.join()
        ray.shutdown()
    print("SETTLED " + json.dumps({"killed": len(killed), "said": said, **report.to_json()}))


if __name__ == "__main__":
    main()
