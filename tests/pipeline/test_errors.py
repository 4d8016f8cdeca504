from __future__ import annotations

import numpy as np

from videoveil.anonymizers.errors import Withheld
from videoveil.errors import MissingFile, UsageError
from videoveil.pipeline.errors import told

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except type(error) as found:
        return found


def test_of_foreign_exceptions_only_kind_and_place_are_told() -> None:
    said = told(raised(ValueError(f"bad values {PIXELS[0, 0].tolist()}")))
    assert said.startswith("ValueError in raised (test_errors.py:")
    assert str(PIXELS[0, 0, 0]) not in said.split("(")[0]


def test_our_own_messages_are_told() -> None:
    assert told(UsageError("size=(1, 2): must be larger")) == "size=(1, 2): must be larger"
    assert told(MissingFile("a.mp4", "no such file")) == "a.mp4: no such file"


def test_arrays_inside_our_own_messages_are_cut_out() -> None:
    text = told(Withheld(f"failed on {PIXELS[:2, :9].tolist()} and {PIXELS[0, :12, 0]!r}"))
    assert "…" in text
    assert not any(", ".join(map(str, pixel)) in text for pixel in PIXELS[0, :9].tolist())
    assert len(told(Withheld("x" * 5000))) < 500


def test_raw_bytes_inside_our_own_messages_are_cut_out() -> None:
    text = told(Withheld(f"failed on {bytes(range(128, 255))!r}"))
    assert "\\x90\\x91" not in text


def test_the_text_of_a_foreign_cause_is_not_told() -> None:
    error = Withheld("blur failed, nothing is given out: pixels 201 202 203")
    error.__cause__ = RuntimeError("pixels 201 202 203")
    assert told(error) == "blur failed, nothing is given out: RuntimeError"
