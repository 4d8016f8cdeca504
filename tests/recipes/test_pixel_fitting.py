"""From a pixel recipe and videos to a run folder: whole, found again, resumed after a kill, and refused otherwise."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tests.media.make import encode
from tests.training.minimax_world import LATER, QUICK, loop, state, videos
from videoveil.anonymizers.pixel import (
    Grey,
    LowResolution,
    PixelAnonymizer,
    PixelConfig,
    UNet,
    UNetPP,
    pixel,
)
from videoveil.data.records import Dataset, Item
from videoveil.encoders import create, save
from videoveil.encoders.base import seeded
from videoveil.errors import AnnotationError, BadItems, CheckpointError, NoHeadway, UsageError
from videoveil.recipes import Made, PixelRecipe, fit_pixel, veil_pixel
from videoveil.recipes.looking import budget_nets
from videoveil.recipes.pixel_fitting import labelled, private_labels
from videoveil.tasks.base import Clips
from videoveil.training.minimax import MinimaxLoop
from videoveil.training.minimax_data import identity_frames
from videoveil.training.minimax_nets import BudgetNet
from videoveil.training.minimax_settings import (
    FREE_TO_CHANGE,
    Budget,
    Headway,
    MinimaxSettings,
    Penalty,
    Phase,
    Start,
)
from videoveil.training.minimax_start import learn_identity

NETWORK = (UNet(width=4),)
LABELS = Budget(kind="labels", members=("mobilenet.v1-0.25",))


def quick(name: str = "quick", stages: Any = NETWORK, **changes: Any) -> PixelRecipe:
    start = replace(QUICK.start, identity_epochs=2, identity_goal=0)
    own: MinimaxSettings = replace(QUICK, **{"start": start, **changes})
    return PixelRecipe(name=name, stages=stages, settings=own)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return Clips(videos(tmp_path_factory.mktemp("films")), "train")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    """Images that are called like the videos, with two attributes."""
    root = tmp_path_factory.mktemp("pictures")
    items = []
    for n in range(5):
        noise = np.random.default_rng(n).integers(0, 255, (40 + n, 50, 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / f"f{n}.png")
        items.append(
            Item(f"f{n}", root / f"f{n}.png", "train", kind="image", attributes={"face": n % 2, "red": 1})
        )
    return Clips(Dataset("pictures", root, tuple(items)), "train")


@pytest.fixture(scope="module")
def straight(films: Clips, tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Path]:
    """One whole run that several tests look at."""
    folder = tmp_path_factory.mktemp("runs") / "straight"
    return fit_pixel(quick(), films, folder, seed=3, device="cpu"), folder


def bytes_of(folder: Path, name: str = "model.safetensors") -> bytes:
    return (folder / name).read_bytes()


# --- a run --------------------------------------------------------------------------------------------------


def test_a_run_folder_has_everything_that_it_promises(straight: tuple[Made, Path]) -> None:
    made, folder = straight
    assert {path.name for path in folder.iterdir()} == {
        "run.json",
        "recipe.yaml",
        "identity.safetensors",
        "checkpoint.safetensors",
        "history.jsonl",
        "epochs",
        "utility.safetensors",
        "config.json",
        "model.safetensors",
        "README.md",
    }
    run = json.loads((folder / "run.json").read_text())
    assert run["seed"] == 3
    assert PixelRecipe.from_json(run["recipe"]) == quick()
    assert run["sources"]["videos"]["dataset"] == "films"
    assert run["sources"]["videos"]["split"] == "train"
    assert "name: quick" in (folder / "recipe.yaml").read_text()
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [record["act"] for record in records] == ["utility start", "budget start", "minimax", "minimax"]
    assert records == list(made.history)
    assert sorted(path.name for path in (folder / "epochs").iterdir()) == [
        "0001.safetensors",
        "0002.safetensors",
    ]
    card = (folder / "README.md").read_text()
    assert "quick" in card
    assert "films (train)" in card


def told(folder: Path) -> tuple[list[str], str]:
    """The notes in run.json, and those on the card as one text."""
    card = json.loads((folder / "config.json").read_text())["card"]
    return json.loads((folder / "run.json").read_text()).get("notes", []), card["notes"]


def test_a_start_that_missed_its_goal_is_said_at_once_and_noted_in_the_run_and_on_the_card(
    films: Clips, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"epochs": 1, "headway": Headway(share=0.0)}
    recipe = quick(start=replace(QUICK.start, identity_epochs=2), **changes)
    with pytest.warns(UserWarning, match="quick: the identity start ended with a mean"):
        made = fit_pixel(recipe, films, tmp_path / "missed", device="cpu")
    assert made.identity is not None
    (note,), card = told(tmp_path / "missed")
    assert f"of {made.identity.error:.3g} on held-out frames instead of 0.01 at most" in note
    assert f"T{note[1:]}." in card
    reached = replace(QUICK.start, identity_epochs=2, identity_goal=0.9)
    fit_pixel(quick(start=reached, **changes), films, tmp_path / "reached", device="cpu")
    assert told(tmp_path / "reached") == ([], "Recipe `quick`, trained against budget nets.")


def test_a_game_that_hid_little_is_noted_in_the_run_and_on_the_card_and_not_stopped(
    films: Clips, tmp_path: Path
) -> None:
    start = replace(QUICK.start, identity_epochs=0)
    recipe = quick(epochs=1, start=start, headway=Headway(share=9.0))  # of nine times its chance level
    made = fit_pixel(recipe, films, tmp_path, device="cpu")
    last = made.history[-1]
    (note,), card = told(tmp_path)
    assert f"L_B was {last['budget']:.3f}" in note
    assert f"of its chance level {last['chance']:.3f}" in note
    assert f"A{note[1:]}." in card
    again = fit_pixel(
        recipe, films, tmp_path, device="cpu"
    )  # what is noted is no part of what the run is known by
    assert again.anonymizer.content_hash() == made.anonymizer.content_hash()


def test_what_was_made_is_what_is_loaded_and_can_be_used_at_once(straight: tuple[Made, Path]) -> None:
    made, folder = straight
    loaded = PixelAnonymizer.from_pretrained(folder)
    assert loaded.content_hash() == made.anonymizer.content_hash()
    assert not made.anonymizer.training
    assert loaded.config.size == 32
    frames = torch.rand(2, 3, 24, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded(frames), made.anonymizer(frames))
    assert made.identity is not None
    assert made.identity.epochs == 2
    assert 0 < made.identity.error < 0.5


def test_the_utility_net_is_kept_as_an_encoder_for_features(straight: tuple[Made, Path]) -> None:
    made, folder = straight
    encoder = create("tiny", weights=folder / "utility.safetensors")
    assert made.utility is not None
    assert (encoder.input.frames, encoder.input.size) == (8, 32)
    assert encoder.content_hash() == made.utility.encoder.content_hash()
    clips = torch.rand(2, 3, 8, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(encoder(clips), made.utility.encoder.eval()(clips))
        assert not torch.allclose(encoder(clips), create("tiny", weights="random", size=32, frames=8)(clips))


def test_a_finished_run_is_found_and_nothing_is_trained_again(
    straight: tuple[Made, Path], films: Clips
) -> None:
    made, folder = straight
    stamps = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    def never(*_: Any) -> None:
        raise AssertionError("a finished run was trained again")

    again = fit_pixel(quick(), films, folder, seed=3, device="cpu", progress=never, look=never)
    assert again.anonymizer.content_hash() == made.anonymizer.content_hash()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == stamps


def test_a_run_with_other_settings_seed_or_data_is_refused(straight: tuple[Made, Path], films: Clips) -> None:
    _, folder = straight
    for recipe, source, seed, named in (
        (quick(w_budget=2.0), films, 3, "recipe"),
        (quick(), films, 4, "seed"),
        (quick(), films.with_split("test"), 3, "sources"),
    ):
        with pytest.raises(UsageError, match=f"holds a run with other {named}"):
            fit_pixel(recipe, source, folder, seed=seed, device="cpu")


def test_a_run_of_before_a_setting_was_known_is_found_by_who_asks_for_its_default(
    straight: tuple[Made, Path], films: Clips, tmp_path: Path
) -> None:
    made, folder = straight
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    run = json.loads((older / "run.json").read_text())
    for part, names in LATER.items():
        for name in names:
            del run["recipe"]["settings"][part][name]
    (older / "run.json").write_text(json.dumps(run))
    again = fit_pixel(quick(), films, older, seed=3, device="cpu")
    assert again.anonymizer.content_hash() == made.anonymizer.content_hash()
    assert len(budget_nets(older)) == 1
    dropping = quick(utility=replace(QUICK.utility, dropout=0.5))
    with pytest.raises(UsageError, match="holds a run with other recipe"):
        fit_pixel(dropping, films, older, seed=3, device="cpu")
    (older / "run.json").write_text(json.dumps({**run, "recipe": "spact"}))
    with pytest.raises(UsageError, match="holds a run with other recipe"):
        fit_pixel(quick(), films, older, seed=3, device="cpu")


def test_budget_nets_of_a_run_start_from_a_file(films: Clips, tmp_path: Path) -> None:
    (name,) = LABELS.members
    save(create(name, weights="random", seed=9, size=32), tmp_path / "learnt.safetensors", {})
    start = replace(QUICK.start, budget_epochs=0, utility_epochs=0)
    recipe = quick(phases=(Phase("utility"),), epochs=1, start=start)  # nobody teaches f_B
    recipe = recipe.with_text("settings.budget.weights", str(tmp_path / "learnt.safetensors"))
    made = fit_pixel(recipe, films, tmp_path / "run", device="cpu")
    learnt = create(name, weights=tmp_path / "learnt.safetensors", classes=0, size=32)
    assert made.budgets[0].encoder.content_hash() == learnt.content_hash()
    assert budget_nets(tmp_path / "run")[0].encoder.content_hash() == learnt.content_hash()
    with pytest.raises(CheckpointError, match="nowhere"):
        fit_pixel(recipe.with_text("settings.budget.weights", "nowhere.safetensors"), films, tmp_path / "no")
    assert not (tmp_path / "no").exists()


class Killed(Exception):
    pass


def killed(*_: Any) -> None:
    raise Killed


def test_the_encoder_of_a_unetpp_starts_from_a_file_before_it_learns_the_identity(
    films: Clips, tmp_path: Path
) -> None:
    learnt, path = create("resnet.18", weights="random", seed=9, classes=0), tmp_path / "learnt.safetensors"
    save(learnt, path, {})
    start = replace(QUICK.start, utility_epochs=0, budget_epochs=0)
    own = quick(stages=(UNetPP(),), budget=None, phases=(Phase("utility"),), epochs=1, start=start)
    own = own.with_text("settings.start.anonymizer_weights", str(path))  # nobody teaches f_A
    made = fit_pixel(own, films, tmp_path / "run", device="cpu")
    state = made.anonymizer.stages[0].encoder.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in learnt.network.state_dict().items())

    taught = own.changed("settings.start.identity_epochs", 1)
    plain = taught.changed("settings.start.anonymizer_weights", "")
    with pytest.raises(Killed):
        fit_pixel(taught, films, tmp_path / "cut", device="cpu", progress=killed)
    whole = fit_pixel(taught, films, tmp_path / "whole", device="cpu")
    other = fit_pixel(plain, films, tmp_path / "plain", device="cpu")
    path.unlink()  # what f_A started from is not needed again
    cut = fit_pixel(taught, films, tmp_path / "cut", device="cpu")
    assert cut.anonymizer.content_hash() == whole.anonymizer.content_hash()
    assert len({one.anonymizer.content_hash() for one in (made, whole, other)}) == 3


def test_weights_for_an_encoder_that_f_a_has_not_are_refused(films: Clips, tmp_path: Path) -> None:
    recipe = quick().with_text("settings.start.anonymizer_weights", "w.safetensors")
    said = r"quick: settings\.start\.anonymizer_weights=w\.safetensors are for .* among its stages \(unet\)"
    with pytest.raises(UsageError, match=said):
        fit_pixel(recipe, films, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("source", ["video", "images"])
def test_a_run_of_before_images_had_passes_of_their_own_is_found_only_where_that_changes_nothing(
    source: Any, straight: tuple[Made, Path], films: Clips, pictures: Clips, tmp_path: Path
) -> None:
    if source == "video":
        made, folder = straight
        recipe, given = quick(), {"seed": 3}
    else:
        recipe = quick(budget=replace(QUICK.budget, source="images"), epochs=1)  # type: ignore[type-var]
        folder, given = tmp_path / "images", {"images": pictures}
        made = fit_pixel(recipe, films, folder, device="cpu", **given)
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    run = json.loads((older / "run.json").read_text())
    assert run["recipe"]["settings"]["one_pass"] is None
    run["recipe"]["settings"]["one_pass"] = True
    (older / "run.json").write_text(json.dumps(run))

    def again(asked: PixelRecipe, where: Path) -> str:
        return fit_pixel(asked, films, where, device="cpu", **given).anonymizer.content_hash()

    told = recipe.with_text("settings.one_pass", "true")
    assert again(told, older) == made.anonymizer.content_hash()
    if source == "video":
        assert again(recipe, older) == again(told, folder) == made.anonymizer.content_hash()
    else:
        for asked, where in ((recipe, older), (told, folder)):
            with pytest.raises(UsageError, match="holds a run with other recipe"):
                again(asked, where)


def test_a_run_whose_f_t_began_with_a_temporal_term_is_not_taken_for_one_of_actions(
    films: Clips, tmp_path: Path
) -> None:
    recipe = quick(utility=replace(QUICK.utility, temporal="triplet"), epochs=1)
    made = fit_pixel(recipe, films, tmp_path, device="cpu")
    path = tmp_path / "run.json"
    run = json.loads(path.read_text())
    assert fit_pixel(recipe, films, tmp_path).anonymizer.content_hash() == made.anonymizer.content_hash()
    assert run.pop("utility_start") == "actions"
    path.write_text(json.dumps(run))
    with pytest.raises(UsageError, match="holds a run with other utility_start"):
        fit_pixel(recipe, films, tmp_path, device="cpu")


def test_videos_that_are_too_short_for_a_published_rule_are_left_out_of_a_run(
    films: Clips, tmp_path: Path
) -> None:
    path = encode(tmp_path / "short.mp4", count=4, size=(48, 36))
    short = Item("short", path, "train", action="left", attributes={"tall": 1, "old": 1})
    source = Clips(replace(films.dataset, items=(*films.dataset.items, short)), "train")
    recipe = quick(utility=replace(QUICK.utility, sampler="spact"), budget=LABELS, epochs=1)
    made = fit_pixel(recipe, source, tmp_path / "run", device="cpu")
    known = private_labels(films.items(), "attributes")
    assert made.history[-1]["chance"] == pytest.approx(made.budgets[0].chance(4, known))


def test_a_stopped_run_is_no_anonymizer_until_somebody_says_go_on(films: Clips, tmp_path: Path) -> None:
    stopped = quick(headway=Headway(epochs=2, share=3.0))
    for _ in range(2):
        with pytest.raises(NoHeadway, match="after 2 epochs the budget nets still win") as caught:
            fit_pixel(stopped, films, tmp_path, device="cpu")
        assert not (tmp_path / "config.json").exists()
        assert not (tmp_path / "model.safetensors").exists()
    assert "settings.headway.epochs=0 goes on with this run" in str(caught.value)
    fit_pixel(stopped.with_text("settings.headway.epochs", "0"), films, tmp_path, device="cpu")
    assert (tmp_path / "config.json").is_file()


def test_what_does_not_change_the_result_may_be_changed_in_a_run(
    straight: tuple[Made, Path], films: Clips
) -> None:
    made, folder = straight
    changes: dict[str, Any] = {
        "checkpoint_every": 7,
        "keep_every": 5,
        "workers": 1,
        "cache_gib": 1.0,
        "compile": True,
        "headway": Headway(epochs=4),
        "repeatable": False,
    }
    assert set(changes) == set(FREE_TO_CHANGE)
    for name, value in changes.items():
        again = fit_pixel(quick(**{name: value}), films, folder, seed=3, device="cpu")
        assert again.anonymizer.content_hash() == made.anonymizer.content_hash()


def test_other_words_on_what_is_not_as_published_are_no_other_recipe(
    straight: tuple[Made, Path], films: Clips
) -> None:
    made, folder = straight
    again = fit_pixel(replace(quick(), approximation="A UNet."), films, folder, seed=3, device="cpu")
    assert again.anonymizer.content_hash() == made.anonymizer.content_hash()


def test_a_recipe_that_has_nothing_to_train_says_so(films: Clips, tmp_path: Path) -> None:
    recipe = veil_pixel().changed("settings.epochs", 1)
    with pytest.raises(UsageError, match=r"veil-pixel: settings\.epochs=1, but there is nothing to train"):
        fit_pixel(recipe, films, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


KILLED = """
import sys, time, torch
from pathlib import Path
from tests.recipes.test_pixel_fitting import quick
from tests.training.minimax_world import videos
from videoveil.recipes import fit_pixel
from videoveil.tasks.base import Clips

