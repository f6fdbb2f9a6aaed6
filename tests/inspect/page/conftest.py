"""The debugger's page in a browser.  All tests share one browser and its event loop."""

import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from wiretape_inspect.debugger.debugger_server import serve_debugger

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
TIMEOUT_MS = 45_000
expect.set_options(timeout=TIMEOUT_MS)


@dataclass
class Window:
    """A page in the browser, with its errors and its requests to other sites."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def watch(self, site: str) -> None:
        """Collect errors, and requests to other sites than `site`."""
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", lambda request: self._on_request(request.url, site))

    def _on_console(self, message) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.type}: {message.text}")

    def _on_request(self, url: str, site: str) -> None:
        if not url.startswith(("data:", "blob:")) and urlsplit(url).netloc != site:
            self.problems.append(f"request: {url}")

    async def keys(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            await self.page.keyboard.press(key)

    async def go(self, hash_: str) -> None:
        """Go to another view, as a link does."""
        await self.page.evaluate("hash => { location.hash = hash; }", hash_)

    async def has_hash(self, *parts: str) -> None:
        """Wait until the URL fragment consists of exactly these parts."""
        each = "".join(rf"(?=(?:[^#]*&)?{re.escape(part)}(?:&|$))" for part in parts)
        await expect(self.page).to_have_url(re.compile(rf"#{each}[^&]*(?:&[^&]*){{{len(parts) - 1}}}$"))

    def rows(self):
        """The visible rows of the timeline."""
        return self.page.locator("#timeline .list-rows .row:visible")

    def chosen(self):
        """The selected row."""
        return self.page.locator("#timeline .list-rows .row.chosen:visible")

    def panel(self):
        """The panel with the details."""
        return self.page.locator("#panel")

    async def texts(self, column: str) -> list[str]:
        """The texts of a column of the timeline."""
        return await self.page.locator(f"#timeline .list-rows .row:visible > .{column}").all_text_contents()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("chromium is not installed")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        yield browser
        await browser.close()


Opening = Callable[..., AbstractAsyncContextManager[Window]]


@pytest.fixture
def window(browser: Browser) -> Opening:
    """Open a URL: `async with window(url) as shown`.  Fails if the page has errors or makes requests to other sites."""

    @asynccontextmanager
    async def opening(address: str, **options: object) -> AsyncIterator[Window]:
        context = await browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce", **options)
        try:
            shown = Window(await context.new_page())
            shown.watch(urlsplit(address).netloc)
            await shown.page.goto(address)
            yield shown
            assert shown.problems == []
        finally:
            await context.close()

    return opening


@pytest.fixture
def debugging(window: Opening) -> Opening:
    """Debug a recording: `async with debugging(path, "#x=2&e=57") as shown`."""

    @asynccontextmanager
    async def opening(path: Path, hash_: str = "", replay=None, **options: object) -> AsyncIterator[Window]:
        async with (
            serve_debugger(path, replay=replay) as debugger,
            window(debugger.address + hash_, **options) as shown,
        ):
            await expect(shown.page.locator("#file")).to_have_text(path.name)
            yield shown
            # The browser closes its event streams, so that the server need not wait for them.
            await shown.page.goto("about:blank")

    return opening
