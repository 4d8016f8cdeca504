from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from tests.pipeline import films
from videoveil.anonymizers import Rank, latent
from videoveil.anonymizers.errors import NotExportable, Withheld
from videoveil.anonymizers.keys import NoiseKey
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.obfuscate import Fixed, Layered, Obfuscator
from videoveil.anonymizers.pixel import NoiseFloor, Outline, UNet, pixel
from videoveil.errors import UsageError
from videoveil.pipeline import engines
from videoveil.pipeline.engines import (
    LayeredWorker,
    NetworkWorker,
    PlainWorker,
    StreamWorker,
    Workshop,
    require_usable,
    to_images,
    to_tensor,
)
from videoveil.pipeline.errors import WeightsChanged
from videoveil.pipeline.inner import trained_size
from videoveil.pipeline.options import Options

SIZE = (48, 64)


def images(count: int, height: int = 48, width: int = 64) -> list[np.ndarray]:
    return films.scenes(count, width, height)


def torch_way(anonymizer: object, pictures: list[np.ndarray]) -> list[np.ndarray]:
    return to_images(anonymizer(to_tensor(pictures, torch.device("cpu"))), len(pictures))  # type: ignore[operator]


def test_pictures_survive_the_way_into_tensors_and_back() -> None:
    given = images(3)
    tensor = to_tensor(given, torch.device("cpu"))
    assert tensor.shape == (3, 3, *SIZE)
    assert all(np.array_equal(a, b) for a, b in zip(given, to_images(tensor, 3)))


@pytest.mark.parametrize(
    "odd", [np.zeros((*SIZE, 3), np.float32), np.zeros((48, 63, 3), np.uint8), np.zeros(SIZE, np.uint8)]
)
def test_pictures_of_another_kind_never_get_into_a_batch(odd: np.ndarray) -> None:
    with pytest.raises(UsageError, match="picture"):
        to_tensor([images(1)[0], odd], torch.device("cpu"))


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (7, 3), (31, 17)])
def test_pictures_of_any_size_and_layout_become_tensors(size: tuple[int, int]) -> None:
    wide = np.random.default_rng(0).integers(0, 256, (2 * size[0], 2 * size[1], 3), dtype=np.uint8)
    given = [wide[: size[0], : size[1]], np.ascontiguousarray(wide[size[0] :, size[1] :])]
    tensor = to_tensor(given, torch.device("cpu"))
    assert np.array_equal(tensor.permute(0, 2, 3, 1).numpy(), np.stack(given))


@pytest.mark.parametrize("made", [None, torch.zeros(2, 3, 8, 8), torch.zeros(3, 8, 8)])
def test_what_is_no_batch_of_pictures_is_never_taken_for_one(made: object) -> None:
    assert all(isinstance(one, str) for one in to_images(made, 3))


def test_each_kind_of_anonymizer_gets_its_worker() -> None:
    shop, options = Workshop(), Options(engine="torch")
    assert isinstance(shop.worker(open_anonymizer("blur"), SIZE, 5, options), PlainWorker)
    assert isinstance(shop.worker(pixel(UNet(width=4)), SIZE, 5, options), NetworkWorker)
    obfuscator = Obfuscator("blacken", Fixed(np.array([[1, 1, 9, 9, 1]], np.float32)))
    assert isinstance(shop.worker(obfuscator, SIZE, 5, options), StreamWorker)
    behind = shop.worker(Layered(obfuscator, pixel(UNet(width=4))), SIZE, 5, options)
    assert isinstance(behind, LayeredWorker)
    assert isinstance(behind.then, NetworkWorker)
    assert behind.facts()["behind"] == "stream"


def test_a_network_behind_a_detector_looks_at_the_size_of_its_training_and_is_asked_for_its_answer() -> None:
    network = pixel(UNet(width=4), size=16)
    made = Layered(Obfuscator("blacken", Fixed(np.array([[1, 1, 9, 9, 1]], np.float32))), network)
    assert trained_size(made) == trained_size(network) == 16
    worker = Workshop().worker(made, (48, 64), 5, Options(engine="torch"))
    assert isinstance(worker, LayeredWorker)
    assert isinstance(worker.then, NetworkWorker)
    assert worker.then.scaled
    given = images(3, 48, 64)
    covered = [image.copy() for image in given]
    for image in covered:
        image[1:9, 1:9] = 0
    alone = Workshop().worker(network, (48, 64), 5, Options(engine="torch"))
    assert all(np.array_equal(one, other) for one, other in zip(worker(given), alone(covered)))
    worker.answer()
    worker.then._answer = worker.then._answer + 9  # as if its weights were others now
    with pytest.raises(WeightsChanged, match="answer"):
        worker.answer()