torch.set_num_threads(int(sys.argv[3]))
dataset = videos(Path(sys.argv[1]))


def wait(done, total, value):
    if done == total - 1:  # in the middle of the last epoch
        print("now", flush=True)
        time.sleep(600)


fit_pixel(quick(), Clips(dataset, "train"), sys.argv[2], seed=3, device="cpu", progress=wait)
"""


@pytest.mark.slow
def test_a_run_whose_process_was_killed_goes_on_to_the_same_bytes(
    straight: tuple[Made, Path], films: Clips, tmp_path: Path
) -> None:
    here = Path(__file__).parents[2]
    cut = tmp_path / "cut"
    root = films.dataset.root
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(root), str(cut), str(torch.get_num_threads())],
        stdout=subprocess.PIPE,
        text=True,
        cwd=here,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert (cut / "checkpoint.safetensors").is_file()
    assert not (cut / "config.json").exists()
    steps: list[int] = []
    fit_pixel(
        quick(), films, cut, seed=3, device="cpu", progress=lambda done, total, value: steps.append(done)
    )
    _, whole = straight
    per_epoch = max(steps) // 4
    assert min(steps) == 3 * per_epoch + 1  # the last epoch begins anew, and only that
    assert bytes_of(cut) == bytes_of(whole)
    kept = [create("tiny", weights=folder / "utility.safetensors").content_hash() for folder in (cut, whole)]
    assert kept[0] == kept[1]
    for mine, other in zip(
        *((f / "history.jsonl").read_text().splitlines() for f in (cut, whole)), strict=True
    ):
        assert {**json.loads(mine), "seconds": 0} == {**json.loads(other), "seconds": 0}


SEVERAL = """
import sys, time
from dataclasses import replace
from pathlib import Path
from tests.recipes.test_pixel_fitting import Grey, Start, quick
from tests.training.minimax_world import QUICK, videos
from videoveil import devices
from videoveil.recipes import fit_pixel
from videoveil.tasks.base import Clips

