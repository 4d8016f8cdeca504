"""Pixel recipes: what they are read from and written to, what the papers say, and ablations of one field each."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from tests.training.minimax_world import LATER
from videoveil.anonymizers.pixel import UNet, UNetPP
from videoveil.errors import UsageError
from videoveil.recipes import (
    PIXEL,
    PixelAblation,
    PixelRecipe,
    either,
    penalty,
    pixel_ablations,
    pixel_names,
    pixel_recipe,
    recipe,
    spact,
    spact_released,
    ted_spad,
    veil_pixel_attackers,
    vita,
    vita_entropy,
    vita_grl,
    vita_kbeam,
    vita_restarting,
)
from videoveil.training.minimax import STEPS_SMOOTHED
from videoveil.training.minimax_settings import (
    ALTERNATE,
    Budget,
    MinimaxSettings,
    Penalty,
    Phase,
    Rates,
)

ROWS = pixel_ablations()


# --- text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", pixel_names())
def test_every_recipe_and_ablation_comes_back_from_what_is_written(name: str) -> None:
    made = pixel_recipe(name)
    assert made.name == name
    assert PixelRecipe.from_json(json.loads(made.to_text())) == made
    assert PixelRecipe.from_json(made.to_json()) == made
    assert pytest.importorskip("yaml").safe_load(made.to_yaml()) == json.loads(made.to_text())


def test_records_inside_come_back_as_records() -> None:
    made = PixelRecipe.from_json(json.loads(vita_kbeam().to_text()))
    assert made.settings.phases[0] == Phase("hide", 30)
    assert isinstance(made.settings.budget, Budget)
    assert isinstance(made.stages[0], UNet)
    assert PixelRecipe.from_json(json.loads(penalty().to_text())).settings.penalty == Penalty()


def test_a_recipe_of_before_a_setting_was_known_is_one_with_its_default() -> None:
    written = json.loads(veil_pixel_attackers().to_text())
    for part, names in LATER.items():
        for name in names:
            del written["settings"][part][name]
    assert PixelRecipe.from_json(written) == veil_pixel_attackers()
    older = json.loads(spact().to_text())
    del older["settings"]["utility"]["sampler"]
    assert PixelRecipe.from_json(older).settings.utility.sampler == "random"  # as it was trained


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("speed",), 1, "PixelRecipe: no setting speed; there are"),
        (("settings", "w_magic"), 1, "MinimaxSettings: no setting w_magic"),
        (("settings", "utility", "size"), 8, "Utility: no setting size"),
        (("settings", "rates", "critic"), 8, "Rates: no setting critic"),
        (("stages", 0, "depth"), 8, "depth"),
        (("stages", 0, "kind"), "vae", "vae"),
        (("settings", "epochs"), 2.5, r"MinimaxSettings epochs=2\.5: must be a whole number"),
        (("settings", "epochs"), True, "must be a whole number"),
        (("settings", "w_budget"), "much", "w_budget='much': must be a number"),
        (("settings", "one_pass"), 1, "one_pass=1: must be true or false or nothing"),
        (("settings", "budget", "members"), "resnet.50", r"members='resnet\.50': must be a list"),
        (("settings", "budget", "kind"), "pair", "kind='pair': must be one of 'pairs', 'rotation'"),
        (("settings", "rates"), 1e-4, "rates=0.0001: must be a mapping of settings"),
        (("settings", "penalty"), [1], "must be a mapping of settings or nothing"),
        (("settings", "batch"), 1, "at least 2"),
        (("settings", "phases"), [], "phases"),
    ],
)
def test_what_cannot_be_honoured_is_named(path: tuple[Any, ...], value: Any, says: str) -> None:
    written = json.loads(spact().to_text())
    place = written
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(UsageError, match=says):
        PixelRecipe.from_json(written)


def test_a_recipe_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        spact().name = "other"  # type: ignore[misc]


# --- one field replaced -------------------------------------------------------------------------------------


def test_changed_replaces_one_field_and_leaves_the_rest() -> None:
    made = spact().changed("settings.utility.margin", 2.0)
    assert made.settings.utility.margin == 2.0
    assert made.changed("settings.utility.margin", 1.0) == spact()
    assert spact().changed("settings.epochs", 3, "short").name == "short"
    assert spact().settings.utility.margin == 1.0
    for path, where in (("settings.w_magic", "MinimaxSettings"), ("speed", "PixelRecipe")):
        with pytest.raises(UsageError, match=f"{where}: no setting"):
            spact().changed(path, 1)
    with pytest.raises(UsageError, match="margin"):
        spact().changed("settings.utility.margin", -1.0)


@pytest.mark.parametrize(
    ("path", "word", "value"),
    [
        ("settings.epochs", "20", 20),
        ("settings.rates.anonymizer", "1e-3", 1e-3),
        ("settings.utility.encoder", "r3d.18", "r3d.18"),
        ("settings.budget.members", '["resnet.18", "resnet.18"]', ("resnet.18", "resnet.18")),
        ("settings.budget.weights", "simclr/r50.safetensors", "simclr/r50.safetensors"),
        ("settings.budget", "null", None),
        ("settings.penalty", '{"bound": 0.5}', Penalty(bound=0.5)),
        ("settings.phases", '[{"turn": "restore", "steps": 3}]', (Phase("restore", 3),)),
        ("settings.one_pass", "false", False),
        ("stages", '[{"kind": "unet", "width": 4}]', (UNet(width=4),)),
    ],
)
def test_a_word_from_the_command_line_replaces_a_field(path: str, word: str, value: Any) -> None:
    made = spact().with_text(path, word)
    found: Any = made
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value
    assert _differences(spact().to_json(), made.to_json(), path) == []


@pytest.mark.parametrize(
    ("path", "word", "says"),
    [
        ("settings.epoch", "3", r"spact: no setting 'settings\.epoch'; `recipe\.yaml` of a run shows"),
        ("settings.penalty.bound", "3", "no setting"),  # spact has none
        ("settings.epochs.more", "3", "no setting"),
        ("settings.epochs", "many", "epochs='many': must be a whole number"),
        ("settings.epochs", "-1", "epochs=-1"),
        ("settings.utility.temporal", "later", "temporal='later'"),
        ("settings.budget.pair", "gap:99", "gap:99"),
        ("stages", "unet", "stages=unet: cannot be used"),
        ("stages", "3", "stages=3: cannot be used"),
    ],
)
def test_a_word_that_does_not_fit_is_refused_with_what_there_is(path: str, word: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        spact().with_text(path, word)


# --- ablations ----------------------------------------------------------------------------------------------


def _differences(one: Any, other: Any, besides: str | None = None, path: str = "") -> list[str]:
    """Paths at which two records differ, but for the name and what lies under `besides`."""
    if path in ("name", besides):
        return []
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [
            found
            for key in one
            for found in _differences(one[key], other[key], besides, f"{path}.{key}" if path else key)
        ]
    return [] if one == other else [path]


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_an_ablation_differs_from_its_base_in_its_field_alone(row: PixelAblation) -> None:
    base, made = row.base.to_json(), row.recipe.to_json()
    assert _differences(base, made, row.field) == []
    value: Any = row.recipe
    for name in row.field.split("."):
        value = getattr(value, name)
    assert value == row.value


def test_every_table_has_its_base_once_and_no_row_twice() -> None:
    tables: dict[str, list[PixelAblation]] = defaultdict(list)
    for name, row in ROWS.items():
        tables[name.partition("=")[0]].append(row)
    counts = {name: len(rows) for name, rows in tables.items()}
    assert counts == {
        "spact/f_T": 3,
        "spact/privacy": 3,
        "spact/pair": 3,
        "ted-spad/temporal": 4,
        "ted-spad/w": 5,
        "ted-spad/margin": 3,
        "ted-spad/negative": 3,
        "ted-spad/w_I": 5,
        "ted-spad/f_T": 4,
        "penalty/B": 4,
        "penalty/gradient": 2,
        "penalty/of": 2,
        "vita-entropy/M": 4,
        "vita-entropy/target": 3,
    }
    for name, rows in tables.items():
        unnamed = [replace(row.recipe, name="") for row in rows]
        assert sum(made == replace(row.base, name="") for made, row in zip(unnamed, rows)) == 1, name
        assert len({made.to_text() for made in unnamed}) == len(rows), name


# --- the papers' numbers ------------------------------------------------------------------------------------


def test_spact_has_the_published_numbers() -> None:
    own = spact().settings
    assert spact().stages == (UNet(width=64),)
    assert (own.utility.encoder, own.utility.frames, own.utility.stride) == ("r3d.18-spact", 16, 2)
    assert own.budget is not None
    assert (own.budget.kind, own.budget.members, own.budget.temperature) == ("pairs", ("resnet.50",), 0.1)
    assert (own.budget.source, own.budget.pair) == ("video", "random")
    assert (own.utility.augment, own.budget.augment) == ("weak", "tclr")
    assert own.rates == Rates(anonymizer=1e-4, utility=1e-4, budget=1e-4)
    assert (own.size, own.epochs, own.batch, own.privacy_batch) == (112, 100, 24, 24)
    assert (own.w_utility, own.w_budget, own.penalty) == (1, 1, None)
    assert own.phases == ALTERNATE == (Phase("anonymizer"), Phase("auxiliary"))
    assert (own.start.identity_epochs, own.start.identity_rate, own.start.identity_batch) == (100, 1e-3, 32)
    assert (own.start.utility_epochs, own.start.budget_epochs, own.start.identity_warmup) == (150, 400, 5)
    # the supplement's rate, without its plateaus: ten times that of the game, which follows the code
    assert (own.start.rate, own.start.utility_rate, own.start.utility_warmup) == (1e-3, 0.0, 0)
    assert {own.start.rate_of_utility(epoch) for epoch in (0, 149)} == {1e-3}
    assert own.checkpoint_every == own.keep_every == 3


def test_the_released_code_of_spact_takes_views_of_images() -> None:
    own = spact_released().settings
    assert own.budget is not None
    assert (own.budget.source, own.budget.augment, own.privacy_batch) == ("images", "weak-image", 64)
    assert spact_released().wants_images
    assert not spact().wants_images
    assert _differences(spact().to_json(), spact_released().to_json()) == [
        "settings.budget.source",
        "settings.budget.augment",
        "settings.privacy_batch",
    ]


def test_ted_spad_has_the_published_numbers() -> None:
    own = ted_spad().settings
    assert ted_spad().stages == (UNetPP(out="sigmoid"),)
    assert (own.utility.encoder, own.utility.temporal, own.utility.augment) == (
        "i3d.resnet50",
        "triplet",
        "ted-spad",
    )
    assert (own.w_utility, own.w_budget, own.utility.w_temporal, own.utility.margin) == (0.7, 1.0, 0.1, 1.0)
    assert own.rates == Rates(anonymizer=0.4e-4, utility=1e-4, budget=1e-4)
    assert (own.size, own.epochs, own.batch, own.privacy_batch) == (224, 80, 8, 12)
    assert (own.utility.frames, own.utility.stride, own.utility.negative) == (16, 2, 0)
    assert_fine_tuned(own)
    assert own.start.budget_epochs == 400
    assert own.budget is not None
    assert own.budget.augment == "tclr-image"  # f_B's frames cut as the clips are


def assert_fine_tuned(own: MinimaxSettings) -> None:
    """I3D-ResNet-50 as both code bases have it, and its 100 epochs before the game."""
    assert (own.utility.dropout, own.utility.sampler) == (0.5, "ted-spad")
    start = own.start
    assert (start.utility_epochs, start.utility_rate, start.utility_freeze_norm) == (100, 1e-4, True)
    assert (start.utility_warmup, start.utility_cosine, start.rate) == (5, True, 1e-3)
    assert start.utility_batch == 16


def test_clips_are_placed_as_each_code_base_places_them() -> None:
    by_sampler = {name: pixel_recipe(name).settings.utility.sampler for name in PIXEL}
    assert {name for name, sampler in by_sampler.items() if sampler == "spact"} == {
        "spact",
        "spact-released",
        "vita",
        "noisy-features",
    }
    assert {name for name, sampler in by_sampler.items() if sampler == "ted-spad"} == {"ted-spad", "penalty"}
    assert {
        pixel_recipe(name).settings.utility.dropout for name in PIXEL if by_sampler[name] != "ted-spad"
    } == {0.0}


def test_the_penalty_paper_has_the_published_numbers() -> None:
    own = penalty().settings
    assert penalty().stages == (UNetPP(out="sigmoid"),)
    assert own.penalty == Penalty(bound=0.3, differentiable=True, of="pixels")
    assert (own.w_utility, own.w_budget, own.w_penalty) == (1, 1, 1)
    assert own.rates == Rates(anonymizer=0.4e-4, utility=1e-4, budget=1e-4)
    assert (own.size, own.epochs, own.batch, own.privacy_batch) == (224, 100, 8, 8)
    assert own.budget is not None
    assert (own.budget.pair, own.budget.augment) == ("gap:4", "tclr-image")
    assert own.utility.temporal == "none"
    assert_fine_tuned(own)
    assert [penalty(b).settings.penalty for b in (0.5, 0.7, 0.9)] == [
        Penalty(bound=b) for b in (0.5, 0.7, 0.9)
    ]
    assert penalty(0.5) == pixel_recipe("penalty/B=0.5")


def test_the_supervised_baselines_have_the_published_turns_and_rates() -> None:
    ours = vita().settings
    assert ours.budget is not None
    assert (ours.budget.kind, ours.budget.source) == ("labels", "images")
    assert ours.rates == spact().settings.rates == Rates(anonymizer=1e-4, utility=1e-4, budget=1e-4)
    grl, kbeam, entropy = (make().settings for make in (vita_grl, vita_kbeam, vita_entropy))
    for own, budget_rate in ((grl, 1e-2), (kbeam, 1e-2), (entropy, 1e-4)):
        assert own.rates == Rates(anonymizer=1e-4, utility=1e-5, budget=budget_rate)
        assert own.utility.encoder == "c3d"
    assert [phase.turn for phase in grl.phases] == ["budget", "utility", "anonymizer"]
    assert [(p.turn, p.steps, p.until, p.reach) for p in kbeam.phases] == [
        ("hide", 30, "", 1.0),
        ("budget", 200, "budget", 0.99),
        ("restore", 30, "utility", 0.85),
    ]
    assert kbeam.budget is not None
    assert kbeam.budget.members == ("mobilenet.v1-0.6",) * 4
    assert [p.turn for p in entropy.phases] == ["anonymizer", "restore", "budget"]
    assert (entropy.phases[1].reach, entropy.phases[2].steps, entropy.w_budget) == (0.70, 5, 0.5)
    assert entropy.budget is not None
    assert (entropy.budget.combine, entropy.budget.target) == ("strongest", "entropy")
    again = vita_restarting().settings.budget
    assert again is not None
    assert (again.restart, again.restart_steps) == (10, 200)
    assert all(make().approximation for make in (vita_grl, vita_kbeam, vita_entropy, vita_restarting))
    assert "validation" not in vita_grl().approximation  # nothing there waits for actions
    for make in (vita_kbeam, vita_entropy, vita_restarting):
        assert (
            "on the training batches of that phase, not on validation: it takes four" in make().approximation
        )
    assert STEPS_SMOOTHED == 4


def test_images_go_through_f_a_for_themselves_and_frames_of_videos_with_the_clips() -> None:
    apart = {name for name in PIXEL if not pixel_recipe(name).settings.together}
    assert apart == {name for name in PIXEL if pixel_recipe(name).wants_images}
    assert {"spact-released", "vita", "vita-grl", "vita-kbeam", "vita-entropy", "vita-restarting"} == apart
    assert vita().with_text("settings.one_pass", "true").settings.together
    assert vita().with_text("settings.budget.source", "video").settings.together
    assert not spact().with_text("settings.one_pass", "false").settings.together
    assert spact().changed("settings.budget", None).settings.together


# --- names --------------------------------------------------------------------------------------------------


def test_names_lead_to_one_kind_of_recipe_and_say_so() -> None:
    for name in (*PIXEL, "ted-spad/margin=2"):
        assert isinstance(either(name), PixelRecipe)
        with pytest.raises(UsageError, match=r"makes a pixel anonymizer, from videos"):
            recipe(name)
    with pytest.raises(UsageError, match="makes a latent anonymizer, from features"):
        pixel_recipe("splavu")
    with pytest.raises(UsageError, match="no pixel recipe 'spakt'; there are veil-pixel, "):
        pixel_recipe("spakt")
    with pytest.raises(UsageError, match="no recipe 'spakt'; there are veil, "):
        either("spakt")
    assert not set(pixel_names()) & {"veil", "splavu"}


def test_a_recipe_knows_what_it_needs() -> None:
    assert vita().wants_images
    assert spact().trains
    assert not spact().changed("settings.epochs", 0).trains
