"""Screenshots of the studio for README and docs, from the demo's server: python docs/make_screenshots.py [demo/server].

Each is a PNG of at most 150 kB; look at them before you commit them.
"""

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser import CHROMIUM, serving  # noqa: E402

DOCS = ROOT / "docs"
LARGEST = 150_000
WIDE = {"width": 1280, "height": 690}


def planner(page: Page, address: str) -> None:
    """A plan of a known page, with the reason for its first phrase."""
    page.goto(f"{address}/")
    page.locator(".state button.link").first.click()
    page.wait_for_selector("table.plan")
    page.locator("button.phrase").first.click()
    page.wait_for_selector(".why h3")


def grid(page: Page, address: str) -> None:
    """The first grid."""
    page.goto(f"{address}/#grid")
    page.wait_for_selector("canvas")
    page.wait_for_timeout(1000)


SHOTS = {"studio_planner": planner, "studio_grid": grid}


def main(folder: Path, names: list[str]) -> None:
    """Take all pictures, or those that are named."""
    from broadmatch.serve.app import make_app
    from broadmatch.serve.config import ServeConfig
    from broadmatch.serve.service import LiveService
    from tests.serve.shop import Sink

    app = make_app(ServeConfig(folder=folder), LiveService(folder), Sink())
    with serving(app) as address, sync_playwright() as driver, driver.chromium.launch(executable_path=CHROMIUM) as seen:
        for name in names or SHOTS:
            context = seen.new_context(viewport=WIDE, color_scheme="light", reduced_motion="reduce")  # type: ignore[arg-type]
            context.add_init_script("localStorage.setItem('broadmatch-tour', 'seen')")
            page = context.new_page()
            SHOTS[name](page, address)
            file = DOCS / f"{name}.png"
            size = len(page.screenshot(path=file))
            context.close()
            if size > LARGEST:
                raise SystemExit(f"{file} has {size:,} bytes; at most {LARGEST:,} go into the docs.")
            print(f"{file.name}: {size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo/server"), sys.argv[2:])
