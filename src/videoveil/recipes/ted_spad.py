"""TeD-SPAD as published: SPAct's game with a utility net that must also tell moments of one video apart."""

from __future__ import annotations

from videoveil.anonymizers.pixel.config import UNetPP
from videoveil.recipes.latent import Origin
from videoveil.recipes.pixel import PixelRecipe
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Rates, Start, Utility

# what its fine-tuning scripts do with f_T before the game
FINE_TUNED = Start(
    utility_epochs=100,
    utility_batch=16,
    utility_rate=1e-4,
    utility_warmup=5,
    utility_cosine=True,
    utility_freeze_norm=True,
)
FRAMES = "tclr-image"  # f_B's frames are cut as its clips and images are: both sides alike, not to a square


def ted_spad() -> PixelRecipe:
    """UNet++, I3D-ResNet-50, temporally-distinct triplet with weight .1 and margin 1; L_A = .7 L_T − L_B."""
    return PixelRecipe(
        name="ted-spad",
        stages=(UNetPP(),),
        origin=Origin("I3D-ResNet-50", "ucf101"),
        settings=MinimaxSettings(
            utility=Utility(
                encoder="i3d.resnet50",
                sampler="ted-spad",
                temporal="triplet",
                augment="ted-spad",
                dropout=0.5,
            ),
            budget=Budget(members=("resnet.50",), pair="random", augment=FRAMES),
            w_utility=0.7,
            size=224,
            epochs=80,
            batch=8,
            privacy_batch=12,
            rates=Rates(anonymizer=0.4e-4),
            start=FINE_TUNED,
        ),
    )
