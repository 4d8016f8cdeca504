"""A trained task with a card: what a run folder holds for others, without its data and without the paths to them.

HEAD/model.safetensors   the weights
HEAD/README.md           the card: data, seeds, figures beside chance, known failures
HEAD/run.json            task, settings, seed, the kind of features it is for, the hash of the weights, and the card

`veil score` and `veil predict` take such a folder like any run.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from videoveil import files, shipped
from videoveil.anonymizers.card import Measurement, ModelCard
from videoveil.errors import CheckpointError, UsageError
from videoveil.tasks import registry
from videoveil.tasks.runs import MODEL, RUN, Run
from videoveil.tasks.suits import network

CARD = "README.md"
COUNTED = ("running_mean", "running_var", "num_batches_tracked")
FACTS = ("kind", "dataset", "split", "encoder", "recipe")  # of a source; where it was is nobody's business


def pack(run: Run, folder: str | Path, card: ModelCard) -> Path:
    """Write a finished run as a head; run.json names the hash of the weights and is written last."""
    folder = Path(folder)
    if run.source["kind"] != "features":
        raise UsageError(f"{run.folder}: trained on videos themselves; only heads on features are packed")
    run.fitted()  # finished, and of this version
    files.write_bytes(folder / MODEL, (run.folder / MODEL).read_bytes())
    source = {name: run.source[name] for name in FACTS}
    weights = files.file_hash(folder / MODEL)
    packed = Run(folder, run.task, run.settings, run.seed, source, weights)
    return describe(packed, card)


def describe(head: Run, card: ModelCard) -> Path:
    """Write the card of a head anew, and what else is beside its weights."""
    files.write_text(head.folder / CARD, render(head, card))
    files.write_json(head.folder / RUN, {**head.to_json(), "weights": head.weights, "card": card.to_json()})
    return head.folder


def card_of(folder: str | Path) -> ModelCard:
    path = Path(folder) / RUN
    try:
        return ModelCard.from_json(json.loads(path.read_text("utf-8"))["card"])
    except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
        raise CheckpointError(f"{path}: no head with a card ({error}); fetch it again") from error


def parameters(head: Run) -> int:
    """How many numbers were learnt; what a batch norm has counted is not."""
    from safetensors import safe_open

    with safe_open(head.folder / MODEL, "np") as weights:
        learnt = [name for name in weights.keys() if name.rpartition(".")[2] not in COUNTED]  # noqa: SIM118 (not a dict)
        return sum(math.prod(weights.get_slice(name).get_shape()) for name in learnt)


# --- the card -------------------------------------------------------------------------------------------------


def render(head: Run, card: ModelCard) -> str:
    """The card as the README.md of a head."""
    encoder = network(head.source["encoder"])
    facts = [
        f"- Task: {head.task}, {registry.kind(head.task).title}",
        f"- Features: of encoder `{encoder['name']}`, hash `{encoder['hash']}`, {_kind(head)}",
        f"- Clips: `{head.source['recipe']['clips']}` of {head.source['recipe']['frames']} frames",
        f"- Training data: {card.training_data}",
        f"- Settings: seed {head.seed}; all others in `{RUN}`",
        f"- Parameters: {parameters(head):,}",
        f"- SHA-256 of its weights: `{head.weights}`",
    ]
    front = [
        "---",
        "library_name: videoveil",
        "pipeline_tag: video-classification",
        f"license: {card.license}",
    ]
    sections = [
        "\n".join([*front, "tags:", "- videoveil", f"- {head.task}", "---"]),
        f"# {head.folder.name}",
        "It stands behind a frozen video encoder and says from clip features what happens in a video.",
        "\n".join(facts),
        f"## Use\n\n```bash\n{_use(head)}\n```",
        "## Measured\n\n" + _measured(card.measurements),
        "## Notes\n\n" + card.notes,
    ]
    return "\n\n".join(sections) + "\n"


def _kind(head: Run) -> str:
    hidden = head.source["encoder"].get("anonymizer")
    if not hidden:
        return "raw"
    name = shipped.anonymizer_of(hidden["hash"])
    return f"through anonymizer {f'`{name}`, ' if name else ''}hash `{hidden['hash']}`"


def _use(head: Run) -> str:
    name = head.folder.name
    return f"veil predict VIDEO-or-STORE --model {name}\nveil score {name} --features STORE"


def _measured(measurements: tuple[Measurement, ...]) -> str:
    rows = [f"| {m.name} | {m.metric} | {_with_interval(m)} | {_number(m.chance)} |" for m in measurements]
    return "\n".join(["| on | metric | score | chance |", "|---|---|---|---|", *rows])


def _with_interval(m: Measurement) -> str:
    return _number(m.value) if m.low is None else f"{_number(m.value)} [{_number(m.low)}, {_number(m.high)}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
