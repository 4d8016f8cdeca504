"""What is asked of a run over a file, a picture or a folder: the same everywhere, put together in one place."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videoveil import files
from videoveil.errors import UsageError
from videoveil.pipeline.options import DEFAULTS, Options

if TYPE_CHECKING:
    from videoveil.pipeline.checks import FrameChecks
    from videoveil.pipeline.engines import Workshop


@dataclass(frozen=True)
class Order:
    """Take `source` through `anonymizer` to `destination`, as `options` say.

    `stop` ends it from another thread. `workshop` keeps engines from one file to the next.
    """

    source: Path
    destination: Path
    anonymizer: Any
    options: Options = DEFAULTS
    stop: threading.Event = field(default_factory=threading.Event)
    workshop: Workshop | None = None

    @classmethod
    def of(
        cls,
        source: str | Path,
        destination: str | Path,
        anonymizer: Any,
        options: Options,
        stop: threading.Event | None = None,
        workshop: Workshop | None = None,
    ) -> Order:
        """As callers give it; an anonymizer whose pictures must not leave the process is refused."""
        from videoveil.pipeline.engines import Workshop, require_usable

        require_usable(anonymizer)
        stop, workshop = stop or threading.Event(), workshop or Workshop()
        return cls(Path(source), Path(destination), anonymizer, options, stop, workshop)

    def require_target(self, suffixes: tuple[str, ...], kind: str) -> None:
        """A name that a result of that kind can have, and that is not the input's."""
        target, source = self.destination, self.source
        if target.suffix.lower() not in suffixes:
            raise UsageError(f"{target}: the result of a {kind} ends in {' or '.join(suffixes)}")
        if target.exists() and source.exists() and target.samefile(source):
            raise UsageError(f"{target}: is the input itself; give the result another name")
        if target.is_dir():
            raise UsageError(f"{target}: is a folder; give the result a name in it")

    def content(self) -> str | None:
        """The name of the video, for an anonymizer with noise of one draw per video."""
        return files.file_hash(self.source) if getattr(self.anonymizer, "wants_content", False) else None

    def checks(self) -> FrameChecks:
        from videoveil.pipeline.checks import FrameChecks

        return FrameChecks.by(self.anonymizer, self.options)
