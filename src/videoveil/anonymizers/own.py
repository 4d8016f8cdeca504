"""Your own anonymizer in one Python file: `veil anonymize in.mp4 out.mp4 --with mosaic.py`.

    # mosaic.py
    def anonymize(frames):                 # (N, 3, H, W), floats in [0, 1] → the same shape
        ...

`anonymize` (or what `mosaic.py:NAME` names) is a function, a `torch.nn.Module` or a class of one that needs no
arguments; or an object of `obfuscate`, such as an `Obfuscator` around a detector of one's own, which is taken as it is.
Every frame is treated by itself: one that looks at its neighbours, or at chance, is refused when it is opened.

Shapes: N frames of H×W pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from videoveil import own_file
from videoveil.anonymizers.errors import NotExportable, ShapeMismatch, Withheld
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.encoders.base import tensors_hash
from videoveil.errors import UsageError

DEFAULT = "anonymize"
PROBE = (3, 3, 96, 128)  # frames on which it is tried once, before any video
SAME = 1 / 255  # by which a pixel may differ between two calls: less than a stored picture can tell
FEW = 1e-3  # share of pixels that may differ more: a network's last bits can flip a threshold behind it


class OwnAnonymizer(Classical):
    """A function or network of the user's, with the checks that every anonymizer goes through.

    Its hash is that of its file and, of a network, that of its weights: whatever is changed in either shows.
    """

    kind: ClassVar[str] = "own"

    def __init__(self, work: Callable[[Tensor], Any], file: str, name: str, source_hash: str):
        super().__init__()
        self.work = work.eval() if isinstance(work, nn.Module) else work
        self.file, self.name, self.source_hash = file, name, source_hash

    def transform_frames(self, frames: Tensor) -> Tensor:
        """(N, 3, H, W), bytes or floats in [0, 1] → the same shape and type; `Withheld` where it is no picture."""
        bytes_in = frames.dtype == torch.uint8
        pictures = frames.float().div(255) if bytes_in else frames
        made = self.work(pictures.clone())  # a copy: what works in place must not change the caller's frames
        if not isinstance(made, Tensor) or made.shape != frames.shape:
            got = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise ShapeMismatch(
                f"{self.file}: {self.name} made {got} of frames {tuple(frames.shape)}; give the same shape back"
            )
        if not bool(made.isfinite().all()):
            raise Withheld(f"{self.file}: {self.name} gave NaN or infinite pixels; nothing is given out")
        made = made.clamp(0, 1)
        return made.mul(255).round().to(torch.uint8) if bytes_in else made.to(frames.dtype)

    def settings(self) -> Mapping[str, Any]:
        weights = tensors_hash({}, self.work.state_dict()) if isinstance(self.work, nn.Module) else None
        return {"file": self.file, "name": self.name, "source": self.source_hash, "weights": weights}

    def export_problems(self) -> list[str]:
        return ["it is in training mode: call .eval()"] if self.training else []


def open_own(source: str) -> Classical:
    """The anonymizer of `FILE.py` or `FILE.py:NAME`, after it was tried on a few frames."""
    found = own_file.load(source, DEFAULT)
    value = found.value
    if isinstance(value, type):
        value = _made(value, found)
    if isinstance(value, Classical):
        return value
    if not callable(value):
        raise UsageError(
            f"{source}: {found.name} is a {type(value).__name__}; it must be a function or a torch.nn.Module that "
            "takes frames (N, 3, H, W) in [0, 1] and gives the same shape"
        )
    made = OwnAnonymizer(value, found.file, found.name, found.hash)
    _try(made)
    return made


def _made(kind: type, found: own_file.Own) -> Any:
    try:
        return kind()
    except Exception as error:
        raise UsageError(
            f"{found.file}: {found.name}() cannot be made without arguments ({type(error).__name__}: {error})"
        ) from error


@torch.no_grad()
def _try(made: OwnAnonymizer) -> None:
    """Refuse what does not treat every frame by itself: what is scored would not be what is published."""
    generator = torch.Generator().manual_seed(0)
    frames = torch.rand(PROBE, generator=generator)
    together = _called(made, frames)
    alone = torch.cat([_called(made, frame) for frame in frames.split(1)])
    again = _called(made, frames)
    for other, what in (
        (again, "gives another picture each time; it must be the same for the same frame"),
        (alone, "makes a frame depend on the others of its batch; treat every frame by itself"),
    ):
        if float(((together - other).abs() > SAME).float().mean()) > FEW:
            raise NotExportable(f"{made.file}: {made.name} {what}")


def _called(made: OwnAnonymizer, frames: Tensor) -> Tensor:
    try:
        return made.transform_frames(frames)
    except (ShapeMismatch, Withheld):
        raise
    except Exception as error:
        raise UsageError(
            f"{made.file}: {made.name} failed on frames {tuple(frames.shape)} ({type(error).__name__}: {error})"
        ) from error
