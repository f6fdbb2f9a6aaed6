"""Recordings with malicious or huge content."""

import json
from functools import partial
from urllib.parse import quote

import pytest
from invoke import succeed
from playwright.async_api import expect
from tables import read_data

from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.debugger.debugger_server import serve_debugger
from wiretape_inspect.debugger.replay_forwarder import ReplayAddress
from wiretape_replay import ReplayOptions, serve_replay

pytestmark = pytest.mark.asyncio(loop_scope="session")

MARKUP = "</script><!--<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
CONTROLS = "\x1b[31m\u202e\x07\u2066"
UNSAFE = set("\x1b\u202e\x07\u2066")
EVIL = f"\"{MARKUP}{CONTROLS}'"
LINE = f"{MARKUP}\u202e"
"""The same without characters that end a line of a stream or are invalid in a header."""


def record_hostile(builder, message, value=EVIL, session=MARKUP):
    """Make a recording with malicious text in every field, and `value` in one."""
    data = {"type": EVIL, "id": LINE, "sequence": 1, "run_id": EVIL, "tool_call_id": EVIL, EVIL: {EVIL: [value]}}
    lines = [f"event: {LINE}", f"id: {LINE}", f": {LINE}", f"{LINE}: {LINE}", f"data: {json.dumps(data)}"]
    event = ("\n".join(lines) + "\n\n").encode()
    path = f"/v1/sessions/{session.replace('/', '%2F')}/events/stream"
    number = builder.exchange(
        [
            event,
            message("message.delta", run_id=EVIL, delta={"text": EVIL}),
            message("message.delta", run_id=EVIL, delta={"text": EVIL}),
            message("tool.started", id="e2", sequence=2, content={"tool_call_id": EVIL, "name": EVIL, "input": {}}),
            (2000, f": {LINE}\n\n".encode()),
            f"event: {LINE}".encode(),
        ],
        target=path,
        request_headers=(("Last-Event-ID", LINE), (LINE, LINE)),
        ending=Ending.SERVICE_RESET,
        detail=EVIL,
    )
    body = json.dumps({EVIL: EVIL}).encode()
    builder.exchange([body], target=f"/{MARKUP}", method="POST", body=body, headers=(("content-type", LINE),))
    where = (number, 1, 1, 0, 5)
    builder.find(
        Finding("SEQ001", Severity.ERROR, Party.SERVICE, *where, EVIL),
        Finding(EVIL, Severity.NOTE, Party.CLIENT, *where, EVIL),
    )
    builder.exchange([event], target=path, request_headers=(("Last-Event-ID", LINE),))
    return builder.close()


@pytest.fixture
def hostile(builder, message):
    return record_hostile(builder, message)


TABS = ("payload", "bytes", "findings", "state", "headers")
PLACES = ["x=1", *(f"x=1&e={event}&tab={tab}" for event in (1, 2, 3, 4) for tab in TABS)]
PLACES += [f"x=1&r={row}&tab={tab}" for row in (3, 4, 5) for tab in TABS]
PLACES += ["x=1&e=2&open=e2&deltas=1", "x=1&tools=1", "x=1&findings=1", "x=3&e=1&resume=1"]
PLACES += [f"x=2&tab={tab}" for tab in TABS]
PLACES += [f"x=1&q={quote(text)}" for text in (EVIL, LINE, f"{LINE}:1")] + [f"x={quote(EVIL)}", "x=1&e=1"]
ATTRIBUTES_AND_TEXTS = read_data(__file__, "texts.js")


async def check_texts(shown, place=""):
    """Check what is shown, what is hidden, tooltips and names for screen readers."""
    found = await shown.page.evaluate(ATTRIBUTES_AND_TEXTS)
    assert [line for line in found.split("\n") if set(line) & UNSAFE] == [], place
    assert await shown.page.locator("img, iframe, object, embed, body script:not([type])").count() <= 1
    assert await shown.page.evaluate("document.title !== 'owned'")


async def check_views(shown, places):
    """Show views, and check that recorded text stays text."""
    for place in places:
        await shown.go(f"#{place}")
        await expect(shown.panel()).not_to_be_empty()
        await expect(shown.panel()).not_to_have_attribute("aria-busy", "true")
        await check_texts(shown, place)
    await shown.go("#x=1")
    await shown.keys("n")
    await expect(shown.page.locator("#announcements")).to_contain_text("</script>")
    await check_texts(shown, "announcement")
    for bar in await shown.page.locator("#strip .waterfall .bar").all():
        await bar.hover(force=True)
        await check_texts(shown, "waterfall")
    await expect(shown.page.locator("#exchanges")).to_contain_text("</script>")
    await shown.page.locator("#filter").fill("owned")
    await expect(shown.page.locator("#elsewhere")).to_contain_text("2 other exchanges")
    await shown.page.locator("#filter").fill("")


@pytest.mark.parametrize(("is_served", "step"), [(True, 1), (False, 7)], ids=["served", "exported"])
async def test_malicious_text_stays_text(debugging, exporting, is_served, step, hostile):
    async with (debugging if is_served else exporting)(hostile) as shown:
        await expect(shown.rows()).to_have_count(6)
        await check_views(shown, PLACES[::step])
        await shown.go("#x=1&e=1&tab=payload")
        await expect(shown.panel()).to_contain_text("</script><!--<img src=x")
        await expect(shown.panel()).to_contain_text("\\x1b[31m\\u202e\\x07\\u2066")


