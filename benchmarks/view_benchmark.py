"""`wiretape show` and the debugger's page for long recordings: how long a user waits.

    python benchmarks/view_benchmark.py [EVENTS]

`show` reads a recording of EVENTS (by default a million) and is measured until its fortieth line is there;
the page shows a recording of one stream of a twentieth of that and 2,000 other exchanges in headless Chromium, from
the request of the page on.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from proxy_targets import run_measured
from rich.console import Console
from rich.table import Table
from sample_events import event
from sample_recordings import long_streams

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer

SCREEN = 40
"""Lines of a terminal."""
FILTERS = ("type:tool.*", "kind:durable", "seq:40..6000", "gap:>1ms -type:message.*", "/e[0-9]+7/", "")
SEARCHES = ("429", "post", "ses_0012", "#7", "")
EXCHANGES = 2000
SCROLLS = 60
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
_FIRST_ROWS = "() => document.querySelectorAll('#timeline .list-rows .row').length > 10"
_ALL_ROWS = "() => !document.getElementById('count').classList.contains('reading')"
_FILTER = """async text => {
    const box = document.getElementById('filter'), began = performance.now();
    box.value = text;
    box.dispatchEvent(new Event('input'));
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
}"""
_SEARCH = _FILTER.replace("'filter'", "'exchange-search'")
_SCROLL = """async share => {
    const scroller = document.querySelector('#timeline .list-scroller'), began = performance.now();
    scroller.scrollTop = scroller.scrollHeight * share;
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const took = performance.now() - began;
    const seen = document.querySelector('#timeline .list-window').getBoundingClientRect();
    const rows = [...document.querySelectorAll('#timeline .list-rows .row')].filter(row => !row.hidden);
    const [top, bottom] = [rows[0].getBoundingClientRect().top, rows.at(-1).getBoundingClientRect().bottom];
    return [took, top > seen.top + 1 || bottom < seen.bottom - 1];
}"""


def one_stream(path: Path, events: int) -> None:
    """Create a recording of one stream of durable events, one per chunk, two milliseconds apart, and of requests."""
    writer = Writer.create(path, upstream="http://bench")
    clock = iter(range(writer.began_ns + 1, 2**62, 2_000_000))
    kind = (("Content-Type", "text/event-stream"),)
    writer.feed(
        [RequestStarted(1, next(clock), "::1", "GET", "http", "bench", "/v1/sessions/s1/events/stream", "", ())]
    )
    writer.feed([RequestEnded(1, next(clock)), ResponseStarted(1, next(clock), 200, "OK", "HTTP/1.1", kind)])
    chunks = [event(b"s1", 5 * number + 4, 0) for number in range(events)]  # each fifth is durable
    ends = list(accumulate(map(len, chunks)))
    writer.feed([BytesArrived(1, Side.RESPONSE, 0, b"".join(chunks), ends, [next(clock) for _ in chunks])])
    writer.feed([ExchangeEnded(1, next(clock), Ending.COMPLETE)])
    for number in range(2, EXCHANGES + 1):
        target, status = f"/v1/sessions/ses_{number:06}/runs", 429 if number % 50 == 0 else 201
        head = RequestStarted(number, next(clock), "::1", "POST", "http", "bench", target, "", ())
        writer.feed([head, RequestEnded(number, next(clock))])
        writer.feed([ResponseStarted(number, next(clock), status, "", "HTTP/1.1", ())])
        writer.feed([ExchangeEnded(number, next(clock), Ending.COMPLETE)])
    writer.commit()
    while writer.derive():
        pass
    writer.close(next(clock))


def first_screen(path: Path) -> float:
    """Return the seconds until `wiretape show` has written one screen."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "wiretape", "show", path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(SCREEN):
            assert process.stdout.readline()
        took = time.perf_counter() - began
        process.kill()
    return took


def whole(path: Path) -> float:
    """Return the peak megabytes of `wiretape show` for the whole recording."""
    used, status = run_measured([sys.executable, "-m", "wiretape", "show", path])
    assert status == 0, "the whole recording is shown"
    return used.megabytes


Figures = dict[str, float]


def look(page: Page, address: str) -> Figures:
    """Return the page's times in seconds, and the number of gaps."""
    began = time.perf_counter()
    page.goto(address)
    page.wait_for_function(_FIRST_ROWS, polling=10)
    first = time.perf_counter() - began
    page.wait_for_function(_ALL_ROWS, polling=50, timeout=120_000)
    complete = time.perf_counter() - began
    filters = [page.evaluate(_FILTER, text) / 1000 for text in FILTERS]
    searches = [page.evaluate(_SEARCH, text) / 1000 for text in SEARCHES]
    scrolls = [page.evaluate(_SCROLL, number * 37 % SCROLLS / SCROLLS) for number in range(SCROLLS)]
    return {
        "first": first,
        "complete": complete,
        "filter": max(filters),
        "search": max(searches),
        "scroll": max(took for took, _ in scrolls) / 1000,
        "gaps": sum(gap for _, gap in scrolls),
    }


def look_in_browser(path: Path) -> Figures:
    """Measure the page of a recording, served by the command."""
    command = [sys.executable, "-m", "wiretape", "debug", str(path), "--listen", "127.0.0.1:0"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(_FLAGS))
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                return look(page, _address(server.stderr or ()))
            finally:
                server.kill()
                browser.close()


def _address(lines: Iterable[str]) -> str:
    for line in lines:
        if found := re.search(r"http://\S+token=[\w-]+", line):
            return found.group()
    raise AssertionError("the command printed no address")


def show(console: Console, events: int) -> None:
    """Measure and print the result."""
    table = Table(title=f"looking at {events:,} and {events // 20:,} events", title_justify="left")
    for title in ("figure", "measured", "to reach"):
        table.add_column(title, justify="left" if title == "figure" else "right")
    with tempfile.TemporaryDirectory(prefix="wiretape-bench-") as folder:
        path = Path(folder, "bench.db")
        long_streams(path, events)
        table.add_row("show: first screen", f"{min(first_screen(path) for _ in range(3)):.2f} s", "< 1 s")
        table.add_row("show: peak resident memory, all of it", f"{whole(path):,.0f} MB", "flat")
        path = Path(folder, "page.db")
        one_stream(path, events // 20)
        if shutil.which("chromium") is None:
            console.print("The page is not measured: chromium is not installed.")
        else:
            _add(table, look_in_browser(path))
    console.print(table)


def _add(table: Table, figures: Figures) -> None:
    table.add_row("page: first view", f"{figures['first']:.2f} s", "< 0.8 s")
    table.add_row("page: all rows", f"{figures['complete']:.2f} s", "")
    table.add_row(f"page: slowest of {len(FILTERS)} filters", f"{figures['filter'] * 1000:.0f} ms", "< 100 ms")
    table.add_row(
        f"page: slowest of {len(SEARCHES)} searches for exchanges", f"{figures['search'] * 1000:.0f} ms", "< 100 ms"
    )
    table.add_row(f"page: slowest of {SCROLLS} scrolls", f"{figures['scroll'] * 1000:.0f} ms", "")
    table.add_row("page: scrolls that left a gap", f"{figures['gaps']:.0f}", "0")


if __name__ == "__main__":
    show(Console(width=100), int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
