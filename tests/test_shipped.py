from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from videoveil import shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.named import open_anonymizer
from videoveil.errors import UsageError

MOST = 20 * 2**20  # bytes of all weights in the package


def test_the_default_comes_with_the_package() -> None:
    assert shipped.DEFAULT in shipped.names()


@pytest.mark.parametrize("name", shipped.names())
def test_a_shipped_anonymizer_opens_by_its_name_and_changes_what_it_gets(name: str) -> None:
    model = open_anonymizer(name)
    assert model.content_hash() == shipped.facts(name)["content_hash"]
    if hasattr(model.config, "width"):
        given = torch.randn(4, model.config.width)
    else:
        given = torch.rand(2, 3, 96, 128)
    made = model(given)
    assert made.shape == given.shape
    assert not torch.allclose(made, given, atol=0.01)


@pytest.mark.parametrize("name", shipped.names())
def test_its_card_says_what_attackers_found_and_what_is_kept_with_intervals(name: str) -> None:
    card = publish.load(shipped.folder(name)).card
    assert {one.kind for one in card.measurements} == {"utility", "attack"}
    for one in card.measurements:
        assert one.raw is not None
        assert one.chance is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low <= one.value <= one.high
    assert card.training_data
    assert card.license
    assert "failure" in card.notes
    text = shipped.card(name)
    assert "scripts/models.py" in text
    assert all(one.name in text for one in card.measurements)


def test_all_weights_of_the_package_are_small() -> None:
    package = Path(shipped.__file__).parent
    assert sum(path.stat().st_size for path in package.rglob("*.safetensors")) <= MOST


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=shipped.DEFAULT):
        shipped.folder("nobody")
    with pytest.raises(UsageError, match=shipped.DEFAULT):
        open_anonymizer("nobody")


def test_a_summary_is_one_line_of_its_card() -> None:
    told = shipped.summary(shipped.DEFAULT)
    first = publish.load(shipped.folder(shipped.DEFAULT)).card.measurements[0]
    assert f"{first.metric} {first.value:.2f}" in told["figures"]
    assert told["input"] == "frames"
    assert np.isfinite(told["parameters"])