async def test_malicious_text_stays_text_beside_a_replay(debugging, builder, message):
    hostile = record_hostile(builder, message, session="s1")
    async with (
        serve_replay(hostile, ReplayOptions(paused=True)) as replay,
        debugging(hostile, replay=ReplayAddress(replay.url, replay.token)) as shown,
    ):
        bar = shown.page.locator("#playhead")
        await expect(bar.locator(".play-next")).to_contain_text("</script>")
        await bar.get_by_text("Breakpoints", exact=True).click()
        await bar.get_by_role("textbox", name="Break before").fill(EVIL)
        await shown.keys("Enter")
        await expect(bar.locator(".breakpoints li")).to_contain_text("</script>")
        for _ in range(3):
            await check_texts(shown)
            await bar.get_by_role("button", name="Step: send one event").click()


async def test_malicious_text_stays_text_in_a_comparison(window, hostile, new_builder, message):
    other = record_hostile(new_builder(), message, f"{EVIL}!")
    other = other.rename(other.with_name("<img src=x onerror=document.title='owned'>\u202e.db"))
    async with (
        serve_debugger(hostile, compare=partial(open_recording, other)) as debugger,
        window(f"{debugger.address}#x=1&diff=1") as shown,
    ):
        rows = shown.page.locator("#diff .list-rows .row:visible")
        await expect(rows.locator(".status")).to_have_text(["≠ changed", "≠ changed"])
        for _ in range(2):
            await expect(shown.panel().locator(".json")).to_have_count(2)
            await expect(shown.panel()).to_contain_text("</script><!--<img src=x")
            await check_texts(shown)
            await shown.keys("j")


async def test_malicious_text_stays_text_in_a_report(window, hostile, tmp_path, run):
    evil = tmp_path / "<img src=x onerror=document.title='owned'>\u202e.db"
    evil.write_bytes(hostile.read_bytes())
    path = tmp_path / "page.html"
    succeed("report", hostile, evil, "--format", "html", "-o", path, "--no-config", "--exit-zero", "--all")
    for place in ("", "#f=2&findings=1"):
        async with window(f"{path.as_uri()}{place}") as shown:
            findings = shown.page.locator("#findings-pane")
            await expect(findings).to_contain_text("findings (")
            for _ in range(await findings.locator(".list-rows .row:visible").count()):
                await check_texts(shown)
                await shown.keys("j")
            await expect(shown.panel()).not_to_be_empty()
            await shown.keys("o")
            await expect(shown.page.get_by_role("dialog")).to_contain_text("<img src=x onerror")
            await check_texts(shown)
            await shown.keys("Escape", "Enter")
            await expect(shown.chosen()).to_be_visible()
            await check_texts(shown)


async def test_long_list_shows_consecutive_rows_wherever_it_is_scrolled(debugging, builder, message):
    data = b"".join(message("run.queued", id=f"e{number}", sequence=number) for number in range(1, 3001))
    builder.exchange([data])
    async with debugging(builder.close()) as shown:
        await expect(shown.page.locator("#count")).to_have_text("3,000 events")
        assert await shown.rows().count() < 60
        scroller = shown.page.locator("#timeline .list-scroller")
        for part in (0.3, 0.77, 1, 0.5, 0):
            await scroller.evaluate(
                "(box, part) => { box.scrollTop = part * (box.scrollHeight - box.clientHeight); }", part
            )
            await shown.page.evaluate("() => new Promise(requestAnimationFrame)")
            seen = [int(text) for text in await shown.texts("n") if text.isdigit()]
            assert seen == list(range(seen[0], seen[0] + len(seen)))
            edges = """list => [list.querySelector('.list-window'), list.querySelector('.list-rows')]
                .map((box) => box.getBoundingClientRect()).map(({top, bottom}) => [top, bottom])"""
            (top, bottom), (first, last) = await shown.page.locator("#timeline .list").evaluate(edges)
            assert first <= top + 1
            assert last >= bottom - 1


async def test_event_of_several_megabytes_is_shown_in_parts(debugging, builder, message):
    items = [{"number": number} for number in range(30_000)]
    huge = message(
        "message.completed", id="e1", sequence=1, content=[{"type": "text", "text": "<b>word " * 300_000}], items=items
    )
    assert len(huge) > 2_900_000
    builder.exchange([huge])
    async with debugging(builder.close(), "#x=1&e=1") as shown:
        await expect(shown.panel()).to_contain_text("all 2,400,000 characters")
        assert await shown.panel().locator("*").count() < 5000
        await shown.panel().get_by_role("button", name="all 2,400,000 characters").click()
        await expect(shown.panel()).to_contain_text("Show more (2,380,000 characters left)")
        await shown.keys("r")
        await shown.page.locator("#hex .list").focus()
        await shown.keys("End")
        await expect(shown.page.locator("#hex .row.chosen:visible .text")).to_contain_text("}")
        assert await shown.panel().locator("*").count() < 5000
