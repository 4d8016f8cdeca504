"""A pixel anonymizer for other runtimes: ONNX or OpenVINO, released only after it was held against the original.

    report = export(PixelAnonymizer.from_pretrained("runs/spact"), "spact.onnx", size=(224, 224))

The exported graph takes "frames", (N, 3, H, W) floats in [0, 1], and gives "anonymized", the same shape, clamped to
[0, 1]. What the anonymizer's own `forward` checks (finite numbers, the right range) is not in the graph: whoever runs
it must check, and must never show a frame in place of one that failed.

A graph of fixed size can hold every stage. One of any size (multiples of 16) can hold networks, grey and levels; stages
that work at a size of their own have to know the frame's. Noise has a secret key and is never exported.

int8 makes a graph smaller and faster and changes what it hides, in a direction that nobody can foresee: it needs
pictures to calibrate on and a labelled dataset on which attackers are trained against both, before and after.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil import files
from videoveil.anonymizers.latent import require_exportable
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.pixel import config as settings
from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer
from videoveil.anonymizers.pixel.engine import folded
from videoveil.anonymizers.pixel.outline import Outline
from videoveil.anonymizers.pixel.remove import LowResolution
from videoveil.errors import UsageError, VeilError
from videoveil.pipeline.inner import trained_size

if TYPE_CHECKING:
    from videoveil.data.records import Dataset

Target = Literal["onnx", "openvino"]
SUFFIX: dict[str, str] = {"onnx": ".onnx", "openvino": ".xml"}
OPSET = 18
INPUT, OUTPUT = "frames", "anonymized"
STEP = 16  # networks halve a picture four times
CLOSE = 1e-3  # of white: how far a value may be from the original
STEPS = 0.005  # share of values that may land on another step, where levels are cut out of what a network computed
FITS_ANY = (settings.UNet, settings.UNetPP, settings.Grey, settings.Levels)
FORMAT = "videoveil-export-1"


class NotAlike(VeilError):
    """An exported graph that does not give what the anonymizer gives; it is not released."""


@dataclass(frozen=True)
class Parity:
    """How far the exported graph is from the original, of which 1 is white."""

    frames: int
    maximum: float
    mean: float
    changed: float
    """Share of values that differ by more than half a byte: visible in a stored frame."""


@dataclass(frozen=True)
class AttackerScores:
    """The best attacker against the graph in float and in int8: the same data, the same attackers, trained afresh."""

    data: str
    before: float
    after: float
    chance: float | None

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class ExportReport:
    """What was written, which is also the card beside it."""

    target: str
    size: tuple[int, int] | None
    anonymizer: str
    stages: Sequence[str]
    parity: Parity
    trained: int = 0
    """Short side of the pictures it was trained on: what frames should be brought to before; 0: any."""
    int8: bool = False
    calibrated_on: int = 0
    attackers: AttackerScores | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        value = {"format": FORMAT, "input": INPUT, "output": OUTPUT, "range": [0, 1]} | asdict(self)
        if self.attackers is not None:
            value["attackers"]["change"] = self.attackers.change
        return value

    def __str__(self) -> str:
        size = "any size (multiples of 16)" if self.size is None else f"{self.size[1]}×{self.size[0]}"
        lines = [
            f"{', '.join(self.files)}: {' → '.join(self.stages)} for frames of {size}",
            f"against the original on {self.parity.frames} frames: at most {self.parity.maximum * 255:.3f} grey levels "
            f"apart, {self.parity.mean * 255:.4f} on average",
        ]
        if self.trained and (self.size is None or min(self.size) != self.trained):
            lines.append(
                f"its networks were trained on pictures with a short side of {self.trained}: bring frames to that, and "
                "what comes out back to their size, or nothing is known of its privacy"
            )
        if self.attackers is not None:
            one = self.attackers
            lines.append(
                f"int8, best attacker on {one.data}: {one.before:.4f} before, {one.after:.4f} after "
                f"(change {one.change:+.4f}, chance {'unknown' if one.chance is None else f'{one.chance:.4f}'})"
            )
        return "\n".join(lines)


def export(
    anonymizer: PixelAnonymizer,
    destination: str | Path,
    *,
    target: Target = "onnx",
    size: tuple[int, int] | None = None,
    calibrate: str | Path | None = None,
    attack: Dataset | None = None,
    attackers: Sequence[str] = ("linear", "mlp2"),
) -> ExportReport:
    """Write the graph and, beside it, its card (`NAME.json`); nothing appears unless it gives what the original gives.

    size: (height, width); None: any. calibrate: a folder of videos or pictures, for int8; then `attack` is the labelled
    dataset that attackers (`attackers` of the suite) are trained on, against the graph in float and in int8.
    """
    destination = Path(destination)
    _check(anonymizer, destination, target, size, calibrate, attack)
    report = ExportReport(
        target=target,
        size=size,
        anonymizer=anonymizer.content_hash(),
        stages=[stage.kind for stage in anonymizer.config.stages],
        parity=Parity(0, 0.0, 0.0, 0.0),
        trained=trained_size(anonymizer),
        int8=calibrate is not None,
        versions=_versions(target),
    )
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=files.TEMPORARY, dir=destination.parent) as folder:
        made = Path(folder) / "float.onnx"
        _onnx(anonymizer, size, made)
        sizes = _sizes(size)
        parity = _parity(Graph(made), anonymizer, sizes)
        _require_close(parity, anonymizer, destination)
        facts: dict[str, Any] = {"parity": parity}
        if calibrate is not None:
            assert size is not None
            assert attack is not None
            frames = calibration_frames(calibrate, size)
            made = _quantised(made, Path(folder) / "int8.onnx", frames)
            facts = {
                "parity": _parity(Graph(made), anonymizer, sizes),
                "calibrated_on": len(frames),
                "attackers": _attacked(Path(folder), made, attack, attackers),
            }
        if target == "openvino":
            made = _openvino(made, Path(folder) / "graph.xml")
            found = _parity(Graph(made), anonymizer, sizes)
            if calibrate is None:
                _require_close(found, anonymizer, destination)
            facts["parity"] = found
        return _release(made, destination, ExportReport(**{**_fields(report), **facts}))


def _fields(report: ExportReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in ExportReport.__dataclass_fields__}


def _check(
    anonymizer: Any,
    destination: Path,
    target: str,
    size: tuple[int, int] | None,
    calibrate: str | Path | None,
    attack: Any,
) -> None:
    if target not in get_args(Target):
        raise UsageError(f"target {target!r}: choose one of {', '.join(get_args(Target))}")
    if not isinstance(anonymizer, PixelAnonymizer):
        raise UsageError("only pixel anonymizers (folders of `veil train`, hub ids) are exported")
    if anonymizer.wants_noise:
        raise UsageError(
            "this anonymizer adds noise from a secret key, which is in no graph: it is not exported"
        )
    require_exportable(anonymizer)
    if destination.suffix.lower() != SUFFIX[target]:
        raise UsageError(f"{destination}: a name for {target} ends in {SUFFIX[target]}")
    if size is not None and min(size) < STEP:
        raise UsageError(f"size={size}: height and width must be at least {STEP}")
    fixed = [stage.kind for stage in anonymizer.config.stages if not isinstance(stage, FITS_ANY)]
    if size is None and fixed:
        raise UsageError(
            f"stages {', '.join(fixed)} work at a size of their own: give the size of the frames"
        )
    if calibrate is not None and size is None:
        raise UsageError("int8 is calibrated for one size of frames: give it")
    if calibrate is not None and attack is None:
        raise UsageError(
            "int8 changes what is hidden: name a labelled dataset that attackers can be trained on"
        )
    if calibrate is None and attack is not None:
        raise UsageError("attackers are for int8, which is asked for by pictures to calibrate on")
    _versions(target)


def _versions(target: str) -> dict[str, str]:
    """Of what takes part; a package that is missing is named with its fix."""
    found = {"torch": str(torch.__version__)}
    packages = {"onnx": "onnx", "onnxruntime": "detect"} | (
        {"openvino": "openvino"} if target == "openvino" else {}
    )
    for name, extra in packages.items():
        try:
            found[name] = __import__(name).__version__
        except ImportError as error:
            fix = "pip install onnx" if name == "onnx" else f"pip install 'videoveil[{extra}]'"
            raise UsageError(f"export to {target} needs the package {name}: {fix}") from error
    return found


# --- the graph ------------------------------------------------------------------------------------------------


class _Whole(nn.Module):
    """All stages in a row, as `forward` runs them."""

    def __init__(self, stages: Sequence[nn.Module]):
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, frames: Tensor) -> Tensor:
        for stage in self.stages:
            frames = stage(frames)
        return frames.clamp(0, 1)


class _Coarse:
    """The area means that a stage works on, for one size of frames: sums over rows and columns, over their counts.

    Graphs know area means only where sizes divide each other. Sums of whole numbers are exact in float32, so stages
    that round get what they get in the original.
    """

    def __init__(self, size: tuple[int, int], code: tuple[int, int]):
        self.same = size == code
        self.rows, self.columns = _areas(size[0], code[0]), _areas(size[1], code[1]).T
        self.counts = self.rows.sum(1)[:, None] * self.columns.sum(0)

    def __call__(self, x: Tensor) -> Tensor:
        """(M, 3, H, W) → (M, 3, h, w)."""
        return x if self.same else self.rows @ x @ self.columns / self.counts


def _areas(length: int, parts: int) -> Tensor:
    """(parts, length) of 0 and 1: which pixels each part covers; neighbours share one where they do not divide."""
    places = torch.arange(length)
    first = torch.arange(parts) * length // parts
    stop = -(-(torch.arange(1, parts + 1) * length) // parts)
    return ((places >= first[:, None]) & (places < stop[:, None])).float()


def _fixed(stage: Any, size: tuple[int, int]) -> None:
    """Give a stage its inner size as a number; left to the tracer, it would become a part of the graph."""
    if isinstance(stage, LowResolution):
        code, mode = stage.settings.code(*size), stage.settings.mode
        small = _Coarse(size, code) if mode == "area" else lambda x: F.interpolate(x, size=code, mode=mode)
        object.__setattr__(stage, "code", small)  # in front of the method of that name
    elif isinstance(stage, Outline):
        object.__setattr__(stage, "_code", _Coarse(size, stage.settings.code(*size)))


def _onnx(anonymizer: PixelAnonymizer, size: tuple[int, int] | None, destination: Path) -> None:
    """Write the graph, with batch norms folded into the convolutions before them."""
    stages: list[nn.Module] = []
    for stage in anonymizer.parts():
        ready: Any = folded(stage) if stage.network else copy.deepcopy(stage).eval()
        if size is not None:
            _fixed(ready, size)
        stages.append(ready)
    axes = {0: "N"} | ({2: "H", 3: "W"} if size is None else {})
    example = torch.rand(1, 3, *(size or (3 * STEP, 4 * STEP)))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the tracer, about sizes that are meant to be fixed
        torch.onnx.export(
            _Whole(stages).float().cpu(),
            (example,),
            destination,
            dynamo=False,
            opset_version=OPSET,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_axes={INPUT: axes, OUTPUT: axes},
        )


class Graph:
    """A file that was exported, run by its runtime on the CPU: (N, 3, H, W) float32 → the same."""

    def __init__(self, path: Path):
        self.path = path
        if path.suffix == ".xml":
            import openvino

            hints = {"INFERENCE_PRECISION_HINT": "f32"}
            compiled = openvino.Core().compile_model(openvino.Core().read_model(path), "CPU", hints)
            self._run = lambda x: compiled(x)[0]
        else:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            self._run = lambda x: session.run(None, {INPUT: x})[0]

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        return np.asarray(self._run(np.ascontiguousarray(frames, np.float32)))


def _openvino(source: Path, destination: Path) -> Path:
    import openvino

    openvino.save_model(openvino.convert_model(source), destination, compress_to_fp16=False)
    return destination


def _release(made: Path, destination: Path, report: ExportReport) -> ExportReport:
    """Weights first, the graph after them, the card last: whoever finds a card finds the rest."""
    parts = {destination.with_suffix(".bin"): made.with_suffix(".bin")} if made.suffix == ".xml" else {}
    parts[destination] = made
    hashes = {}
    for target, source in parts.items():
        hashes[target.name] = files.file_hash(source)
        files.write_bytes(target, source.read_bytes())
    done = ExportReport(**{**_fields(report), "files": hashes})
    files.write_json(destination.with_name(f"{destination.name}.json"), done.to_json())
    return done


# --- parity ---------------------------------------------------------------------------------------------------


def _sizes(size: tuple[int, int] | None) -> list[tuple[int, int]]:
    return [size] if size is not None else [(48, 64), (64, 48), (80, 112)]


def trial_frames(size: tuple[int, int], seed: int = 0) -> Tensor:
    """(9, 3, H, W) in [0, 1]: noise, and what noise lacks: flat areas, edges, shades, stripes, a checkerboard."""
    height, width = size
    rng = torch.Generator().manual_seed(seed)
    noise = torch.rand(3, 3, height, width, generator=rng)
    down = torch.linspace(0, 1, height).view(-1, 1).expand(height, width)
    across = torch.linspace(0, 1, width).expand(height, width)
    rows, columns = torch.arange(height).view(-1, 1), torch.arange(width)
    edge = ((rows > height // 3) & (columns > width // 3)).float()
    board = ((rows // 4 + columns // 4) % 2).float()
    shades = torch.stack([down, across, (down + across) / 2])
    flat = [torch.full((3, height, width), level) for level in (0.0, 1.0)]
    drawn = [
        shades,
        edge.expand(3, -1, -1),
        board.expand(3, -1, -1),
        (columns % 2).float().expand(3, height, -1),
    ]
    return torch.cat([noise, torch.stack([*flat, *drawn])])


def _parity(graph: Graph, anonymizer: PixelAnonymizer, sizes: Sequence[tuple[int, int]]) -> Parity:
    """On frames of every size, each alone and all in one batch."""
    apart = []
    count = 0
    for size in sizes:
        frames = trial_frames(size)
        wanted = anonymizer(frames.to(next(iter(anonymizer.parameters()), frames).device)).cpu().numpy()
        together = graph(frames.numpy())
        if together.shape != wanted.shape or not np.isfinite(together).all():
            raise NotAlike(
                f"the graph gives {together.shape} with numbers that are not finite, or another shape"
            )
        alone = np.concatenate([graph(frame[None].numpy()) for frame in frames[:2]])
        apart += [np.abs(together - wanted).ravel(), np.abs(alone - wanted[:2]).ravel()]
        count += len(frames)
    every = np.concatenate(apart)
    visible = float((every > 0.5 / 255).mean())
    return Parity(count, float(every.max()), float(every.mean(dtype=np.float64)), visible)


def _require_close(parity: Parity, anonymizer: PixelAnonymizer, destination: Path) -> None:
    steps = any(stage.quantises for stage in anonymizer.parts())
    fine = parity.changed <= STEPS if steps else parity.maximum <= CLOSE
    if not fine:
        raise NotAlike(
            f"{destination}: the graph is up to {parity.maximum:.4g} (of white) from the original and "
            f"{parity.changed:.2%} of its values differ visibly; it is not released"
        )


# --- int8 -----------------------------------------------------------------------------------------------------


def calibration_frames(folder: str | Path, size: tuple[int, int], most: int = 64) -> np.ndarray:
    """(n, 3, H, W) in [0, 1]: frames of the videos and the pictures in a folder, a few of each."""
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"{folder}: is not a folder of videos or pictures to calibrate on")
    found = [frame for path in sorted(root.rglob("*")) if path.is_file() for frame in _frames_of(path)]
    if not found:
        raise UsageError(f"{folder}: has no video or picture that can be read")
    chosen = [found[int(place)] for place in np.linspace(0, len(found) - 1, min(most, len(found)))]
    frames = [torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255 for image in chosen]
    return torch.cat([F.interpolate(frame, size=size, mode="area") for frame in frames]).numpy()


def _frames_of(path: Path) -> Iterator[np.ndarray]:
    """Some frames of one file; nothing where it is neither a video nor a picture."""
    from videoveil.media.image import read_image
    from videoveil.media.reader import open_video

    try:
        with open_video(path) as video:
            count = video.count()
            yield from video.read([int(n) for n in np.linspace(0, count - 1, min(4, count))])
            return
    except VeilError:
        pass  # perhaps it is a picture
    try:
        yield np.array(read_image(path))
    except VeilError:
        return


def _quantised(source: Path, destination: Path, frames: np.ndarray) -> Path:
    """Weights and activations in 8 bits, by what is seen on `frames`."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._left = iter(frames)

        def get_next(self) -> dict[str, np.ndarray] | None:
            frame = next(self._left, None)
            return None if frame is None else {INPUT: frame[None]}

    prepared = source.with_name("prepared.onnx")
    quantization.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(destination),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        op_types_to_quantize=["Conv", "ConvTranspose"],
    )
    return destination


