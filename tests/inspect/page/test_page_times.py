"""The waterfall of all exchanges, the strip below it, and how times are shown."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from findings import finding
from playwright.async_api import expect
from tables import read_data

from wiretape.recording import open_recording

pytestmark = pytest.mark.asyncio(loop_scope="session")

# The page redraws the labels at any time, so they are found and measured in one turn.
COLOURS = read_data(__file__, "colours.js")
_PLACES = read_data(__file__, "places.js")
_WIDE = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('#strip text { font: 15px serif !important; letter-spacing: 3px; }');
    document.adoptedStyleSheets.push(sheet);
}"""


def ticks(shown):
    return shown.page.locator("#strip .tick-text")


async def ends(shown):
    """The times at both ends of the window."""
    await expect(ticks(shown).nth(1)).to_have_text(re.compile(r"\ds$"))  # not drawn while rows are awaited
    texts = await ticks(shown).all_text_contents()
    return [float(text.removesuffix("s")) for text in texts[:2]]


async def drag(shown, begin, end):
    """Drag over the strip from one share of its width to another."""
    box = await shown.page.locator("#strip").bounding_box()
    y = box["y"] + box["height"] - 20
    await shown.page.mouse.move(box["x"] + begin * box["width"], y)
    await shown.page.mouse.down()
    await shown.page.mouse.move(box["x"] + end * box["width"], y, steps=3)
    await shown.page.mouse.up()


@pytest.mark.parametrize(("is_font_wide", "widths"), [(False, (1276, 1024, 500)), (True, (1276, 800))])
async def test_times_have_labels_that_do_not_overlap(debugging, session, is_font_wide, widths):
    async with debugging(session) as shown:
        if is_font_wide:
            await shown.page.evaluate(_WIDE)
        for width in widths:
            await shown.page.set_viewport_size({"width": width, "height": 700})
            await expect(shown.page.locator("#strip .ticks")).to_have_attribute("width", str(width))
            await expect(ticks(shown).first).to_have_text("0.001s")
            await expect(shown.page.locator("#strip .fold")).to_have_count(1)  # drawn once the rows are known
            boxes = await shown.page.evaluate(_PLACES, "#strip .tick-text")
            assert (boxes[0][2], boxes[1][2]) == ("0.001s", "16.494s")
            assert len(boxes) > 2
            assert all(re.fullmatch(r"\d+(\.\d+)?s", words) for _, _, words in boxes)
            boxes.sort()
            assert [(one, two) for one, two in pairwise(boxes) if one[1] >= two[0]] == []
            assert (boxes[0][0], boxes[-1][1]) == pytest.approx((12, width - 12), abs=4 if is_font_wide else 1)
            [[fold_from, fold_to, _]] = await shown.page.evaluate(_PLACES, "#strip .fold")
            texts = await shown.page.evaluate(_PLACES, "#strip .fold-text")
            assert all(fold_from <= left and right <= fold_to for left, right, _ in texts)


async def test_drag_zooms_wheel_pans_and_double_click_fits(reading, shared_session):
    async with reading(shared_session) as shown:
        strip = shown.page.locator("#strip")
        await expect(strip.get_by_role("button", name="Show all")).to_be_hidden()
        await drag(shown, 0.1, 0.3)
        await expect(strip.get_by_role("button", name="Show all")).to_be_visible()
        began, ended = await ends(shown)
        assert 0.001 < began < ended < 16
        await shown.page.mouse.wheel(0, 300)
        await expect(ticks(shown).first).not_to_have_text(f"{began:.3f}s")
        assert (await ends(shown))[0] > began
        await strip.locator(".strip-svg").dblclick(position={"x": 300, "y": 30})
        await expect(ticks(shown).first).to_have_text("0.001s")
        await shown.page.locator("#timeline .list").focus()
        await shown.keys("+")
        await expect(ticks(shown).first).not_to_have_text("0.001s")
        await shown.keys("Z")
        await expect(ticks(shown).first).to_have_text("0.001s")


