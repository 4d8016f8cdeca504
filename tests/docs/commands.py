"""Whether commands that are not executed at least exist: verbs, options, scripts, targets, imports."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from tests.docs.pages import ROOT, Block, prose

# what a page may name without this repository having a say in it
FOREIGN = {"base64", "cd", "cp", "curl", "docker", "echo", "export", "ffmpeg", "git", "head", "ls", "mkdir"}
PROGRAMS = {
    "veil",
    "python",
    "python3",
    "torchrun",
    "make",
    "pip",
    *FOREIGN,
}  # what a line of a command begins with
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_SPAN = re.compile(r"`((?:[^`\n]|\n(?!\s*\n))+)`")  # may go on in the next line, not in the next paragraph
_ENDS = {"|", "||", "&&", ";", "&", "(", ")"}


@cache
def _root() -> Any:
    from videoveil.cli import app

    return get_command(app)


def _verb(words: list[str]) -> tuple[Any, str, list[str]]:
    """The command that the words after `veil` name, its name, and what is left; LookupError says what is wrong."""
    here, path, rest = _root(), ["veil"], list(words)
    while hasattr(here, "commands"):
        if not rest or rest[0] not in here.commands:
            raise LookupError(f"{' '.join(path)} has no {rest[0] if rest else 'verb'!r}")
        path.append(rest.pop(0))
        here = here.commands[path[-1]]
    return here, " ".join(path), rest


def options_of(words: list[str]) -> set[str]:
    """Every option of the verb that the words begin with."""
    command, _, _ = _verb(words)
    found = {word for one in command.params for word in (*one.opts, *one.secondary_opts)}
    return {word for word in found if word.startswith("-")} | {"--help", "-h"}


def veil_problem(words: list[str]) -> str:
    """Why the command line would refuse these words; empty if it would not."""
    try:
        command, name, rest = _verb(words)
        command.make_context(name, list(rest))
    except LookupError as error:
        return str(error)
    except typer.Exit:  # --help
        return ""
    except Exception as error:  # click's own errors, of which typer may carry its own copy
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"
    return ""


def simple_commands(script: str) -> Iterator[list[str]]:
    """The words of every command of a shell script, without redirections and leading assignments."""
    lexer = shlex.shlex(
        script.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars="();|&<>"
    )
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    skip = False
    for word in [*lexer, ";"]:
        if skip:
            skip = False
        elif set(word) <= set("<>&") and set(word) & set("<>"):
            skip = True  # the file it is sent to
        elif word in _ENDS:
            while words and _ASSIGNMENT.fullmatch(words[0]):
                words.pop(0)
            if words:
                yield words
            words = []
        else:
            words.append(word)


def without_comments(script: str) -> str:
    """Comments of a shell script taken off: a `#` that begins a word, to the end of its line."""
    return "\n".join(re.sub(r"(^|\s)#\s.*$", "", line) for line in script.splitlines())


def shell_problems(script: str) -> list[str]:
    """What of a script could not run because it does not exist."""
    found = (command_problem(words) for words in simple_commands(without_comments(script)))
    return [problem for problem in found if problem]


def command_problem(words: list[str]) -> str:
    program = words[0]
    if program == "veil":
        return veil_problem(words[1:])
    if program in ("python", "python3", "torchrun"):
        return _python_problem(program, words[1:])
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return "" if all(word in targets for word in words[1:]) else f"{' '.join(words)}: no such target"
    if program == "pip":
        return _pip_problem(words)
    return "" if program in FOREIGN else f"{program}: not a program that these pages may name"


def _python_problem(program: str, words: list[str]) -> str:
    """A script or module of this repository with its options; what comes before it belongs to the program."""
    for place, word in enumerate(words):
        if word == "-m":
            if words[place + 1] == "videoveil.cli":
                return veil_problem(words[place + 2 :])
            script = ROOT / (words[place + 1].replace(".", "/") + ".py")
            rest = words[place + 2 :]
            break
        if word.endswith(".py"):
            script, rest = ROOT / word, words[place + 1 :]
            break
    else:
        return f"{program} {' '.join(words)}: names no script"
    if not script.is_file():
        return f"{script.relative_to(ROOT)}: no such script"
    text = script.read_text("utf-8")
    lost = [word for word in rest if word.startswith("--") and f'"{word.partition("=")[0]}"' not in text]
    return f"{script.relative_to(ROOT)} has no {', '.join(lost)}" if lost else ""


def _pip_problem(words: list[str]) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        extra for word in words for found in re.findall(r"\[(.+?)\]", word) for extra in found.split(",")
    ]
    lost = [extra for extra in wanted if extra not in project["optional-dependencies"]]
    return f"{' '.join(words)}: no extra {', '.join(lost)}" if lost else ""


def python_problems(block: Block) -> list[str]:
    """Imports of a Python block that lead nowhere; a block that does not compile is one problem."""
    try:
        tree = ast.parse(block.text)
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names if importlib.util.find_spec(one.name) is None]
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            found += [f"{node.module}.{one.name}" for one in node.names if not hasattr(module, one.name)]
    return [f"{name}: cannot be imported" for name in found]


def pieces(page: Path, fences: list[Block]) -> Iterator[str]:
    """Everything that is set as code outside the blocks that are executed: spans, indented lines, plain fences."""
    text = prose(page)
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    for found in _SPAN.finditer("\n".join(lines)):
        yield " ".join(found[1].split())
    yield from (line.strip() for line in text.splitlines() if line.startswith("    "))
    yield from (line for block in fences if not block.language for line in block.text.splitlines())


def mentioned(page: Path, fences: list[Block]) -> Iterator[list[str]]:
    """Every `veil VERB …` and `python SCRIPT …` that a page names anywhere.

    These may be pieces of commands with placeholders, so only verbs, scripts and names of options are looked at.
    """
    for piece in pieces(page, fences):
        for found in re.finditer(
            r"(?:^|[\s`])(veil [a-z][^`|#]*|python (?:-m [a-z]|[a-z_]+/)[^`|#]*)", piece.replace("\\|", "/")
        ):
            yield found[1].split()


def typed(fences: list[Block]) -> Iterator[list[str]]:
    """Whole commands in fences without a language: lines that begin with `veil`, without their comments."""
    for block in fences:
        if not block.language:
            for line in without_comments(block.text).splitlines():
                if line.startswith("veil ") and "…" not in line:
                    yield shlex.split(line)


def unfenced(page: Path, fences: list[Block]) -> Iterator[str]:
    """Commands that nobody executes and that do not say why: indented lines, and lines of fences that say no language
    that is executed. Formulas, listings of files and what programs print may stand so."""
    lines = [line for line in prose(page).splitlines() if line.startswith(("    ", "\t"))]
    lines += [line for block in fences if block.language in ("", "text") for line in block.text.splitlines()]
    for line in lines:
        words = line.removeprefix("$ ").split()
        while words and (words[0] == "$" or _ASSIGNMENT.fullmatch(words[0])):
            words.pop(0)
        if words and words[0] in PROGRAMS:
            yield line.strip()


def mention_problem(words: list[str]) -> str:
    """A verb, a script or an option that does not exist."""
    if words[0] == "python":
        return _python_problem("python", words[1:])
    try:
        known = options_of(words[1:])
    except LookupError as error:
        return str(error)
    named = (re.match(r"\[*(--?[a-z][a-z-]*)", word) for word in words)
    lost = [found[1] for found in named if found and found[1] not in known]
    return f"veil {words[1]} has no {', '.join(lost)}" if lost else ""
