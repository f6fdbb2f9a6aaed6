"""Two recordings side by side."""

from functools import partial

import pytest
from playwright.async_api import expect

from wiretape.recording import open_recording
from wiretape_inspect.debugger.debugger_server import serve_debugger

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def recordings(new_builder, message):
    """Two recordings of a session: the second lost an event, changed one, delayed one, and has a new one."""

    def record(created_at, *chunks):
        builder = new_builder()
        builder.exchange(
            [
                (wait, message("run.step", id=f"e{n}", sequence=n, text=text, created_at=created_at))
                for wait, n, text in chunks
            ]
        )
        return builder.close()

    first = record("2026-01-01T00:00:00Z", (1, 1, "a"), (1, 2, "b"), (1, 3, "c"), (1, 4, "d"))
    return first, record("2026-01-02T00:00:00Z", (1, 1, "a"), (1, 3, "<b>other</b>"), (900, 4, "d"), (1, 5, "e"))


async def test_differences_are_shown_side_by_side(window, recordings):
    first, second = recordings
    async with (
        serve_debugger(first, compare=partial(open_recording, second)) as debugger,
        window(debugger.address) as shown,
    ):
        await expect(shown.rows()).to_have_count(5)
        await shown.keys("C")
        await shown.has_hash("x=1", "diff=1")
        await expect(shown.page.locator("#diff-pane h2")).to_contain_text("times may differ")
        rows = shown.page.locator("#diff .list-rows .row:visible")
        await expect(rows.locator(".status")).to_have_text(["✕ lost", "≠ changed", "+ added", "◷ delayed"])
        await expect(rows.locator(".first")).to_contain_text(["1:2 seq 2", "1:3 seq 3", "", "1:4 seq 4"])
        await expect(rows.locator(".second")).to_contain_text(["", "1:2 seq 3", "1:4 seq 5", "1:3 seq 4"])
        await shown.keys("ArrowDown")
        await expect(shown.panel()).to_contain_text("$.text")
        await expect(shown.panel()).to_contain_text('"<b>other</b>"')
        await shown.keys("j", "j")
        await expect(shown.panel()).to_contain_text("ms later")
        await shown.keys("Enter")
        await shown.has_hash("x=1", "e=4")
        await shown.page.get_by_role("button", name="Compare with run.db").click()
        await shown.has_hash("x=1", "e=4", "diff=1")
        await shown.keys("Escape")
        await shown.has_hash("x=1", "e=4")