async def test_waterfall_shows_all_exchanges_and_chooses_one(reading, shared_session):
    async with reading(shared_session) as shown:
        waterfall = shown.page.locator("#strip .waterfall")
        await expect(waterfall).to_have_attribute("aria-label", re.compile("^4 exchanges over time"))
        assert await waterfall.locator(".bar.stream, .bar.request, .bar.bad").count() == 3
        # It is drawn again when the stream has been read; force, because the waterfall itself takes the events.
        at = {"position": {"x": 1, "y": 3}, "force": True}
        before = await shown.page.locator("#main").bounding_box()
        await waterfall.locator(".bar.bad").hover(**at)
        await expect(shown.page.locator("#strip .strip-time")).to_contain_text("#1 POST /v1/runs · 409")
        await waterfall.locator(".bar.bad").click(**at)
        await shown.has_hash("x=1")
        await expect(shown.page.locator("#strip .density")).to_have_count(0)
        assert await shown.page.locator("#main").bounding_box() == before


async def test_small_stream_is_zoomed_to_when_it_is_opened(debugging, builder, message):
    for number in (1, 2, 3, 4):
        builder.exchange(
            [(5, message("run.started", id="e", sequence=1))], target=f"/v1/sessions/s{number}/events/stream"
        )
        builder.exchange([(90, b"{}")], target="/v1/runs", headers=(("content-type", "application/json"),))
    async with debugging(builder.close(), "#x=1") as shown:
        await expect(ticks(shown).nth(1)).to_have_text("0.009s")
        await shown.keys("]", "]")
        await shown.has_hash("x=3")
        await expect(shown.rows()).to_have_count(2)
        for end in (0, 1):
            await expect(ticks(shown).nth(end)).to_have_text(re.compile(r"^0\.(09|10|11)\ds$"))
        began, ended = await ends(shown)
        assert began < ended


