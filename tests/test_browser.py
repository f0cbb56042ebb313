"""The ground of browser tests: a page that complains, or that asks elsewhere, is noticed."""

import pytest

from tests.browser import axe, screenshot_like, serving


async def _app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = (
        b"<!doctype html><html lang=en><title>a</title><main><h1>Here</h1><p>text</p></main><link rel=icon href=data:,>"
    )
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def address():
    with serving(_app) as address:
        yield address


def test_a_page_of_this_machine_is_shown(page, address):
    page.goto(address)
    assert page.get_by_role("heading").inner_text() == "Here"
    assert page.viewport_size == {"width": 1280, "height": 800}


def test_errors_and_requests_to_other_hosts_are_noticed(page, address, troubles):
    page.goto(address)
    with page.expect_event("pageerror"):
        page.evaluate("() => { console.error('said so'); setTimeout(() => { throw new Error('late') }) }")
    page.evaluate("() => fetch('https://example.org/').catch(() => 0)")
    assert any("said so" in one for one in troubles)
    assert any("late" in one for one in troubles)
    assert any(one == "request to another host: https://example.org/" for one in troubles)
    troubles.clear()


def test_axe_finds_what_is_wrong(page, address):
    page.goto(address)
    assert axe(page) == []
    page.evaluate("() => document.querySelector('main').append(document.createElement('button'))")
    assert any("button-name" in one for one in axe(page))


def test_screenshots_are_compared(page, address, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.browser.SCREENSHOTS", tmp_path)
    page.goto(address)
    with pytest.raises(AssertionError, match="there is no one"):
        screenshot_like(page, "one")
    monkeypatch.setattr("tests.browser._write_screenshots", True)
    screenshot_like(page, "one")
    assert (tmp_path / "one.png").stat().st_size < 5_000
    monkeypatch.setattr("tests.browser._write_screenshots", False)
    screenshot_like(page, "one")
    page.evaluate("() => { document.body.style.background = '#888' }")
    with pytest.raises(AssertionError, match="differ from one"):
        screenshot_like(page, "one")