@pytest.mark.parametrize("size", [(48, 64), (33, 47), (16, 16), (9, 40), (5, 7)])
def test_any_size_goes_through_a_network_and_keeps_its_size(size: tuple[int, int]) -> None:
    worker = Workshop().worker(pixel(UNet(width=4)), size, 4, Options(engine="torch", batch=2))
    made = worker(images(2, *size))
    assert [one.shape for one in made] == [(*size, 3)] * 2
    assert made[0].dtype == np.uint8


def test_a_network_worker_gives_what_its_anonymizer_gives() -> None:
    network = pixel(UNet(width=4))
    worker = Workshop().worker(network, SIZE, 4, Options(engine="torch", batch=2))
    for one, two in zip(worker(images(2)), torch_way(network, images(2))):
        assert np.abs(one.astype(int) - two).mean() < 3  # half precision on machines that have it


def test_a_smaller_inner_picture_is_looked_at_and_enlarged() -> None:
    worker = Workshop().worker(pixel(UNet(width=4)), SIZE, 4, Options(engine="torch", inner=32))
    assert worker.facts()["pictures"] == [24, 32]
    assert worker(images(1))[0].shape == (*SIZE, 3)


def test_a_network_looks_at_the_size_of_its_training_unless_told_otherwise() -> None:
    seen = {}
    for trained, inner in ((24, None), (24, 0), (24, 40), (0, None), (400, None)):
        options = Options(engine="torch", inner=inner)
        worker = Workshop().worker(pixel(UNet(width=4), size=trained), SIZE, 4, options)
        seen[trained, inner] = (*worker.facts()["pictures"], worker.facts()["scale"])
        assert worker(images(1))[0].shape == (*SIZE, 3)
    assert SIZE == (48, 64)
    assert seen == {
        (24, None): (24, 32, "the size it was trained at"),
        (24, 0): (48, 64, "every pixel"),
        (24, 40): (30, 40, "asked for"),
        (0, None): (48, 64, "every pixel"),
        (400, None): (48, 64, "every pixel"),
    }


def test_engines_for_other_inner_sizes_are_not_mixed_up() -> None:
    shop, network = Workshop(), pixel(UNet(width=4), size=24)
    small = shop.worker(network, SIZE, 4, Options(engine="torch"))
    assert shop.worker(network, SIZE, 4, Options(engine="torch", inner=0)) is not small
    assert shop.worker(network, SIZE, 4, Options(engine="torch", inner=32)) is small  # the very same pictures


def test_an_engine_is_made_once_for_all_files_of_a_folder() -> None:
    shop, network, options = Workshop(), pixel(UNet(width=4)), Options(engine="torch")
    first = shop.worker(network, SIZE, 4, options)
    assert shop.worker(network, SIZE, 4, options) is first
    assert shop.worker(network, (32, 32), 4, options) is not first
    with torch.no_grad():
        next(network.parameters())[0, 0, 0, 0] += 1
    assert shop.worker(network, SIZE, 4, options) is not first


def test_auto_measures_what_there_is_and_records_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    monkeypatch.setattr(engines, "TRIAL", 0.05)
    monkeypatch.setattr(engines, "SHORT", 100 * 32 * 32)
    facts = Workshop().worker(pixel(UNet(width=4)), (32, 32), 100, Options()).facts()
    measured = facts["measured_fps"]
    assert set(measured) == {"torch", "openvino"}
    fast = {name: fps for name, fps in measured.items() if isinstance(fps, float)}
    assert facts["name"] == max(fast, key=lambda name: fast[name])


def test_short_inputs_are_not_kept_waiting_for_measurements() -> None:
    facts = Workshop().worker(pixel(UNet(width=4)), (32, 32), 10, Options()).facts()
    assert facts["name"] == "torch"
    assert "too few" in facts["why"]