fabric = devices.make_fabric("cpu")
root, rank = Path(sys.argv[1]), fabric.global_rank
met = fabric.barrier


def late(*given):  # so late that what the first process writes next is there
    met(*given)
    time.sleep(rank / 2)


fabric.barrier = late
clips = Clips(videos(root / f"videos{rank}"), "train")
still = quick(stages=(Grey(),), epochs=0, start=Start(utility_epochs=0, budget_epochs=0))
trained = quick(
    batch=4, epochs=1, start=replace(QUICK.start, identity_epochs=0, utility_epochs=0, budget_epochs=0)
)
for name, recipe in (("still", still), ("trained", trained)):
    found = [fit_pixel(recipe, clips, root / name, seed=3, fabric=fabric) for _ in range(2)]
    assert len({made.anonymizer.content_hash() for made in found}) == 1
    (root / f"{name}{rank}").write_text(found[0].anonymizer.content_hash())
    met()
"""


@pytest.mark.slow
def test_processes_of_which_one_is_late_make_one_run_together(tmp_path: Path) -> None:
    script = tmp_path / "several.py"
    script.write_text(SEVERAL)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    here = Path(__file__).parents[2]
    done = subprocess.run(
        [*command, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=here,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        },
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for name in ("still", "trained"):
        hashes = {(tmp_path / f"{name}{rank}").read_text() for rank in (0, 1)}
        assert hashes == {PixelAnonymizer.from_pretrained(tmp_path / name).content_hash()}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    straight: tuple[Made, Path], films: Clips, tmp_path: Path
) -> None:
    _, folder = straight
    fit_pixel(quick(), films, tmp_path / "same", seed=3, device="cpu")
    fit_pixel(quick(), films, tmp_path / "other", seed=4, device="cpu")
    assert bytes_of(tmp_path / "same") == bytes_of(folder)
    assert bytes_of(tmp_path / "other") != bytes_of(folder)


# --- sources ------------------------------------------------------------------------------------------------


def test_images_are_what_the_budget_nets_see_where_the_recipe_says_so(
    films: Clips, pictures: Clips, tmp_path: Path
) -> None:
    recipe = quick(budget=Budget(members=("mobilenet.v1-0.25",), source="images"), epochs=1)
    with pytest.raises(UsageError, match="quick: its budget nets look at images; give a dataset of images"):
        fit_pixel(recipe, films, tmp_path / "a", device="cpu")
    assert not (tmp_path / "a").exists()
    made = fit_pixel(recipe, films, tmp_path / "b", images=pictures, device="cpu")
    assert made.history[-1]["chance"] == pytest.approx(math.log(2 * 4 - 1))
    assert set(json.loads((tmp_path / "b" / "run.json").read_text())["sources"]) == {"videos", "images"}
    assert "Training data: videos: films (train), images: pictures (train)\n" in (
        tmp_path / "b" / "README.md"
    ).read_text(encoding="utf-8")


def test_images_that_were_there_for_pictures_alone_are_no_training_data(
    films: Clips, pictures: Clips, tmp_path: Path
) -> None:
    fit_pixel(quick(epochs=1), films, tmp_path, images=pictures, device="cpu")
    assert "Training data: videos: films (train)\n" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_an_image_that_is_called_like_a_video_is_not_taken_for_it(
    films: Clips, pictures: Clips, tmp_path: Path
) -> None:
    """Same ids, other pictures: with the images under names of their own the run is the same."""
    recipe = quick(budget=Budget(members=("mobilenet.v1-0.25",), source="images"), epochs=1)
    one = fit_pixel(recipe, films, tmp_path / "a", images=pictures, device="cpu")
    first = pictures.dataset.items[0]
    kept = Path(first.path).read_bytes()
    try:
        Image.fromarray(np.full((40, 50, 3), 7, np.uint8)).save(first.path)
        two = fit_pixel(recipe, films, tmp_path / "b", images=pictures, device="cpu")
    finally:
        first.path.write_bytes(kept)
    budgets = [[record.get("budget_learning") for record in made.history] for made in (one, two)]
    assert budgets[0] != budgets[1]  # what is in the image is seen


def test_supervised_budgets_learn_the_attributes_of_the_dataset_or_those_they_are_told(
    films: Clips, tmp_path: Path
) -> None:
    recipe = quick(budget=LABELS, epochs=1)
    own = fit_pixel(recipe, films, tmp_path / "own", device="cpu")
    assert own.budgets[0].head.weight.shape[0] == 2  # tall, old
    said = "trained against budget nets, which were taught private labels (attributes)."
    assert said in told(tmp_path / "own")[1]
    other = fit_pixel(
        recipe, films, tmp_path / "other", labels=lambda item: {"x": len(item.id) % 2}, device="cpu"
    )
    assert other.budgets[0].head.weight.shape[0] == 1
    items = films.items()
    values = private_labels(items, "attributes")
    assert own.history[-1]["chance"] == pytest.approx(own.budgets[0].chance(4, values))


def test_private_labels_are_a_row_per_item_with_gaps_where_nothing_is_known() -> None:
    items = [
        Item("a", Path("a"), "train", attributes={"old": 1, "tall": 0}, objects=("ball",), scenes=("hall",)),
        Item("b", Path("b"), "train", attributes={"tall": 1}, objects=("ball", "hat")),
        Item("c", Path("c"), "train"),
    ]
    nan = float("nan")
    found = private_labels(items, "attributes")
    assert torch.equal(found.nan_to_num(9), torch.tensor([[1.0, 0], [nan, 1], [nan, nan]]).nan_to_num(9))
    assert private_labels(items, "objects").tolist() == [[1, 0], [1, 1], [0, 0]]
    assert private_labels(items, "scenes").tolist() == [[1], [0], [0]]
    told = private_labels(items, "attributes", lambda item: {"x": 1} if item.id == "c" else None)
    assert told.nan_to_num(9).tolist() == [[9], [9], [1]]
    kept, values = labelled(items, "attributes", None, "films")
    assert [item.id for item in kept] == ["a", "b"]
    assert torch.equal(values.nan_to_num(9), found[:2].nan_to_num(9))
    for few, count in ((items[2:], "0 of 1"), (items[1:], "1 of 2")):
        with pytest.raises(
            AnnotationError, match=f"films: {count} items have attributes; .* needs 2 or more"
        ):
            labelled(few, "attributes", None, "films")


@pytest.mark.parametrize("source", ["video", "images"])
def test_samples_without_any_label_take_no_part_and_a_blind_budget_net_is_at_chance(
    source: Any, films: Clips, pictures: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third is unlabelled; of the others every label is there as often as not, so that "maybe" is all one can say."""
    learnt = BudgetNet.forward
    monkeypatch.setattr(BudgetNet, "forward", lambda self, views: 0 * learnt(self, views))
    given = films if source == "video" else pictures
    first = given.items()[:6]
    rows = [{"tall": 0, "old": 1}, {"tall": 1}, None, {"tall": 1, "old": 0}, {"tall": 0}, {}]
    known = {item.id: row for item, row in zip(first, rows)}
    recipe = quick(
        budget=replace(LABELS, source=source),
        privacy_batch=2,
        epochs=4,
        start=replace(QUICK.start, utility_epochs=0),
        headway=Headway(epochs=1, share=0.99),
    )
    made = fit_pixel(
        recipe,
        films,
        tmp_path,
        images=pictures if source == "images" else None,
        labels=lambda item: known[item.id],
        device="cpu",
    )
    assert len(made.history) == 5
    for record in made.history:
        assert record["chance"] == pytest.approx(math.log(2))
        for name in {"budget", "budget_learning"} & set(record):
            assert record[name] == pytest.approx(record["chance"], rel=1e-5)
        assert math.isfinite(record.get("sure", 0.0))


