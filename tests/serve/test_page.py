"""The page in a real browser: from a dropped video to two that play in step, with a keyboard, on a phone, by night."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.serve.running import ANNA, LATE, MODELS, Server, film
from tests.serve.test_figures import write_audit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = next(
    (
        path
        for path in map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"))
        if path.exists()
    ),
    None,
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium at /usr/bin")
PATIENCE = 1000 * LATE  # milliseconds


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as player:
        opened = player.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox"], timeout=PATIENCE
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page")
    audits = {"blur": str(write_audit(folder / "audit"))}
    with Server(folder / "data", {"audits": audits}, models=MODELS, faults=True) as running:
        yield running


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film(tmp_path_factory.mktemp("street") / "street.mp4", frames=60, width=160, height=120)


class Visit:
    """A page with everything it complained about."""

    def __init__(self, context: BrowserContext, server: Server):
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.server = server
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(f"http://localhost:{server.port}/")

    def sign_in(self, token: str = ANNA) -> None:
        self.page.fill("#token", token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#choose", state="visible")

    def anonymize(self, path: Path) -> None:
        self.page.set_input_files("#file", path)
        self.page.click("#start")
        self.page.wait_for_selector("#result", state="visible")
        self.until("raw.readyState >= 2 && veiled.readyState >= 2")

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)

    def until(self, script: str) -> None:
        """The browser's own way to wait is stopped by the page's policy: it makes code from text."""
        self.server.until(lambda: self.value(script), LATE, script)


@pytest.fixture
def visit(browser: Browser, shown: Server) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1100, "height": 900}, accept_downloads=True)
    yield Visit(context, shown)
    context.close()


def test_from_a_chosen_video_to_two_in_step(visit: Visit, street: Path, tmp_path: Path) -> None:
    page = visit.page
    visit.sign_in()
    visit.anonymize(street)
    assert visit.value("[raw.videoWidth, veiled.videoWidth, veiled.duration]") == [
        160,
        160,
        pytest.approx(2.4),
    ]
    assert visit.value("raw.src").startswith("blob:"), "the raw video comes from the reader's own file"
    page.click("#play")
    visit.until(STOP_IN_STEP)
    raw, veiled = visit.value("[raw.currentTime, veiled.currentTime]")
    assert raw == pytest.approx(veiled, abs=0.05)
    page.fill("#seek", "1.5")
    assert visit.value("[raw.currentTime, veiled.currentTime]") == [pytest.approx(1.5), pytest.approx(1.5)]
    assert visit.value("seek.getAttribute('aria-valuetext')") == "0:01 of 0:02"
    _downloads(page, tmp_path)
    host = f"http://localhost:{visit.server.port}/"
    assert all(url.startswith((host, f"blob:{host}")) for url in visit.asked), "nobody else is asked"
    page.click("#delete")
    page.wait_for_selector("#result", state="hidden")
    assert not list((visit.server.data / "jobs").iterdir())
    assert visit.complaints == []


# Stops both while they play in step; a look that comes after the end begins again.
STOP_IN_STEP = """() => {
  const apart = Math.abs(raw.currentTime - veiled.currentTime);
  const there = !veiled.paused && veiled.currentTime > 0.8 && apart < 0.3;
  if (there || veiled.paused) at("play").click();
  return there;
}"""


def _downloads(page: Page, folder: Path) -> None:
    found = {}
    for button in ("#get-video", "#get-report", "#get-json"):
        with page.expect_download() as waiting:
            page.click(button)
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        found[path.suffix] = path.read_bytes()
    assert found[".mp4"][4:8] == b"ftyp"
    assert found[".html"].startswith(b"<!DOCTYPE html>")
    assert json.loads(found[".json"])["run"]["frames"] == 60


def test_a_dropped_video_is_taken(visit: Visit, street: Path) -> None:
    visit.sign_in()
    numbers = list(street.read_bytes())
    visit.page.evaluate(
        "(bytes) => { const data = new DataTransfer();"
        "data.items.add(new File([new Uint8Array(bytes)], 'dropped.mp4'));"
        "document.getElementById('drop').dispatchEvent("
        "new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})); }",
        numbers,
    )
    assert visit.value("file.files[0].name") == "dropped.mp4"
    assert visit.page.is_enabled("#start")


def test_progress_is_told_while_it_happens(visit: Visit, long_walk: Path) -> None:
    page = visit.page
    visit.sign_in()
    page.set_input_files("#file", long_walk)
    page.select_option("#model", "held")
    with visit.server.held():
        page.click("#start")
        visit.until("/frames per second/.test(numbers.textContent)")
        assert visit.value("said.getAttribute('aria-live')") == "polite"
        assert 0 <= visit.value("bar.value") <= 1
        page.click("#cancel")
        page.wait_for_selector("#progress", state="hidden")
    assert not list((visit.server.data / "jobs").iterdir())


def test_the_figures_of_the_model_stand_there_with_intervals_and_chance(visit: Visit) -> None:
    page = visit.page
    visit.sign_in()
    table = page.inner_text("#figures-table")
    for text in (
        "private attributes, by linear",
        "0.400",
        "0.300 to 0.500",
        "0.900",
        "0.250",
        "95 % interval",
    ):
        assert text in table
    assert "privacy: pass" in page.inner_text("#verdict")
    page.select_option("#model", "black")
    assert "Nothing was measured of black" in page.inner_text("#verdict")


def test_without_an_anomaly_model_the_page_says_so(visit: Visit, street: Path) -> None:
    visit.sign_in()
    visit.anonymize(street)
    assert visit.page.inner_text("#anomaly") == "No anomaly model is configured."
    visit.page.click("#delete")
    visit.page.wait_for_selector("#result", state="hidden")


def test_a_wrong_token_and_a_wrong_file_are_said(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    page.fill("#token", "wrong-0123456789abcdef")
    page.keyboard.press("Enter")
    visit.until("at('problem').textContent.includes('not known')")
    assert visit.value("document.activeElement.id") == "token"
    visit.sign_in()
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"#EXTM3U\n")
    page.set_input_files("#file", bad)
    page.click("#start")
    visit.until("at('problem').textContent.includes('playlist')")
    assert visit.value("at('problem').getAttribute('role')") == "alert"


def test_everything_can_be_reached_with_the_keyboard(visit: Visit, street: Path) -> None:
    page = visit.page
    visit.sign_in()
    visit.anonymize(street)
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.focus(".skip")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or reached[-1] == "BODY", reached[-1]
    wanted = [
        "file",
        "model",
        "audio",
        "start",
        "play",
        "seek",
        "get-video",
        "get-report",
        "get-json",
        "delete",
    ]
    order = [reached.index(name) for name in wanted]
    assert order == sorted(order)
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input,select,button,video,svg')].filter((one) => !(one.labels?.length || "
        "one.getAttribute('aria-label') || one.textContent.trim())).map((one) => one.outerHTML)"
    )
    assert unnamed == []
    page.focus("#play")
    page.keyboard.press("Space")
    visit.until("!veiled.paused")
    page.focus("#delete")
    page.keyboard.press("Enter")
    page.wait_for_selector("#result", state="hidden")


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark"), (1100, "dark")])
def test_it_fits_a_phone_and_follows_day_and_night(
    browser: Browser, shown: Server, street: Path, width: int, scheme: Any
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    try:
        visit = Visit(context, shown)
        visit.sign_in()
        visit.anonymize(street)
        assert visit.value("document.documentElement.scrollWidth") <= width, "nothing to scroll sideways"
        colour = visit.value("getComputedStyle(document.body).backgroundColor")
        dark = sum(int(part) for part in colour[4:-1].split(",")) < 3 * 80
        assert dark == (scheme == "dark")
        side_by_side = visit.value("raw.getBoundingClientRect().top === veiled.getBoundingClientRect().top")
        assert side_by_side == (width > 640)
        visit.page.click("#delete")
        visit.page.wait_for_selector("#result", state="hidden")
    finally:
        context.close()


def test_the_policy_stops_foreign_scripts(visit: Visit) -> None:
    visit.sign_in()
    blocked = visit.value(
        "() => { try { document.body.innerHTML += '<img src=x onerror=alert(1)>'; return false; }"
        " catch (error) { return error.name === 'TypeError'; } }"
    )
    assert blocked, "markup cannot be made from text"
