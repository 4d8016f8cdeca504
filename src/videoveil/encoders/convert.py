"""`veil convert FILE --to ENCODER`: bring a foreign checkpoint in, safely, and say what was done to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.encoders import checkpoints
from videoveil.encoders.base import tensors_hash
from videoveil.encoders.fitting import fit
from videoveil.encoders.foreign import read_foreign
from videoveil.encoders.registry import MODELS, resolve


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """What came in, what became of it and what the result is."""

    encoder: str
    options: dict[str, Any]
    source: str  # file name only: a path says where somebody keeps things
    source_hash: str
    destination: Path
    content_hash: str
    parameters: int
    wrapper: str  # key of the file under which the weights were, "" for none
    prefix: str  # taken off every name
    renamed: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    cast: tuple[str, ...]  # tensors that were not in single precision

    def lines(self) -> list[str]:
        """For the terminal."""
        text = [
            f"{self.source} → {self.destination}",
            f"encoder {self.encoder}, {self.parameters:,} parameters, {self.options['classes']} classes",
            f"content {self.content_hash}",
        ]
        if self.wrapper:
            text.append(f"found under {self.wrapper!r}")
        if self.prefix:
            text.append(f"took {self.prefix!r} off the names")
        groups = {
            "renamed": [f"{old} → {new}" for old, new in self.renamed],
            "dropped": list(self.dropped),
            "cast to single precision": list(self.cast),
        }
        text += [listed for title, items in groups.items() if (listed := checkpoints.listing(title, items))]
        return text


def convert(
    source: str | Path,
    encoder_name: str,
    destination: str | Path,
    *,
    drop: Sequence[str] = (),
    keep_head: bool = True,
    **options: Any,
) -> ConversionReport:
    """Read `source`, check it against the encoder name by name and write `destination` (safetensors).

    `drop`: prefixes of names to leave out. `keep_head=False` leaves the classification layer out. `options` go to the
    encoder (norm, pool, frames, …) and are stored with the weights.
    """
    source, destination = Path(source), Path(destination)
    name = resolve(encoder_name)
    state, wrapper = read_foreign(source)
    fitted = fit(name, MODELS[name], state, options, source=str(source), drop=drop, keep_head=keep_head)
    encoder = fitted.encoder
    source_hash = files.file_hash(source)
    provenance = {"source": source.name, "source_sha256": source_hash, "dropped": list(fitted.dropped)}
    checkpoints.write(encoder, fitted.tensors, destination, provenance)
    hashed = {key: value for key, value in fitted.tensors.items() if encoder.counts(key)}
    return ConversionReport(
        encoder=name,
        options=dict(encoder.options),
        source=source.name,
        source_hash=source_hash,
        destination=destination,
        content_hash=tensors_hash(encoder.identity(), hashed),
        parameters=sum(parameter.numel() for parameter in encoder.network.parameters()),
        wrapper=wrapper,
        prefix=fitted.prefix,
        renamed=fitted.renamed,
        dropped=fitted.dropped,
        cast=fitted.cast,
    )
