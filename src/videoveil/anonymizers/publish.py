"""An anonymizer on disk and on the hub: model.safetensors, README.md and, last, config.json."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from videoveil import files
from videoveil.anonymizers import card
from videoveil.anonymizers.config import LatentConfig
from videoveil.anonymizers.errors import NotExportable
from videoveil.anonymizers.keys import NoiseKey
from videoveil.anonymizers.latent import LatentAnonymizer
from videoveil.encoders.checkpoints import differences
from videoveil.encoders.hub import read_folder, read_hub
from videoveil.errors import CheckpointError, UsageError

FORMAT = "videoveil-latent-anonymizer-1"
WEIGHTS, CARD, CONFIG = "model.safetensors", "README.md", "config.json"


def save(anonymizer: LatentAnonymizer, folder: str | Path) -> Path:
    """Write the three files. The configuration carries the hash of the rest and is written last."""
    folder = Path(folder)
    state = anonymizer.state_dict()
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
    with files.atomic_path(folder / WEIGHTS) as temporary:
        save_file(plain, temporary, metadata={"format": FORMAT})
    files.write_text(folder / CARD, card.render(anonymizer))
    facts = {
        "format": FORMAT,
        "content_hash": anonymizer.content_hash(),
        "config": anonymizer.config.to_json(),
        "card": anonymizer.card.to_json(),
    }
    files.write_json(folder / CONFIG, facts)
    return folder


def load(source: str | Path, *, key: NoiseKey | None = None) -> LatentAnonymizer:
    """From a folder, or "ORG/NAME" (or "hub:ORG/NAME") on the hub; weights that do not fit their hash are refused."""
    text, path = str(source), Path(source)
    if path.is_dir():
        tensors, facts = read_folder(path)
    elif re.fullmatch(r"(hub:)?[\w.-]+/[\w.-]+", text):
        tensors, facts = read_hub(text.removeprefix("hub:"))
    else:
        raise CheckpointError(f"{source}: no such folder, nor a name on the hub (ORG/NAME)")
    return _assembled(text, tensors, facts, key)


def _assembled(
    source: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], key: NoiseKey | None
) -> LatentAnonymizer:
    if facts.get("format") != FORMAT:
        raise CheckpointError(f"{source}: format {facts.get('format')!r}, expected {FORMAT!r}")
    try:
        config = LatentConfig.from_json(facts["config"])
        about = card.ModelCard.from_json(facts["card"])
        wanted = facts["content_hash"]
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        raise CheckpointError(f"{source}: its {CONFIG} is damaged ({error}); fetch it again") from error
    anonymizer = LatentAnonymizer(config, key=key, card=about)
    if problems := differences(anonymizer, tensors):
        raise CheckpointError("\n".join([f"{source}: not the weights of its {CONFIG}", *problems]))
    anonymizer.load_state_dict(dict(tensors), strict=False)
    if anonymizer.content_hash() != wanted:
        raise CheckpointError(
            f"{source}: weights and {CONFIG} do not belong together (another content hash); fetch it again"
        )
    return anonymizer.eval()


def push(
    anonymizer: LatentAnonymizer,
    repository: str,
    *,
    private: bool = True,
    token: str | None = None,
    message: str | None = None,
) -> str:
    """Save into a temporary folder and upload it in one commit; what cannot export is not published."""
    problems = anonymizer.export_problems(need_key=False)
    if problems:
        raise NotExportable(f"{repository}: cannot be published: " + "; ".join(problems))
    from huggingface_hub import CommitOperationAdd, HfApi

    with tempfile.TemporaryDirectory() as temporary:
        folder = save(anonymizer, temporary)
        api = HfApi(token=token)
        try:
            api.create_repo(repository, private=private, exist_ok=True)
            commit = api.create_commit(
                repository,
                [CommitOperationAdd(name, folder / name) for name in (WEIGHTS, CARD, CONFIG)],
                commit_message=message or f"Latent anonymizer {anonymizer.content_hash()[:12]}",
            )
        except Exception as error:  # the client raises its own errors, its transport's and the system's
            raise CheckpointError(
                f"hub:{repository}: could not be published ({type(error).__name__}: {error})\n"
                "check the name, the token and the network, or upload what save_pretrained(FOLDER) writes"
            ) from error
    return str(commit.commit_url)
