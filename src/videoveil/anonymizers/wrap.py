"""An anonymizer behind an encoder of one's own: clips in, anonymized features out, nothing raw in between.

veiled = wrap(encoder, LatentAnonymizer.from_pretrained("FOLDER"))
features = veiled(clips)                                               # (N, 3, T, H, W) → (N, d)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from videoveil.anonymizers.errors import EncoderMismatch, ShapeMismatch
from videoveil.anonymizers.keys import clip_contents
from videoveil.anonymizers.latent import LatentAnonymizer, require_exportable
from videoveil.errors import UsageError
from videoveil.features.tokens import require_mean_pooled


class Veiled(nn.Module):
    """Encoder and anonymizer as one frozen module: always in eval mode, never with gradient.

    Keyed noise is named by the pixels of a clip, to 8 bit where they are in [0, 1], or by the `content` that the caller
    gives; batch size, order and other clips have no part in it. What else a batch changes are the encoder's roundings.
    """

    def __init__(self, encoder: nn.Module, anonymizer: LatentAnonymizer, static_frames: int, time: int):
        super().__init__()
        self.encoder, self.anonymizer = encoder, anonymizer
        self.static_frames, self.time = static_frames, time
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Veiled:
        """Stays in eval mode when a model around it is trained: dropout and fresh noise are not for export."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, clips: Tensor, content: Sequence[str | bytes] | None = None) -> Tensor:
        """Clips → anonymized clip vectors (N, d); of temporal tokens, their mean. `content`: see the anonymizer."""
        if self.anonymizer.config.tokens == "temporal":
            return self.temporal_tokens(clips, content).mean(1)
        return self._anonymized(self.encoder(clips), clips, content)

    @torch.no_grad()
    def temporal_tokens(self, clips: Tensor, content: Sequence[str | bytes] | None = None) -> Tensor:
        """Clips → anonymized temporal tokens (N, S, d), where the anonymizer was made for them."""
        if self.anonymizer.config.tokens != "temporal":
            raise UsageError("this anonymizer was made for clip vectors; train one with tokens='temporal'")
        tokens: Tensor = self.encoder.temporal_tokens(clips)  # type: ignore[operator]
        return self._anonymized(tokens, clips, content)

    def _anonymized(self, features: Tensor, clips: Tensor, content: Sequence[str | bytes] | None) -> Tensor:
        if content is None and self.anonymizer.wants_noise:
            content = clip_contents(clips)  # not the features, whose last bits depend on the batch
        anonymized: Tensor = self.anonymizer(features, static=self._static(clips), content=content)
        return anonymized

    def _static(self, clips: Tensor) -> Tensor | None:
        """Mean feature (N, d) of a few frames of each clip, each shown for the length of the clip."""
        if not self.anonymizer.wants_static:
            return None
        length = clips.shape[self.time]
        places = [(2 * i + 1) * length // (2 * self.static_frames) for i in range(self.static_frames)]
        still = [self.encoder(clips.narrow(self.time, p, 1).expand_as(clips)) for p in places]
        return torch.stack(still).mean(0)


def wrap(
    encoder: nn.Module,
    anonymizer: LatentAnonymizer,
    *,
    static_frames: int = 2,
    time: int = 2,
    other_encoder: bool = False,
) -> Veiled:
    """Put an anonymizer behind an encoder: any module that takes clips and gives (N, d). Both are frozen in place.

    A width that differs is refused, and so is an encoder with another content hash than the one that the anonymizer
    names (`config.encoder`), unless `other_encoder=True`, which warns; an encoder whose hash cannot be known warns too.
    An anonymizer that names none, as one from `latent(…)` without `encoder=`, goes behind any. One made for temporal
    tokens needs an encoder whose vector is their mean. Where the anonymizer needs static features they are made from
    `static_frames` frames of the clip; `time` is the axis of clips that counts frames.
    """
    require_exportable(anonymizer)
    width = getattr(encoder, "width", None)
    if width is not None and width != anonymizer.config.width:
        raise ShapeMismatch(
            f"{_name(encoder)} gives features of width {width}, the anonymizer takes {anonymizer.config.width}"
        )
    if anonymizer.config.tokens == "temporal":
        if not hasattr(encoder, "temporal_tokens"):
            raise UsageError(
                f"{_name(encoder)} has no temporal_tokens(clips), which this anonymizer was made for"
            )
        require_mean_pooled(encoder)
    if static_frames < 1:
        raise UsageError(f"static_frames={static_frames}: must be at least 1")
    _check_encoder(encoder, anonymizer, other_encoder)
    return Veiled(encoder, anonymizer, static_frames, time)


def _check_encoder(encoder: nn.Module, anonymizer: LatentAnonymizer, other_encoder: bool) -> None:
    wanted = anonymizer.config.encoder
    if wanted is None:
        return
    found = encoder.content_hash() if hasattr(encoder, "content_hash") else None  # type: ignore[operator]
    if found == wanted.hash:
        return
    made_for = f"this anonymizer was trained for {wanted.name} ({wanted.hash[:12]})"
    if found is None:
        text = f"{_name(encoder)} has no content_hash(); {made_for}, and whether this is it cannot be known"
    else:
        text = f"{made_for}, not for {_name(encoder)} ({found[:12]}): what was measured does not hold for it"
        if not other_encoder:
            raise EncoderMismatch(f"{text}; pass other_encoder=True to use it all the same")
    warnings.warn(text, stacklevel=3)


def _name(encoder: nn.Module) -> str:
    return str(getattr(encoder, "name", type(encoder).__name__))
