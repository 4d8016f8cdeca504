"""Made-up dataset trees, and text that no annotation file should contain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

PATH = Path("list.txt")
quick = settings(deadline=None, max_examples=60)

# what parsers stumble over: numbers that `int`, `float` and `isdigit` see differently, line ends, separators, words
_NUMBERS = ("0", "1", "2", "101", "-1", "²", "٣", "1_0", "1e999999999", "nan", "inf", "9" * 5000, "1/0")
_BLANKS = (" ", "\t", "\r", "\n", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\ufeff", "\x00")
_SIGNS = ("/", "\\", "..", ".", "-", "(", "[", "{", '"', "'", ",", "|", "=", "%s")
_WORDS = ("Run", "_label_", "B1", "A", "01_0014", "Normal", "a.avi", ".mp4")
_PIECES = st.sampled_from(_NUMBERS + _BLANKS + _SIGNS + _WORDS)
nasty_text = st.lists(_PIECES | st.text(max_size=5), max_size=25).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
# letters, digits and the odd characters of HMDB51, but no blanks and nothing that ends like a video file
odd_names = st.text("abzABZ019_!()#[]&+;~@=é", min_size=1, max_size=12)
numbers = st.integers(0, 10**6)


def lines_of(text: str) -> int:
    """How many lines of a text say something."""
    return sum(bool(line.strip()) for line in re.split(r"\r\n|\r|\n", text))


def located(complaints: list[str], path: Path = PATH) -> bool:
    """Whether every complaint names its file and line."""
    return all(re.match(rf"{re.escape(path.name)}:\d+: .", entry) for entry in complaints)


def disguise(rows: list[str]) -> list[str]:
    """The same rows as people's files have them: LF, CRLF, blanks at the ends, empty lines."""
    return [
        "\n".join(rows),
        "\r\n".join(rows) + "\r\n",
        "".join(f"{row} \t\n" for row in rows),
        "\n\n" + "\n \n".join(rows) + "\n\n\t\n",
    ]


def write(root: Path, tree: Mapping[str, str | bytes]) -> Path:
    """Files by relative name; text without newline translation."""
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def touch(root: Path, *names: str) -> Path:
    """Empty files: loaders look whether media are there, not into them."""
    return write(root, dict.fromkeys(names, b""))
