"""Every speed that the project claims in one table: ours, a peer on the same machine in the same run, and the limit.

    python benchmarks/table.py [--device cuda] [--quick] [--deface PATH] [--only NAME …] [--no-growth] [--json FILE]

Runs the benchmark scripts beside this one, each in a process of its own, and puts what they measured side by side. A
ratio above 1 is in our favour, also where the unit is seconds. The peer is the loop that people write, or another tool;
the limit is what would be left if everything but the computing were free. What cannot run here says why. Then how cost
grows (`growth.py`). `--quick` takes toy sizes, about three minutes on two cores, to see that everything works: its
figures are no results. On a machine without an accelerator the networks of the papers are replaced by smaller ones; the
table names them. `scripts/results.py --store benchmarks-NAME FILE` takes a whole run into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

SECONDS = "s"  # the one unit of which less is better
VIDEOMAE_FLOPS, H200_FLOPS = 361e9, 790e12  # of a clip; of the device in bfloat16


@dataclass(frozen=True)
class Line:
    """One figure. `how` names what ran; peer and limit are in the same unit, with words for what they are."""

    unit: str
    ours: float
    how: str
    peer: float | None = None
    peer_is: str = ""
    limit: float | None = None
    limit_is: str = ""


@dataclass(frozen=True)
class Bench:
    """A script, what it is given, and how its results are read.

    words: arguments, or a sentence that says why it cannot run. read: its JSON (empty where it writes none) and what it
    printed → lines by name.
    """

    script: str
    words: Callable[[argparse.Namespace], list[str] | str]
    read: Callable[[Any, str], dict[str, Line]]
    writes_json: bool = True


def ratio(line: Mapping[str, Any], beside: str) -> float | None:
    """How many times better ours is than the peer or the limit."""
    other = line.get(beside)
    if not other:
        return None
    return float(other / line["ours"] if line["unit"] == SECONDS else line["ours"] / other)


def missing(*modules: str) -> str:
    lost = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(lost)} is not installed" if lost else ""


# --- features -----------------------------------------------------------------------------------------------


def loop_words(asked: argparse.Namespace) -> list[str] | str:
    if lost := missing("transformers"):
        return lost
    if asked.quick:
        return ["--device", asked.device, "--small", "--batch", "4", "--seconds", "0.5"]
    if asked.device == "cpu":
        return "VideoMAE-B takes hours without an accelerator; give --device cuda"
    return ["--device", asked.device]


def loop_lines(found: Any, said: str) -> dict[str, Line]:
    """Ours is the fastest of our own ways; rows in brackets are experiments."""
    rates, lines = found["clips_per_second"], {}
    first = said.splitlines()[0]  # NAME, FRAMES frames of SIZE², … GFLOP per clip, batch …
    whole = float(_number(r"([\d.]+) GFLOP", first)) > 300 and "H200" in found["device"]
    for part in ("network", "end to end"):
        ours = {name: rate for name, rate in rates.items() if name.startswith(f"{part}: ours")}
        best = max(ours, key=lambda name: ours[name])
        lines[f"feature extraction, {part}"] = Line(
            "clips/s",
            ours[best],
            f"{', '.join(first.split(', ')[:2])}; {best.partition(': ')[2]}",
            max(rate for name, rate in rates.items() if name.startswith(f"{part}: transformers")),
            "transformers loop, its fastest",
            H200_FLOPS / VIDEOMAE_FLOPS if whole else None,
            "the device's peak in bfloat16" if whole else "",
        )
    return lines


def files_words(asked: argparse.Namespace) -> list[str] | str:
    if lost := missing("av"):
        return lost
    return ["--encoder", "tiny", "--videos", "4", "--frames", "64"] if asked.quick else []


def files_lines(found: Any, said: str) -> dict[str, Line]:
    share = float(_number(r"extract ÷ bare encoder: ([\d.]+)", said))
    name = said.split()[0].rstrip(",:")
    return {
        "feature extraction from files": Line(
            "share", share, f"`veil extract`, {name}", limit=1.0, limit_is="the bare encoder"
        )
    }


# --- training -----------------------------------------------------------------------------------------------


def splavu_words(asked: argparse.Namespace) -> list[str]:
    if asked.quick:
        return [
            "--device",
            asked.device,
            "--videos",
            "256",
            "--width",
            "128",
            "--epochs",
            "4",
            "--rows",
            "1024",
        ]
    if asked.device == "cpu":
        small = ["--videos", "512", "--width", "256", "--epochs", "10", "--rows", "4096"]
        return ["--device", "cpu", *small]
    return ["--device", asked.device]


def splavu_lines(found: Any, said: str) -> dict[str, Line]:
    size = f"{found['videos']:,} videos, {found['width']} wide, {found['epochs']} epochs"
    return {
        "SPLAVU training": Line(SECONDS, found["ours"], size, found["plain"], "the same written plainly"),
        "SPLAVU adapter, exact mode": Line("features/s", found["features_per_second"], size),
    }


def minimax_words(asked: argparse.Namespace) -> list[str]:
    if asked.device == "cpu":
        small = ["--width", "16", "--size", "64", "--batch", "4", "--frames", "8"]
        if asked.quick:
            small = ["--width", "8", "--size", "32", "--batch", "2", "--frames", "4"]
        return ["--device", "cpu", *small, "--seconds", "1" if asked.quick else "5"]
    return ["--device", asked.device, *(["--seconds", "1"] if asked.quick else [])]


def minimax_lines(found: Any, said: str) -> dict[str, Line]:
    rates = found["clips_per_s"]
    ours = max((name for name in rates if name.startswith("ours")), key=lambda name: float(rates[name]))
    how = f"UNet-{found['width']}, {found['batch']} clips of {found['frames']} × {found['size']}²; {ours}"
    line = Line("clips/s", rates[ours], how, rates["plain"], "the published loop written plainly")
    return {"minimax training": line}


# --- inference ----------------------------------------------------------------------------------------------


def unet_words(asked: argparse.Namespace) -> list[str]:
    words = ["--device", asked.device]
    if asked.quick:
        words += ["--seconds", "0.5", "--only", "fp32"]
    return words


def unet_lines(found: Any, said: str) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for width, size in dict.fromkeys((row["width"], row["size"]) for row in found["rows"]):
        rates = {
            row["engine"]: row["frames_per_second"]
            for row in found["rows"]
            if (row["width"], row["size"]) == (width, size)
        }
        best = max(rates, key=lambda name: rates[name])
        lines[f"UNet-{width} at {size}²"] = Line(
            "frames/s", rates[best], best, rates["plain fp32"], "plain PyTorch, float32"
        )
    return lines


def anonymize_words(asked: argparse.Namespace) -> list[str] | str:
    if lost := missing("av"):
        return lost
    if asked.device != "cpu":
        return "measured on cores, like `deface`; leave --device out"
    words = ["--deface", asked.deface] if asked.deface else []
    if asked.quick:
        words += ["--frames", "240", "--rounds", "1", "--seconds", "1", "--size", "320", "240"]
        words += ["--trained", "112", "--with"]
    return words


def anonymize_lines(found: Any, said: str) -> dict[str, Line]:
    rates = {row["name"]: row["fps"] for row in found["rows"]}
    deface = rates.pop("deface", None)
    lines: dict[str, Line] = {}
    for row in found["rows"]:
        name, alone = row["name"], found["network_alone"].get(row["name"])
        if name not in rates:
            continue
        if math.isnan(rates[name]):
            raise ValueError(f"{name}: the clip is too short to tell")
        lines[f"whole videos: {name}"] = Line(
            "frames/s",
            rates[name],
            row["engine"],
            deface,
            "`deface`" if deface else "",
            alone["fps"] if alone else None,
            "the network alone" if alone else "",
        )
    return lines


def task_words(asked: argparse.Namespace) -> list[str]:
    return ["--width", "256", "--repeats", "1"] if asked.quick else []


def task_lines(found: Any, said: str) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for name, best, median in re.findall(
        r"^(.+?) +\d+ s of video: +(\d+)× \(median (\d+)×\)", said, re.MULTILINE
    ):
        how = f"best of the repeats; median {median}"
        lines[f"task inference: {name}"] = Line("× real time", float(best), how, 1.0, "real time")
    if not lines:
        raise ValueError(f"nothing is told in {said!r}")
    return lines


BENCHES = {
    "features": Bench("extract.py", loop_words, loop_lines),
    "files": Bench("extract.py", files_words, files_lines, writes_json=False),
    "splavu": Bench("splavu_training.py", splavu_words, splavu_lines),
    "minimax": Bench("minimax.py", minimax_words, minimax_lines),
    "unet": Bench("pixel_inference.py", unet_words, unet_lines),
    "anonymize": Bench("anonymize.py", anonymize_words, anonymize_lines),
    "tasks": Bench("tasks.py", task_words, task_lines, writes_json=False),
}


# --- running ------------------------------------------------------------------------------------------------


def _number(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    if found is None:
        raise ValueError(f"no {pattern!r} in {said[-500:]!r}")
    return found[1]


def run(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Rows by name, as JSON keeps them; one that says why, where it could not run."""
    bench = BENCHES[name]
    words = bench.words(asked)
    if isinstance(words, str):
        return {name: {"not_run": words}}
    with tempfile.TemporaryDirectory() as temporary:
        kept = Path(temporary) / "found.json"
        command = [sys.executable, str(HERE / bench.script), *words]
        command += ["--json", str(kept)] if bench.writes_json else []
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
        print(done.stdout, file=sys.stderr, flush=True)
        # a script ends with 1 where a goal is missed: that is for it to say, and the figures are there all the same
        if done.returncode not in (0, 1) or (bench.writes_json and not kept.is_file()):
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            return {name: {"not_run": f"{bench.script} ended with {done.returncode}: {' '.join(last)}"}}
        found = json.loads(kept.read_text("utf-8")) if bench.writes_json else None
        try:
            lines = bench.read(found, done.stdout)
        except (ValueError, KeyError, IndexError) as error:
            return {name: {"not_run": f"{bench.script} did not tell: {error}"}}
    return {row: asdict(line) for row, line in lines.items()}


