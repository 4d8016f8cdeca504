"""From what was typed to datasets, feature stores and anonymizers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from videoveil.commands.terminal import options
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.anonymizers.pixel import PixelAnonymizer
    from videoveil.tasks.base import Source


def task_source(
    task: str,
    reads: str,
    clips: str,
    features: Path | None,
    data: str | None,
    dataset: str | None,
    split: str,
    option: list[str] | None,
) -> Source:
    """The data a task was pointed at; pointed at the wrong kind, the message says what to do."""
    from videoveil.data.registry import open_source
    from videoveil.features.store import FeatureStore
    from videoveil.tasks.base import Clips, Features

    if (features is None) == (data is None):
        raise UsageError("give either --features STORE or --data DATASET:ROOT")
    if reads == "features":
        if features is None:
            raise UsageError(
                f"{task} learns from features: `veil extract {data} STORE --clips {clips}`, then --features STORE"
            )
        return Features(FeatureStore.open(features), dataset, split)
    if data is None:
        raise UsageError(f"{task} looks at the videos themselves: give --data DATASET:ROOT")
    return Clips(open_source(data, options(option)), split)


def pixel_anonymizer(source: str | None, key: Path | None = None) -> PixelAnonymizer | None:
    """The pixel anonymizer of that name, in eval mode."""
    if source is None:
        return None
    from videoveil.anonymizers import NoiseKey
    from videoveil.anonymizers.pixel import PixelAnonymizer

    return PixelAnonymizer.from_pretrained(source, key=None if key is None else NoiseKey.load(key))


def veiled(source: Source, anonymizer: str | None, eight_bit: bool) -> Source:
    """The data as an anonymizer leaves it."""
    if anonymizer is None and not eight_bit:
        return source
    from videoveil.tasks.base import Features

    if isinstance(source, Features):
        raise UsageError(
            "--anonymizer and --eight-bit are for pictures; features get them from `veil extract`"
        )
    return source.with_anonymizer(pixel_anonymizer(anonymizer), eight_bit)
