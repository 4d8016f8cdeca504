"""The identity start: networks learn to give pictures back, stop when they can, and never look at what checks them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from videoveil.anonymizers.pixel import Grey, LowResolution, PixelAnonymizer, PixelConfig, UNet
from videoveil.errors import Diverged
from videoveil.training.minimax_settings import Start
from videoveil.training.minimax_start import HELD_OUT, IdentityResult, learn_identity, shortfall

SIZE, COUNT = 32, 40
WHOLE = Start(
    identity_epochs=15, identity_batch=8, identity_rate=5e-3, identity_warmup=2, identity_goal=0.018
)


def picture(place: int, epoch: int = 0) -> Tensor:
    """(3, S, S) in [0, 1]: a few long waves of any direction, in other colours for every place and epoch."""
    dice = torch.Generator().manual_seed(1000 * place + epoch)
    axis = torch.linspace(0, 2 * math.pi, SIZE)
    waves = torch.zeros(3, SIZE, SIZE)
    for _ in range(4):
        down, right, phase = (torch.rand(3, generator=dice) * torch.tensor([2.0, 2.0, 6.3])).tolist()
        wave = torch.sin(down * axis[:, None] + right * axis[None, :] + phase)
        waves += (torch.rand(3, generator=dice) - 0.5)[:, None, None] * wave
    return (0.5 + 0.4 * waves).clamp(0, 1)


def unet(width: int, seed: int = 0) -> PixelAnonymizer:
    return PixelAnonymizer(PixelConfig((UNet(width=width),)), seed=seed)


def learn(anonymizer: PixelAnonymizer, start: Start, count: int = COUNT, **options: Any) -> IdentityResult:
    return learn_identity(anonymizer.networks, options.pop("draw", picture), count, start, **options)


def test_the_identity_is_learnt_to_two_hundredths_on_pictures_never_seen() -> None:
    """SPAct §3: a few hundred steps of a small network."""
    anonymizer, count = unet(12), 120
    unseen = torch.stack([picture(n) for n in range(500, 520)])
    assert anonymizer.identity_error(unseen) > 0.1
    drawn = [picture(n) for n in range(count)]
    result = learn(anonymizer, WHOLE, count, draw=lambda place, epoch: drawn[place])
    assert result.epochs * -(-round(count * (1 - HELD_OUT)) // WHOLE.identity_batch) <= 300  # steps
    assert result.error <= 0.02
    assert anonymizer.identity_error(unseen) <= 0.02


def test_what_is_left_of_a_start_that_missed_its_goal_is_said() -> None:
    said = shortfall(0.0432, WHOLE)
    assert "|x − f_A(x)| of 0.0432 on held-out frames instead of 0.018 at most" in said
    assert "settings.start.identity_epochs=15" in said
    for error, start in (
        (0.018, WHOLE),
        (math.nan, WHOLE),  # nothing was to be learnt
        (0.0432, Start(identity_goal=0)),  # no goal was set: every epoch is taken
    ):
        assert shortfall(error, start) == ""


def test_it_stops_as_soon_as_the_goal_is_reached() -> None:
    result = learn(
        unet(8), Start(identity_epochs=50, identity_batch=6, identity_rate=5e-3, identity_goal=0.1)
    )
    assert result.error <= 0.1
    assert 0 < result.epochs < 50


def test_what_it_is_measured_on_is_never_learnt_from() -> None:
    learnt: set[float] = set()
    measured: set[float] = set()
    network = unet(4)

    def watch(module: Any, inputs: tuple[Tensor]) -> None:
        (learnt if module.training else measured).update(round(float(x.double().sum()), 6) for x in inputs[0])

    network.networks[0].register_forward_pre_hook(watch)
    learn(network, Start(identity_epochs=3, identity_batch=12), seed=5)
    assert len(measured) == round(HELD_OUT * COUNT)  # the same ones after every epoch
    assert not learnt & measured
    assert len(learnt) == 3 * (COUNT - len(measured))  # every epoch has pictures of its own


def test_the_same_seed_gives_the_same_weights_whatever_the_threads() -> None:
    few = Start(identity_epochs=2, identity_batch=12)
    one, two, other = unet(4), unet(4), unet(4)
    for network, options in ((one, {"workers": 1}), (two, {"workers": 4}), (other, {"seed": 1})):
        learn(network, few, **options)  # type: ignore[arg-type]
    same, different = (
        all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), second.state_dict().values()))
        for second in (two, other)
    )
    assert same
    assert not different


def test_the_rate_falls_when_an_epoch_is_worse_and_rises_in_the_warm_up() -> None:
    """Pictures that get harder from epoch to epoch: no epoch after the first is the best."""
    rates: list[float] = []
    adam = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *rest: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return adam(self, *rest)

    def harder(place: int, epoch: int) -> Tensor:
        noise = torch.rand(3, SIZE, SIZE, generator=torch.Generator().manual_seed(place))
        return (0.5 + 0.2 * epoch * (noise - 0.5)).clamp(0, 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", watched)
        learn(
            unet(4),
            Start(identity_epochs=5, identity_batch=36, identity_warmup=2, identity_rate=1e-6),
            draw=harder,
        )
    # one step an epoch: half the rate, the whole, then divided by five after each that was worse
    assert rates == pytest.approx([5e-7, 1e-6, 2e-7, 4e-8, 8e-9])


def test_losses_that_are_no_numbers_stop_it_with_the_setting_to_lower() -> None:
    def broken(place: int, epoch: int) -> Tensor:
        return picture(place) * (float("nan") if epoch == 1 and place == 20 else 1.0)

    with pytest.raises(Diverged, match=r"identity start diverged in epoch 2; lower identity_rate=0\.001"):
        learn(unet(4), Start(identity_epochs=4, identity_batch=12), draw=broken)


def test_only_networks_learn() -> None:
    without = PixelAnonymizer(PixelConfig((Grey(), LowResolution(8))))
    assert learn(without, WHOLE) == IdentityResult(0.0, 0)
    code = PixelAnonymizer(PixelConfig((UNet(width=8), LowResolution(2))))
    result = learn(code, Start(identity_epochs=8, identity_batch=4, identity_rate=5e-3, identity_warmup=2))
    frames = torch.stack([picture(n) for n in range(8)])
    # what throws information away is not asked to bring it back
    assert result.error < 0.7 * code.identity_error(frames)


def test_no_epochs_leave_the_network_as_it_came() -> None:
    network, untouched = unet(4), unet(4)
    result = learn(network, Start(identity_epochs=0))
    assert result.epochs == 0
    assert math.isnan(result.error)
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), untouched.state_dict().values())
    )
