"""The adversaries of a latent run: they learn on anonymized pairs, in alternation with the anonymizer's steps."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from videoveil.objectives.adversaries import Adversaries, Adversary, adversary_loss
from videoveil.training import checkpoints, seeds

NETWORK, STATE = "adversary", "adversary_state"  # their parts of a checkpoint


class Ensemble:
    """M adversaries and their optimiser."""

    def __init__(
        self, settings: Adversaries, width: int, temperature: float, seed: int, device: torch.device
    ):
        self.settings, self.temperature, self.seed = settings, temperature, seed
        self.heads = nn.ModuleList(Adversary(width, settings.outputs) for _ in range(settings.heads))
        for place in range(settings.heads):
            self._begin(place, 0)
        self.heads.to(device)
        self.optimizer = torch.optim.AdamW(
            self.heads.parameters(), lr=settings.learning_rate, weight_decay=0.0
        )

    def start_epoch(self, epoch: int) -> None:
        """Every few epochs one of them, in turn, forgets everything; it depends on seed and epoch alone."""
        every = self.settings.restart
        if not every or not epoch or epoch % every:
            return
        place = (epoch // every - 1) % self.settings.heads
        self._begin(place, epoch)
        for parameter in self.heads[place].parameters():
            self.optimizer.state.pop(parameter, None)

    def learn(self, a: Tensor, b: Tensor, groups: Tensor | None = None) -> Tensor:
        """Some steps of all adversaries on one set of pairs (N, d); their losses (M,) before the last one."""
        losses = torch.zeros(())
        with torch.enable_grad():
            for _ in range(self.settings.steps):
                self.optimizer.zero_grad()
                losses = torch.stack(
                    [adversary_loss(h, a, b, self.temperature, groups=groups) for h in self._each()]
                )
                losses.sum().backward()  # each has its own weights: the sum trains them all, each for itself
                self.optimizer.step()
        self.optimizer.zero_grad()
        return losses.detach()

    def tensors(self) -> dict[str, Tensor]:
        """Weights and optimiser, for a checkpoint."""
        found = {f"{NETWORK}.{name}": t for name, t in self.heads.state_dict().items()}
        return found | {
            f"{STATE}.{name}": t for name, t in checkpoints.optimizer_tensors(self.optimizer).items()
        }

    def restore(self, tensors: Mapping[str, Tensor], source: str) -> None:
        """What `tensors` gave."""
        checkpoints.fill(self.heads, checkpoints.part(tensors, NETWORK), source)
        checkpoints.fill_optimizer(self.optimizer, checkpoints.part(tensors, STATE))

    def _begin(self, place: int, epoch: int) -> None:
        self._each()[place].begin(seeds.generator(self.seed, "adversary", place, epoch))

    def _each(self) -> list[Adversary]:
        return [head for head in self.heads if isinstance(head, Adversary)]
