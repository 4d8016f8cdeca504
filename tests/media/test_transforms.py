"""Presets: one draw per clip, published chances and ranges, the same result alone and in a batch."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
import torch

from videoveil import _torchvision  # noqa: F401
from videoveil.errors import UsageError
from videoveil.media.colour import Adjust
from videoveil.media.crops import Box, Geometry
from videoveil.media.transforms import (
    AROUND,
    Draw,
    EvalTransform,
    apply,
    apply_one,
    looks,
    preset,
    preset_names,
    ten_crop,
    ten_crop_geometries,
    tile,
    to_float,
)

from torchvision.transforms.v2 import functional as reference  # isort: skip  (needs the import above)

TESTS = ("spact-test", "spact-test-image", "ted-spad-test", "splavu-test")
RANDOM = tuple(name for name in preset_names() if name not in TESTS)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
MANY = 20_000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def decoded(
    count: int = 3, frames: int = 2, height: int = 48, width: int = 64, seed: int = 0
) -> torch.Tensor:
    """Smooth decoded clips, uint8 `(N, T, H, W, 3)`: real pictures are not white noise."""
    coarse = torch.rand(count * frames, 3, 6, 8, generator=seeded(seed))
    fine = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)
    return (fine * 255).byte().reshape(count, frames, 3, height, width).permute(0, 1, 3, 4, 2).contiguous()


def within_binomial(hits: int, chance: float, trials: int = MANY) -> bool:
    """Four standard deviations; the seeds are fixed, so a right chance does not fail now and then."""
    return abs(hits - chance * trials) <= 4 * math.sqrt(trials * chance * (1 - chance)) + 1e-9


@pytest.fixture(scope="module")
def draws() -> dict[str, tuple[Draw, ...]]:
    """Many draws of every random preset for the papers' 240×320 clips and sizes."""
    sizes = {name: 224 if name.startswith(("ted", "splavu")) else 112 for name in RANDOM}
    return {name: preset(name, sizes[name]).draw(MANY, 240, 320, seeded(7)) for name in RANDOM}


def changes(many: tuple[Draw, ...], kind: str) -> list[float]:
    return [change.factor for draw in many for change in draw.colour if change.kind == kind]


# --- one draw per clip ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
def test_the_frames_of_a_static_clip_stay_identical(name):
    static = tile(to_float(decoded(6, 1))[:, :, 0], 4)
    out = preset(name, 24)(static, seeded())
    assert out.shape == (6, 3, 4, 24, 24)
    assert torch.equal(out, out[:, :, :1].expand_as(out))


@pytest.mark.parametrize("name", preset_names())
def test_frames_share_the_draw_as_if_each_were_transformed_alone(name):
    clips = decoded(4, 5)
    many = preset(name, 24).draw(4, 48, 64, seeded(3))
    together = apply(clips, many)
    for t in range(5):
        assert torch.equal(together[:, :, t : t + 1], apply(clips[:, t : t + 1], many))


@pytest.mark.parametrize("name", RANDOM)
def test_clips_of_a_batch_get_different_draws(name):
    same = decoded(1).expand(4, -1, -1, -1, -1)
    many = preset(name, 24).draw(4, 48, 64, seeded())
    assert len(set(many)) == 4
    out = apply(same, many)
    assert all(not torch.equal(out[i], out[j]) for i in range(4) for j in range(i))


@pytest.mark.parametrize("name", preset_names())
def test_the_same_seed_gives_the_same_clips(name):
    clips = decoded()
    assert torch.equal(preset(name, 24)(clips, seeded(1)), preset(name, 24)(clips, seeded(1)))


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("as_uint8", [True, False])
def test_a_clip_does_not_depend_on_the_batch(name, as_uint8):
    clips = decoded(5) if as_uint8 else to_float(decoded(5))
    many = preset(name, 24).draw(5, 48, 64, seeded(2))
    whole = apply(clips, many)
    for i in range(5):
        assert torch.equal(apply(clips[i : i + 1], many[i : i + 1]), whole[i : i + 1])
    order = [3, 0, 4, 1, 2]
    assert torch.equal(apply(clips[order], [many[i] for i in order]), whole[order])


