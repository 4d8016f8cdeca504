"""Every snippet of README.md and docs works: executed as a reader would, or, where that cannot be, named here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import commands
from tests.docs.given import GIVEN
from tests.docs.pages import ROOT, RUNNABLE, Block, all_pages, blocks
from tests.docs.running import Failed, Reader, fits, steps
from tests.docs.warm import warm

# Every block that is not executed, by page, with the reason that stands above it. Whoever adds one adds it here.
NOT_RUN: dict[str, list[str]] = {
    "README.md": [
        "takes minutes",
        "trains networks for many minutes",
        "trains networks for a quarter of an hour",
        "trains networks for a minute or two",
        "needs a camera, and serves until it is stopped",
    ],
    "docs/audit.md": ["trains networks for a quarter of an hour"],
    "docs/benchmarks.md": ["takes many minutes"],
    "docs/guide/faq.md": ["needs two GPUs", "needs a camera"],
    "docs/guide/my-anonymizer.md": ["trains networks for a quarter of an hour"],
    "docs/guide/my-encoder.md": ["needs a downloaded checkpoint"],
    "docs/guide/paper-tables.md": ["needs the papers' datasets"] * 19,
    "docs/guide/quick-start.md": ["downloads packages"],
    "docs/guide/reading-an-audit.md": [
        "trains networks for a quarter of an hour",
        "trains networks for half an hour",
    ],
    "docs/operate.md": ["needs a camera or a stream"],
    "docs/pixel.md": ["needs the papers' datasets and hours of a GPU", "needs HMDB51 and a GPU"],
    "docs/service.md": ["downloads packages, and serves until it is stopped", "needs the service"],
}


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUNNABLE]


def executed(page: Path) -> list[Block]:
    return [block for block in runnable(page) if not block.not_run and not block.file]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm(tmp_path_factory.mktemp("programs")) as folder:
        yield folder


@pytest.mark.parametrize("page", [page for page in all_pages() if executed(page)], ids=name)
def test_a_page_can_be_followed_from_top_to_bottom(page: Path, programs: Path, tmp_path: Path) -> None:
    given = GIVEN.get(name(page), lambda folder: {})(tmp_path)
    reader = Reader(tmp_path, programs, given)
    for block in blocks(page):
        reader.follow(block)


def test_what_is_not_executed_is_listed_here_with_its_reason() -> None:
    found = {name(page): [block.not_run for block in runnable(page) if block.not_run] for page in all_pages()}
    assert {page: reasons for page, reasons in found.items() if reasons} == NOT_RUN


@pytest.mark.parametrize("page", all_pages(), ids=name)
def test_no_command_stands_where_it_is_neither_executed_nor_says_why_not(page: Path) -> None:
    assert [f"fence it: {line}" for line in commands.unfenced(page, blocks(page))] == []


@pytest.mark.parametrize("page", all_pages(), ids=name)
def test_every_fence_says_what_it_holds(page: Path) -> None:
    assert [block.place for block in blocks(page) if not block.language] == []


def test_what_the_readme_says_of_its_commands_is_so() -> None:
    marked = [block for block in runnable(ROOT / "README.md") if block.not_run]
    counted = {5: "five"}
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"executed in order by the tests, in one folder, but for {counted[len(marked)]}:" in text


def test_what_is_not_executed_names_commands_that_exist() -> None:
    problems = [
        f"{block.place}: {problem}"
        for page in all_pages()
        for block in runnable(page)
        if block.not_run
        for problem in problems_of(block)
    ]
    assert problems == []


def problems_of(block: Block) -> list[str]:
    if block.language == "python":
        return commands.python_problems(block)
    lines = [block.text] if block.language == "bash" else [step.command for step in steps(block)]
    return [problem for line in lines for problem in commands.shell_problems(line)]


@pytest.mark.parametrize("page", all_pages(), ids=name)
def test_every_command_that_a_page_mentions_exists(page: Path) -> None:
    problems = [
        f"`{' '.join(words)}`: {problem}"
        for words in commands.mentioned(page, blocks(page))
        if (problem := commands.mention_problem(words))
    ]
    assert problems == []


@pytest.mark.parametrize("page", all_pages(), ids=name)
def test_commands_in_plain_fences_would_be_taken_as_they_are_written(page: Path) -> None:
    found = [(words, commands.veil_problem(words[1:])) for words in commands.typed(blocks(page))]
    assert [f"`{' '.join(words)}`: {problem}" for words, problem in found if problem] == []


# --- the tests themselves can fail ----------------------------------------------------------------------------


def page_of(folder: Path, text: str) -> list[Block]:
    """Blocks of a page that is written for a test; it lies in the repository as far as its name goes."""
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return [Block(ROOT / "page.md", b.line, b.language, b.text, b.not_run, b.file) for b in blocks(page)]


@pytest.mark.parametrize(
    "text",
    [
        "```bash\nveil no-such-verb\n```",
        "```bash\nfalse\necho on\n```",
        "```bash\nfalse | cat\n```",
        "```console\n$ echo one\ntwo\n```",
        "```console\n$ echo one\n```",
        "```console\n$ false\n```",
        "```console\nno command\n```",
        "```console\n$ exit 3\n$ echo on\n```",
        "```python\nassert False\n```",
        "```python\nfrom videoveil import nothing_of_that_name\n```",
    ],
)
def test_a_snippet_that_does_not_do_what_it_says_is_found(text: str, programs: Path, tmp_path: Path) -> None:
    with pytest.raises(Failed):
        for block in page_of(tmp_path, text):
            Reader(tmp_path, programs).follow(block)


def test_blocks_share_a_folder_and_names_and_show_their_exit_codes(programs: Path, tmp_path: Path) -> None:
    text = """
