from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from videoveil import shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.named import open_anonymizer
from videoveil.encoders import create
from videoveil.errors import UsageError

MOST = 20 * 2**20  # bytes of all weights in the package


def test_the_default_comes_with_the_package() -> None:
    assert shipped.DEFAULT in shipped.names()


@pytest.mark.parametrize("name", shipped.names())
def test_a_shipped_anonymizer_opens_by_its_name_and_changes_what_it_gets(name: str) -> None:
    model = open_anonymizer(name)
    assert model.content_hash() == shipped.facts(name)["content_hash"]
    still = {}
    if hasattr(model.config, "width"):
        given = torch.randn(4, model.config.width)
        still = {"static": torch.randn(4, model.config.width)} if model.wants_static else {}
    else:
        given = torch.rand(2, 3, 96, 128)
    made = model(given, **still)
    assert made.shape == given.shape
    assert not torch.allclose(made, given, atol=0.01)


@pytest.mark.parametrize("name", shipped.names())
def test_its_card_says_what_attackers_found_and_what_is_kept_with_intervals(name: str) -> None:
    card = publish.load(shipped.folder(name)).card
    assert {one.kind for one in card.measurements} == {"utility", "attack"}
    for one in card.measurements:
        assert one.raw is not None
        if one.metric == "SSIM":  # stored as a single number
            assert one.low is one.high is one.chance is None
            assert "SSIM neither an interval nor" in card.notes
            continue
        assert one.chance is not None
        if one.low is None or one.high is None:
            assert "a single seed" in card.notes
        else:
            assert one.low <= one.value <= one.high
    assert card.training_data
    assert card.license
    assert "failure" in card.notes
    text = shipped.card(name)
    assert "scripts/models.py" in text
    assert "Measured by `python benchmarks/" in text
    assert all(one.name in text for one in card.measurements)


@pytest.mark.parametrize(
    "name", [name for name in shipped.names() if "width" in shipped.facts(name)["config"]]
)
def test_an_anonymizer_of_features_is_for_the_encoder_that_comes_with_the_package(name: str) -> None:
    encoder, model = create("tiny"), publish.load(shipped.folder(name))
    assert model.config.width == encoder.width
    assert model.config.encoder.hash == encoder.content_hash()
    assert model.export_problems(need_key=False) == []
    assert shipped.summary(name)["input"] == "features"


def test_the_card_of_the_line_drawing_has_a_bound_in_bits_and_speaks_of_no_size_that_it_does_not_name() -> (
    None
):
    text = shipped.card("veil-pixel")
    assert "a square one out of it tells at most 4,096 bits" in text
    assert "one of 16:9 at most 7,296" in text
    assert "not recorded" not in text
    assert "size above" not in text


def test_the_embedded_encoder_has_a_card_as_well() -> None:
    assert shipped.encoders() == ("tiny",)
    text = shipped.card("tiny")
    assert create("tiny").content_hash() in text
    assert "Known limits" in text


def test_a_card_that_is_not_there_is_refused_with_all_that_are() -> None:
    with pytest.raises(UsageError, match="nobody") as refused:
        shipped.card("nobody")
    for name in (*shipped.encoders(), *shipped.names(), *shipped.heads()):
        assert name in str(refused.value)


def test_a_name_becomes_a_folder_and_anything_else_stays_what_it_is() -> None:
    assert Path(shipped.place(shipped.DEFAULT)) == shipped.folder(shipped.DEFAULT)
    assert shipped.place("org/name") == "org/name"


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