def test_clips_of_different_sizes_make_one_batch():
    small, large = decoded(1)[0], decoded(1, height=60, width=100)[0]
    made = preset("weak", 24)
    many = made.draw(1, 48, 64, seeded()) + made.draw(1, 60, 100, seeded(1))
    out = apply([small, large], many)
    assert out.shape == (2, 3, 2, 24, 24)
    assert torch.equal(out[1], apply_one(large, many[1]))


@pytest.mark.parametrize("name", preset_names())
def test_values_stay_between_0_and_1_and_the_input_is_left_alone(name):
    clips = decoded(8)
    floats = to_float(clips)
    kept, kept_floats = clips.clone(), floats.clone()
    for batch in (clips, floats):
        out = preset(name, 20)(batch, seeded(4))
        assert out.dtype == torch.float32
        assert out.min() >= 0
        assert out.max() <= 1
        assert torch.isfinite(out).all()
    assert torch.equal(clips, kept)
    assert torch.equal(floats, kept_floats)


@pytest.mark.parametrize("size", [1, 7, 64, 112])
def test_every_preset_gives_the_size_asked_for(size):
    for name in preset_names():
        assert preset(name, size)(decoded(2), seeded()).shape == (2, 3, 2, size, size)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", preset_names())
def test_every_device_gets_the_same_draws_and_the_same_pictures(name, device):
    floats = to_float(decoded())
    here = preset(name, 24)(floats, seeded(5))
    there = preset(name, 24)(floats.to(device), seeded(5))
    assert there.device.type == device
    assert (there.cpu() - here).abs().max() <= 1e-5
    decoded_there = preset(name, 24)(decoded().to(device), seeded(5))
    # A level of difference, times what the strongest contrast makes of it.
    assert (decoded_there.cpu() - here).abs().mean() <= 2 / 255


@pytest.mark.parametrize("name", preset_names())
def test_shapes_follow_on_a_device_without_data(name):
    out = preset(name, 24)(torch.empty(2, 3, 4, 48, 64, device="meta"), seeded())
    assert out.device.type == "meta"
    assert out.shape == (2, 3, 4, 24, 24)


def test_uint8_and_float_clips_agree_to_two_levels():
    clips = decoded(4)
    many = preset("ted-spad-weak", 24).draw(4, 48, 64, seeded())
    assert (apply(clips, many) - apply(to_float(clips), many)).abs().max() <= 2 / 255


# --- chances and ranges --------------------------------------------------------------------------------------

JITTERED = ("weak", "weak-image", "weak-identity", "tclr", "tclr-image", "ted-spad")


@pytest.mark.parametrize("name", JITTERED)
def test_jitter_has_the_published_chances_and_ranges(name, draws):
    many = draws[name]
    strength, hue, gamma = (0.25, 0.1, 0.25) if name.startswith("tclr") else (0.1, 0.05, 0.15)
    for kind, chance in (("contrast", 0.125), ("saturation", 0.15), ("brightness", 0.15)):
        factors = changes(many, kind)
        assert within_binomial(len(factors), chance)
        assert 1 - strength <= min(factors) < 1 - 0.97 * strength
        assert 1 + 0.97 * strength < max(factors) < 1 + strength
    shifts = changes(many, "hue")
    assert within_binomial(len(shifts), 0.15)
    assert -hue <= min(shifts) < -0.97 * hue
    assert 0.97 * hue < max(shifts) < hue
    exponents = changes(many, "gamma")
    greys = len(changes(many, "grey"))
    assert within_binomial(greys, 0.10)
    assert within_binomial(len(exponents), 0.75, greys)
    assert 1 - gamma <= min(exponents) < 1 - 0.95 * gamma
    assert 1 + 0.95 * gamma < max(exponents) < 1 + gamma