def machine(device: str) -> str:
    """In words: processor, cores, accelerator, version of PyTorch."""
    import torch

    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text("utf-8"))
    cores = f"{len(os.sched_getaffinity(0))} cores of {model[1] if model else 'an unnamed processor'}"
    accelerator = "" if device == "cpu" else f", {torch.cuda.get_device_name()}"
    return f"{cores}{accelerator}, torch {torch.__version__}"


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(rows: Mapping[str, Any]) -> str:
    """Markdown."""
    lines = ["| figure | what ran | ours | peer | ours ÷ peer | limit | ours ÷ limit |", "|---" * 7 + "|"]
    for name, row in rows.items():
        if "not_run" in row:
            lines.append(f"| {name} | not run: {row['not_run']} | – | – | – | – | – |")
            continue
        cells = [name, row["how"], f"{number(row['ours'])} {row['unit']}"]
        for beside in ("peer", "limit"):
            share, value = ratio(row, beside), row.get(beside)
            cells.append(f"{number(value)} ({row[f'{beside}_is']})" if value else "–")
            cells.append("–" if share is None else number(share))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--deface", help="the executable of deface")
    parser.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES))
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(words)
    rows: dict[str, Any] = {}
    where = machine(asked.device)

    def keep(curves: Mapping[str, Any]) -> None:
        if asked.json:
            value = {"machine": where, "quick": asked.quick, "rows": rows, "growth": curves}
            asked.json.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")

    for name in asked.only:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows |= run(name, asked)
        keep({})
    print(f"{where}{', toy sizes: no results' if asked.quick else ''}\n\n{table(rows)}\n", flush=True)
    curves: dict[str, Any] = {}
    if not asked.no_growth:
        from benchmarks import growth

        curves = growth.grow(asked.quick)
        print(f"\n{growth.table(curves)}")
        keep(curves)


if __name__ == "__main__":
    main()
