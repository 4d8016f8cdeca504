"""What comes with the package, by name: anonymizers, task heads and the encoder that they are for.

Nothing to train, nothing to fetch:

    shipped.names()                         # anonymizers: ("veil-pixel", …)
    open_anonymizer("veil-pixel")           # as every other anonymizer; so does from_pretrained
    veil anonymize in.mp4 out.mp4           # takes the default
    veil anonymize-features STORE OUT --anonymizer veil-tiny

    shipped.heads()                         # trained tasks: ("action-tiny", …)
    Run.open(shipped.head_place("action-tiny"))
    veil predict in.mp4 --model action-tiny

An anonymizer is a folder like those of `save_pretrained`; its README.md says what it was trained on, what attackers
found in what it gives out and what is left of the tasks. A head is a folder of `tasks.heads`; its README.md says what
it was trained on and what it is worth. `scripts/models.py` makes every one of them again. The embedded encoder has such
a card too: `shipped.card("tiny")`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from videoveil.errors import UsageError

FOLDER = Path(__file__).parent / "anonymizers" / "weights"
HEADS = Path(__file__).parent / "tasks" / "weights"
ENCODERS = Path(__file__).parent / "encoders" / "weights"
CONFIG, CARD, RUN = "config.json", "README.md", "run.json"
DEFAULT = "veil-pixel"  # for videos


def names() -> tuple[str, ...]:
    """All anonymizers, sorted."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob(f"*/{CONFIG}")))


def folder(name: str) -> Path:
    if name not in names():
        raise UsageError(
            f"anonymizer {name!r} does not come with the package; there are {', '.join(names())}"
        )
    return FOLDER / name


def place(source: str) -> str:
    """The folder of one that comes with the package; anything else, a folder or a hub id, is returned as it is."""
    return str(folder(source)) if source in names() else source


def facts(name: str) -> dict[str, Any]:
    """Its config.json: format, content hash, stages, card."""
    found: dict[str, Any] = json.loads((folder(name) / CONFIG).read_text("utf-8"))
    return found


def card(name: str) -> str:
    """What an encoder, an anonymizer or a head is, what was measured and what it does not promise."""
    places = {
        **dict.fromkeys(encoders(), ENCODERS),  # one card for the folder, in which there is one encoder
        **{one: FOLDER / one for one in names()},
        **{one: HEADS / one for one in heads()},
    }
    if name not in places:
        raise UsageError(f"{name!r} does not come with the package; there are {', '.join(places)}")
    return (places[name] / CARD).read_text("utf-8")


def summary(name: str) -> dict[str, Any]:
    """For a list: what goes in, how many parameters it has, and of its card the first utility and the worst attacker.

    Both on twins: rows of real data say so. The worst attacker finds the largest share of what raw data tell.
    """
    from videoveil.anonymizers.publish import load

    model = load(folder(name))
    latent = "width" in facts(name)["config"]
    shown, found = [m for m in model.card.measurements if not m.name.startswith("real:")], []
    attacks = [m for m in shown if m.kind == "attack" and m.metric == "cMAP" and m.share is not None]
    chosen = [m for m in shown if m.kind == "utility"][:1]
    chosen += [max(attacks, key=lambda m: m.share or 0.0)] if attacks else []
    for one in chosen:
        beside = ", ".join("–" if v is None else f"{v:.2f}" for v in (one.raw, one.chance))
        found.append(f"{one.metric} {one.value:.2f} ({beside})")
    return {
        "input": "features" if latent else "frames",
        "parameters": sum(p.numel() for p in model.parameters()),
        "figures": "; ".join(found),
    }


# --- encoders -------------------------------------------------------------------------------------------------


def encoders() -> tuple[str, ...]:
    """All whose weights are in the package, sorted."""
    return tuple(sorted(path.stem for path in ENCODERS.glob("*.safetensors")))


# --- heads ----------------------------------------------------------------------------------------------------


def heads() -> tuple[str, ...]:
    """All trained tasks, sorted."""
    return tuple(sorted(path.parent.name for path in HEADS.glob(f"*/{RUN}")))


def head_place(source: str) -> Path:
    """The folder of a head that comes with the package; anything else is the path of a run."""
    return HEADS / source if source in heads() else Path(source)


def head_summary(name: str) -> dict[str, Any]:
    """For a list: what goes in, how many parameters it has, and the figures of its card."""
    from videoveil.tasks.heads import card_of, parameters
    from videoveil.tasks.runs import Run

    head = Run.open(head_place(name))
    figures = [
        f"{m.metric} {m.value:.2f} ({m.chance or 0:.2f}) on {m.name}"
        for m in card_of(head.folder).measurements
    ]
    return {
        "task": head.task,
        "input": "features" if "anonymizer" not in head.source["encoder"] else "anonymized features",
        "parameters": parameters(head),
        "figures": "; ".join(figures),
    }


def anonymizer_of(wanted: str) -> str | None:
    """The name of the anonymizer with that content hash, where it comes with the package."""
    return next((name for name in names() if facts(name)["content_hash"] == wanted), None)