def test_how_much_there_is_to_do_is_told_by_pixels_not_by_frames() -> None:
    cpu, options = torch.device("cpu"), Options()
    small, large = (64, 64), (720, 1280)
    assert "too few" in engines._candidates(cpu, 100, small, options)[1]
    assert "too few" not in engines._candidates(cpu, 100, large, options)[1]
    assert "too few" in engines._candidates(cpu, 3, large, options)[1]
    assert "too few" not in engines._candidates(cpu, None, small, options)[1]  # a stream has no end


def test_compiling_is_offered_to_long_inputs_only() -> None:
    cpu, size = torch.device("cpu"), (720, 1280)
    assert "compile" not in engines._candidates(cpu, 200, size, Options())[0]
    assert "compile" not in engines._candidates(cpu, None, size, Options())[0]
    assert "compile" in engines._candidates(cpu, engines.LONG, size, Options())[0]
    assert engines._candidates(cpu, 10, size, Options(engine="compile"))[0] == ["compile"]


def test_every_hand_of_an_engine_is_asked_for_the_known_answer() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        options = Options(engine="torch", inner=32)
        worker = Workshop().worker(pixel(UNet(width=4)), SIZE, 4, options, hands=2)
        assert isinstance(worker, NetworkWorker)
        assert worker.hands == worker.facts()["hands"] == 2
        run, together = worker.engine.stages[0].run, threading.Barrier(2, timeout=300)

        def both(x: torch.Tensor) -> torch.Tensor:
            together.wait()  # passes only if both are asked at once
            return run(x)

        worker.engine.stages[0].run = both
        worker.answer()
        asked: list[int] = []

        def one(x: torch.Tensor) -> torch.Tensor:
            asked.append(threading.get_ident())
            return run(x)

        worker.engine.stages[0].run = one
        worker.answer(every=False)
        assert asked == [threading.get_ident()], "a look in between starts no thread, which would take memory"
    finally:
        torch.set_num_threads(before)


def test_a_drawing_has_as_many_hands_as_cores_while_memory_lasts_and_what_may_remember_has_one() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        drawing, blur, options = pixel(Outline()), open_anonymizer("blur"), Options(device="cpu")
        found = {
            (name, size): Workshop().worker(one, size, 4, options, hands=8).hands
            for name, one in (("drawing", drawing), ("blur", blur))
            for size in (SIZE, (4320, 7680))
        }
    finally:
        torch.set_num_threads(before)
    assert found == {
        ("drawing", SIZE): 2,
        ("drawing", (4320, 7680)): 1,
        ("blur", SIZE): 1,
        ("blur", (4320, 7680)): 1,
    }


def test_an_engine_whose_own_weights_change_is_noticed() -> None:
    worker = Workshop().worker(pixel(UNet(width=4)), SIZE, 4, Options(engine="torch"))
    assert isinstance(worker, NetworkWorker)
    worker.answer()
    runs = [stage.run for stage in worker.engine.stages]
    network = runs[0].__closure__[0].cell_contents  # the copy that really computes
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    for every in (True, False):
        with pytest.raises(WeightsChanged, match="answer"):
            worker.answer(every)


def test_a_stream_that_failed_gives_nothing_any_more() -> None:
    class Blind(Fixed):
        seen = 0

        def boxes(self, frame: np.ndarray) -> np.ndarray:
            self.seen += 1
            if self.seen == 2:
                raise RuntimeError("blind")
            return super().boxes(frame)

    worker = StreamWorker(Obfuscator("blacken", Blind(np.array([[1, 1, 9, 9, 1]], np.float32))))
    assert len(worker(images(1))) == 1
    for _ in range(2):
        with pytest.raises(Withheld):
            worker(images(1))


def test_noise_of_one_draw_per_video_depends_on_the_video() -> None:
    noisy = pixel(NoiseFloor(0.2, per="video"), key=NoiseKey(b"0" * 32))
    worker = PlainWorker(noisy, SIZE, Options())
    one, again, other = (worker(images(1), name)[0] for name in ("a", "a", "b"))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_what_must_not_leave_is_refused() -> None:
    with pytest.raises(UsageError, match="identity"):
        require_usable(open_anonymizer("identity"))
    with pytest.raises(UsageError, match="anonymize-features"):
        require_usable(latent(8, Rank(2)))
    with pytest.raises(NotExportable, match="training"):
        require_usable(pixel(UNet(width=4)).train())
    with pytest.raises(NotExportable, match="key"):
        require_usable(pixel(NoiseFloor(0.2)))
