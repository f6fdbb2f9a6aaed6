"""Chromium's DevTools import our HAR files, and we import theirs, of a real stream."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp_serving import serving
from playwright.async_api import BrowserContext, Page, async_playwright
from programs import find_program

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Recording, Writer, build_recording, open_recording
from wiretape.recording.formats import find_format
from wiretape.recording.formats.har_writer import write as write_har

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    # The port is in a file of the profile; DevTools' own pages are served there.
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
PARTS = (
    b"event: run.started\nid: e1\ndata: {}\n\n",
    b"event: message.delta\ndata: caf\xc3\xa9\n\n: ping\n\n",
    b"data: two\ndata: lines\n\nid: e2\ndata\n\nevent: nothing\n\n",
    b"event: run.completed\nid: e3\ndata: {}\n\n",
)
EVENTS = [
    ("run.started", "e1", "{}"),
    ("message.delta", "", "café"),
    ("message", "", "two\nlines"),
    ("message", "e2", ""),
    ("run.completed", "e3", "{}"),
]
SCRIPTS = Path(__file__).with_name("data")
NAMES = ("import", "attached", "export", "heard", "stream")
IMPORT, ATTACHED, EXPORT, HEARD, STREAM = (SCRIPTS.joinpath(f"devtools_{name}.js").read_text("utf-8") for name in NAMES)


@dataclass
class Chromium:
    """A browser that records a HAR file through Playwright, and serves its own DevTools."""

    context: BrowserContext
    devtools: str
    """Their address: `http://127.0.0.1:PORT`."""
    kept: Path
    """The HAR file, once the browser is closed."""

    async def inspect(self, page: Page) -> Page:
        """Open DevTools on a page."""
        listed = await (await self.context.request.get(f"{self.devtools}/json/list")).json()
        (target,) = (each for each in listed if each["url"] == page.url)
        socket = target["webSocketDebuggerUrl"].removeprefix("ws://")
        tools = await self.context.new_page()
        await tools.goto(f"{self.devtools}/devtools/devtools_app.html?ws={socket}&panel=network")
        await tools.evaluate(ATTACHED)
        return tools


@pytest_asyncio.fixture
async def chromium(tmp_path: Path) -> AsyncIterator[Chromium]:
    executable = find_program("chromium")
    profile, kept = tmp_path / "profile", tmp_path / "playwright.har"
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile, executable_path=executable, args=FLAGS, record_har_path=kept, record_har_content="embed"
        )
        port = (profile / "DevToolsActivePort").read_text().split()[0]
        yield Chromium(context, f"http://127.0.0.1:{port}", kept)
        await context.close()


@pytest_asyncio.fixture
async def site() -> AsyncIterator[str]:
    """Serve a page and a stream."""
    application = web.Application()
    application.router.add_get("/", _page)
    application.router.add_get("/stream", _stream)
    async with serving(web.AppRunner(application)) as url:
        yield url


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text="<!doctype html><link rel=icon href='data:,'>", content_type="text/html")


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for part in PARTS:
        await response.write(part)
    return response


def _recorded(path: Path) -> Path:
    """Record the stream, with an event every second, and a request with a JSON response."""
    writer = Writer.create(path, upstream="http://a.test", started_unix_ns=1_795_262_251_000_000_000)
    headers = (("Content-Type", "text/event-stream"),)
    writer.feed([RequestStarted(1, 1000, "", "GET", "http", "a.test", "/s", "HTTP/1.1", ()), RequestEnded(1, 2000)])
    writer.feed([ResponseStarted(1, 500_000_000, 200, "OK", "HTTP/1.1", headers)])
    start = 0
    for second, part in enumerate(PARTS, 1):
        end = start + len(part)
        writer.feed([BytesArrived(1, Side.RESPONSE, start, part, (end,), (second * 1_000_000_000,))])
        start = end
    writer.feed([ExchangeEnded(1, 5_000_000_000, Ending.SERVICE_RESET, "")])
    writer.close(5_000_000_001)
    return path


def _events(recording: Recording, number: int) -> list[tuple[str, str, str]]:
    shown = (seen.frame for seen in recording.frames(number) if seen.frame.is_dispatched)
    return [(frame.event or "message", frame.id or "", frame.data.decode()) for frame in shown]


def _imported(har: Path, name: str) -> Recording:
    made = har.with_name(f"{name}.db")
    build_recording(find_format("har").reader().read(har), made)
    return open_recording(made)


async def test_chromium_and_wiretape_exchange_har_files(chromium: Chromium, site: str, tmp_path: Path) -> None:
    """A single test, because a browser is slow to start."""
    page = await chromium.context.new_page()
    await page.goto(f"{site}/")
    tools = await chromium.inspect(page)
    await page.evaluate(STREAM, EVENTS[-1][0])
    await tools.evaluate(HEARD, len(EVENTS))

    with open_recording(_recorded(tmp_path / "run.db")) as recording:
        har = orjson.loads(b"".join(write_har(recording)))
    (shown,) = await tools.evaluate(IMPORT, har)
    assert shown["events"] == [
        [pytest.approx(1_795_262_251 + second, abs=1e-6), *event]
        for second, event in zip([1, 2, 3, 3, 4], EVENTS, strict=True)
    ]
    assert (shown["url"], shown["type"], shown["status"]) == ("http://a.test/s", "eventsource", 200)
    assert shown["body"].encode() == b"".join(PARTS)
    assert shown["end"] - shown["start"] == pytest.approx(5, abs=1e-3)

    for sanitize in (False, True):
        written = tmp_path / f"devtools-{sanitize}.har"
        written.write_text(await tools.evaluate(EXPORT, sanitize))
        with _imported(written, f"devtools-{sanitize}") as imported:
            # They have the bytes of a source that the page closed only where the service had ended it before.
            has_text = "text" in orjson.loads(written.read_bytes())["log"]["entries"][0]["response"]["content"]
            bare = [(name, id_, "") for name, id_, _ in EVENTS]
            assert _events(imported, 1) == (bare if sanitize and not has_text else EVENTS)
            assert _events(imported, 2) == EVENTS

    await chromium.context.close()
    with _imported(chromium.kept, "playwright") as imported:
        number = next(each.number for each in imported.exchanges() if each.request.target.endswith("?fetch"))
        assert _events(imported, number) == EVENTS
        assert b"".join(part.data for part in imported.body(number, Side.RESPONSE)) == b"".join(PARTS)
