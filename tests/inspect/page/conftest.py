"""The debugger's page in a browser.  All tests share one browser and its event loop."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from invoke import succeed
from playwright.async_api import Browser, Page, async_playwright, expect
from programs import find_program
from tables import read_data

from wiretape_inspect import page as package
from wiretape_inspect.debugger.debugger_server import serve_debugger

# All pages share one process: starting another one takes a tenth of the time of opening a page.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
)
VIEWPORT = {"width": 1280, "height": 800}
TIMEOUT_MS = 45_000
expect.set_options(timeout=TIMEOUT_MS)
CONTROLS = {
    "button",
    "tab",
    "searchbox",
    "textbox",
    "combobox",
    "option",
    "grid",
    "separator",
    "tabpanel",
    "dialog",
    "DisclosureTriangle",
    "DisclosureTriangleGrouped",
}


@dataclass
class Window:
    """A page in the browser, with its errors and its requests to other sites."""

    page: Page
    site: str
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Collect errors, and requests to other sites."""
        handlers = {"console": self._on_console, "pageerror": self._on_error, "request": self._on_request}
        for event, handler in handlers.items():
            self.page.on(event, handler)
        try:
            yield
        finally:
            for event, handler in handlers.items():
                self.page.remove_listener(event, handler)

    def _on_console(self, message) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.type}: {message.text}")

    def _on_error(self, error) -> None:
        self.problems.append(f"error: {error}")

    def _on_request(self, request) -> None:
        if not request.url.startswith(("about:", "data:", "blob:")) and urlsplit(request.url).netloc != self.site:
            self.problems.append(f"request: {request.url}")

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

    async def check_accessibility_tree(self) -> None:
        """Check that every control that a screen reader finds has a role and a name."""
        session = await self.page.context.new_cdp_session(self.page)
        tree = await session.send("Accessibility.getFullAXTree")
        await session.detach()
        nodes = [node for node in tree["nodes"] if not node["ignored"]]
        # The boxes in which lists scroll take no focus from the keyboard, but Chromium counts them.
        nodes = [node for node in nodes if node["role"]["value"] != "generic"]
        focusable = [node for node in nodes if "focusable" in {each["name"] for each in node.get("properties", ())}]
        roles = {node["role"]["value"] for node in focusable} - {"RootWebArea"}
        assert "button" in roles
        assert roles <= CONTROLS, roles - CONTROLS
        unnamed = [node["role"]["value"] for node in focusable if not node["name"]["value"].strip()]
        assert unnamed == []


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    executable = find_program("chromium-headless-shell", "chromium")  # the former takes a third less time
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def page(browser: Browser) -> Page:
    """The page of all tests: a new one takes the browser longer than most tests.  It has no cookies or storage."""
    context = await browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    return await context.new_page()


Opening = Callable[..., AbstractAsyncContextManager[Window]]


@pytest.fixture
def window(page: Page) -> Opening:
    """Open a URL: `async with window(url) as shown`.  Fails if the page has errors or makes requests to other sites."""

    @asynccontextmanager
    async def opening(address: str) -> AsyncIterator[Window]:
        shown = Window(page, urlsplit(address).netloc)
        with shown.watched():
            try:
                await page.goto(address)
                yield shown
            finally:
                # The browser closes its event streams, so that a server need not wait for them.
                await page.goto("about:blank")
                await page.set_viewport_size(VIEWPORT)
        assert shown.problems == []

    return opening


@pytest.fixture
def debugging(window: Opening) -> Opening:
    """Debug a recording: `async with debugging(path, "#x=2&e=57") as shown`."""

    @asynccontextmanager
    async def opening(path: Path, hash_: str = "", replay=None) -> AsyncIterator[Window]:
        async with serve_debugger(path, replay=replay) as debugger, window(debugger.address + hash_) as shown:
            await expect(shown.page.locator("#file")).to_have_text(path.name)
            yield shown

    return opening


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[Path], str]:
    """Export the page of a recording; returns its URL."""

    def export(path: Path) -> str:
        page = tmp_path / "an exported page.html"
        succeed("export", path, "--format", "html", "--output", page, "--force")
        return page.as_uri()

    return export


@pytest.fixture
def exporting(window: Opening, exported: Callable[[Path], str]) -> Opening:
    """Open the exported page of a recording, which has the code and the answers of a served one."""
    return lambda path, hash_="": window(exported(path) + hash_)


Finder = Callable[[Path], Awaitable[Window]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def find_window(browser: Browser) -> AsyncIterator[Finder]:
    """Finds the page of a recording, which stays open for all tests: to load a page takes longer than most of them."""
    windows: dict[Path, Window] = {}
    async with AsyncExitStack() as stack:

        async def find(path: Path) -> Window:
            if path not in windows:
                debugger = await stack.enter_async_context(serve_debugger(path))
                context = await browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
                stack.push_async_callback(context.close)
                windows[path] = Window(await context.new_page(), urlsplit(debugger.address).netloc)
                await windows[path].page.goto(debugger.address)
                await expect(windows[path].page.locator("#file")).to_have_text(path.name)
            return windows[path]

        yield find


_SHOW = read_data(__file__, "show.js")


@pytest.fixture
def reading(find_window: Finder) -> Opening:
    """Read a recording: `async with reading(path, "#x=2&e=57") as shown`.

    Cheaper than `debugging`, for tests that change only what the URL describes: they all share one page.
    """

    @asynccontextmanager
    async def opening(path: Path, hash_: str = "") -> AsyncIterator[Window]:
        shown = await find_window(path)
        shown.problems.clear()
        with shown.watched():
            try:
                await shown.page.evaluate(_SHOW, hash_)
                yield shown
            finally:
                await shown.page.set_viewport_size(VIEWPORT)
        assert shown.problems == []

    return opening


MODULES = ("format", "json", "filter_grammar", "filter_match", "time_axis", "vocabulary")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def javascript(browser):
    """Runs a JavaScript function that can use the exports of the page's modules."""
    imports = "".join(f"Object.assign(globalThis, await import('http://page.test/{name}.js'));" for name in MODULES)
    page = await browser.new_page()
    await page.route("http://page.test/**", _serve)
    await page.goto("http://page.test/")
    await page.evaluate(f"async () => {{ {imports} }}")
    yield page.evaluate
    await page.close()


async def _serve(route):
    name = route.request.url.rpartition("/")[2]
    body = (files(package) / name).read_text("utf-8") if name else ""
    await route.fulfill(body=body, content_type="text/javascript" if name else "text/html")