def test_a_supervised_budget_net_needs_labelled_samples(films: Clips, tmp_path: Path) -> None:
    (first, *_) = films.items()
    told = {first.id: {"tall": 1}}
    with pytest.raises(AnnotationError, match="films: 1 of 6 items have attributes"):
        fit_pixel(
            quick(budget=LABELS), films, tmp_path / "a", labels=lambda item: told.get(item.id), device="cpu"
        )
    assert not (tmp_path / "a").exists()


# --- what cannot be trained on ------------------------------------------------------------------------------


def test_videos_that_are_anonymized_already_are_refused(films: Clips, tmp_path: Path) -> None:
    veiled = films.with_anonymizer(pixel(Grey()))
    with pytest.raises(UsageError, match="quick: its videos are anonymized already"):
        fit_pixel(quick(), veiled, tmp_path / "run", device="cpu")


def test_every_broken_video_and_label_is_listed_before_training(films: Clips, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("not a video")
    items = (
        *films.dataset.items,
        Item("text", tmp_path / "text.mp4", "train", action="left"),
        replace(films.items()[0], id="unnamed", action=None),
    )
    with pytest.raises(BadItems) as caught:
        fit_pixel(
            quick(), Clips(replace(films.dataset, items=items), "train"), tmp_path / "run", device="cpu"
        )
    assert [line.partition(":")[0] for line in caught.value.offenders] == ["unnamed", "text"]


def test_a_recipe_without_epochs_uses_its_stages_as_they_are(films: Clips, tmp_path: Path) -> None:
    recipe = quick(
        stages=(Grey(), LowResolution(8)), epochs=0, start=Start(utility_epochs=0, budget_epochs=0)
    )
    made = fit_pixel(recipe, films, tmp_path, device="cpu")
    assert made.utility is None
    assert not (tmp_path / "checkpoint.safetensors").exists()
    assert (
        PixelAnonymizer.from_pretrained(tmp_path).content_hash()
        == pixel(Grey(), LowResolution(8)).content_hash()
    )


# --- which way it goes --------------------------------------------------------------------------------------

GAME = replace(
    QUICK,
    batch=6,
    privacy_batch=12,
    # a mirrored way to the right is one to the left, so clips are only cropped
    utility=replace(
        QUICK.utility, frames=2, stride=2, weights="own", freeze_norm=True, augment="ted-spad-weak"
    ),
    budget=Budget(members=("resnet.18",), augment="weak"),
    phases=(Phase("anonymizer", 5), Phase("auxiliary")),
    checkpoint_every=100,
    keep_every=0,
)
BEGIN = Start(
    identity_epochs=10,
    identity_batch=8,
    identity_rate=5e-3,
    identity_warmup=2,
    identity_goal=0.015,
    utility_epochs=30,
    utility_batch=12,
    budget_epochs=40,
)
LAPS, LATE = 36, 12  # epochs of a game, of two steps each, and how many of them are compared


def waves(path: Path, number: int) -> Path:
    """A square that goes to the right or to the left, before a wall of long waves that is the video's own."""
    dice = np.random.default_rng(number)
    y, x = np.mgrid[0:36, 0:48] / 10
    wall = np.full((36, 48, 3), 128.0)
    for channel in range(3):
        wall[..., channel] += dice.uniform(-50, 50)
        for strength, down, right, phase in dice.uniform([-40, -1, -1, 0], [40, 1, 1, 6.3], (3, 4)):
            wall[..., channel] += strength * np.sin(down * y + right * x + phase)
    wall = wall.clip(0, 255)

    def picture(time: int) -> np.ndarray:
        place = 17 * time // 10 % 40 if number % 2 else 40 - 17 * time // 10 % 40
        image = wall.copy()
        image[12:24, place : place + 8] = 255 - image[12:24, place : place + 8]
        return image.astype(np.uint8)

    return encode(path, images=(picture(time) for time in range(24)), size=(48, 36))


class Eye(nn.Module):
    """A small encoder for a budget net. Without batch norm it answers f_A as it learnt, after however few steps."""

    width = 64

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for narrow, wide in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(narrow, wide, 3, stride=2, padding=1), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(frames)
        return found


def players(dataset: Dataset, own: MinimaxSettings, seed: int) -> MinimaxLoop:
    made = loop(dataset, own, seed=seed)
    made.anonymizer = PixelAnonymizer(PixelConfig((UNet(width=8),)), seed=seed)
    for net in made.budgets:
        with seeded(seed):
            net.encoder = Eye()  # type: ignore[assignment]
            net.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 128))
    return made


