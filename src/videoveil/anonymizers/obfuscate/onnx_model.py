"""Running an ONNX file on pictures: onnxruntime where it is installed, else OpenCV's own network code."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import torch

from videoveil.anonymizers.obfuscate import onnx_file
from videoveil.errors import CheckpointError, MissingFile, UsageError

Engine = Literal["onnxruntime", "opencv"]
_QUIET = 3  # onnxruntime's log level: errors only


def pick_engine(engine: Engine | None) -> Engine:
    """The engine asked for, or the best one that is installed."""
    there = importlib.util.find_spec("onnxruntime") is not None
    if engine is None:
        return "onnxruntime" if there else "opencv"
    if engine not in ("onnxruntime", "opencv"):
        raise UsageError(f"engine={engine!r}: choose onnxruntime or opencv")
    if engine == "onnxruntime" and not there:
        raise UsageError("engine='onnxruntime' is not installed; install videoveil[detect], or take opencv")
    return engine


class OnnxModel:
    """A network with one picture input.

    The file is read into memory once; that is what is hashed and run, and files that it may refer to are not followed.
    `open_sizes`: the file names one input size although its layers do for any.
    """

    def __init__(self, file: str | Path, *, engine: Engine | None = None, open_sizes: bool = False):
        self.file, self.engine = Path(file), pick_engine(engine)
        data = _read(self.file)
        self.hash = hashlib.sha256(data).hexdigest()
        try:
            if open_sizes:
                data = onnx_file.with_open_sizes(data)
            self.graph = onnx_file.read_graph(data)
        except onnx_file.NotOnnx as error:
            raise CheckpointError(f"{file}: is not an ONNX file ({error})") from error
        if len(self.graph.inputs) != 1 or len(self.graph.inputs[0].shape) not in (0, 4):
            shown = ", ".join(f"{port.name} {port.shape}" for port in self.graph.inputs)
            raise CheckpointError(
                f"{file}: a detector has one input (N, 3, H, W), this has {shown or 'none'}"
            )
        self.input = self.graph.inputs[0]
        self.outputs = [port.name for port in self.graph.outputs]
        self._network = self._load(data)

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) if the file fixes them."""
        shape = self.input.shape[2:]
        if len(shape) == 2 and shape[0] is not None and shape[1] is not None:
            return shape[0], shape[1]
        return None

    def run(self, pictures: np.ndarray) -> list[np.ndarray]:
        """(N, 3, H, W) float32 → the outputs, in the order of the file, as float32."""
        if self.engine == "onnxruntime":
            kind = np.float16 if self.input.element == onnx_file.FLOAT16 else np.float32
            found = self._network.run(self.outputs, {self.input.name: pictures.astype(kind, copy=False)})
        else:
            self._network.setInput(pictures, self.input.name)
            found = self._network.forward(self.outputs)
        return [np.asarray(part, np.float32) for part in found]

    def settings(self) -> dict[str, str]:
        """What the output depends on beside the picture."""
        version = cv2.__version__ if self.engine == "opencv" else _runtime().__version__
        return {"file": self.hash, "engine": f"{self.engine} {version}"}

    def _load(self, data: bytes) -> Any:
        try:
            if self.engine == "opencv":
                return cv2.dnn.readNetFromONNX(np.frombuffer(data, np.uint8))
            runtime = _runtime()
            options = runtime.SessionOptions()
            options.log_severity_level = _QUIET
            # as many threads as PyTorch has here, not one for every core: many workers may each have a detector
            options.intra_op_num_threads = torch.get_num_threads()
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # each engine has its own kinds, none of them documented
            raise CheckpointError(f"{self.file}: {self.engine} cannot load it: {error}") from error


def _runtime() -> Any:
    import onnxruntime

    return onnxruntime


def _read(file: Path) -> bytes:
    if not file.is_file():
        raise MissingFile(file, "no such file; give the ONNX file of a detector")
    return file.read_bytes()