@pytest.mark.parametrize("name", JITTERED)
def test_contrast_comes_before_or_after_the_others_and_grey_with_gamma_last(name, draws):
    kinds = [[change.kind for change in draw.colour] for draw in draws[name]]
    order = ["contrast", "hue", "saturation", "brightness", "contrast", "grey", "gamma"]
    assert all(is_subsequence(found, order) and found.count("contrast") <= 1 for found in kinds)
    assert all("grey" in found for found in kinds if "gamma" in found)
    others = {"hue", "saturation", "brightness"}
    mixed = [found for found in kinds if "contrast" in found and others & set(found)]
    first = sum(found[0] == "contrast" for found in mixed)
    assert within_binomial(first, 0.5, len(mixed))


def is_subsequence(found: list[str], order: list[str]) -> bool:
    rest = iter(order)
    return all(kind in rest for kind in found)


@pytest.mark.parametrize("name", [name for name in RANDOM if name != "ted-spad-weak"])
def test_half_of_the_clips_are_flipped(name, draws):
    assert within_binomial(sum(draw.flip for draw in draws[name]), 0.5)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("weak", 9, 18), ("tclr-image", 9, 18), ("weak-identity", 5, 10)]
)
def test_spact_erases_a_quarter_and_never_a_flipped_clip(name, low, high, draws):
    many = draws[name]
    erased = [draw for draw in many if draw.erase]
    assert within_binomial(len(erased), 0.25)
    assert not any(draw.flip for draw in erased)
    boxes = [box for draw in erased for box in draw.erase]
    assert len(boxes) == len(erased)
    assert {box.height for box in boxes} == {box.width for box in boxes} == set(range(low, high + 1))
    assert min(box.top for box in boxes) == min(box.left for box in boxes) == 0
    assert max(box.top + box.height for box in boxes) == max(box.left + box.width for box in boxes) == 112


def test_ted_spad_erases_twice_independently_also_flipped_clips(draws):
    many = draws["ted-spad"]
    for count, chance in ((0, 0.36), (1, 0.48), (2, 0.16)):
        assert within_binomial(sum(len(draw.erase) == count for draw in many), chance)
    assert within_binomial(sum(bool(draw.erase) and draw.flip for draw in many), 0.64 * 0.5)
    boxes = [box for draw in many for box in draw.erase]
    assert {box.height for box in boxes} == set(range(40, 80))  # [H/6, H/3) of 240
    assert {box.width for box in boxes} == set(range(53, 106))  # [W/6, W/3) of 320
    assert max(box.top + box.height for box in boxes) == 224


def test_erased_rectangles_grow_with_the_output_and_fit_any():
    for size in (1, 2, 5, 16, 448):
        boxes = [box for draw in preset("ted-spad", size).draw(200, 48, 64, seeded()) for box in draw.erase]
        assert boxes
        assert all(box.height >= 1 and box.top + box.height <= size for box in boxes)
        assert all(box.width >= 1 and box.left + box.width <= size for box in boxes)
        if size == 448:
            assert all(80 <= box.height < 160 and 106 <= box.width < 212 for box in boxes)


@pytest.mark.parametrize("name", ["weak", "weak-image", "tclr", "ted-spad", "ted-spad-weak"])
def test_crops_keep_between_0_6_and_all_of_the_picture(name, draws):
    boxes = [draw.geometry.source for draw in draws[name]]
    heights = [box.height for box in boxes]
    assert (min(heights), max(heights)) in {(144, 239), (144, 240)}
    square = name in ("weak", "tclr")
    assert all((box.width == box.height) == square for box in boxes)


