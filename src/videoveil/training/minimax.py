"""The minimax loop: auxiliaries learn through f_A, then all play in turns; resumable, watched, stopped with a reason.

FOLDER/identity.safetensors     f_A after its identity start
FOLDER/checkpoint.safetensors   all players and optimisers, and whose turn it is: what a killed run goes on from
FOLDER/history.jsonl            one record per epoch: act, losses, chance of L_B, seconds
FOLDER/epochs/NNN.safetensors   f_A along the way, for looking back
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from videoveil import devices, files
from videoveil.errors import CheckpointError, Diverged, NoHeadway
from videoveil.training import checkpoints, seeds
from videoveil.training.minimax_data import MinimaxBatch, MinimaxBatches
from videoveil.training.minimax_nets import BudgetNet, Gather, UtilityNet, alone
from videoveil.training.minimax_settings import FREE_TO_CHANGE, MinimaxSettings, Phase
from videoveil.training.minimax_step import Members, Players, Step, Terms, Transforming

if TYPE_CHECKING:
    from lightning.fabric import Fabric

FORMAT = "videoveil-minimax-1"
KEPT_FORMAT = "videoveil-minimax-anonymizer-1"
CHECKPOINT, HISTORY, EPOCHS = "checkpoint.safetensors", "history.jsonl", "epochs"
EXPLODED = 10.0  # an L_T that is this many times its first, and a guess's, has left the ground for good
STEPS_SMOOTHED = 4  # batches over which "until" is judged

ADVICE = (
    "Give the anonymizer more turns, a larger rate or w_budget, restart the budget nets, or take information away (a "
    "code of fewer pixels or levels)"
)
GO_ON = "settings.headway.epochs=0 goes on with this run"

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Act:
    """A stretch of epochs with the same turns."""

    name: str
    phases: tuple[Phase, ...]
    epochs: int


def acts(settings: MinimaxSettings) -> tuple[Act, ...]:
    """f_T learns, f_B learns, then they all play."""
    start = settings.start
    planned = [Act("utility start", (Phase("utility"),), start.utility_epochs)]
    if settings.budget is not None:
        planned.append(Act("budget start", (Phase("budget"),), start.budget_epochs))
    planned.append(Act("minimax", settings.phases, settings.epochs))
    return tuple(act for act in planned if act.epochs)


@dataclass
class MinimaxLoop:
    """One training run. `identity` is what must be the same for a run in `folder` to be continued."""

    anonymizer: Any  # an nn.Module with `transform`
    utility: UtilityNet
    budgets: list[BudgetNet]
    batches: MinimaxBatches
    settings: MinimaxSettings
    seed: int
    fabric: Fabric
    chance: float = math.nan  # L_B of a budget net that knows nothing
    folder: Path | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    fresh: Callable[[int, int], BudgetNet] | None = None  # (member, round) → a budget net that starts anew
    look: Callable[[int, Any], None] | None = None  # called after kept epochs with the anonymizer
    progress: Progress | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    turns: Turns | None = field(default=None, init=False)
    first: MinimaxBatches | None = field(default=None, init=False)  # of f_T's start, where it has its own

    def run(self) -> list[dict[str, Any]]:
        """Play to the last epoch; the players hold the result, the history one record per epoch."""
        self.set_up()
        plan = [act for act in acts(self.settings) for _ in range(act.epochs)]
        self._resume(plan)
        if stop := self._reason_to_stop():  # the same command does not finish what was stopped
            raise stop
        with devices.repeatable() if self.settings.repeatable else contextlib.nullcontext():
            for number in range(len(self.history), len(plan)):
                began = time.perf_counter()
                with self._own_randomness(number):
                    self._restart(plan, number)
                    self._begin(plan, number)
                    record = self._epoch(plan, number)
                self._share_statistics()
                record |= {"seconds": time.perf_counter() - began}
                self.history.append({"epoch": number, "act": plan[number].name, **record})
                stop = self._reason_to_stop()
                self._keep(plan, number, stopped=stop is not None)
                if stop:
                    raise stop
        for network in self.players.networks().values():
            network.eval()
        return self.history

    # --- an epoch -------------------------------------------------------------------------------------------

    def _epoch(self, plan: list[Act], number: int) -> dict[str, Any]:
        """One pass over the batches, turn after turn."""
        sums: dict[str, list[Tensor]] = defaultdict(list)
        act = plan[number]
        turns = self._turns_of(act)
        steps = [self._batches_of(one).steps for one in plan]
        before, total = sum(steps[:number]), sum(steps)
        device = self.fabric.device
        stream = self._batches_of(act).epoch(number, self.fabric.global_rank, self.fabric.world_size, device)
        for place, batch in enumerate(stream):
            phase = turns.current
            terms = self.step.take(phase.turn, batch)
            turns.took(self._agreed(terms) if phase.until else terms)
            for name, value in terms.items():
                sums[name].append(value)
            if self.progress is not None:
                self.progress(before + place + 1, total, float(next(iter(terms.values()))))
        found = {name: float(torch.stack(values).mean()) for name, values in sums.items()}
        self._require_finite(found, act, number, batch)
        if self.budgets:
            found["chance"] = self.chance
        return self._mean_of_all(found)

    def _batches_of(self, act: Act) -> MinimaxBatches:
        if act.name != "utility start" or not self.settings.starts_apart:
            return self.batches
        if self.first is None:
            self.first = self.batches.of_actions()
        return self.first

    def _turns_of(self, act: Act) -> Turns:
        if (
            self.turns is None
            or self.turns.phases != act.phases
            or begins_anew(act.phases, self.batches.steps)
        ):
            self.turns = Turns(act.phases)
        return self.turns

    def _require_finite(self, found: Mapping[str, float], act: Act, number: int, batch: MinimaxBatch) -> None:
        if wrong := [name for name, value in found.items() if not math.isfinite(value)]:
            raise Diverged(
                f"{act.name} diverged in epoch {number + 1}: {', '.join(wrong)} is not a number (its last batch began "
                f"with {', '.join(batch.ids[:4])}); lower the rates ({asdict(self.settings.rates)})"
            )

    def _reason_to_stop(self) -> Diverged | NoHeadway | None:
        """L_T has exploded, or the anonymizer makes no headway; told by the history alone."""
        played = [record for record in self.history if record["act"] == "minimax"]
        if not played:
            return None
        first = next((loss for loss in map(utility_of, played) if loss is not None), 0.0)
        last, guess = utility_of(played[-1]), self._guess()
        # an f_T that knew its clips by heart is meant to lose some of that: what counts is to be far worse than a guess
        if last is not None and last > EXPLODED * max(first, guess):
            return Diverged(
                f"the minimax diverged in epoch {len(played)}: L_T is {last:.4g}, it began with {first:.4g} and a "
                f"guess costs {guess:.4g}; lower rates.anonymizer or w_budget"
            )
        headway = self.settings.headway
        if headway.epochs and len(played) % headway.epochs == 0:
            share = near_chance(played)
            if share is not None and share < headway.share:
                return NoHeadway(
                    f"after {len(played)} epochs the budget nets still win: L_B is {share * self.chance:.3f}, "
                    f"{share:.0%} of its chance level {self.chance:.3f} ({headway.share:.0%} are asked for). {ADVICE}; "
                    f"{GO_ON}"
                )
        return None

    def _guess(self) -> float:
        """L_T of an f_T to which all classes, or of every tag yes and no, are equally likely."""
        tags = self.batches.videos.samples[0].value.dim() > 0
        return math.log(2 if tags else self.utility.classifier.classes)

    # --- players --------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Players to the device, with their optimisers; `step` can be taken afterwards."""
        rates, fabric = self.settings.rates, self.fabric
        budgets = nn.ModuleList(self.budgets)
        networks = {
            "anonymizer": Transforming(self.anonymizer),
            "utility": self.utility,
            "budget": Members(budgets),
        }
        if not self.budgets:
            del networks["budget"]
        if fabric.device.type == "cuda":
            for network in networks.values():
                devices.fast_layout(network)
        optimizers, wrapped = {}, {}
        for name, network in networks.items():
            devices.require_right_gradients(network, self.settings.precision, fabric.device)
            rate = getattr(rates, name)
            fused = fabric.device.type == "cuda"
            network.to(fabric.device)
            made = torch.optim.Adam(
                [p for p in network.parameters() if p.requires_grad], lr=rate, fused=fused
            )
            wrapped[name], optimizers[name] = fabric.setup(network, made)
            if self.settings.compile:
                wrapped[name] = torch.compile(wrapped[name], dynamic=False)
        bare = {name: getattr(one, "optimizer", one) for name, one in optimizers.items()}
        self.players = Players(self.anonymizer, self.utility, budgets, self.settings, bare, wrapped)
        self.step = Step(self.players, fabric, _gather(fabric))

    def _begin(self, plan: list[Act], number: int) -> None:
        """Rates of the auxiliaries, and whether f_T's batch norm moves, in this epoch of its act.

        They learn at other rates before they play. Where an act begins with another rate than the one before ended
        with, or f_T with another loss, their optimisers forget what that one taught them; a rate that moves within an
        act takes nothing away.
        """
        own, start, act = self.settings, self.settings.start, plan[number]
        epoch = number - plan.index(act)
        keeps = act.name == "utility start" and start.utility_freeze_norm and bool(own.utility.weights)
        self.utility.norm_frozen = own.utility.freeze_norm or keeps
        for name in ("utility", "budget"):
            if name in self.players.optimizers:
                value = getattr(own.rates, name) if act.name == "minimax" else start.rate
                if name == "utility" and act.name == "utility start":
                    value = start.rate_of_utility(epoch)
                optimizer = self.players.optimizers[name]
                other_loss = name == "utility" and act.name == "minimax" and own.utility.temporal != "none"
                for group in optimizer.param_groups:
                    if epoch == 0 and (group["lr"] != value or other_loss):
                        optimizer.state.clear()
                    group["lr"] = value

    def _restart(self, plan: list[Act], number: int) -> None:
        """Every so many epochs of the minimax the budget nets begin anew, and learn alone for a while (VITA)."""
        budget = self.settings.budget
        before = sum(act.name != "minimax" for act in plan[:number])
        played = number - before
        if budget is None or not budget.restart or plan[number].name != "minimax" or not played:
            return
        if played % budget.restart:
            return
        assert self.fresh is not None
        round_ = played // budget.restart
        for place, member in enumerate(self.players.members()):
            member.load_state_dict(self.fresh(place, round_).state_dict())
        self.players.optimizers["budget"].state.clear()
        device = self.fabric.device
        left = budget.restart_steps
        lap = 0
        while left > 0:
            again = seeds.number(self.seed, "restart", number, lap) % 2**31
            for batch in self.batches.epoch(again, self.fabric.global_rank, self.fabric.world_size, device):
                if left <= 0:
                    break
                self.step.take("budget", batch)
                left -= 1
            lap += 1

    # --- the same again -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _own_randomness(self, number: int) -> Iterator[None]:
        cuda = [self.fabric.device] if self.fabric.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(seeds.number(self.seed, "minimax", number, self.fabric.global_rank))
            yield

    def _agreed(self, terms: Terms) -> Terms:
        """What ends a phase, as the mean over processes: they must all end it at the same step."""
        if self.fabric.world_size == 1:
            return terms
        found = {name: terms[name].clone() for name in ("right", "sure") if name in terms}
        for value in found.values():
            torch.distributed.all_reduce(value)
        return {name: value / self.fabric.world_size for name, value in found.items()}

    def _mean_of_all(self, found: dict[str, float]) -> dict[str, Any]:
        if self.fabric.world_size == 1:
            return dict(found)
        names = sorted(found)
        shared = torch.tensor([found[name] for name in names], dtype=torch.float64, device=self.fabric.device)
        torch.distributed.all_reduce(shared)
        return dict(zip(names, (shared / self.fabric.world_size).tolist()))

    def _share_statistics(self) -> None:
        """Batch-norm statistics are counted by every process for itself; the first one's are everybody's."""
        if self.fabric.world_size > 1:
            for network in self.players.networks().values():
                for buffer in network.buffers():
                    torch.distributed.broadcast(buffer, 0)

    # --- files ----------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        own = self.settings
        return self._binding({**self.identity, **asdict(own), **own.form, "seed": self.seed})

    def _binding(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """As it is read again, complete, and without what does not change the result."""
        whole = checkpoints.completed(self.settings, json.loads(json.dumps(facts)))
        whole["one_pass"] = self.settings.passes(whole["one_pass"])
        return {key: value for key, value in whole.items() if key not in FREE_TO_CHANGE}

    def _keep(self, plan: list[Act], number: int, *, stopped: bool) -> None:
        """Checkpoint, history and the anonymizer along the way; acts and stopped runs end with a checkpoint."""
        own, last = self.settings, number + 1 == len(plan) or plan[number + 1].name != plan[number].name
        played = number + 1 - sum(act.name != "minimax" for act in plan[: number + 1])
        kept = plan[number].name == "minimax" and own.keep_every and (last or played % own.keep_every == 0)
        if self.folder is not None and self.fabric.is_global_zero:
            if last or stopped or (number + 1) % own.checkpoint_every == 0:
                self._save()
            if kept:
                state = self.anonymizer.state_dict()
                path = self.folder / EPOCHS / f"{played:04d}.safetensors"
                checkpoints.write(path, KEPT_FORMAT, state, {"epoch": played})
        if kept and self.look is not None and self.fabric.is_global_zero:
            self.look(played, self.anonymizer)
        self.fabric.barrier()

    def _save(self) -> None:
        assert self.folder is not None
        tensors = {
            f"{part}.{name}": tensor
            for part, network in self.players.networks().items()
            for name, tensor in network.state_dict().items()
        }
        for name, optimizer in self.players.optimizers.items():
            state = checkpoints.optimizer_tensors(optimizer)
            tensors |= {f"state-{name}.{key}": tensor for key, tensor in state.items()}
        rates = {name: o.param_groups[0]["lr"] for name, o in self.players.optimizers.items()}
        assert self.turns is not None
        facts = {
            "identity": self._facts(),
            "history": self.history,
            "rates": rates,
            "turns": self.turns.state(),
        }
        checkpoints.write(self.folder / CHECKPOINT, FORMAT, tensors, facts)
        files.write_text(
            self.folder / HISTORY,
            "".join(json.dumps(record, sort_keys=True) + "\n" for record in self.history),
        )

    def _resume(self, plan: list[Act]) -> None:
        path = None if self.folder is None else self.folder / CHECKPOINT
        if path is None or not path.is_file():
            return
        tensors, facts = checkpoints.read(path, FORMAT)
        checkpoints.require_same(path, self._facts(), self._binding(facts["identity"]))
        if len(facts["history"]) > len(plan):
            raise CheckpointError(f"{path}: has more epochs than were asked for; use another folder")
        for part, network in self.players.networks().items():
            checkpoints.fill(network, checkpoints.part(tensors, part), str(path))
        for name, optimizer in self.players.optimizers.items():
            checkpoints.fill_optimizer(optimizer, checkpoints.part(tensors, f"state-{name}"))
            for group in optimizer.param_groups:
                group["lr"] = facts["rates"][name]
        self.history = list(facts["history"])
        if "turns" in facts:  # earlier versions began every epoch anew
            self.turns = Turns(plan[len(self.history) - 1].phases, **facts["turns"])


class Turns:
    """Which phase is due; a phase ends after its steps, or when what it waits for has come."""

    def __init__(self, phases: tuple[Phase, ...], place: int = 0, taken: int = 0, seen: Sequence[float] = ()):
        self.phases, self.place, self.taken = phases, place, taken
        self.seen = list(seen)

    @property
    def current(self) -> Phase:
        return self.phases[self.place]

    def took(self, terms: Terms) -> None:
        """A step of the current phase was taken, with these terms."""
        self.taken += 1
        phase = self.current
        if phase.until:
            wanted = "right" if phase.until == "utility" else "sure"
            if wanted in terms:
                self.seen.append(float(terms[wanted]))
        if self.taken >= phase.steps or self._reached(phase):
            self.place, self.taken, self.seen = (self.place + 1) % len(self.phases), 0, []

    def state(self) -> dict[str, Any]:
        """What `Turns(phases, **state)` goes on from."""
        return {"place": self.place, "taken": self.taken, "seen": self.seen[-STEPS_SMOOTHED:]}

    def _reached(self, phase: Phase) -> bool:
        if not phase.until or len(self.seen) < STEPS_SMOOTHED:
            return False
        return float(torch.tensor(self.seen[-STEPS_SMOOTHED:]).mean()) >= phase.reach


def begins_anew(phases: tuple[Phase, ...], steps: int) -> bool:
    """Whether the cycle of turns begins anew with every epoch of so many steps.

    The published alternation of step 1 and step 2 does (SPAct). Any other cycle goes on where the epoch before left it:
    K-Beam's has 260 batches, and where an epoch has fewer its last phases would never come.
    """
    published = all(phase.turn in ("anonymizer", "auxiliary") for phase in phases)
    return published and sum(phase.steps for phase in phases) <= steps


def utility_of(record: Mapping[str, Any]) -> float | None:
    """L_T of an epoch, as f_A saw it or else as f_T learnt it; none where it was nobody's turn to look at it."""
    return record.get("utility", record.get("utility_learning"))


def near_chance(played: Sequence[Mapping[str, Any]]) -> float | None:
    """The last L_B that f_A met ÷ its chance level: 0 where budget nets know everything, 1 where they know nothing."""
    losses = [record["budget"] for record in played if "budget" in record]
    return losses[-1] / played[-1]["chance"] if losses else None


def low_headway(history: Sequence[Mapping[str, Any]], settings: MinimaxSettings) -> str:
    """What is to be said of a game that hid little; nothing where L_B came near its chance level.

    By the share at which such a game is stopped, also where it was not to be.
    """
    played = [record for record in history if record["act"] == "minimax"]
    share = near_chance(played)
    if share is None or share >= settings.headway.share:
        return ""
    chance = played[-1]["chance"]
    return (
        f"at the end of the game L_B was {share * chance:.3f}, {share:.0%} of its chance level {chance:.3f}: the "
        f"budget nets still won, so little or nothing is hidden from them. {ADVICE}"
    )


def _gather(fabric: Fabric) -> Gather:
    """Rows of all processes, in the order of the processes, with gradient to everybody's own."""
    if fabric.world_size == 1:
        return alone
    from torch.distributed.nn.functional import all_gather

    return lambda rows: torch.cat(list(all_gather(rows)))
