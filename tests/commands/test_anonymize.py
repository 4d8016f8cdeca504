from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.pipeline import films
from videoveil import shipped
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.cli import app
from videoveil.commands.anonymize import kind_of
from videoveil.commands.running import code_of
from videoveil.errors import CorruptVideo, UsageError, WriteFailed
from videoveil.media.reader import open_video
from videoveil.pipeline.errors import FramesFailed, Stopped


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return films.coded(tmp_path_factory.mktemp("film") / "film.mp4", films.scenes(12))


def veil(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["anonymize", *map(str, arguments)])
    if isinstance(result.exception, UsageError):  # `main` makes a message and exit code 2 of it
        return 2, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_a_file_is_anonymized_and_summed_up(film: Path, tmp_path: Path) -> None:
    code, said = veil(film, tmp_path / "out.mp4", "--with", "blur", "--size", "48x32")
    assert code == 0
    assert "12 frames of 48×32" in said
    assert "bottleneck: " in said
    with open_video(tmp_path / "out.mp4") as video:
        assert (video.info.width, video.info.height, video.info.frames) == (48, 32, 12)


def test_a_model_of_a_run_folder_and_json(film: Path, tmp_path: Path) -> None:
    network = pixel(UNet(width=4))
    network.save_pretrained(tmp_path / "run")
    found = network.content_hash()
    model = ("--with", tmp_path / "run", "--engine", "torch")
    code, said = veil(film, tmp_path / "out.mp4", *model, "--json", "--expect", found[:16])
    assert code == 0
    report = json.loads(said)
    assert report["anonymizer"] == found
    assert report["engine"]["name"] == "torch"
    code, said = veil(film, tmp_path / "other.mp4", *model, "--expect", "0" * 16)
    assert code == 2
    assert not (tmp_path / "other.mp4").exists()


def test_a_folder_and_its_report(film: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.mp4").write_bytes(film.read_bytes())
    (tmp_path / "raw" / "b.mp4").write_bytes(film.read_bytes()[:2000])
    out = tmp_path / "out"
    code, said = veil(tmp_path / "raw", out, "--with", "black", "--report", tmp_path / "report.json")
    assert code == 3
    assert "1 files done" in said
    assert json.loads((tmp_path / "report.json").read_text())["counts"]["failed"] == 1
    code, said = veil(f"{tmp_path}/raw/a*", tmp_path / "glob", "--with", "black")
    assert code == 0
    assert (tmp_path / "glob" / "a.mp4").is_file()


def test_a_picture_is_anonymized_too(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(films.scene(0)).save(tmp_path / "face.png")
    assert veil(tmp_path / "face.png", tmp_path / "out.jpg", "--with", "blur")[0] == 0
    with Image.open(tmp_path / "out.jpg") as made:
        assert made.size == films.SIZE


def test_an_existing_result_is_replaced_only_when_asked(film: Path, tmp_path: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(b"earlier")
    assert veil(film, tmp_path / "out.mp4", "--with", "blur")[0] == 2
    assert (tmp_path / "out.mp4").read_bytes() == b"earlier"
    assert veil(film, tmp_path / "out.mp4", "--with", "blur", "--overwrite")[0] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ("--with", "identity"),
        ("--with", "magic"),
        ("--with", "blur", "--size", "big"),
        ("--with", "blur", "--engine", "steam"),
        ("--with", "blur", "--detector", "hog"),
        ("--with", "blur", "--key", "absent"),
    ],
)
def test_what_makes_no_sense_is_refused_with_code_2(
    wrong: tuple[str, ...], film: Path, tmp_path: Path
) -> None:
    assert veil(film, tmp_path / "out.mp4", *wrong)[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_input_that_is_at_fault_gives_2_and_work_that_failed_3() -> None:
    assert code_of(UsageError("x")) == code_of(CorruptVideo("a", "b")) == 2
    assert code_of(WriteFailed("a", "b")) == code_of(FramesFailed("x")) == code_of(Stopped("x")) == 3


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("0", "stream"),
        ("rtsp://camera/1", "stream"),
        ("https://host/live.m3u8", "stream"),
        ("/dev/video3", "stream"),
        ("raw/*.mp4", "folder"),
        ("raw.mp4", "file"),
    ],
)
def test_what_an_input_is_can_be_told_by_its_name(source: str, kind: str) -> None:
    assert kind_of(source) == kind


def test_what_exists_is_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("0").touch()
    Path("[x]").mkdir()
    assert kind_of("0") == "file"
    assert kind_of("[x]") == "folder"


def test_the_real_command_in_a_real_process(film: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "videoveil.cli", "anonymize", str(film), str(tmp_path / "out.mp4")]
    done = subprocess.run([*command, "--with", "downsample:4"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "12 frames" in done.stdout
    with open_video(tmp_path / "out.mp4") as video:
        assert video.info.frames == 12


def test_without_a_name_it_takes_the_anonymizer_that_comes_with_the_package(
    film: Path, tmp_path: Path
) -> None:
    code, said = veil(film, tmp_path / "out.mp4", "--json")
    assert code == 0
    report = json.loads(said)
    assert report["anonymizer"] == shipped.facts(shipped.DEFAULT)["content_hash"]
    assert report["frames"] == 12