def starts(dataset: Dataset, seed: int) -> dict[str, Any]:
    """All players where f_A has learnt the identity, and then f_T and f_B through it."""
    made = players(dataset, replace(GAME, epochs=0, start=BEGIN), seed)
    stream = made.batches.videos
    frame = identity_frames(stream.samples, stream.frames, GAME.size, seed)
    learn_identity(
        made.anonymizer.networks, lambda p, e: frame(p % 12, 100 * e + p // 12), 120, BEGIN, seed=seed
    )
    made.run()
    return state(made)


def game(dataset: Dataset, begun: dict[str, Any], seed: int, **changes: Any) -> dict[str, float]:
    """What f_A met in the last epochs of a game that begins where the starts ended."""
    own = replace(GAME, epochs=LAPS, start=replace(BEGIN, utility_epochs=0, budget_epochs=0))
    made = players(dataset, replace(own, **changes), seed)
    made.set_up()
    for name, network in made.players.networks().items():
        network.load_state_dict(begun[name])
    made.set_up = lambda: None  # type: ignore[method-assign]
    history = [record for record in made.run()[-LATE:] if "budget" in record]
    return {
        name: float(np.mean([record[name] for record in history])) for name in ("budget", "utility", "rms")
    }


def mean_of(games: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in games])) for name in games[0]}