async def test_times_are_shown_since_the_exchange_began_and_by_the_clock(reading, shared_session):
    with open_recording(shared_session) as recording:
        started = recording.info.started
    async with reading(shared_session, "#x=2&e=40") as shown:
        time = shown.chosen().locator(".time")
        await expect(time).to_have_text("16.485s")
        modes = shown.page.get_by_label("Times", exact=True)
        await modes.select_option("exchange")
        await expect(time).to_have_text("16.478s")
        await modes.select_option("utc")
        await shown.has_hash("x=2", "e=40", "time=utc")
        seconds = started.timestamp() + 16.485
        clock = f"{int(seconds // 3600 % 24):02}:{int(seconds // 60 % 60):02}:"
        await expect(time).to_contain_text(clock)
        await expect(shown.panel()).to_contain_text(clock)
        await expect(ticks(shown).first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$"))
        await shown.page.locator("#timeline .list").focus()
        await shown.keys("T")
        await shown.has_hash("x=2", "e=40", "time=local")


async def test_longest_silence_is_named_and_leads_to_its_row(reading, shared_session):
    async with reading(shared_session) as shown:
        await shown.panel().get_by_role("button", name="16.1 s, from").click()
        await expect(shown.chosen().locator(".type")).to_contain_text("16.1 s · 1 keep-alive")


@pytest.fixture
def silences(builder, message):
    """Two streams; the second has the longest silence."""
    for wait in (2_000, 3_500):
        builder.exchange([(after, message("run.queued", id=f"{wait}-{after}")) for after in (1, wait, 2)])
    return builder.close()


async def test_longest_silence_of_all_streams_is_found(exporting, silences):
    async with exporting(silences) as shown:
        await expect(shown.rows()).to_have_count(5)
        await shown.keys("l")
        await shown.has_hash("x=2", "e=2")
        await expect(shown.chosen().locator(".gap")).to_have_text("+3.500s")
        await expect(shown.page.locator("#hint")).to_have_text("3.5 s of silence, from 2.009s to 5.509s")
        await shown.go("#x=1")
        await shown.keys("l")
        await shown.has_hash("x=2", "e=2")


async def test_axis_folds_idle_times_and_keeps_the_order(javascript):
    function = """([idle, times]) => {
        const axis = new TimeAxis(() => {});
        axis.set(0, 100e9, idle);
        const found = times.map((time) => axis.timeOf(axis.shareOf(time)));
        const [quiet, second] = [[20e9, 30e9], [4e9, 5e9]].map(([a, b]) => axis.shareOf(b) - axis.shareOf(a));
        return [axis.pieces.map((piece) => piece.folded), found, axis.pieces.at(-1).end, quiet, second];
    }"""
    times = [0, 1e9, 9e9, 25e9, 60e9, 100e9]
    folded, found, end, quiet, second = await javascript(
        function, [[[10e9, 40e9], [30e9, 50e9], [60e9, 60.5e9]], times]
    )
    assert folded == [False, True, False]
    assert found == pytest.approx(times)
    assert end == 1
    assert quiet < second


async def test_strip_states_no_duration_of_a_run_that_began_earlier(reading, builder, message):
    events = (("message.started", 1), ("run.completed", 400))
    builder.exchange([(n, message(name, id=f"e{n}", sequence=n, run_id="r1")) for name, n in events])
    async with reading(builder.close(), "#x=1") as shown:
        await expect(shown.page.locator("#strip .span-text")).to_have_text("run · began earlier")


async def test_strip_names_entities_shows_failures_and_marks_findings_at_their_place(debugging, builder, message):
    keys = {"run_id": "r1"}
    call = {"tool_call_id": "t1", "name": "look_up", "input": {"of": "library"}}
    builder.exchange([b"{}"], target="/v1/runs", method="POST", headers=(("content-type", "application/json"),))
    events = (("run.started", 1, {}), ("tool.started", 100, call), ("tool.failed", 500, call), ("run.failed", 400, {}))
    number = builder.exchange(
        [
            (after, message(type_, id=f"e{at}", sequence=at + 1, **keys, content=content))
            for at, (type_, after, content) in enumerate(events)
        ]
    )
    builder.find(replace(finding(3, exchange=number), time_ns=builder.now - 400_000_000))
    async with debugging(builder.close(), "#x=2") as shown:
        strip = shown.page.locator("#strip")
        await expect(strip.locator(".span-text")).to_have_text(
            ["✕ run · 1.0 s", '✕ look_up({"of":"library"}) · 500 ms']
        )
        await expect(strip.locator(".span.failure")).to_have_count(2)
        await strip.locator(".span.inner").hover()
        await expect(strip.locator(".strip-time")).to_contain_text("tool call t1 · tool.failed · ✕ look_up")
        error = await shown.page.evaluate(COLOURS)
        parts = [strip.locator(f".bar.{one}") for one in ("stream", "finding", "request")]
        fills = [await one.evaluate("bar => getComputedStyle(bar).fill") for one in parts]
        assert [fill == error["--error"] for fill in fills] == [False, True, False]
        stream, mark, short = [await one.bounding_box() for one in parts]
        assert mark["width"] < 9 < stream["width"] / 20
        assert (mark["x"] - stream["x"]) / stream["width"] == pytest.approx(0.6, abs=0.02)
        assert short["width"] >= 4


async def test_crowded_strip_keeps_failed_calls_and_leads_to_their_rows(debugging, builder, message):
    outcomes = [f"tool.{'failed' if call % 8 == 7 else 'completed'}" for call in range(56)]
    chunks = [(1, message("run.completed", id="e0", sequence=1, run_id="r0"))]
    for call, outcome in enumerate(outcomes):
        facts = {"tool_call_id": f"t{call}", "run_id": "r1"}
        for at, (type_, content) in enumerate((("tool.started", {"name": f"find_{call}", "input": {}}), (outcome, {}))):
            number = 2 * call + at + 1
            data = message(type_, id=f"e{number}", sequence=number + 1, run_id="r1", content=content | facts)
            chunks.append((4, data))
    chunks += [(900, message("session.status_idle", id=f"i{at}", sequence=200 + at)) for at in range(20)]
    builder.exchange(chunks)
    async with debugging(builder.close()) as shown:
        strip = shown.page.locator("#strip")
        await expect(strip.locator(".span.inner.failure")).to_have_count(7)
        await expect(strip.locator(".span.outer").first).to_have_attribute("data-label", re.compile("began earlier"))
        await strip.locator(".span.inner.failure").last.click(force=True)
        await expect(strip.locator(".strip-time")).to_contain_text("✕ find_55({}) · 4.0 ms")
        await shown.has_hash("x=1", "e=112")
        await shown.keys("j")
        await expect(shown.chosen().locator(".tag")).to_have_text("find_55 · 4.0 ms")
