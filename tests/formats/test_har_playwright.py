"""Playwright's routeFromHAR, in Chromium, with our HAR files, as docs/javascript.md describes it."""

from pathlib import Path

from invoke import succeed
from playwright.async_api import async_playwright
from programs import find_program

DATA = Path(__file__).with_name("data")


async def test_chromium_gets_the_recorded_responses_from_the_har_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tape = DATA / "playwright.tape"
    succeed("export", tape, "--format", "har", "--output", "run.har")

    executable = find_program("chromium")
    async with async_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = await playwright.chromium.launch(executable_path=executable, args=flags)
        context = await browser.new_context()
        await context.route_from_har("run.har", url="**/v1/**", not_found="abort")
        await context.route("http://app.test/", lambda route: route.fulfill(body="<title>app</title>"))
        page = await context.new_page()
        await page.goto("http://app.test/")
        result = await page.evaluate((DATA / "playwright_client.js").read_text("utf-8"))
        await browser.close()

    assert result["status"] == 201
    assert result["events"] == [
        ["run.started", "evt_1", None],
        ["message.delta", "evt_1", "café"],
        ["run.completed", "evt_2", None],
    ]
    assert result["fetched"] == succeed("export", tape, "--format", "sse", "--exchange", "2").stdout
    assert result["missing"] == "aborted"