class Exported(Classical):
    """An exported graph in the place of an anonymizer, for attackers. Frames of another size are fitted to it."""

    kind: ClassVar[str] = "exported"

    def __init__(self, path: Path, size: tuple[int, int]):
        super().__init__()
        self.size, self.graph, self.hash = size, Graph(path), files.file_hash(path)

    def transform_frames(self, frames: Tensor) -> Tensor:
        whole = frames.float() / 255 if frames.dtype == torch.uint8 else frames.float()
        fitted = F.interpolate(whole, size=self.size, mode="area")
        out = torch.cat([torch.from_numpy(self.graph(one.numpy())) for one in fitted.cpu().split(8)])
        back = F.interpolate(out.to(frames.device), size=frames.shape[-2:], mode="bilinear").clamp(0, 1)
        return (back * 255).round().to(torch.uint8) if frames.dtype == torch.uint8 else back.to(frames.dtype)

    def settings(self) -> Mapping[str, Any]:
        return {"graph": self.hash, "size": list(self.size)}


def _attacked(folder: Path, made: Path, data: Dataset, kinds: Sequence[str]) -> AttackerScores:
    """The best attacker against the graph in float and in int8."""
    from videoveil.attacks.attributes import AttackConfig, AttributeAttack
    from videoveil.audit.subject import Stores, Subject

    size = tuple(_input_size(made))
    found = []
    for path in (folder / "float.onnx", made):
        subject = Subject.of(data, Exported(path, size))  # type: ignore[arg-type]
        stores = Stores(subject, folder / "raw", folder / f"features-{path.stem}", device="cpu")
        attack = AttributeAttack(AttackConfig(kinds=tuple(kinds)))
        fitted = attack.fit(stores.features("anonymized", subject.train), device="cpu")
        found.append(fitted.score(stores.features("anonymized", subject.test)).headline)
    if found[0].value is None or found[1].value is None:
        raise UsageError(f"{data.name}: attackers have no score there; name a dataset with attributes")
    return AttackerScores(data.name, found[0].value, found[1].value, found[0].chance)


def _input_size(path: Path) -> tuple[int, int]:
    import onnx

    dims = onnx.load(str(path)).graph.input[0].type.tensor_type.shape.dim
    return dims[2].dim_value, dims[3].dim_value
