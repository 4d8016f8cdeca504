from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from videoveil import shipped
from videoveil.anonymizers import LatentAnonymizer, Measurement, Rank, latent, publish
from videoveil.anonymizers.named import open_anonymizer
from videoveil.encoders import create
from videoveil.errors import CheckpointError, UsageError

MOST = 20 * 10**6  # bytes of all weights in the package, with their cards
CLIP = (16, 112, 112)  # of the embedded encoder: frames, height, width


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
    kept = [
        path for folder in (shipped.FOLDER, shipped.HEADS, shipped.ENCODERS) for path in folder.rglob("*")
    ]
    assert any(path.name == "tiny.safetensors" for path in kept)
    assert sum(path.stat().st_size for path in kept if path.is_file()) <= MOST


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=shipped.DEFAULT):
        shipped.folder("nobody")
    with pytest.raises(UsageError, match=shipped.DEFAULT):
        open_anonymizer("nobody")


def rows(*found: tuple[str, float, float, float]) -> list[Measurement]:
    return [Measurement(name, "attack", "cMAP", value, raw, chance) for name, value, raw, chance in found]


@pytest.mark.parametrize("name", shipped.names())
def test_a_summary_shows_the_attacker_that_finds_most_on_twins(name: str) -> None:
    card = publish.load(shipped.folder(name)).card
    attacks = [m for m in card.measurements if m.metric == "cMAP" and not m.name.startswith("real:")]
    worst = max(attacks, key=lambda m: (m.value - (m.chance or 0)) / ((m.raw or 0) - (m.chance or 0)))
    assert f"cMAP {worst.value:.2f} ({worst.raw:.2f}, {worst.chance:.2f})" in shipped.summary(name)["figures"]


def test_the_worst_attacker_is_who_finds_the_largest_share_above_chance() -> None:
    many, few, nothing = rows(("a", 0.6, 0.9, 0.3), ("b", 0.55, 0.6, 0.3), ("c", 0.3, 0.2, 0.3))
    assert few.share == pytest.approx(0.25 / 0.3)
    assert many.share == pytest.approx(0.5)
    assert nothing.share is None  # raw data tell nothing


@pytest.mark.parametrize("name", shipped.names())
def test_the_code_of_a_shipped_card_runs_as_it_is_written(name: str) -> None:
    code = shipped.card(name).partition("```python\n")[2].partition("\n```")[0]
    given = {"frames": torch.rand(2, 3, 64, 64), "clips": torch.rand(1, 3, *CLIP)}
    told: dict[str, Any] = dict(given)
    exec(code, told)
    assert told["anonymizer"].content_hash() == shipped.facts(name)["content_hash"]
    if "safe" in told:
        assert told["safe"].shape == given["frames"].shape
    else:
        assert told["features"].shape == (1, told["anonymizer"].config.width)


def test_a_name_is_what_comes_with_the_package_and_a_folder_of_that_name_is_meant_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = latent(8, Rank(2))
    own.save_pretrained("veil-tiny")
    kept = shipped.facts("veil-tiny")["content_hash"]
    assert LatentAnonymizer.from_pretrained("veil-tiny").content_hash() == kept
    for source in (Path("veil-tiny"), "./veil-tiny"):
        assert LatentAnonymizer.from_pretrained(source).content_hash() == own.content_hash()
    with pytest.raises(CheckpointError, match=r"nor one of those that come with the package: .*veil-tiny"):
        LatentAnonymizer.from_pretrained("veil-tinny")


def test_a_summary_is_one_line_of_its_card() -> None:
    told = shipped.summary(shipped.DEFAULT)
    first = publish.load(shipped.folder(shipped.DEFAULT)).card.measurements[0]
    assert f"{first.metric} {first.value:.2f}" in told["figures"]
    assert told["input"] == "frames"
    assert np.isfinite(told["parameters"])