@pytest.mark.slow
def test_hiding_is_what_the_budget_asks_for_and_the_leash_holds_it_back(tmp_path: Path) -> None:
    """The papers' direction, in games in which f_T and f_B answer: five steps of f_A to one of theirs, three seeds.

    w_B = 0 stays near the identity; w_B > 0 raises L_B, and L_T stays; a smaller B changes less.
    """
    items = [
        Item(f"w{n:02d}", waves(tmp_path / f"w{n:02d}.mp4", n), "train", action=("left", "right")[n % 2])
        for n in range(12)
    ]
    dataset = Dataset("waves", tmp_path, tuple(items), classes=("left", "right"))
    at_rest = {
        "rates": replace(GAME.rates, anonymizer=1e-12),
        "phases": (Phase("anonymizer"),),
        "epochs": LATE // 2,
    }
    seeds = (1, 2, 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a game goes elsewhere when sums are added up in another order
    try:
        begun = {seed: starts(dataset, seed) for seed in seeds}
        first, still, hidden = (
            mean_of([game(dataset, begun[seed], seed, **changes) for seed in seeds])
            for changes in (at_rest, {"w_budget": 0.0}, {"w_budget": 1.0})
        )
        short, long = (
            game(dataset, begun[1], 1, penalty=Penalty(bound=bound), w_penalty=30.0) for bound in (0.05, 0.1)
        )
    finally:
        torch.set_num_threads(threads)
    assert still["rms"] < first["rms"] + 0.03
    assert still["rms"] < 0.85 * hidden["rms"]
    assert hidden["budget"] > first["budget"] + 0.3
    assert hidden["budget"] > still["budget"] + 0.3
    assert (
        max(first["utility"], still["utility"], hidden["utility"]) < math.log(2) - 0.3
    )  # which a guess costs
    assert hidden["utility"] < still["utility"] + 0.2
    assert short["rms"] < 0.85 * long["rms"]


def test_a_recipe_whose_networks_cannot_be_built_leaves_no_run_behind(films: Clips, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    wrong = quick(utility=replace(QUICK.utility, encoder="r3d.18", weights="own"))
    with pytest.raises(UsageError, match="comes without weights of its own"):
        fit_pixel(wrong, films, folder, device="cpu")
    assert not folder.exists()