<!-- file: own.txt -->
```text
kept
```
```python
value = open("own.txt").read()
```
```python
open("second.txt", "w").write(value * 2)
```
```console
$ cat second.txt
kept
kept
$ echo first; echo second;
> echo last
first
…
last
$ veil verify missing.mp4 --against own.txt
veil: …
$ echo $?
2
```
<!-- not run: would fail -->
```bash
false
```
"""
    reader = Reader(tmp_path, programs)
    for block in page_of(tmp_path, text):
        reader.follow(block)
    assert (tmp_path / "second.txt").read_text() == "kept\nkept\n"


@pytest.mark.parametrize("text", ["- item\n\n      ```bash\n      false\n      ```\n", "```bash\nfalse\n"])
def test_blocks_that_would_not_be_seen_are_errors(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"page\.md:[13]: "):
        page_of(tmp_path, text)


def test_marks_belong_to_the_fence_directly_below(tmp_path: Path) -> None:
    text = "<!-- not run: far -->\n\n```bash\na\n```\n<!-- not run: near -->\n```python title=b\nb\n```\n"
    assert [(b.line, b.language, b.not_run) for b in page_of(tmp_path, text)] == [
        (3, "bash", ""),
        (7, "python", "near"),
    ]


@pytest.mark.parametrize(
    ("shown", "seen", "fit"),
    [
        ("a", "a\n", True),
        ("a", "b\n", False),
        ("a", "a\nb\n", False),
        ("", "a\n", False),
        ("", "", True),
        ("a … c", "a b c\n", True),
        ("a\n…", "a\n", True),
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("a\n…\nd", "a\nb\nc\n", False),
        ("1.5 s", "1x5 s\n", False),
    ],
)
def test_output_is_compared_and_dots_stand_for_anything(shown: str, seen: str, fit: bool) -> None:
    assert fits(shown, seen) == fit


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("veil anonymize in.mp4 out.mp4 --with blur", ""),
        ("veil anonymize in.mp4 --with blur", "MissingParameter"),
        ("veil anonymize in.mp4 out.mp4 --with blur --no-such", "NoSuchOption"),
        ("veil nothing", "has no 'nothing'"),
        ("veil data nothing", "veil data has no"),
        ("python scripts/nothing.py", "no such script"),
        ("python benchmarks/latent_study.py OUT --no-such 1", "has no --no-such"),
        ("make nothing", "no such target"),
        ("pip install 'videoveil[nothing]'", "no extra nothing"),
        ("rm -rf /", "not a program"),
        ("A=1 veil doctor > file # and more", ""),
        ("torchrun --nproc-per-node 2 -m videoveil.cli train-task action --features a --out b", ""),
        ("torchrun --nproc-per-node 2 -m videoveil.cli train-task --out b", "MissingParameter"),
    ],
)
def test_commands_that_do_not_exist_are_found_without_running_them(words: str, problem: str) -> None:
    found = commands.shell_problems(words)
    assert (found == []) if not problem else (len(found) == 1 and problem in found[0]), found


def test_options_that_are_only_mentioned_must_exist() -> None:
    assert commands.mention_problem(["veil", "anonymize", "IN", "OUT", "--with", "X", "[--inner"]) == ""
    assert "--inside" in commands.mention_problem(["veil", "anonymize", "IN", "OUT", "--inside", "3"])
    assert "no such script" in commands.mention_problem(["python", "benchmarks/nothing.py", "OUT"])


def test_mentions_are_found_wherever_they_stand(tmp_path: Path) -> None:
    text = """Say `veil score RUN` or `python
benchmarks/gait.py OUT`, not `veil`.

    veil doctor     # indented
    python -m benchmarks.service --jobs 5

| `veil data make NAME --size tiny\\|small` |

```
veil models   # typed
veil: printed
```
```text
veil nothing
```
"""
    page = tmp_path / "page.md"
    page.write_text(text)
    fences = blocks(page)
    assert [" ".join(words) for words in commands.mentioned(page, fences)] == [
        "veil score RUN",
        "python benchmarks/gait.py OUT",
        "veil data make NAME --size tiny/small",
        "veil doctor",
        "python -m benchmarks.service --jobs 5",
        "veil models",
    ]
    assert list(commands.typed(fences)) == [["veil", "models"]]


def test_commands_that_would_not_be_executed_are_found_wherever_they_stand(tmp_path: Path) -> None:
    text = """    step 1   θ ← Adam

    veil doctor     # indented
\tpython -m benchmarks.service --jobs 5
    OMP_NUM_THREADS=1 make test

1. A list
   veil score goes on here.

```
$ veil models
veil: printed
```
```text
make demo
films/walk/a.mp4
```
```bash
veil doctor
```
"""
    page = tmp_path / "page.md"
    page.write_text(text)
    assert list(commands.unfenced(page, blocks(page))) == [
        "veil doctor     # indented",
        "python -m benchmarks.service --jobs 5",
        "OMP_NUM_THREADS=1 make test",
        "$ veil models",
        "make demo",
    ]


@pytest.mark.parametrize("words", [["--help"], ["data", "list"], ["score", "nowhere"], ["no-such-verb"]])
def test_the_warm_program_is_the_installed_one(words: list[str], programs: Path, tmp_path: Path) -> None:
    made = [
        subprocess.run([str(program), *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        for program in (programs / "veil", Path(sys.executable).with_name("veil"))
    ]
    assert [one.returncode for one in made] == [made[1].returncode] * 2
    assert made[0].stdout == made[1].stdout
    assert made[0].stderr == made[1].stderr
