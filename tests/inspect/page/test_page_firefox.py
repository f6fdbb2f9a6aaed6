"""The page in Firefox: its main views, without errors or requests to other sites."""

from functools import partial
from urllib.parse import urlsplit

from tests.shared.firefox import firefox

from wiretape.recording import open_recording
from wiretape_inspect.debugger.debugger_server import serve_debugger

_TEXTS = "[...document.querySelectorAll('{}')].filter((one) => one.offsetParent).map((one) => one.textContent)"


async def test_main_views_work_in_firefox(session, new_builder, message, tmp_path):
    other = new_builder()
    other.exchange([message("run.started", id="e1", sequence=1, run_id="r1")])
    compare = partial(open_recording, other.close())
    async with firefox(tmp_path) as browser, serve_debugger(session, compare=compare) as debugger:
        await browser.open(debugger.address)
        rows = _TEXTS.format("#timeline .list-rows .row .n")
        await browser.until(rows, ["1", "2", "3", "", "40", "cut", "end"])
        await browser.until("document.querySelectorAll('#strip .bar').length > 2", True)
        await browser.keys("jj")
        await browser.until("location.hash", "#x=2&e=2")
        await browser.until("document.getElementById('panel').textContent.includes('tool_call_id')", True)
        for key, text in (("2", "1 chunk"), ("4", "Last-Event-ID"), ("5", "text/event-stream"), ("1", "Copy as test")):
            await browser.keys(key)
            await browser.until(f"document.getElementById('panel').textContent.includes({text!r})", True)
        await browser.keys("/", "type:message.*", "Enter")
        await browser.until(rows, ["3", "40"])
        await browser.until("document.getElementById('count').textContent", "38 / 40")
        await browser.keys("Escape", "/", '"word word"', "Enter")
        await browser.until("[...CSS.highlights.get('match')].length > 0", True)
        await browser.keys("Escape")
        await browser.keys("x", "409", "ArrowDown", "Enter")
        await browser.until("location.hash", "#x=1")
        await browser.keys("]")
        await browser.until("location.hash", "#x=2")
        await browser.until("document.querySelector('.strip-svg').getBoundingClientRect().height > 30", True)
        box = await browser.evaluate("document.getElementById('strip').getBoundingClientRect()")
        await browser.drag((box["x"] + 200, box["y"] + 40), (box["x"] + 500, box["y"] + 40))
        await browser.until("!document.querySelector('.strip-fit').hidden", True)
        await browser.keys("C")
        await browser.until("document.querySelectorAll('#diff .list-rows .row:not([hidden])').length > 2", True)
        await browser.keys("Escape", "f", "f", "c", "?")
        await browser.until("document.getElementById('dialog').open", True)
        assert browser.errors == []
        sites = {urlsplit(url).netloc for url in browser.requests if not url.startswith("data:")}
        assert sites == {urlsplit(debugger.url).netloc}
