"""One step of the minimax: who is in which mode, what goes through whom, which loss moves whose weights.

    step 1  θ_A ← Adam on w_T·L_T − w_B·L_B + λ·penalty     f_A train;  f_T, f_B eval, frozen, gradient through them
    step 2  θ_T ← Adam on L_T,  θ_B ← Adam on L_B           f_T, f_B train;  f_A eval, without gradient

(SPAct §3; TeD-SPAD Alg. 1; penalty paper Eq. for L_A. The other turns are those of VITA and Noisy-Features.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from videoveil.objectives import (
    PixelWeights,
    anonymizer_total,
    feature_penalty,
    noisy_features,
    quarter_labels,
    rms,
    rms_penalty,
    strongest,
)
from videoveil.training.minimax_data import MinimaxBatch
from videoveil.training.minimax_nets import BudgetNet, Gather, UtilityNet, alone
from videoveil.training.minimax_settings import MinimaxSettings, Turn

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Terms = dict[str, Tensor]  # name → scalar, without gradient


@dataclass
class Players:
    """The three (or more) networks and their optimisers, bare and as Fabric wrapped them.

    A wrapped network synchronises its gradients with other processes and therefore must be used exactly when its
    weights are to move; a network that is only looked through is used bare.
    """

    anonymizer: Any  # with .transform
    utility: UtilityNet
    budgets: nn.ModuleList
    settings: MinimaxSettings
    optimizers: dict[str, torch.optim.Optimizer]
    wrapped: dict[str, Any] = field(default_factory=dict)

    def networks(self) -> dict[str, nn.Module]:
        return {"anonymizer": self.anonymizer, "utility": self.utility, "budget": self.budgets}

    def weights(self, name: str) -> list[Tensor]:
        """What the player's optimiser moves; weights that were frozen from the start are not among them."""
        groups = self.optimizers[name].param_groups if name in self.optimizers else []
        return [weight for group in groups for weight in group["params"]]

    def members(self) -> list[BudgetNet]:
        return [one for one in self.budgets if isinstance(one, BudgetNet)]


@contextlib.contextmanager
def moving(players: Players, *names: str) -> Iterator[None]:
    """The named players train and have gradients; the others are in eval mode and are only looked through."""
    for name, network in players.networks().items():
        network.train(name in names)
        for weight in players.weights(name):
            weight.requires_grad_(name in names)
    for optimizer in players.optimizers.values():
        optimizer.zero_grad(set_to_none=True)
    try:
        yield
    finally:
        for name in players.optimizers:
            for weight in players.weights(name):
                weight.requires_grad_(True)


