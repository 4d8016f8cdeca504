"""The supervised adversarial baseline of Wu et al. (VITA): budget nets that are taught what is private.

`vita` is the re-implementation that the later papers compare with. The three originals differ in whose turn it is.
Their image-transform network is replaced by the UNet of the others, their ResNet-v2 by ResNet-101, their accumulated
batches by ordinary ones, and their step counts by epochs. There is no validation in the game: where they restore the
actions until these are told well enough on held-out clips, that is judged here on the batches they are restored with,
four of them at least.
"""

from __future__ import annotations

from dataclasses import replace

from videoveil.anonymizers.pixel.config import UNet
from videoveil.recipes.latent import Origin
from videoveil.recipes.pixel import PixelRecipe
from videoveil.recipes.spact import spact_supervised
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Phase, Rates, Utility

POOL = ("resnet.50", "resnet.101", "mobilenet.v1-1.0", "mobilenet.v1-0.75")  # in the order in which it grows
CHANGES = (
    "A UNet in place of the original image-transform network, ResNet-101 in place of its ResNet-v2, ordinary batches "
    "in place of accumulated ones, epochs in place of its step counts."
)
JUDGED = (
    "Whether the actions are restored is judged on the training batches of that phase, not on validation: it takes "
    "four of them at least, also where the actions are told well enough already, and no check that finds nothing "
    "better ends it."
)


def vita() -> PixelRecipe:
    """The baseline row of SPAct and of the penalty paper."""
    return spact_supervised()


def _original(
    name: str, budget: Budget, phases: tuple[Phase, ...], rates: Rates, **changes: float
) -> PixelRecipe:
    return PixelRecipe(
        name=name,
        stages=(UNet(width=64),),
        origin=Origin("C3D", "ucf101"),
        approximation=" ".join([CHANGES, *([JUDGED] if any(p.until == "utility" for p in phases) else [])]),
        settings=MinimaxSettings(
            utility=Utility(encoder="c3d", stride=1),
            budget=budget,
            phases=phases,
            rates=rates,
            epochs=100,
            batch=16,
            privacy_batch=16,
            **changes,  # type: ignore[arg-type]
        ),
    )


def vita_grl() -> PixelRecipe:
    """Gradient reversal: every player moves once in turn, L_A = L_T − mean over budget nets of L_B."""
    return _original(
        "vita-grl",
        Budget(kind="labels", source="images", members=POOL[:1], augment="weak-image"),
        (Phase("budget"), Phase("utility"), Phase("anonymizer")),
        Rates(anonymizer=1e-4, utility=1e-5, budget=1e-2),
    )


def vita_kbeam() -> PixelRecipe:
    """K-Beam: f_A hides from the net that knows most, the K nets catch up, then f_A and f_T restore the actions."""
    members = ("mobilenet.v1-0.6",) * 4
    return _original(
        "vita-kbeam",
        Budget(kind="labels", source="images", members=members, combine="strongest", augment="weak-image"),
        (
            Phase("hide", 30),
            Phase("budget", 200, until="budget", reach=0.99),
            Phase("restore", 30, until="utility", reach=0.85),
        ),
        Rates(anonymizer=1e-4, utility=1e-5, budget=1e-2),
    )


def vita_entropy() -> PixelRecipe:
    """Entropy with an ensemble: f_A makes the surest of M nets unsure; then the actions, then the nets catch up."""
    return _original(
        "vita-entropy",
        Budget(
            kind="labels",
            source="images",
            members=POOL,
            combine="strongest",
            target="entropy",
            augment="weak-image",
        ),
        (
            Phase("anonymizer"),
            Phase("restore", 30, until="utility", reach=0.70),
            Phase("budget", 5),
        ),
        Rates(anonymizer=1e-4, utility=1e-5, budget=1e-4),
        w_budget=0.5,
    )


def vita_restarting() -> PixelRecipe:
    """The same with model restarting: every so often all budget nets begin anew and learn alone for 200 steps."""
    base = vita_entropy()
    assert base.settings.budget is not None
    budget = replace(base.settings.budget, restart=10, restart_steps=200)
    return replace(base, name="vita-restarting", settings=replace(base.settings, budget=budget))