def test_simclr_jitters_all_or_nothing(draws):
    many = draws["simclr"]
    kinds = [[change.kind for change in draw.colour if change.kind != "grey"] for draw in many]
    full = ["brightness", "contrast", "saturation", "hue"]
    assert all(found in ([], full) for found in kinds)
    assert within_binomial(kinds.count(full), 0.8)
    assert within_binomial(len(changes(many, "grey")), 0.2)
    assert not changes(many, "gamma")
    assert not any(draw.erase for draw in many)
    for kind in full[:3]:
        assert 0.2 <= min(changes(many, kind)) < 0.21
        assert 1.79 < max(changes(many, kind)) < 1.8
    assert -0.2 <= min(changes(many, "hue")) < -0.199


def test_splavu_only_crops_and_flips_and_ted_spad_weak_only_crops(draws):
    assert not any(draw.colour or draw.erase for draw in draws["splavu"])
    assert not any(draw.colour or draw.erase or draw.flip for draw in draws["ted-spad-weak"])


def test_the_draws_of_a_clip_are_those_it_has_in_any_larger_batch():
    made = preset("tclr", 24)
    assert made.draw(3, 48, 64, seeded()) == made.draw(10, 48, 64, seeded())[:3]


# --- applying ------------------------------------------------------------------------------------------------


def test_a_draw_is_carried_out_in_the_published_order():
    clip = decoded(1)[0]
    geometry = Geometry(Box(4, 6, 36, 40), (24, 24), Box(0, 0, 24, 24))
    box = Box(3, 5, 7, 9)
    colour = (Adjust("contrast", 0.5), Adjust("hue", 0.1), Adjust("grey"), Adjust("gamma", 1.2))
    pictures = (
        reference.resize(clip.permute(0, 3, 1, 2)[:, :, 4:40, 6:46], [24, 24], antialias=True).float() / 255
    )
    pictures = reference.adjust_hue(reference.adjust_contrast(pictures, 0.5), 0.1)
    pictures = reference.adjust_gamma(reference.rgb_to_grayscale(pictures, 3), 1.2)
    pictures = reference.horizontal_flip(pictures)
    pictures = reference.erase(pictures, 3, 5, 7, 9, torch.zeros(1))
    got = apply_one(clip, Draw(geometry, colour, flip=True, erase=(box,)))
    assert (got.transpose(0, 1) - pictures).abs().max() <= 1e-5


def test_a_grey_clip_can_be_erased():
    clip = decoded(1)[0]
    geometry = preset("spact-test-image", 24).draw(1, 48, 64)[0].geometry
    whole = apply_one(clip, Draw(geometry, (Adjust("grey"),)))
    erased = apply_one(clip, Draw(geometry, (Adjust("grey"),), erase=(Box(2, 3, 5, 4),)))
    assert not erased[:, :, 2:7, 3:7].any()
    erased[:, :, 2:7, 3:7] = whole[:, :, 2:7, 3:7]
    assert torch.equal(erased, whole)


def test_a_static_clip_is_cut_like_the_clip_it_comes_from():
    clips = decoded(2, 4)
    many = preset("tclr", 24).draw(2, 48, 64, seeded(8))
    moving = apply(clips, many)
    static = apply(clips[:, 1:2].expand(-1, 4, -1, -1, -1), many)
    assert torch.equal(static[:, :, 3], moving[:, :, 1])


def test_gradients_pass_through_every_preset():
    for name in preset_names():
        floats = to_float(decoded(4)).requires_grad_()
        preset(name, 24)(floats, seeded(6)).sum().backward()
        assert floats.grad is not None
        assert torch.isfinite(floats.grad).all()
        assert floats.grad.abs().sum() > 0


def test_decoded_frames_become_floats_in_clip_layout():
    clips = decoded(2, 3)
    out = to_float(clips)
    assert out.shape == (2, 3, 3, 48, 64)
    assert out[1, 2, 0, 5, 7] == clips[1, 0, 5, 7, 2].item() / 255
    with pytest.raises(UsageError, match=r"uint8 \(N, T, H, W, 3\), got torch.float32"):
        to_float(out)


