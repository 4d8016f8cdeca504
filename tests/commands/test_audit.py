"""`veil audit`: what is asked for, and the exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.anonymizers.obfuscate import tiny_onnx
from tests.audit import world
from videoveil.audit import registry
from videoveil.audit.conclusions import Result
from videoveil.audit.scoring import Question, Verdict
from videoveil.commands import audit as command
from videoveil.commands.audit import audit
from videoveil.errors import CheckpointError, UsageError, VeilError

RUN = CliRunner()


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command with those who learn in a moment; the grid of colours stands for a network that learns."""
    quick = tuple(replace(one, learns=one.name == "grid") for one in world.settings().participants)
    monkeypatch.setattr(registry, "named", lambda names: quick)
    made = typer.Typer()
    made.command()(audit)
    return made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = world.dataset(tmp_path_factory.mktemp("csv"))
    world.table(made, made.root / "videos.csv")
    return made.root


@pytest.fixture(scope="module")
def nameless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without names, so that nobody can ask who it is."""
    made = world.dataset(tmp_path_factory.mktemp("nameless"))
    world.table(made, made.root / "videos.csv", subject="")
    return made.root


def test_an_anonymizer_that_changes_nothing_exits_with_2(
    app: typer.Typer, root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = RUN.invoke(app, [f"csv:{root}", "--anonymizer", "identity", "--out", str(out), "--seeds", "2"])
    assert done.exit_code == 2, done.output
    assert "privacy FAIL, utility PASS" in done.output
    assert json.loads((out / "metrics.json").read_text())["verdict"]["overall"] == "FAIL"
    assert "max_leakage: 0.5" in (out / "config.yaml").read_text()


def test_folders_of_any_tool_are_audited_and_json_is_for_scripts(
    app: typer.Typer, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root, tmp_path / "made")
    words = [
        "--raw",
        str(root),
        "--anonymized",
        str(tmp_path / "made"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = RUN.invoke(app, [*words, "--seeds", "1", "--pictures", "1"])
    assert done.exit_code == 2, done.output
    assert json.loads(done.stdout)["anonymizer"] == "made"
    assert (tmp_path / "out" / "pictures.png").is_file()


def test_thresholds_decide(app: typer.Typer, nameless: Path, tmp_path: Path) -> None:
    words = [f"csv:{nameless}", "--anonymizer", "identity", "--out", str(tmp_path / "out"), "--seeds", "1"]
    done = RUN.invoke(app, [*words, "--max-leakage", "1"])
    assert done.exit_code == 0, done.output
    assert "privacy PASS" in done.output


def test_attributes_that_nobody_proves_to_find_are_named_beside_a_pass(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = Question("private attributes", "attack", "cmap", (), verdict="PASS", unproven=("hair", "tattoo"))
    passed = Verdict("PASS", "PASS", ("privacy, private attributes: PASS: little is left",))
    command._say(Result(passed, (asked,), (), (), (), {}), Path("out"), as_json=False)
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == passed.reasons[0]
    assert "nobody clearly finds hair, tattoo, in raw videos or in anonymized ones" in second
    assert last.startswith("privacy PASS, utility PASS")


def test_of_many_attributes_that_nobody_proves_some_are_named() -> None:
    many = Question("private attributes", "attack", "cmap", (), unproven=tuple("abcdefgh"))
    assert "finds a, b, c, d, e, f and 2 more, in raw videos" in command._unproven(many)


def test_the_command_in_a_report_has_no_folders_of_this_machine() -> None:
    words = [
        "audit",
        "csv:/home/ann/films",
        "--anonymizer",
        "blur",
        "--out=/home/ann/first",
        "--cache",
        "kept",
    ]
    shown = command._shown(words, Path("/home/ann/first"), Path("kept"))
    assert shown == "veil audit csv:films --anonymizer blur --out=OUT --cache CACHE"
    shown = command._shown(
        ["audit", "--detector", "yolo:/x/a.onnx", "--option", "key=a"], Path("audit"), None
    )
    assert shown == "veil audit --detector yolo:a.onnx --option key=a"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("resnet.18@/home/ann/w.pt", "resnet.18@w.pt"),
        ("resnet.18@kept/old/w.pt", "resnet.18@w.pt"),
        ("resnet.18@org/model", "resnet.18@org/model"),
        ("tiny@own", "tiny@own"),
        ("/home/a@b/c:d/films", "films"),
    ],
)
def test_a_network_in_the_command_keeps_its_name(word: str, shown: str) -> None:
    said = command._shown(["audit", "--attacker", word], Path("audit"), None)
    assert said == f"veil audit --attacker {shown}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "what is to be audited"),
        (["csv:ROOT"], "what is to be audited"),
        (["--raw", "ROOT"], "together"),
        (["csv:ROOT", "--raw", "ROOT", "--anonymized", "ROOT"], "together"),
        (["csv:ROOT", "--anonymizer", "magic"], "veil-pixel, veil-tiny, veil-unet, identity"),
        (["csv:ROOT", "--anonymizer", "downsample:many"], "a number"),
        (["csv:ROOT", "--anonymizer", "blur", "--labels", "x.csv"], "--labels"),
        (["csv:ROOT", "--anonymizer", "blur", "--option", "x"], "KEY=VALUE"),
        (["csv:ROOT", "--anonymizer", "blur", "--max-leakage", "0"], "max_leakage"),
        (["csv:ROOT", "--anonymizer", "blur", "--detector", "hog"], "--only detectors"),
        (["csv:ROOT", "--anonymizer", "blur", "--attacker", "resnet.18"], "let `frames` or `clips`"),
        (["csv:ROOT", "--anonymizer", "blur", "--attacker-size", "5"], "at least 16"),
        (["csv:ROOT", "--anonymizer", "blur", "--anonymizer-detector", "hog"], "asks no detector"),
        (["csv:ROOT", "--anonymizer", "blacken-faces", "--anonymizer-detector", "hog"], "hog finds people"),
        (["csv:ROOT", "--anonymizer", "blur", "--keep-empty"], "leaves no frame as it was"),
        (["--raw", "ROOT", "--anonymized", "ROOT", "--keep-empty"], "belong to --anonymizer"),
    ],
)
def test_what_does_not_fit_together_is_said(
    app: typer.Typer, root: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    asked = [word.replace("ROOT", str(root)) for word in words]
    done = RUN.invoke(app, [*asked, "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, VeilError)
    assert message in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_a_detector_of_the_user_takes_part_and_a_bad_file_is_named(root: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(audit)
    out = tmp_path / "out"
    words = [
        f"csv:{root}",
        "--anonymizer",
        "identity",
        "--out",
        str(out),
        "--seeds",
        "1",
        "--only",
        "detectors",
    ]
    bad = tmp_path / "bad.onnx"
    bad.write_text("hello")
    done = RUN.invoke(app, [*words, "--detector", f"yolo:{bad}"])
    assert isinstance(done.exception, CheckpointError)
    assert "bad.onnx: is not an ONNX file" in str(done.exception)
    assert not out.exists()
    good = tiny_onnx.yolo(tmp_path / "good.onnx", "yolov8")
    done = RUN.invoke(app, [*words, "--detector", f"yolo:{good}"])
    assert done.exit_code == 1, done.output  # nobody is in these films: nothing can be measured
    assert "yolo-good" in (out / "report.html").read_text("utf-8")


def test_an_anonymizer_is_audited_with_the_detector_it_will_have(
    app: typer.Typer, nameless: Path, tmp_path: Path
) -> None:
    """Nobody is in these films: frames are published as they were with `--keep-empty`, and black without."""
    finder = tiny_onnx.yolo(tmp_path / "finder.onnx", "yolov8")
    words = [
        f"csv:{nameless}",
        "--anonymizer",
        "blacken-people",
        "--seeds",
        "1",
        "--anonymizer-detector",
        f"yolo:{finder}",
    ]
    verdicts = {}
    for name, more in (("kept", ["--keep-empty"]), ("black", [])):
        done = RUN.invoke(app, [*words, *more, "--out", str(tmp_path / name), "--json"])
        found = json.loads(done.stdout)
        assert found["anonymizer"].startswith("blacken-people (by yolo:finder.onnx")
        verdicts[name] = found["verdict"]
    assert (verdicts["kept"]["privacy"], verdicts["kept"]["utility"]) == ("FAIL", "PASS")
    assert (verdicts["black"]["privacy"], verdicts["black"]["utility"]) == ("PASS", "FAIL")


def test_unknown_participants_are_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="there are action-probe, action-network"):
        registry.named(("nobody",))


def test_the_command_can_be_looked_at_without_torch() -> None:
    code = "import sys, videoveil.commands.audit; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