class Step:
    """Carries out turns on batches."""

    def __init__(self, players: Players, fabric: Fabric, gather: Gather = alone):
        self.players, self.fabric, self.gather = players, fabric, gather
        self.settings = players.settings
        own = self.settings
        self.weights = PixelWeights(utility=own.w_utility, budget=own.w_budget, penalty=own.w_penalty)

    def take(self, turn: Turn, batch: MinimaxBatch) -> Terms:
        """One turn on one batch; the losses it saw."""
        terms: Terms = getattr(self, f"_{turn}")(batch)
        return {name: value.detach() for name, value in terms.items()}

    # --- turns ----------------------------------------------------------------------------------------------

    def _anonymizer(self, batch: MinimaxBatch) -> Terms:
        """Step 1."""
        with moving(self.players, "anonymizer"):
            with self.fabric.autocast():
                clips, views = self._anonymized(batch, learning=True)
                out = self.players.utility(clips)
                guesses = [] if views is None else [member(views) for member in self.players.members()]
            loss = self.players.utility.loss(out, batch.targets, self.gather)
            wish, terms = self._wish(guesses, batch.labels)
            penalty = self._penalty(batch.clips, clips)
            # the published −L_B is the wish of "negative"; others wish an unsure f_B
            total = anonymizer_total(loss.total, -wish, penalty, self.weights).total
            self._move("anonymizer", total)
        with torch.no_grad():
            changed = rms(batch.clips.float(), clips.float().clamp(0, 1), self.gather)
        return {
            **terms,
            "anonymizer": total,
            "utility": loss.total,
            "action": loss.action,
            "temporal": loss.temporal,
            "penalty": penalty,
            "active": (penalty > 0).float(),
            "rms": changed,
        }

    def _auxiliary(self, batch: MinimaxBatch) -> Terms:
        """Step 2: both losses on what one pass through f_A gave, separate backward passes."""
        with moving(self.players, "utility", "budget"):
            clips, views = self._looked_through(batch)
            terms = self._learn_budget(views, batch.labels)
            return {**terms, **self._learn_utility(clips, batch.targets)}

    def _utility(self, batch: MinimaxBatch) -> Terms:
        with moving(self.players, "utility"):
            clips, _ = self._looked_through(batch, views=False)
            return self._learn_utility(clips, batch.targets)

    def _budget(self, batch: MinimaxBatch) -> Terms:
        with moving(self.players, "budget"):
            _, views = self._looked_through(batch, clips=False)
            return self._learn_budget(views, batch.labels)

    def _hide(self, batch: MinimaxBatch) -> Terms:
        """K-Beam's maximisation: f_A against the member whose loss is lowest."""
        with moving(self.players, "anonymizer"):
            with self.fabric.autocast():
                _, views = self._anonymized(batch, learning=True, clips=False)
                assert views is not None
                guesses = [member(views) for member in self.players.members()]
            wishes = self._wishes(guesses, batch.labels)
            lowest = torch.stack([wish.mean() for wish in wishes]).max()
            self._move("anonymizer", lowest)
        return {"hidden": -lowest, "budget": self._seen(guesses, batch.labels).min()}

    def _restore(self, batch: MinimaxBatch) -> Terms:
        """VITA: f_A and f_T together on L_T."""
        with moving(self.players, "anonymizer", "utility"):
            with self.fabric.autocast():
                clips, _ = self._anonymized(batch, learning=True, views=False)
                out = self._wrapped("utility")(clips)
            loss = self.players.utility.loss(out, batch.targets, self.gather)
            self._move_all(("anonymizer", "utility"), loss.total)
        return {"utility": loss.total, "right": loss.right}

    def _restyle(self, batch: MinimaxBatch) -> Terms:
        """Noisy-Features: the maps of the raw clip, in the style of noise."""
        with moving(self.players, "anonymizer"):
            raw = batch.clips[:, 0]
            noise = torch.rand_like(raw)
            with self.fabric.autocast():
                clips, _ = self._anonymized(batch, learning=True, views=False)
                with torch.no_grad():
                    content = self.players.utility.feature_maps(raw)
                    style = self.players.utility.feature_maps(noise)
                found = self.players.utility.feature_maps(clips[:, 0])
            ones = [1.0] * len(found)
            parts = noisy_features(found, content, style, ones, [self.settings.w_style] * len(found))
            self._move("anonymizer", parts.total)
        with torch.no_grad():
            changed = rms(raw.float(), clips[:, 0].float().clamp(0, 1))
        return {"anonymizer": parts.total, "content": parts.content, "style": parts.style, "rms": changed}

    # --- parts ----------------------------------------------------------------------------------------------

    def _anonymized(
        self, batch: MinimaxBatch, *, learning: bool, clips: bool = True, views: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """f_A on the clips and on what the budget nets see; together in one pass, or one pass for each view.

        Noise of one draw per video is told which frames are of one video, as in export: one pass for each of the two.
        """
        through = self._wrapped("anonymizer") if learning else self.players.anonymizer.transform
        by_video = getattr(self.players.anonymizer, "wants_content", False)
        parts: list[Tensor] = []
        if clips:
            parts += [batch.clips]
        if views and batch.views is not None:
            whole = by_video or self.settings.together
            parts += [batch.views] if whole else list(batch.views.split(1, dim=1))
        if by_video:
            done = [_apart(through(_together(part)), part) for part in parts]
        elif self.settings.together and len(parts) > 1:
            done = _unfold(through(_fold(parts)), parts)
        else:
            done = [_unfold(through(_fold([part])), [part])[0] for part in parts]
        shown = done[0] if clips else batch.clips[:0]
        rest = done[1:] if clips else done
        return shown, torch.cat(rest, dim=1) if rest else None

    def _looked_through(
        self, batch: MinimaxBatch, *, clips: bool = True, views: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        with torch.no_grad(), self.fabric.autocast():
            return self._anonymized(batch, learning=False, clips=clips, views=views)

    def _learn_utility(self, clips: Tensor, targets: Tensor) -> Terms:
        with self.fabric.autocast():
            out = self._wrapped("utility")(clips)
        loss = self.players.utility.loss(out, targets, self.gather)
        self._move("utility", loss.total)
        return {"utility_learning": loss.total, "right": loss.right}

    def _learn_budget(self, views: Tensor | None, labels: Tensor | None) -> Terms:
        members = self.players.members()
        if views is None or not members:
            return {}
        with self.fabric.autocast():
            guesses = self._wrapped("budget")(views)
        losses = [member.losses(guess, labels, self.gather).mean() for member, guess in zip(members, guesses)]
        self._move("budget", torch.stack(losses).sum())  # members share nothing: each gets its own gradient
        return {"budget_learning": torch.stack(losses).mean(), "sure": sureness(members, guesses, labels)}

    def _wishes(self, guesses: Sequence[Tensor], labels: Tensor | None) -> list[Tensor]:
        pairs = zip(self.players.members(), guesses)
        return [member.wishes(guess, labels, self.gather) for member, guess in pairs]

    def _wish(self, guesses: Sequence[Tensor], labels: Tensor | None) -> tuple[Tensor, Terms]:
        """What f_A minimises of the budget, over members; L_B itself beside it, for the record."""
        if not guesses:
            zero = torch.zeros((), device=self.fabric.device)
            return zero, {}
        each = torch.stack(self._wishes(guesses, labels))  # (M, N) or (M, 1)
        budget = self.settings.budget
        assert budget is not None
        # a member that knows most has the lowest loss and so the highest wish
        wish = each.mean() if budget.combine == "mean" else strongest(each)
        return wish, {"budget": self._seen(guesses, labels).mean()}

    @torch.no_grad()
    def _seen(self, guesses: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """(M,) L_B of every member, for the record."""
        pairs = zip(self.players.members(), guesses)
        return torch.stack([member.losses(guess, labels, self.gather).mean() for member, guess in pairs])

    def _penalty(self, raw: Tensor, anonymized: Tensor) -> Tensor:
        """On what will be shown: with `out="none"` f_A leaves [0, 1] in training, and export clamps that.

        One distance of the whole batch, whatever number of processes share it.
        """
        anonymized = anonymized.clamp(0, 1)
        asked = self.settings.penalty
        if asked is None:
            return torch.zeros((), device=raw.device)
        if asked.of == "pixels":
            return rms_penalty(
                raw, anonymized, asked.bound, differentiable=asked.differentiable, gather=self.gather
            )
        encoder = self.players.utility.encoder
        with self.fabric.autocast():
            with torch.no_grad():
                before = encoder(raw[:, 0])
            after = encoder(anonymized[:, 0])
        return feature_penalty(
            before, after, asked.bound, differentiable=asked.differentiable, gather=self.gather
        )

    def _wrapped(self, name: str) -> Any:
        return self.players.wrapped[name]

    def _move(self, name: str, loss: Tensor) -> None:
        self._move_all((name,), loss)

    def _move_all(self, names: Sequence[str], loss: Tensor) -> None:
        self.fabric.backward(loss)
        for name in names:
            self.players.optimizers[name].step()


class Transforming(nn.Module):
    """The anonymizer's training path as a module's forward, so that it can be wrapped and compiled."""

    def __init__(self, anonymizer: Any):
        super().__init__()
        self.anonymizer = anonymizer

    def forward(self, frames: Tensor) -> Tensor:
        shown: Tensor = self.anonymizer.transform(frames)
        return shown


class Members(nn.Module):
    """All budget nets at once, for the same reason."""

    def __init__(self, budgets: nn.ModuleList):
        super().__init__()
        self.budgets = budgets

    def forward(self, views: Tensor) -> list[Tensor]:
        return [member(views) for member in self.budgets]


def _fold(parts: Sequence[Tensor]) -> Tensor:
    """(N, V, 3, T, S, S) and (P, W, 3, S, S), … → frames (M, 3, S, S), each a true frame in RGB."""
    frames = torch.cat([_frames(part) for part in parts])
    return frames.contiguous(memory_format=torch.channels_last) if frames.is_cuda else frames


def _frames(part: Tensor) -> Tensor:
    """(…, 3, T, S, S) with six axes, (…, 3, S, S) with five → (M, 3, S, S)."""
    moved = part.movedim(3, 2) if part.dim() == 6 else part  # (N, V, T, 3, S, S)
    return moved.flatten(0, moved.dim() - 4)


def _unfold(frames: Tensor, parts: Sequence[Tensor]) -> list[Tensor]:
    """What `_fold` folded."""
    counts = [part.numel() // (part.shape[-1] * part.shape[-2] * 3) for part in parts]
    done = []
    for part, piece in zip(parts, frames.split(counts)):
        if part.dim() == 6:
            count, views, _, time = part.shape[:4]
            done.append(piece.unflatten(0, (count, views, time)).movedim(2, 3))
        else:
            done.append(piece.unflatten(0, tuple(part.shape[:2])))
    return done


def _together(part: Tensor) -> Tensor:
    """(N, V, 3, T, S, S) or (N, V, 3, S, S) → (N, 3, frames, S, S), all that a step sees of a video as one clip."""
    return part.movedim(2, 1).flatten(2, -3)


def _apart(clips: Tensor, part: Tensor) -> Tensor:
    """What `_together` made of `part`, in the shape of `part` again."""
    inner = (part.shape[1], *part.shape[3:-2])  # (V, T) or (V,)
    return clips.unflatten(2, inner).movedim(1, 2)


@torch.no_grad()
def sureness(members: Sequence[BudgetNet], guesses: Sequence[Tensor], labels: Tensor | None) -> Tensor:
    """The best member's share of right answers: partners found, rotations told, labels told."""
    found = []
    for member, guess in zip(members, guesses):
        kind = member.settings.kind
        if kind in ("pairs", "clips"):
            first, second = nn.functional.normalize(guess.float(), dim=2).unbind(1)
            here = torch.arange(len(first), device=guess.device)
            found.append(((first @ second.T).argmax(1) == here).float().mean())
        elif kind == "rotation":
            turns = quarter_labels(len(guess) // 4, guess.device)
            found.append((guess.argmax(1) == turns).float().mean())
        else:
            assert labels is not None
            known = ~labels.isnan()
            found.append(((guess > 0).float() == labels)[known].float().mean())
    return torch.stack(found).max()