def test_a_tiled_image_costs_the_memory_of_one_frame():
    image = torch.rand(2, 3, 5, 6, generator=seeded())
    clip = tile(image, 16)
    assert clip.shape == (2, 3, 16, 5, 6)
    assert clip.data_ptr() == image.data_ptr()
    assert all(torch.equal(clip[:, :, t], image) for t in range(16))
    with pytest.raises(UsageError, match="images to tile"):
        tile(image[0], 16)


# --- test transforms and feature extraction ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size", "box"),
    [
        ("spact-test", 112, (24, 64, 192, 192)),
        ("spact-test-image", 112, (0, 40, 240, 240)),
        ("ted-spad-test", 224, (24, 32, 192, 256)),
    ],
)
def test_test_transforms_are_the_published_centre_crops(name, size, box):
    clips = decoded(1, 1, 240, 320)
    picture = to_float(clips)[0, :, 0]
    expected = reference.resized_crop(picture, *box, [size, size], antialias=True)
    assert (preset(name, size)(to_float(clips))[0, :, 0] - expected).abs().max() <= 1e-6


def test_splavu_testing_is_short_edge_256_and_centre_224():
    clips = decoded(1, 1, 240, 320)
    picture = to_float(clips)[0, :, 0]
    expected = reference.center_crop(reference.resize(picture, [256], antialias=True), [224, 224])
    assert (preset("splavu-test", 224)(to_float(clips))[0, :, 0] - expected).abs().max() <= 1e-6
    assert preset("splavu-test", 112).draw(1, 240, 320)[0].geometry.scaled == (128, 170)
    assert preset("splavu-test", 112, resize=112).draw(1, 240, 320)[0].geometry.scaled == (112, 149)


@pytest.mark.parametrize("kind", ["array", "tensor", "read-only array", "reversed array"])
def test_the_fast_path_is_the_slow_path(kind):
    clip = decoded(1, 4)[0]
    given: torch.Tensor | np.ndarray = clip
    if kind != "tensor":
        given = clip.numpy()
    if kind == "read-only array":
        given = clip.numpy().copy()
        given.flags.writeable = False
    if kind == "reversed array":
        given = clip.numpy()[..., ::-1]
        clip = clip.flip(-1)
    scaled = reference.resize(clip.permute(0, 3, 1, 2), [30], antialias=True)
    expected = scaled[:, :, 3:27, 8:32].transpose(0, 1)  # 30×40 → the middle 24×24
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = EvalTransform(30, 24)(given)
    assert got.dtype == torch.uint8
    assert got.is_contiguous()
    assert torch.equal(got, expected)
    assert torch.equal(EvalTransform(30, 24, as_float=True)(given), expected.float() / 255)


@pytest.mark.parametrize("name", TESTS)
def test_every_test_transform_has_the_fast_path(name):
    clip = decoded(1, 3)[0]
    made = preset(name, 24)
    assert not made.random
    assert torch.equal(made.evaluate(clip, as_float=True), made(clip[None])[0])
    assert made.evaluate(clip.numpy()).dtype == torch.uint8


