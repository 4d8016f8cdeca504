"""An anonymizer on disk and on the hub: model.safetensors, README.md and, last, config.json."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from safetensors.torch import save_file
from torch import Tensor, nn

from videoveil import files, shipped
from videoveil.anonymizers.card import Account, ModelCard, render
from videoveil.anonymizers.errors import NotExportable
from videoveil.anonymizers.keys import NoiseKey
from videoveil.encoders.checkpoints import differences
from videoveil.encoders.hub import read_folder
from videoveil.errors import CheckpointError, UsageError

WEIGHTS, CARD, CONFIG = "model.safetensors", "README.md", "config.json"


class Published(nn.Module):
    """What every anonymizer that has weights has in common: it can be saved, fetched and published.

    A subclass names its file format, itself and its configuration, and is built as `cls(config, key=…, card=…)`.
    """

    format: ClassVar[str]
    title: ClassVar[str]
    config_type: ClassVar[type[Any]]
    config: Any
    card: ModelCard
    key: NoiseKey | None

    def content_hash(self) -> str:
        """SHA-256 of all that the output depends on, beside the key."""
        raise NotImplementedError

    def export_problems(self, *, need_key: bool = True) -> list[str]:
        """What keeps its output from being exported now; `need_key=False`: what keeps itself from being published."""
        raise NotImplementedError

    def account(self) -> Account:
        """What its model card says of this kind of anonymizer."""
        raise NotImplementedError

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write model.safetensors, README.md and config.json into `folder`; the key is in none of them."""
        return save(self, folder)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        key: NoiseKey | None = None,
        token: str | None = None,
        revision: str | None = None,
    ) -> Self:
        """By the name of one that comes with the package, from a folder that `save_pretrained` wrote, or from the hub
        ("ORG/NAME"), in eval mode.

        A folder that is called as one of the package's is meant by "./NAME" or as a `Path`.
        Of the hub: `token` opens what is private, `revision` is the branch, tag or commit that is meant.
        """
        tensors, facts = read(source, token=token, revision=revision)
        return _assembled(cls, str(source), tensors, facts, key)

    def push_to_hub(
        self, repository: str, *, private: bool = True, token: str | None = None, message: str | None = None
    ) -> str:
        """Publish what `save_pretrained` writes as "ORG/NAME" on the hub; the address of the commit."""
        return push(self, repository, private=private, token=token, message=message)


Kind = TypeVar("Kind", bound=Published)


def save(anonymizer: Published, folder: str | Path) -> Path:
    """Write the three files. The configuration carries the hash of the rest and is written last."""
    folder = Path(folder)
    state = anonymizer.state_dict()
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
    with files.atomic_path(folder / WEIGHTS) as temporary:
        save_file(plain, temporary, metadata={"format": anonymizer.format})
    files.write_text(folder / CARD, render(anonymizer))
    facts = {
        "format": anonymizer.format,
        "content_hash": anonymizer.content_hash(),
        "config": anonymizer.config.to_json(),
        "card": anonymizer.card.to_json(),
    }
    files.write_json(folder / CONFIG, facts)
    return folder


def read(
    source: str | Path, *, token: str | None = None, revision: str | None = None
) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
    """Weights and config.json of one of the package's, a folder, or "ORG/NAME" (or "hub:ORG/NAME") on the hub."""
    text, path = str(source), Path(shipped.place(source) if isinstance(source, str) else source)
    if path.is_dir():
        if revision is not None:  # ignoring it would give out weights that somebody did not mean
            raise UsageError(f"{source}: is a folder, which has no revision={revision!r}; leave it out")
        return read_folder(path)
    if re.fullmatch(r"(hub:)?[\w.-]+/[\w.-]+", text):
        return read_folder(_fetched(text.removeprefix("hub:"), token, revision))
    raise CheckpointError(
        f"{source}: no such folder, nor a name on the hub (ORG/NAME), nor one of those that come with the package: "
        f"{', '.join(shipped.names())}"
    )


def _fetched(repository: str, token: str | None, revision: str | None) -> Path:
    """The folder of the hub's local cache with configuration and weights, both of one commit."""
    from huggingface_hub import hf_hub_download

    try:
        folder = Path(hf_hub_download(repository, CONFIG, revision=revision, token=token)).parent
        commit = folder.name  # so the weights are of the same one, whatever is pushed meanwhile
        hf_hub_download(repository, WEIGHTS, revision=commit, token=token)
    except Exception as error:  # the client raises its own errors, its transport's and the system's
        meant = f"hub:{repository}" + ("" if revision is None else f" at {revision}")
        raise CheckpointError(
            f"{meant}: could not be fetched ({type(error).__name__}: {error})\n"
            "check the name, the revision, the token (of what is private) and the network, or fetch it elsewhere with "
            f"`hf download {repository} --local-dir DIR` and give the folder"
        ) from error
    return folder


def load(source: str | Path, *, key: NoiseKey | None = None) -> Published:
    """Whatever anonymizer is there, latent or pixel; weights that do not fit their hash are refused."""
    from videoveil.anonymizers.latent import LatentAnonymizer
    from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer

    tensors, facts = read(source)
    kinds: tuple[type[Published], ...] = (LatentAnonymizer, PixelAnonymizer)
    for kind in kinds:
        if facts.get("format") == kind.format:
            return _assembled(kind, str(source), tensors, facts, key)
    expected = " or ".join(repr(kind.format) for kind in kinds)
    raise CheckpointError(f"{source}: format {facts.get('format')!r}, expected {expected}")


def _assembled(
    kind: type[Kind],
    source: str,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    key: NoiseKey | None,
) -> Kind:
    if facts.get("format") != kind.format:
        raise CheckpointError(f"{source}: format {facts.get('format')!r}, expected {kind.format!r}")
    try:
        config = kind.config_type.from_json(facts["config"])
        about = ModelCard.from_json(facts["card"])
        wanted = facts["content_hash"]
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        raise CheckpointError(f"{source}: its {CONFIG} is damaged ({error}); fetch it again") from error
    anonymizer = kind(config, key=key, card=about)
    if problems := differences(anonymizer, tensors):
        raise CheckpointError("\n".join([f"{source}: not the weights of its {CONFIG}", *problems]))
    anonymizer.load_state_dict(dict(tensors), strict=False)
    if anonymizer.content_hash() != wanted:
        raise CheckpointError(
            f"{source}: weights and {CONFIG} do not belong together (another content hash); fetch it again"
        )
    return anonymizer.eval()


def push(
    anonymizer: Published,
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
                commit_message=message or f"{anonymizer.title} {anonymizer.content_hash()[:12]}",
            )
        except Exception as error:  # the client raises its own errors, its transport's and the system's
            raise CheckpointError(
                f"hub:{repository}: could not be published ({type(error).__name__}: {error})\n"
                "check the name, the token and the network, or upload what save_pretrained(FOLDER) writes"
            ) from error
    return str(commit.commit_url)
