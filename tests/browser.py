"""A real browser for tests: Debian's chromium by playwright; a page that reports an error or asks elsewhere fails.

A test takes the fixture `page` (playwright's sync API); a module whose tests take it does not call `asyncio.run`,
because playwright holds the thread's event loop while the module runs. `serving(app)` runs an application at an
address of this machine, `axe(page)` and `screenshot_like(page, name)` look at what is shown.
"""

import contextlib
import subprocess
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Playwright, Route, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
SCREENSHOTS = Path(__file__).parent / "screenshots"
HERE = {"127.0.0.1", "localhost", ""}
"""Hosts that a page may ask; addresses without one are files, blobs and data."""
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
_SMALL = 320  # pixels across a kept screenshot: what is where and in which colour, whatever the fonts
_FAR, _SHARE = 40, 0.03  # a pixel differs by more than 40 of 255 levels in a channel; 3 % of the pixels may


def pytest_addoption(parser: pytest.Parser) -> None:
    """Screenshots are written anew when somebody says so."""
    parser.addoption("--write-screenshots", action="store_true", help="Write tests/screenshots instead of comparing.")


def pytest_report_header() -> str:
    """Which browser the tests see, and what drives it."""
    if not CHROMIUM.exists():
        return f"browser: none at {CHROMIUM}; on Debian and Ubuntu: apt-get install chromium"
    said = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return f"browser: {said}, playwright {metadata.version('playwright')}"


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Playwright, for as long as a module's tests run: it holds the thread's event loop."""
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """One browser a module."""
    if not CHROMIUM.exists():
        pytest.fail(f"There is no {CHROMIUM}; run `make test`, or apt-get install chromium.")
    with playwright.chromium.launch(executable_path=CHROMIUM, args=["--force-color-profile=srgb"]) as launched:
        yield launched


@pytest.fixture
def troubles() -> list[str]:
    """What went wrong in the page; a test that provokes something looks at it and clears it."""
    return []


@pytest.fixture
def page(browser: Browser, troubles: list[str]) -> Iterator[Page]:
    """A new page of 1280 × 800; the test fails on an error in it and on a request to another host."""
    context = browser.new_context(viewport=WIDE, color_scheme="light", reduced_motion="reduce", locale="en-GB")
    context.set_default_timeout(15_000)

    def only_here(route: Route) -> None:
        if (urlsplit(route.request.url).hostname or "") in HERE:
            route.fallback()
        else:
            troubles.append(f"request to another host: {route.request.url}")
            route.abort()

    context.route("**/*", only_here)
    opened = context.new_page()
    opened.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    yield opened
    context.close()
    assert not troubles, f"the page said: {troubles}"


def axe(page: Page) -> list[str]:
    """Serious and critical findings of axe-core on a page, as sentences."""
    script = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    page.evaluate(script)  # in the page's world, and not as a <script>: the policy of the page stands
    found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    return [
        f"{one['id']}: {one['help']} {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def axe_in_both_themes(page: Page) -> list[str]:
    """Findings in light and in dark."""
    found = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found += [f"{scheme}: {finding}" for finding in axe(page)]
    return found


def screenshot_like(page: Page, name: str) -> None:
    """The page looks as tests/screenshots/NAME.png does, but for few pixels of the reduced picture."""
    file = SCREENSHOTS / f"{name}.png"
    shot = page.context.browser.new_context()  # type: ignore[union-attr]
    try:
        blank = shot.new_page()
        small = b64decode(blank.evaluate(_REDUCE, [_text(page.screenshot(animations="disabled")), _SMALL]))
        if _write_screenshots:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(small)
        assert file.exists(), f"there is no {file.name} yet; run pytest with --write-screenshots and look at it"
        share = blank.evaluate(_DIFFERENCE, [_text(small), _text(file.read_bytes()), _FAR])
    finally:
        shot.close()
    assert share <= _SHARE, f"{100 * share:.1f} % of the pixels differ from {file.name}"


_write_screenshots = False


def pytest_configure(config: pytest.Config) -> None:
    """Remember whether screenshots are written."""
    global _write_screenshots
    _write_screenshots = config.getoption("--write-screenshots")


def _text(image: bytes) -> str:
    return b64encode(image).decode()


_DECODE = (
    "const decode = async (text) => createImageBitmap(await (await fetch('data:image/png;base64,' + text)).blob());"
)
_REDUCE = f"""async ([text, width]) => {{
  {_DECODE}
  const image = await decode(text);
  const canvas = new OffscreenCanvas(width, Math.round(width * image.height / image.width));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const bytes = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}}"""
_DIFFERENCE = f"""async ([ours, theirs, far]) => {{
  {_DECODE}
  const pixels = async (text) => {{
    const image = await decode(text);
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  }};
  const [a, b] = [await pixels(ours), await pixels(theirs)];
  if (a.width !== b.width || a.height !== b.height) return 1;
  let differ = 0;
  for (let i = 0; i < a.data.length; i += 4)
    if ([0, 1, 2].some((k) => Math.abs(a.data[i + k] - b.data[i + k]) > far)) differ++;
  return differ / (a.width * a.height);
}}"""


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address at which an ASGI application answers, in a thread, until the block ends."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