def test_extraction_does_not_depend_on_threads_or_on_how_the_clip_lies_in_memory():
    clip = decoded(1, 4, 61, 83)[0]
    expected = EvalTransform(30, 24)(clip)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            assert torch.equal(EvalTransform(30, 24)(clip), expected)
    finally:
        torch.set_num_threads(before)
    padded = torch.zeros(6, 70, 90, 3, dtype=torch.uint8)
    padded[1:5, 2:63, 3:86] = clip
    assert torch.equal(EvalTransform(30, 24)(padded[1:5, 2:63, 3:86]), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_extraction_on_a_device_is_within_one_level(device):
    clip = decoded(1, 4)[0]
    out = EvalTransform(30, 24)(clip.to(device))
    assert out.device.type == device
    assert (out.cpu().int() - EvalTransform(30, 24)(clip).int()).abs().max() <= 1


def test_ten_crop_is_four_corners_the_centre_and_their_mirror_images():
    clip = decoded(1, 2)[0]
    views = ten_crop(clip)
    assert views.shape == (10, 3, 2, 224, 224)
    whole = reference.resize(clip.permute(0, 3, 1, 2), [256, 340], antialias=True).transpose(0, 1)
    corners = [(0, 0), (0, 116), (32, 0), (32, 116), (16, 58)]
    for i, (top, left) in enumerate(corners):
        view = whole[:, :, top : top + 224, left : left + 224]
        assert torch.equal(views[i], view)
        assert torch.equal(views[i + 5], view.flip(-1))
    assert torch.equal(ten_crop(clip.numpy()), views)
    floats = to_float(clip[None])[0]
    made = ten_crop(floats)
    for i, geometry in enumerate(ten_crop_geometries(48, 64)):
        assert torch.equal(made[i], apply_one(floats, Draw(geometry)))
        assert torch.equal(made[i + 5], apply_one(floats, Draw(geometry, flip=True)))


@pytest.mark.parametrize("name", preset_names())
def test_presets_and_draws_travel_to_worker_processes(name):
    made = preset(name, 24)
    many = made.draw(2, 48, 64, seeded())
    assert pickle.loads(pickle.dumps(made)) == made
    assert pickle.loads(pickle.dumps(many)) == many


# --- what is refused -----------------------------------------------------------------------------------------


def test_an_unknown_preset_lists_the_valid_ones():
    with pytest.raises(UsageError) as caught:
        preset("strong", 112)
    assert all(name in str(caught.value) for name in preset_names())


def test_ten_crop_is_not_a_preset_and_says_what_to_call():
    with pytest.raises(UsageError, match="call ten_crop"):
        preset("ten-crop", 224)


def test_misfit_options_are_refused():
    with pytest.raises(UsageError, match="at least 1, got 0"):
        preset("weak", 0)
    with pytest.raises(UsageError, match="only splavu-test takes resize"):
        preset("weak", 112, resize=128)
    with pytest.raises(UsageError, match="only test transforms evaluate"):
        preset("weak", 112).evaluate(decoded(1)[0])
    with pytest.raises(UsageError, match="crops of 224 do not fit"):
        ten_crop(decoded(1)[0], scaled=(200, 300))
    with pytest.raises(UsageError, match=r"uint8, got torch\.float32"):
        EvalTransform(30, 24)(to_float(decoded(1))[0])


@pytest.mark.parametrize("name", RANDOM)
def test_a_random_preset_asks_for_a_cpu_generator(name):
    with pytest.raises(UsageError, match=r"pass a torch\.Generator on the CPU"):
        preset(name, 24)(decoded(2))


def test_clips_and_draws_must_pair_up():
    many = preset("weak", 24).draw(2, 48, 64, seeded())
    with pytest.raises(UsageError, match="3 clips and 2 draws"):
        apply(decoded(3), many)
    with pytest.raises(UsageError, match="0 clips and 0 draws"):
        apply([], [])
    with pytest.raises(UsageError, match="5 axes"):
        preset("weak", 24)(decoded(1)[0], seeded())


def test_five_looks_around_cover_every_pixel_and_the_first_is_the_published_centre() -> None:
    ramp = torch.arange(90 * 160).reshape(1, 90, 160, 1).expand(1, 90, 160, 3)
    seen = torch.zeros(90, 160, dtype=torch.bool)
    for one in looks(AROUND, 64):
        box = one.draw(1, 90, 160, seeded())[0].geometry.source
        assert (box.height, box.width) == (72, 128)
        box.of(seen)[:] = True
    assert seen.all()
    clip = (ramp % 251).to(torch.uint8)
    assert torch.equal(looks(AROUND, 64)[0].evaluate(clip), preset("ted-spad-test", 64).evaluate(clip))
    assert looks("spact-test", 64) == (preset("spact-test", 64),)
