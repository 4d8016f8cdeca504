"""Who is measured: raw pictures, a baseline, or the anonymizer of a run; one subject is one row of a table.

--run RUN             the row is that of the recipe: spact → SPAct, penalty with bound .3 → Penalty B=.3
--run "T+LC=RUN"      the row as a table names it
--run "family@x=RUN"  one point of a curve
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videoveil import files
from videoveil.data.twins.plan import MARKER
from videoveil.errors import StoreError, UsageError
from videoveil.protocols.base import RAW

if TYPE_CHECKING:
    from videoveil.anonymizers import LatentAnonymizer, NoiseKey
    from videoveil.anonymizers.obfuscate import Detector
    from videoveil.anonymizers.obfuscate.base import Classical
    from videoveil.features.pixels import FrameAnonymizer
    from videoveil.training.clip_batches import FramePainter

ROWS = {
    "spact": "SPAct",
    "spact-released": "SPAct",
    "ted-spad": "TeD-SPAD",
    "vita": "VITA",
    "splavu": "SPLAVU",
    "splavu-actions": "SPLAVU",
    "splavu-hmdb51": "SPLAVU",
}  # recipe → row; ablations have names of their own and are no whole method's row
FACTORS = {"Down-2x": 2.0, "Down-4x": 4.0}
COVERED = {"Blackening": "blacken", "StrongBlur": "strong-blur", "WeakBlur": "weak-blur"}
UTILITY = "utility.safetensors"  # the network that was trained with a pixel anonymizer


@dataclass(frozen=True)
class Subject:
    """One row: nothing (raw), an anonymizer of pictures, or one of features."""

    row: str
    pixels: FrameAnonymizer | None = None
    paint: FramePainter | None = (
        None  # in whole frames, where pictures are looked at; in the place of `pixels`
    )
    latent: LatentAnonymizer | None = None
    identity: str = "raw"  # changes with everything that changes what comes out
    folder: Path | None = None  # of its run
    encoder: Path | None = None  # weights of the network that was trained with it
    recipe: str = ""
    learnt_from: tuple[str, ...] = ()  # datasets, as its run names them
    twin: bool = False  # it learnt from a twin
    note: str = ""
    features_note: str = ""  # in its place, of features

    def about(self, expected: Sequence[str] = (), *, on_features: bool = False) -> str:
        """What a reader must know of how it was made."""
        note = (on_features and self.features_note) or self.note
        notes = [note] if note else []
        if self.twin:
            notes.append(f"anonymizer made from a twin ({', '.join(self.learnt_from)})")
        elif self.learnt_from and expected and not set(self.learnt_from) & set(expected):
            notes.append(f"made from {', '.join(self.learnt_from)}, published with {' or '.join(expected)}")
        return "; ".join(notes)

    def to_json(self) -> dict[str, Any]:
        return {
            "row": self.row,
            "identity": self.identity,
            "recipe": self.recipe,
            "learnt_from": list(self.learnt_from),
            "from_a_twin": self.twin,
        }


def raw() -> Subject:
    return Subject(RAW)


def baseline(row: str, detector: Detector | None = None, boxes: Path | None = None) -> Subject:
    """A row that needs no run; where people are covered, a detector has to find them, and `boxes` keeps where."""
    if row == RAW:
        return raw()
    from videoveil.anonymizers.obfuscate import Downsampler, Obfuscator

    made: Classical
    if row in FACTORS:
        made = Downsampler(FACTORS[row])
        return Subject(row, pixels=made, identity=made.content_hash())
    if row not in COVERED:
        raise UsageError(f"no baseline {row!r}; there are {', '.join((RAW, *FACTORS, *COVERED))}")
    if detector is None:
        raise UsageError(f"{row}: somebody has to find the people; give a detector")
    from videoveil.protocols.covering import PHOTOGRAPH, PeoplePainter

    made, painter = Obfuscator(COVERED[row], detector), PeoplePainter(COVERED[row], detector, boxes)
    return Subject(
        row,
        pixels=made,
        paint=painter,
        identity=files.value_hash([made.content_hash(), painter.content_hash()]),
        note=(
            f"people found by {detector.name} and covered in whole frames, in photographs with a short side of "
            f"{PHOTOGRAPH}"
        ),
        features_note=(
            f"people found by {detector.name} and covered in pictures as the network sees them, not in whole frames: "
            "they are smaller there, and a kernel of so many pixels is larger against the picture"
        ),
    )


def from_run(word: str, key: NoiseKey | None = None) -> Subject:
    """`[ROW=]RUN`: the anonymizer of a run folder, and its row."""
    from videoveil.anonymizers import LatentAnonymizer, publish

    named, folder = split_row(word)
    if not (folder / publish.CONFIG).is_file():
        raise UsageError(
            f"--run {word}: {folder} holds no anonymizer (no {publish.CONFIG}); `veil train RECIPE --out {folder}` "
            "makes one"
        )
    facts = _facts(folder)
    made: Any = publish.load(folder, key=key)
    if made.wants_noise and key is None:
        raise UsageError(f"--run {word}: it adds keyed noise; give its key with --key FILE")
    latent = isinstance(made, LatentAnonymizer)
    encoder = folder / UTILITY if not latent and (folder / UTILITY).is_file() else None
    return Subject(
        named or row_of(facts.get("recipe", {}), folder),
        pixels=None if latent else made,
        latent=made if latent else None,
        identity=_identity(made.content_hash(), key if made.wants_noise else None, encoder),
        folder=folder,
        encoder=encoder,
        recipe=str(facts.get("recipe", {}).get("name", "")),
        learnt_from=_learnt_from(facts),
        twin=any(_twin_root(one) for one in _sources(facts)),
        note="; ".join(facts.get("notes", ())),
    )


def split_row(word: str) -> tuple[str, Path]:
    """Row and folder. A row may have a sign of equality in its name (`w_LC=10`): the folder is behind the last one."""
    if Path(word).is_dir():
        return "", Path(word)
    row, equals, folder = word.rpartition("=")
    return (row, Path(folder)) if equals else ("", Path(word))


def row_of(recipe: dict[str, Any], folder: Path) -> str:
    """The row of a recipe in the papers' tables, else its own name, else that of the folder."""
    name = str(recipe.get("name", ""))
    if name == "penalty" or name.startswith("penalty/B="):
        bound = (recipe.get("settings", {}).get("penalty") or {}).get("bound")
        if bound is not None:
            return f"Penalty B={f'{bound:g}'.removeprefix('0')}"
    return ROWS.get(name, name or folder.name)


def _identity(hash_: str, key: NoiseKey | None, encoder: Path | None) -> str:
    parts = [hash_]
    if key is not None:
        parts.append(key.fingerprint())
    if encoder is not None:
        parts.append(files.file_hash(encoder))
    return parts[0] if len(parts) == 1 else files.value_hash(parts)


def _facts(folder: Path) -> dict[str, Any]:
    """What `veil train` wrote about a run; an anonymizer from elsewhere has none."""
    path = folder / "run.json"
    if not path.is_file():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: damaged ({error})") from error
    return found


def _sources(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in facts.get("sources", {}).values() if isinstance(one, dict)]


def _learnt_from(facts: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted({str(one["dataset"]) for one in _sources(facts) if "dataset" in one}))


def _twin_root(source: dict[str, Any]) -> bool:
    """Whether this source of a run is a twin; a store of features knows where its videos were."""
    if "root" in source:
        return (Path(source["root"]) / MARKER).is_file()
    if "store" not in source:
        return False
    from videoveil.features.store import FeatureStore

    try:
        return (FeatureStore.open(source["store"]).dataset(source.get("dataset")).root / MARKER).is_file()
    except (StoreError, UsageError):  # the store is gone: nothing is known of where its videos were
        return False
